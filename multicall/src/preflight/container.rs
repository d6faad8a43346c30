//! A container's program and arguments.

use std::collections::BTreeMap;

use serde_json::Value;
use sidecar::flags::Kind;

use super::input::{Input, Object, list, text, texts};
use super::program::{PROGRAMS, Program, named};

/// Words before and after the names of sidecars' images, in any registry.
const AFFIXES: &[&str] = &[
    "csi",
    "external",
    "k8s",
    "sig",
    "storage",
    "kubernetes",
    "mirrored",
    "ose",
    "rhel7",
    "rhel8",
    "rhel9",
    "amd64",
    "linux",
];

/// Sidecars of drivers that this project does not replace.
const OTHERS: &[&str] = &[
    "health-monitor-agent",
    "health-monitor",
    "data-source-validator",
    "volume-data-source-validator",
    "snapshot-validation-webhook",
    "volume-modifier-for-k8s",
    "volume-modifier",
];

/// Our images without a predecessor.
const OURS: &[&str] = &["csi-sidecars", "csi-node-sidecars"];

/// Follows a prefix that stands for all variables with it: their values may lie outside the input. No name contains it.
const ANY: char = '*';

/// The content of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Identity {
    /// Upstream's program, or ours, in its own image.
    Sidecar(&'static Program),
    /// The program in the driver's image.
    Inside(&'static Program),
    /// The program started by a shell, which our images do not have.
    Shell(&'static Program),
    /// One of our programs without a predecessor.
    Ours,
    /// A sidecar that this project does not replace.
    Other,
    /// The driver, or something else.
    Foreign,
}

/// A container of a workload.
#[derive(Debug)]
pub(crate) struct Container<'a> {
    pub(crate) workload: &'a Object,
    pub(crate) value: &'a Value,
    pub(crate) name: &'a str,
    pub(crate) image: &'a str,
    pub(crate) identity: Identity,
    /// Arguments after the program's name, with variables expanded.
    pub(crate) arguments: Vec<String>,
    /// The sources of values missing in the input, on which arguments depend.
    pub(crate) unknown: Vec<String>,
    /// Variables left unexpanded, since the container does not have them.
    pub(crate) unset: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Variables whose value is not in the input, with its source.
    pub(crate) hidden: BTreeMap<String, String>,
}

impl Container<'_> {
    /// The program, however it is packaged.
    pub(crate) fn program(&self) -> Option<&'static Program> {
        match self.identity {
            Identity::Sidecar(program) | Identity::Inside(program) | Identity::Shell(program) => {
                Some(program)
            }
            Identity::Ours | Identity::Other | Identity::Foreign => None,
        }
    }

    /// Takes away a last flag that awaits its value, so that no other argument becomes the value.
    fn awaiting(&mut self) -> Option<String> {
        let flag = self.arguments.last()?;
        let name = flag.strip_prefix('-')?.trim_start_matches('-');
        let spec = self.program()?.spec;
        let takes = !matches!(spec.find(name)?.kind, Kind::Bool | Kind::BoolFunc);
        let flag = takes.then(|| format!("{flag} "))?;
        self.arguments.pop();
        Some(flag)
    }
}

/// The pod template of a workload, or the pod's own spec.
pub(crate) fn template(workload: &Object) -> &Value {
    let pointer = if workload.kind == "Pod" {
        "/spec"
    } else {
        "/spec/template/spec"
    };
    workload.value.pointer(pointer).unwrap_or(&Value::Null)
}

/// All containers of a workload, including init containers and native sidecars.
pub(crate) fn containers<'a>(input: &'a Input, workload: &'a Object) -> Vec<Container<'a>> {
    let spec = template(workload);
    let all = list(spec, "/containers")
        .iter()
        .chain(list(spec, "/initContainers"));
    all.map(|value| container(input, workload, value)).collect()
}

