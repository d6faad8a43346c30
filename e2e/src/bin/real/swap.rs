//! An image swap: upstream's own manifests of csi-driver-host-path with every sidecar, from the pinned Kubernetes, with
//! this project's images under upstream's names. No field changes.
//!
//! Sidecars without an equivalent in this project are removed from the pod, and so are volumes that only they mount.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::suite::{Scenario, Verdict, say};
use e2e::{image, manifest, object, snapshots, stand_in, wait};
use serde_json::{Value, json};

/// Scenarios of this file.
pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[Scenario {
    name: "upstreams_manifests_run_with_our_images",
    run: upstreams_manifests_run_with_our_images,
}];

const DRIVER: &str = "hostpath.csi.k8s.io";
const PLUGIN: &str = "storage-csi/hostpath/hostpath/csi-hostpath-plugin.yaml";
const MANIFESTS: [&str; 7] = [
    "storage-csi/external-attacher/rbac.yaml",
    "storage-csi/external-provisioner/rbac.yaml",
    "storage-csi/external-resizer/rbac.yaml",
    "storage-csi/external-snapshotter/csi-snapshotter/rbac-csi-snapshotter.yaml",
    "storage-csi/external-health-monitor/external-health-monitor-controller/rbac.yaml",
    "storage-csi/hostpath/hostpath/csi-hostpath-driverinfo.yaml",
    PLUGIN,
];
const POD: &str = "/api/v1/namespaces/default/pods/csi-hostpathplugin-0";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";

/// Time limit that suits slow machines; the driver's pod takes seconds.
const LONG: Duration = Duration::from_secs(90);

/// Longer than its liveness probe takes to restart a container.
const PROBED: Duration = Duration::from_secs(25);

fn upstreams_manifests_run_with_our_images(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    snapshots::install(cluster, &api)?;
    let mut created = Vec::new();
    for name in MANIFESTS {
        for mut object in manifest::read(cluster, name)? {
            if text(&object, "/kind") == Some("StatefulSet") {
                keep_ours(&mut object, cluster)?;
            }
            created.push(manifest::create(&api, &object)?);
        }
    }
    until_running(&api)
        .with_context(|| api.events("default", "csi-hostpathplugin-0"))
        .with_context(|| api.events("default", "csi-hostpathplugin"))?;
    let class = object::storage_class("swap", DRIVER, object::Binding::Immediate);
    api.create("/apis/storage.k8s.io/v1/storageclasses", &class)?;
    api.create(CLAIMS, &object::claim("swap", "swap", "1Mi"))?;
    run(&api, "writer", "echo it stays > /data/file")?;
    run(&api, "reader", "test \"$(cat /data/file)\" = 'it stays'")?;
    let claim = api.get(&format!("{CLAIMS}/swap"))?;
    let volume = text(&claim, "/spec/volumeName").context("the claim is not bound")?;
    let volume = format!("{VOLUMES}/{volume}");
    let stored = api.find(&volume)?;
    let stored = stored.with_context(|| format!("{volume} does not exist"))?;
    let handle = text(&stored, "/spec/csi/volumeHandle").context("a volume without handle")?;
    take_a_snapshot(&api, handle)?;
    api.delete(&format!("{CLAIMS}/swap"))?;
    api.until_gone(LONG, &volume)?;
    nothing_restarted(&api)?;
    api.delete("/apis/storage.k8s.io/v1/storageclasses/swap")?;
    // The pod is deleted first, while the sidecars still have their permissions.
    for object in created.iter().rev() {
        manifest::delete(&api, object)?;
    }
    api.until_gone(LONG, POD)?;
    Ok(Verdict::Passed)
}

/// Loads this project's images under the manifest's names; removes containers without one.
fn keep_ours(set: &mut Value, cluster: &Cluster) -> Result<()> {
    let pod = set.pointer_mut("/spec/template/spec");
    let pod = pod.context("a StatefulSet without pod")?;
    let containers = array(pod, "containers")?;
    let mut left_out = Vec::new();
    for container in std::mem::take(containers) {
        let name = text(&container, "/image").context("a container without image")?;
        if stand_in::load(cluster, name)? {
            say(&format!("    ours as  {name}"));
            containers.push(container);
        } else {
            left_out.push(name.to_owned());
        }
    }
    let used = json!(containers).to_string();
    array(pod, "volumes")?.retain(|volume| {
        let name = text(volume, "/name").unwrap_or_default();
        used.contains(&format!("\"name\":\"{name}\""))
    });
    for name in left_out {
        say(&format!("    left out {name}: there is none of ours"));
    }
    Ok(())
}

