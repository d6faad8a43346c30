//! Invariants for all values: tested with the whole matrix of values files, and the demo.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::chart::{self, Release, title};
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use serde_json::{Value, json};

/// Names of our containers.
pub(super) const SIDECARS: [&str; 10] = [
    "csi-attacher",
    "csi-provisioner",
    "csi-resizer",
    "csi-snapshotter",
    "csi-external-health-monitor-controller",
    "csi-node-driver-registrar",
    "livenessprobe",
    "snapshot-controller",
    "csi-sidecars",
    "csi-node-sidecars",
];

/// Our programs that talk to the API server.
const CLIENTS: [&str; 7] = [
    "csi-attacher",
    "csi-provisioner",
    "csi-resizer",
    "csi-snapshotter",
    "csi-external-health-monitor-controller",
    "snapshot-controller",
    "csi-sidecars",
];

/// The demo's values: with the required ones, in one process, and with a provisioner on each node.
const DEMOS: [&[&str]; 4] = [
    &["csi-sidecars.image.registry=registry.example.com/storage"],
    &[
        "csi-sidecars.image.registry=registry.example.com/storage",
        "csi-sidecars.features.nodeDeployment=true",
        "csi-sidecars.features.capacity=true",
        "csi-sidecars.driver.attachRequired=false",
        "csi-sidecars.attacher.enabled=false",
        "driver.capacity={fast=1Gi}",
    ],
    &[
        "csi-sidecars.image.registry=registry.example.com/storage",
        "csi-sidecars.sidecars=together",
    ],
    &[
        "csi-sidecars.image.registry=registry.example.com/storage",
        "csi-sidecars.sidecars=together",
        "csi-sidecars.features.nodeDeployment=true",
        "csi-sidecars.driver.attachRequired=false",
        "csi-sidecars.attacher.enabled=false",
        "csi-sidecars.resizer.enabled=false",
    ],
];

/// Calls `check` with every release of the matrix.
pub(super) fn each(check: impl Fn(&Release<'_>) -> Result<()>) -> Result<()> {
    for chart in ["csi-sidecars", "snapshot-controller"] {
        for file in chart::matrix(chart)? {
            let release = Release {
                chart,
                namespace: "storage",
                file: &file,
                set: &[],
            };
            check(&release).with_context(|| format!("{chart} {file}"))?;
        }
    }
    for set in DEMOS {
        let release = Release {
            chart: "csi-driver-host-path-demo",
            namespace: "storage",
            file: "",
            set,
        };
        check(&release).with_context(|| format!("{release:?}"))?;
    }
    Ok(())
}

pub(super) fn lint(_: &Cluster) -> Result<Verdict> {
    each(|release| release.lint())?;
    Ok(Verdict::Passed)
}

pub(super) fn pods(_: &Cluster) -> Result<Verdict> {
    each(|release| {
        let objects = release.objects()?;
        for object in &objects {
            let checked = match object.pointer("/spec/template/spec") {
                Some(pod) => workload(object, pod, &objects),
                None => other(object, &objects),
            };
            checked.with_context(|| title(object))?;
        }
        host_ports(&objects)?;
        let titles: BTreeSet<_> = objects.iter().map(key).collect();
        ensure!(titles.len() == objects.len(), "two objects of one name");
        Ok(())
    })?;
    Ok(Verdict::Passed)
}

/// no two workloads in the node's network use the same port. Pools have nodes of their own.
fn host_ports(objects: &[Value]) -> Result<()> {
    let mut taken = BTreeSet::new();
    for object in objects {
        let spec = object
            .pointer("/spec/template/spec")
            .unwrap_or(&Value::Null);
        let pool = object.pointer("/spec/selector/matchLabels/csi-sidecars~1pool");
        if spec.pointer("/hostNetwork") != Some(&json!(true)) || pool.is_some() {
            continue;
        }
        for port in items(spec, "/containers").flat_map(|it| items(it, "/ports")) {
            let number = port.pointer("/containerPort").and_then(Value::as_u64);
            ensure!(taken.insert(number), "{}: {number:?}", title(object));
        }
    }
    Ok(())
}

/// The identity of an object.
pub(super) fn key(object: &Value) -> (String, Option<&str>) {
    (title(object), text(object, "/metadata/namespace"))
}

/// The items of a list; none if it is absent.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn names<'a>(value: &'a Value, pointer: &str) -> BTreeSet<&'a str> {
    items(value, pointer)
        .filter_map(|it| text(it, "/name"))
        .collect()
}