/// The last part of an image's name.
fn base(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

fn is_affix(text: &str) -> bool {
    text.split('-')
        .all(|word| word.is_empty() || AFFIXES.contains(&word))
}

/// Whether this is the image of `stem`, with any affixes of the registry.
fn is_called(base: &str, stem: &str) -> bool {
    base.match_indices(stem).any(|(at, _)| {
        let before = base.get(..at).unwrap_or_default();
        let behind = base.get(at + stem.len()..).unwrap_or_default();
        let apart = (before.is_empty() || before.ends_with('-'))
            && (behind.is_empty() || behind.starts_with('-'));
        apart && is_affix(before) && is_affix(behind)
    })
}

fn of_image(image: &str) -> Option<&'static Program> {
    // Both spellings occur, and no other image has this name.
    let base = base(image).replace("liveness-probe", "livenessprobe");
    PROGRAMS
        .iter()
        .find(|program| is_called(&base, program.stem))
}

fn of_path(path: &str) -> Option<&'static Program> {
    named(path.rsplit('/').next().unwrap_or_default())
}

/// Whether the command is a shell.
fn is_shell(command: &str) -> bool {
    matches!(
        command.rsplit('/').next(),
        Some("sh" | "bash" | "ash" | "dash")
    )
}

fn identity(image: &str, command: &[&str], line: &[&str]) -> Identity {
    let base = base(image);
    if OURS.contains(&base) {
        return Identity::Ours;
    }
    let in_line = || {
        let mut words = line.iter().flat_map(|text| text.split_whitespace());
        words.find_map(of_path)
    };
    let of_image = of_image(image);
    match command.first() {
        Some(first) if is_shell(first) => match in_line().or(of_image) {
            Some(program) => Identity::Shell(program),
            None => Identity::Foreign,
        },
        Some(first) => match (of_path(first), of_image) {
            (Some(program), Some(_)) => Identity::Sidecar(program),
            (Some(program), None) => Identity::Inside(program),
            // A script from the image or a ConfigMap.
            (None, Some(program)) => Identity::Shell(program),
            (None, None) => other(base),
        },
        None => of_image.map_or_else(|| other(base), Identity::Sidecar),
    }
}

fn other(base: &str) -> Identity {
    let known = OTHERS.iter().any(|other| is_called(base, other));
    if known {
        Identity::Other
    } else {
        Identity::Foreign
    }
}

fn container<'a>(input: &'a Input, workload: &'a Object, value: &'a Value) -> Container<'a> {
    let (command, args) = (texts(value, "/command"), texts(value, "/args"));
    let line: Vec<&str> = command.iter().chain(&args).copied().collect();
    let image = text(value, "/image");
    let (environment, hidden) = environment(input, workload, value);
    let mut container = Container {
        workload,
        value,
        name: text(value, "/name"),
        image,
        identity: identity(image, &command, &line),
        arguments: Vec::new(),
        unknown: Vec::new(),
        unset: Vec::new(),
        environment,
        hidden,
    };
    let behind = usize::from(!command.is_empty());
    for argument in line.iter().skip(behind) {
        match filled(argument, &container.environment, &container.hidden) {
            Filled::Known(text, unset) => {
                container.unset.extend(unset);
                container.arguments.push(text);
            }
            Filled::Hidden(what) => {
                let flag = container.awaiting().unwrap_or_default();
                container.unknown.push(format!("{flag}{argument} ({what})"));
            }
        }
    }
    container
}

/// An argument after expansion of its variables.
enum Filled {
    /// The text, and the variables left unexpanded.
    Known(String, Vec<String>),
    /// The source of a value that the input lacks.
    Hidden(String),
}

