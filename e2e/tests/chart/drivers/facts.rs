//! Facts about a chart, a line each, in the same form for our rendered chart and for the facts of another one.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use e2e::api::text;
use serde_json::{Map, Value, json};

use crate::grant::grants;
use crate::rendered::items;

/// Our names, with the names that other charts use.
const NAMES: [(&str, &str); 7] = [
    ("external-attacher", "csi-attacher"),
    ("external-provisioner", "csi-provisioner"),
    ("external-resizer", "csi-resizer"),
    ("external-snapshotter", "csi-snapshotter"),
    ("node-driver-registrar", "csi-node-driver-registrar"),
    ("driver-registrar", "csi-node-driver-registrar"),
    ("liveness-probe", "livenessprobe"),
];

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const TOKEN_FOR_ALL: &str = "automountServiceAccountToken";

type Facts = BTreeSet<String>;

/// Facts from a file; `namespace` is its release's.
pub(super) fn theirs(facts: &Value, namespace: &str) -> Result<Facts> {
    let mut lines = Facts::new();
    leaves(&mut lines, "CSIDriver: ", part(facts, "csiDriver"));
    for workload in items(facts, "/workloads") {
        let kind = text(workload, "/kind").context("a kind")?;
        leaves(&mut lines, &format!("{kind}: "), part(workload, "workload"));
        pod(&mut lines, kind, part(workload, "pod"));
        for container in items(workload, "/containers") {
            let name = text(container, "/name").context("a name")?;
            let name = NAMES.iter().find(|(theirs, _)| *theirs == name);
            let mut mounts = Vec::new();
            for mount in items(container, "/mounts") {
                mounts.push((mount, mount.get("from").context("a volume")?));
            }
            let title = match name {
                Some((_, ours)) => format!("{kind} {ours}"),
                None => format!("{kind} {}", text(container, "/name").unwrap_or_default()),
            };
            self::container(&mut lines, &title, container, &mounts)?;
            // None of the three charts restricts the token, so kubelet gives it to all containers.
            lines.insert(format!("{title}: API token"));
        }
        for permission in items(workload, "/permissions").filter_map(Value::as_str) {
            let permission = match permission.strip_suffix(" in NS") {
                Some(permission) => format!("{permission} in {namespace}"),
                None => permission.to_owned(),
            };
            lines.insert(format!("{kind} may {permission}"));
        }
    }
    Ok(lines)
}

/// Facts from rendered objects.
pub(super) fn ours(objects: &[Value]) -> Result<Facts> {
    let mut lines = Facts::new();
    for object in objects {
        let kind = text(object, "/kind").context("a kind")?;
        if kind == "CSIDriver" {
            leaves(&mut lines, "CSIDriver: ", part(object, "spec"));
        }
        let Some(spec) = object.pointer("/spec/template/spec") else {
            continue;
        };
        let workload = without(part(object, "spec"), &["template", "selector"]);
        leaves(&mut lines, &format!("{kind}: "), &workload);
        let own = ["containers", "volumes", "serviceAccountName"];
        pod(&mut lines, kind, &without(spec, &own));
        for container in items(spec, "/containers") {
            let name = text(container, "/name").context("a name")?;
            let title = format!("{kind} {name}");
            let mut mounts = Vec::new();
            for mount in items(container, "/volumeMounts") {
                if text(mount, "/mountPath") == Some(TOKEN) {
                    lines.insert(format!("{title}: API token"));
                    continue;
                }
                let volume = items(spec, "/volumes").find(|it| it.get("name") == mount.get("name"));
                mounts.push((mount, volume.context("a volume")?));
            }
            self::container(&mut lines, &title, container, &mounts)?;
        }
        let account = text(spec, "/serviceAccountName").context("an account")?;
        for grant in grants(&roles(objects, account)) {
            lines.insert(format!("{kind} may {grant}"));
        }
    }
    Ok(lines)
}