/// csi-snapshotter takes and deletes a snapshot. No manifest of a driver contains snapshot-controller, so the test
/// creates the VolumeSnapshotContent as that would for a VolumeSnapshot, and releases it.
fn take_a_snapshot(api: &Api, handle: &str) -> Result<()> {
    let content = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": "swap"},
        "spec": {
            "driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": handle},
            "volumeSnapshotClassName": "swap",
            "volumeSnapshotRef": {"namespace": "default", "name": "swap", "uid": "0f8a2c1e-0000-4000-8000-000000000001"},
        },
    });
    let class = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": "swap"}, "driver": DRIVER, "deletionPolicy": "Delete",
    });
    manifest::create(api, &class)?;
    let path = format!("{CONTENTS}/swap");
    api.create(CONTENTS, &content)?;
    wait::until_true(LONG, "the snapshot is ready", || {
        Ok(api.get(&path)?.pointer("/status/readyToUse") == Some(&json!(true)))
    })
    .with_context(|| api.events("default", "swap"))?;
    let gone = json!({"metadata": {"annotations": {"snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes"}}});
    api.merge(&path, &gone)?;
    api.delete(&path)?;
    api.until_gone(LONG, &path)?;
    manifest::delete(api, &class)
}

fn array<'a>(value: &'a mut Value, field: &str) -> Result<&'a mut Vec<Value>> {
    let array = value.get_mut(field).and_then(Value::as_array_mut);
    array.with_context(|| format!("no list of {field}"))
}

fn until_running(api: &Api) -> Result<()> {
    wait::until_true(LONG, "the driver's pod is ready", || {
        let pod = api.get(POD)?;
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().any(|condition| {
            text(condition, "/type") == Some("Ready") && text(condition, "/status") == Some("True")
        });
        Ok(ready)
    })?;
    wait::until_true(LONG, "the registrar has registered the driver", || {
        let node = api.get("/apis/storage.k8s.io/v1/csinodes/node-0")?;
        Ok(node.to_string().contains(DRIVER))
    })
}

/// Runs a shell script with the claim's volume at `/data`, and waits for its end.
fn run(api: &Api, name: &str, script: &str) -> Result<()> {
    let mut pod = object::pod(name, "node-0", &object::claimed_volume("swap"));
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("restartPolicy".to_owned(), json!("Never"));
    }
    if let Some(container) = pod
        .pointer_mut("/spec/containers/0")
        .and_then(Value::as_object_mut)
    {
        container.insert("image".to_owned(), json!(image::SHELL));
        container.insert("command".to_owned(), json!(["/bin/sh", "-c", script]));
    }
    let path = format!("{PODS}/{name}");
    api.create(PODS, &pod)?;
    let phase = wait::until(LONG, &format!("pod {name} ends"), || {
        let pod = api.get(&path)?;
        let phase = text(&pod, "/status/phase").unwrap_or_default();
        Ok(["Succeeded", "Failed"]
            .contains(&phase)
            .then(|| phase.to_owned()))
    });
    let phase = phase.with_context(|| api.events("default", name))?;
    ensure!(phase == "Succeeded", "pod {name}: {phase}: {script}");
    api.delete(&path)?;
    api.until_gone(LONG, &path)
}

/// Fails if a container ended on its own or by its liveness probe.
fn nothing_restarted(api: &Api) -> Result<()> {
    wait::stays(PROBED, "no container of the driver's pod restarts", || {
        let pod = api.get(POD)?;
        let containers = pod
            .pointer("/status/containerStatuses")
            .and_then(Value::as_array);
        let mut containers = containers.context("a pod without containers")?.iter();
        Ok(containers.all(|it| it.get("restartCount") == Some(&json!(0))))
    })
}