/// As kubelet does: `$(NAME)` expands to the variable's value, `$$(NAME)` to the text `$(NAME)`.
fn filled(
    argument: &str,
    environment: &BTreeMap<String, String>,
    hidden: &BTreeMap<String, String>,
) -> Filled {
    let (mut text, mut unset) = (String::new(), Vec::new());
    let mut rest = argument;
    while let Some(at) = rest.find('$') {
        let (before, behind) = rest.split_at(at);
        text.push_str(before);
        if let Some(after) = behind.strip_prefix("$$") {
            text.push('$');
            rest = after;
            continue;
        }
        let name = behind
            .strip_prefix("$(")
            .and_then(|inner| inner.split_once(')'));
        let Some((name, after)) = name else {
            text.push('$');
            rest = behind.get(1..).unwrap_or_default();
            continue;
        };
        let any = || {
            let mut all = hidden.iter();
            let fits =
                |one: &str| { one.strip_suffix(ANY) }.is_some_and(|one| name.starts_with(one));
            all.find_map(|(one, what)| fits(one).then_some(what))
        };
        match (environment.get(name), hidden.get(name).or_else(any)) {
            (Some(value), _) => text.push_str(value),
            (None, Some(what)) => return Filled::Hidden(what.clone()),
            (None, None) => {
                text.push_str(&format!("$({name})"));
                unset.push(name.to_owned());
            }
        }
        rest = after;
    }
    text.push_str(rest);
    Filled::Known(text, unset)
}

/// A placeholder for a value of the downward API, in the form that programs may require.
fn downward(field: &str, workload: &Object) -> Option<String> {
    let known = match field {
        "metadata.name" => "pod",
        "metadata.namespace" => &workload.namespace,
        "metadata.uid" => "00000000-0000-0000-0000-000000000000",
        "spec.nodeName" => "node",
        "spec.serviceAccountName" => "account",
        "status.podIP" | "status.hostIP" | "status.podIPs" | "status.hostIPs" => "192.0.2.1",
        _ => return None,
    };
    Some(known.to_owned())
}

type Variables = BTreeMap<String, String>;

/// The container's variables, and those whose values are not in the input. Secrets are never read.
fn environment(input: &Input, workload: &Object, value: &Value) -> (Variables, Variables) {
    let (mut known, mut hidden) = (Variables::new(), Variables::new());
    for source in list(value, "/envFrom") {
        let prefix = text(source, "/prefix");
        let called = text(source, "/configMapRef/name");
        let Some(map) = input.find("ConfigMap", &workload.namespace, called) else {
            let what = match called {
                "" => format!("Secret {}", text(source, "/secretRef/name")),
                called => format!("ConfigMap {called}"),
            };
            // The source may define any of them, and overrides the sources before it.
            known.retain(|name, _| !name.starts_with(prefix));
            hidden.insert(format!("{prefix}{ANY}"), what);
            continue;
        };
        let data = map.value.get("data").and_then(Value::as_object);
        for (name, value) in data.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            known.insert(format!("{prefix}{name}"), value.to_owned());
        }
    }
    for variable in list(value, "/env") {
        let name = text(variable, "/name").to_owned();
        let (map, key) = (
            text(variable, "/valueFrom/configMapKeyRef/name"),
            text(variable, "/valueFrom/configMapKeyRef/key"),
        );
        let field = text(variable, "/valueFrom/fieldRef/fieldPath");
        let found = match (variable.get("valueFrom"), map, field) {
            (None | Some(Value::Null), _, _) => {
                match filled(text(variable, "/value"), &known, &hidden) {
                    Filled::Known(text, _) => Ok(text),
                    Filled::Hidden(what) => Err(what),
                }
            }
            (Some(_), "", "") => Err("a value that is not in manifests".to_owned()),
            (Some(_), "", field) => downward(field, workload).ok_or_else(|| field.to_owned()),
            (Some(_), map, _) => {
                let object = input.find("ConfigMap", &workload.namespace, map);
                let data = object.and_then(|object| object.value.get("data")?.get(key)?.as_str());
                data.map(str::to_owned)
                    .ok_or_else(|| format!("ConfigMap {map}, {key}"))
            }
        };
        match found {
            Ok(text) => {
                hidden.remove(&name);
                known.insert(name, text);
            }
            Err(what) => {
                known.remove(&name);
                hidden.insert(name, what);
            }
        }
    }
    (known, hidden)
}