fn workload(object: &Value, pod: &Value, objects: &[Value]) -> Result<()> {
    let labels = object.pointer("/spec/template/metadata/labels");
    let labels = labels.context("the pod has labels")?;
    let selector = object.pointer("/spec/selector/matchLabels");
    ensure!(
        selected(selector, labels),
        "the selector misses its own pods"
    );

    let volumes = names(pod, "/volumes");
    let mut ports = BTreeSet::new();
    for container in items(pod, "/containers") {
        let name = text(container, "/name").unwrap_or_default();
        for mount in names(container, "/volumeMounts") {
            ensure!(volumes.contains(mount), "{name}: no volume {mount}");
        }
        for port in items(container, "/ports").filter_map(|it| it.pointer("/containerPort")) {
            ensure!(
                ports.insert(port.as_u64()),
                "two containers use port {port}"
            );
        }
        probes(container).with_context(|| name.to_owned())?;
        let sidecar = SIDECARS.contains(&name);
        if sidecar {
            hardened(container).with_context(|| name.to_owned())?;
        }
        let read_only = mount(container, "socket-dir").pointer("/readOnly") == Some(&json!(true));
        let has_socket = !mount(container, "socket-dir").is_null();
        ensure!(
            read_only == sidecar || !has_socket,
            "{name}: the socket's directory is read-only: {read_only}"
        );
    }
    let account = text(pod, "/serviceAccountName").context("a service account")?;
    let account = format!("ServiceAccount/{account}");
    // The user of the library provides an account that the chart does not make.
    let made = objects.iter().any(|object| title(object) == account);
    ensure!(made, "there is no {account}");
    tokens(&title(object), pod)
}

/// A container's mount of this volume, or null.
fn mount<'a>(container: &'a Value, volume: &str) -> &'a Value {
    let mut mounts = items(container, "/volumeMounts");
    let found = mounts.find(|mount| text(mount, "/name") == Some(volume));
    found.unwrap_or(&Value::Null)
}

/// Other containers that `tokenFor` gives a token.
const GIVEN: [(&str, &str); 9] = [
    ("StatefulSet/everything-controller", "csi-snapshot-metadata"),
    ("DaemonSet/everything-node", "driver"),
    ("Deployment/ebs-csi-controller", "ebs-plugin"),
    ("DaemonSet/ebs-csi-node", "ebs-plugin"),
    ("Deployment/ceph-csi-rbd-controller", "csi-rbdplugin"),
    (
        "Deployment/ceph-csi-rbd-controller",
        "csi-rbdplugin-controller",
    ),
    ("DaemonSet/ceph-csi-rbd-node", "csi-rbdplugin"),
    ("Deployment/democratic-csi-controller", "csi-driver"),
    ("DaemonSet/democratic-csi-node", "csi-driver"),
];

/// Containers whose programs talk to the API server have a token, others none.
fn tokens(title: &str, pod: &Value) -> Result<()> {
    let automatic = pod.pointer("/automountServiceAccountToken");
    ensure!(automatic == Some(&json!(false)), "{automatic:?}");
    let mut needed = false;
    for container in items(pod, "/containers").chain(items(pod, "/initContainers")) {
        let name = text(container, "/name").unwrap_or_default();
        let client = CLIENTS.contains(&name);
        let needs = client || GIVEN.contains(&(title, name));
        let expected = if needs {
            json!({
                "name": "api-token", "readOnly": true,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            })
        } else {
            Value::Null
        };
        let token = mount(container, "api-token");
        ensure!(*token == expected, "{name}: {token}");
        needed |= needs;
    }
    let volumes = names(pod, "/volumes");
    // A controller's pod has the token for any container that is added to it.
    let controller = !title.starts_with("DaemonSet/");
    ensure!(
        volumes.contains("api-token") == (needed || controller),
        "{volumes:?}"
    );
    Ok(())
}

fn hardened(container: &Value) -> Result<()> {
    for (pointer, expected) in [
        ("/securityContext/readOnlyRootFilesystem", json!(true)),
        ("/securityContext/allowPrivilegeEscalation", json!(false)),
        ("/securityContext/capabilities", json!({"drop": ["ALL"]})),
        (
            "/securityContext/seccompProfile/type",
            json!("RuntimeDefault"),
        ),
    ] {
        let is = container.pointer(pointer);
        ensure!(is == Some(&expected), "{pointer} is {is:?}");
    }
    let root = container.pointer("/securityContext/runAsUser") == Some(&json!(0));
    let said = container.pointer("/securityContext/runAsNonRoot");
    ensure!(said == Some(&json!(!root)), "runAsNonRoot is {said:?}");
    for pointer in ["/resources/requests/memory", "/resources/limits/memory"] {
        ensure!(container.pointer(pointer).is_some(), "no {pointer}");
    }
    Ok(())
}

/// kubelet looks a port's name up in the probed container alone.
fn probes(container: &Value) -> Result<()> {
    let ports = names(container, "/ports");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(port) = text(container, &format!("/{probe}/httpGet/port")) {
            ensure!(ports.contains(port), "{probe}: no port {port} here");
        }
    }
    Ok(())
}