/// The roles that are bound to this account.
fn roles(objects: &[Value], account: &str) -> Vec<Value> {
    let bindings = objects.iter().filter(|it| {
        let mut subjects = items(it, "/subjects");
        subjects.any(|subject| text(subject, "/name") == Some(account))
    });
    let bound = bindings.flat_map(|binding| {
        objects.iter().filter(|it| {
            it.get("kind") == binding.pointer("/roleRef/kind")
                && it.pointer("/metadata/name") == binding.pointer("/roleRef/name")
                && it.pointer("/metadata/namespace") == binding.pointer("/metadata/namespace")
        })
    });
    bound.cloned().collect()
}

/// For a pod `false` is the same as an absent field, with one exception.
fn pod(lines: &mut Facts, kind: &str, pod: &Value) {
    let given = pod.as_object().into_iter().flatten();
    let given = given.filter(|(key, value)| *key == TOKEN_FOR_ALL || **value != json!(false));
    let given: Map<_, _> = given
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    leaves(lines, &format!("{kind} pod: "), &Value::Object(given));
}

fn container(
    lines: &mut Facts,
    title: &str,
    container: &Value,
    mounts: &[(&Value, &Value)],
) -> Result<()> {
    lines.insert(format!("{title}: is there"));
    for command in items(container, "/command") {
        lines.insert(format!("{title}: command {command}"));
    }
    for argument in items(container, "/args") {
        let argument = argument.as_str().context("an argument")?;
        arguments(lines, title, &expanded(argument, container));
    }
    for variable in items(container, "/env") {
        let name = text(variable, "/name").context("a variable's name")?;
        let mut value = without(variable, &["name"]);
        // v1 is the default.
        if let Some(field) = value.pointer_mut("/valueFrom/fieldRef") {
            *field = without(field, &["apiVersion"]);
        }
        lines.insert(format!("{title}: environment {name} {value}"));
    }
    for key in ["securityContext", "resources", "lifecycle"] {
        leaves(lines, &format!("{title}: {key}/"), part(container, key));
    }
    for (mount, volume) in mounts {
        let path = text(mount, "/mountPath").context("a mount's path")?;
        let begin = format!("{title}: mount {}", path.trim_end_matches('/'));
        let source = match text(volume, "/hostPath/path") {
            Some("/") => "the node's /".to_owned(),
            Some(path) => format!("the node's {}", path.trim_end_matches('/')),
            None => without(volume, &["name"]).to_string(),
        };
        lines.insert(format!("{begin} of {source}"));
        if let Some(kind) = text(volume, "/hostPath/type") {
            lines.insert(format!("{begin} is a {kind}"));
        }
        for key in ["readOnly", "mountPropagation", "subPath"] {
            if let Some(value) = mount.get(key) {
                lines.insert(format!("{begin} {key} {value}"));
            }
        }
    }
    Ok(())
}

/// `--flag` is `--flag=true`, and each feature gate is a line of its own.
fn arguments(lines: &mut Facts, title: &str, argument: &str) {
    match argument.split_once('=') {
        Some(("--feature-gates", gates)) => {
            for gate in gates.split(',') {
                lines.insert(format!("{title}: argument --feature-gates={gate}"));
            }
        }
        None if argument.starts_with("--") => {
            lines.insert(format!("{title}: argument {argument}=true"));
        }
        Some(_) | None => {
            lines.insert(format!("{title}: argument {argument}"));
        }
    }
}

/// Expands `$(NAME)` to the variable of that name, as kubelet does.
fn expanded(argument: &str, container: &Value) -> String {
    let mut argument = argument.to_owned();
    for variable in items(container, "/env") {
        if let (Some(name), Some(value)) = (text(variable, "/name"), text(variable, "/value")) {
            argument = argument.replace(&format!("$({name})"), value);
        }
    }
    argument
}

/// Adds every value that is not a map, with its path.
fn leaves(lines: &mut Facts, begin: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            for (key, value) in map {
                if value.is_object() {
                    leaves(lines, &format!("{begin}{key}/"), value);
                } else {
                    lines.insert(format!("{begin}{key} {value}"));
                }
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            lines.insert(format!("{begin}{value}"));
        }
    }
}

fn part<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.get(key).unwrap_or(&Value::Null)
}

fn without(value: &Value, keys: &[&str]) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
    value
}
