//! every example finds nodes for its pods. The scheduler is real; nodes are objects without a kubelet, so that
//! nothing runs and no directory of the machine is touched.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::chart::{Release, title};
use e2e::cluster::Cluster;
use e2e::suite::{self, Verdict};
use e2e::wait;
use serde_json::{Value, json};

use super::rendered::{each, items};

const SOON: Duration = Duration::from_secs(30);
const NODES: [&str; 3] = ["scheduled-a", "scheduled-b", "scheduled-c"];
/// A label that only these nodes have, and every pod here selects.
const HERE: &str = "example.com/scheduled";
const NAMESPACE: &str = "scheduled";
const PODS: &str = "/api/v1/namespaces/scheduled/pods";

pub(super) fn examples(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let count = Cell::new(0);
    on_nodes(&api, || {
        each(|release| {
            let pods = pods(&release.objects()?);
            count.set(count.get() + pods.len());
            let waiting = placed(&api, &pods)?;
            ensure!(waiting.is_empty(), "{}", waiting.join("; "));
            Ok(())
        })?;
        one_port_for_both(&api)
    })?;
    suite::say(&format!("    {} pods have a node", count.get()));
    Ok(Verdict::Passed)
}

/// Calls `run` while the namespace and the nodes of these pods exist.
pub(super) fn on_nodes(api: &Api, run: impl FnOnce() -> Result<()>) -> Result<()> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
    });
    api.create("/api/v1/namespaces", &namespace)?;
    let account = "/api/v1/namespaces/scheduled/serviceaccounts/default";
    wait::until_true(SOON, "the namespace has an account", || {
        Ok(api.find(account)?.is_some())
    })?;
    for name in NODES {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {HERE: "true"}},
        });
        api.create("/api/v1/nodes", &node)?;
    }
    let done = run();
    for name in NODES {
        api.delete(&format!("/api/v1/nodes/{name}"))?;
    }
    done
}

/// A combination that the chart refuses: the scheduler names the reason.
fn one_port_for_both(api: &Api) -> Result<()> {
    let release = Release {
        chart: "csi-sidecars",
        namespace: NAMESPACE,
        file: "ci/host-network-values.yaml",
        set: &[],
    };
    let mut pods = pods(&release.objects()?);
    let mut replaced = 0;
    for pod in &mut pods {
        let containers = pod.pointer_mut("/spec/containers");
        let containers = containers.and_then(Value::as_array_mut).context("some")?;
        for container in containers {
            if let Some(port) = container.pointer_mut("/ports/0/containerPort")
                && *port == json!(29705)
            {
                *port = json!(29704);
                replaced += 1;
            }
        }
    }
    ensure!(replaced == 1, "{replaced} ports are the controller's");
    let waiting = placed(api, &pods)?;
    let said = waiting.join("; ");
    ensure!(
        waiting.len() == 1 && said.contains("free ports"),
        "is scheduled, or not for its ports: {said:?}"
    );
    Ok(())
}

/// The pods of these workloads on these nodes; those of DaemonSets first, as in a cluster.
pub(super) fn pods(objects: &[Value]) -> Vec<Value> {
    let selectors: Vec<_> = { objects.iter() }
        .filter_map(|it| it.pointer("/spec/template/spec/nodeSelector")?.as_object())
        .collect();
    // Where selectors contradict each other, consecutive nodes match different ones.
    let fits = |place: usize, label: &String, value: &Value| {
        let values = selectors.iter().filter_map(|it| it.get(label));
        let mut values: Vec<_> = values.map(ToString::to_string).collect();
        values.sort();
        values.dedup();
        values.get(place % values.len().max(1)) == Some(&value.to_string())
    };
    let (mut of_nodes, mut others) = (Vec::new(), Vec::new());
    for object in objects {
        let selector = object.pointer("/spec/template/spec/nodeSelector");
        let selector = selector.and_then(Value::as_object);
        match text(object, "/kind").unwrap_or_default() {
            "DaemonSet" => {
                for (place, node) in NODES.into_iter().enumerate() {
                    let mut wanted = selector.into_iter().flatten();
                    if wanted.all(|(label, value)| fits(place, label, value)) {
                        of_nodes.push(pod(object, Some(node)));
                    }
                }
            }
            "Deployment" | "StatefulSet" => {
                let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64);
                others.extend((0..replicas.unwrap_or(1)).map(|_| pod(object, None)));
            }
            _ => {}
        }
    }
    of_nodes.append(&mut others);
    of_nodes
}

/// The pod that the workload's controller makes; on a node if it is a DaemonSet's.
fn pod(workload: &Value, node: Option<&str>) -> Value {
    let mut spec = { workload.pointer("/spec/template/spec") }
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    spec.insert("serviceAccountName".to_owned(), json!("default"));
    // The nodes have no other labels; the caller has chosen the nodes already.
    spec.insert("nodeSelector".to_owned(), json!({HERE: "true"}));
    if let Some(node) = node {
        let terms = json!([{
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
        }]);
        let there =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        spec.insert("affinity".to_owned(), json!({"nodeAffinity": there}));
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "pod-",
            "labels": workload.pointer("/spec/template/metadata/labels"),
            "annotations": {"example.com/of": title(workload)},
        },
        "spec": spec,
    })
}

/// Creates pods, waits until the scheduler has handled each, and removes them. Returns the scheduler's messages about
/// pods without a node.
pub(super) fn placed(api: &Api, pods: &[Value]) -> Result<Vec<String>> {
    beat(api)?;
    for pod in pods {
        api.create(PODS, pod)?;
    }
    let decided = wait::until(SOON, "the scheduler has decided", || {
        let list = api.get(PODS)?;
        let mut waiting = Vec::new();
        for pod in items(&list, "/items") {
            if text(pod, "/spec/nodeName").is_some() {
                continue;
            }
            let mut conditions = items(pod, "/status/conditions");
            let reason = conditions.find(|it| text(it, "/reason") == Some("Unschedulable"));
            let Some(reason) = reason.and_then(|it| text(it, "/message")) else {
                return Ok(None);
            };
            let of = text(pod, "/metadata/annotations/example.com~1of").unwrap_or_default();
            waiting.push(format!("{of}: {reason}"));
        }
        Ok(Some(waiting))
    });
    let list = api.get(PODS)?;
    for name in items(&list, "/items").filter_map(|it| text(it, "/metadata/name")) {
        // No kubelet would confirm the deletion.
        api.delete_with(&format!("{PODS}/{name}"), &json!({"gracePeriodSeconds": 0}))?;
    }
    wait::until_true(SOON, "the pods are gone", || {
        Ok(items(&api.get(PODS)?, "/items").next().is_none())
    })?;
    decided
}

/// Renews the nodes' heartbeats, as kubelets do again and again. A new time is enough.
fn beat(api: &Api) -> Result<()> {
    static BEATS: AtomicU32 = AtomicU32::new(0);
    let beat = BEATS.fetch_add(1, Ordering::Relaxed);
    let (minute, second) = (beat / 60, beat % 60);
    let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    let status = json!({"status": {
        "capacity": room, "allocatable": room,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Test",
            "lastHeartbeatTime": format!("2026-01-01T00:{minute:02}:{second:02}Z"),
        }],
    }});
    for name in NODES {
        api.merge(&format!("/api/v1/nodes/{name}/status"), &status)?;
    }
    wait::until_true(SOON, "the nodes are ready", || {
        let mut tainted = false;
        for name in NODES {
            let node = api.get(&format!("/api/v1/nodes/{name}"))?;
            tainted |= items(&node, "/spec/taints").next().is_some();
        }
        Ok(!tainted)
    })
}