fn selected(selector: Option<&Value>, labels: &Value) -> bool {
    let selector = selector.and_then(Value::as_object);
    selector.is_some_and(|selector| {
        let mut wanted = selector.iter();
        !selector.is_empty() && wanted.all(|(name, value)| labels.get(name) == Some(value))
    })
}

/// The workloads whose pods a selector matches.
pub(super) fn pods_of<'a>(
    objects: &'a [Value],
    selector: Option<&'a Value>,
) -> impl Iterator<Item = &'a Value> {
    let pods = objects
        .iter()
        .filter_map(|object| object.pointer("/spec/template"));
    pods.filter(move |pod| {
        let labels = pod.pointer("/metadata/labels");
        labels.is_some_and(|labels| selected(selector, labels))
    })
}

fn other(object: &Value, objects: &[Value]) -> Result<()> {
    match text(object, "/kind").unwrap_or_default() {
        "Service" => service(object, objects),
        "PodDisruptionBudget" => {
            let selector = object.pointer("/spec/selector/matchLabels");
            ensure!(pods_of(objects, selector).count() == 1, "no pods");
            Ok(())
        }
        "NetworkPolicy" => network_policy(object, objects),
        "ServiceMonitor" => {
            let services: Vec<_> = { objects.iter() }
                .filter(|it| text(it, "/kind") == Some("Service"))
                .collect();
            for endpoint in names_of_ports(object) {
                let mut ports = services.iter().flat_map(|it| names(it, "/spec/ports"));
                ensure!(
                    ports.any(|port| port == endpoint),
                    "no Service has {endpoint}"
                );
            }
            Ok(())
        }
        "PodMonitor" => {
            let selector = object.pointer("/spec/selector/matchLabels");
            for pod in pods_of(objects, selector) {
                let containers = items(pod, "/spec/containers");
                let ports: BTreeSet<_> = containers.flat_map(|it| names(it, "/ports")).collect();
                for endpoint in items(object, "/spec/podMetricsEndpoints") {
                    let port = text(endpoint, "/port").unwrap_or_default();
                    ensure!(ports.contains(port), "no container has port {port}");
                }
            }
            Ok(())
        }
        "RoleBinding" | "ClusterRoleBinding" => binding(object, objects),
        "ConfigMap" => {
            let dashboard = dashboard(object).context("a dashboard")?;
            serde_json::from_str::<Value>(dashboard)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The dashboard in a ConfigMap.
pub(super) fn dashboard(object: &Value) -> Option<&str> {
    let files = ["csi-sidecars", "snapshot-controller"];
    let mut texts = { files.iter() }.filter_map(|file| text(object, &format!("/data/{file}.json")));
    texts.next()
}

/// Peers may reach every port of a sidecar.
fn network_policy(object: &Value, objects: &[Value]) -> Result<()> {
    let open: BTreeSet<_> = items(object, "/spec/ingress/0/ports")
        .filter_map(|port| port.pointer("/port").and_then(Value::as_u64))
        .collect();
    let mut found = 0;
    for pod in pods_of(objects, object.pointer("/spec/podSelector/matchLabels")) {
        for container in items(pod, "/spec/containers") {
            for port in items(container, "/ports") {
                let port = port.pointer("/containerPort").and_then(Value::as_u64);
                let port = port.context("a port's number")?;
                ensure!(open.contains(&port), "port {port} is not in {open:?}");
                found += 1;
            }
        }
    }
    ensure!(found > 0, "no ports");
    Ok(())
}

fn names_of_ports(monitor: &Value) -> Vec<&str> {
    let endpoints = items(monitor, "/spec/endpoints");
    endpoints.filter_map(|it| text(it, "/port")).collect()
}

fn service(object: &Value, objects: &[Value]) -> Result<()> {
    for pod in pods_of(objects, object.pointer("/spec/selector")) {
        let containers = items(pod, "/spec/containers");
        let ports: BTreeSet<_> = containers.flat_map(|it| names(it, "/ports")).collect();
        for port in items(object, "/spec/ports") {
            let target = text(port, "/targetPort").unwrap_or_default();
            ensure!(ports.contains(target), "no container has port {target}");
        }
    }
    Ok(())
}

fn binding(object: &Value, objects: &[Value]) -> Result<()> {
    let kind = text(object, "/roleRef/kind").unwrap_or_default();
    let name = text(object, "/roleRef/name").unwrap_or_default();
    let role = format!("{kind}/{name}");
    let here = text(object, "/metadata/namespace");
    let bound = objects.iter().any(|it| key(it) == (role.clone(), here));
    ensure!(bound, "there is no {role} in {here:?}");
    Ok(())
}
