//! An image swap: upstream's own manifests of csi-driver-host-path with every sidecar, from the pinned Kubernetes, with
//! this project's images under upstream's names. The driver gets the argument, and an account its namespace, that
//! Kubernetes' tests give them for csi-snapshot-metadata; no other field changes.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::controller::{Controller, Route, SNAPSHOT_CONTROLLER};
use e2e::node::Seat;
use e2e::process::Process;
use e2e::suite::{Scenario, Verdict, say};
use e2e::{image, manifest, object, snapshots, stand_in, wait};
use serde_json::{Value, json};

use crate::blocks;

/// Scenarios of this file.
pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[Scenario {
    name: "upstreams_manifests_run_with_our_images",
    run: upstreams_manifests_run_with_our_images,
}];

pub(crate) const DRIVER: &str = "hostpath.csi.k8s.io";
const PLUGIN: &str = "storage-csi/hostpath/hostpath/csi-hostpath-plugin.yaml";
const MANIFESTS: [&str; 9] = [
    "storage-csi/external-snapshot-metadata/cbt.storage.k8s.io_snapshotmetadataservices.yaml",
    "storage-csi/external-attacher/rbac.yaml",
    "storage-csi/external-provisioner/rbac.yaml",
    "storage-csi/external-resizer/rbac.yaml",
    "storage-csi/external-snapshotter/csi-snapshotter/rbac-csi-snapshotter.yaml",
    "storage-csi/external-health-monitor/external-health-monitor-controller/rbac.yaml",
    "storage-csi/external-snapshot-metadata/rbac.yaml",
    "storage-csi/external-snapshot-metadata/backup-client-rbac.yaml",
    "storage-csi/hostpath/hostpath/csi-hostpath-driverinfo.yaml",
];
pub(crate) const POD: &str = "/api/v1/namespaces/default/pods/csi-hostpathplugin-0";
const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";

/// Time limit that suits slow machines; the driver's pod takes seconds.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// A container that fails says why in its status.
pub(crate) const LAST_WORDS: &str = "FallbackToLogsOnError";

/// Longer than its liveness probe takes to restart a container.
const PROBED: Duration = Duration::from_secs(25);

fn upstreams_manifests_run_with_our_images(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    snapshots::install(cluster, &api)?;
    let mut created = Vec::new();
    for name in MANIFESTS {
        for mut object in manifest::read(cluster, name)? {
            name_the_account(&mut object);
            created.push(manifest::create(&api, &object)?);
        }
    }
    created.extend(blocks::announce(&api)?);
    for mut object in manifest::read(cluster, PLUGIN)? {
        if text(&object, "/kind") == Some("StatefulSet") {
            load_ours(&mut object, cluster)?;
        }
        created.push(manifest::create(&api, &object)?);
    }
    let mut controller = snapshot_controller(cluster, &api)?;
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
    let class = object::snapshot_class("swap", DRIVER, "Delete");
    created.push(manifest::create(&api, &class)?);
    take_snapshot(&api, "swap", "swap")?;
    delete_snapshot(&api, "swap")?;
    blocks::are_told(cluster, &api)?;
    api.delete(&format!("{CLAIMS}/swap"))?;
    api.until_gone(LONG, &volume)?;
    controller.must_run()?;
    nothing_restarted(&api)?;
    api.delete("/apis/storage.k8s.io/v1/storageclasses/swap")?;
    // The pod is deleted first, while the sidecars still have their permissions.
    for object in created.iter().rev() {
        manifest::delete(&api, object)?;
    }
    api.until_gone(LONG, POD)?;
    Ok(Verdict::Passed)
}

/// The binding for all namespaces leaves the account's namespace to whoever applies it.
fn name_the_account(object: &mut Value) {
    if text(object, "/kind") == Some("ClusterRoleBinding")
        && let Some(subject) = object.pointer_mut("/subjects/0")
        && let Some(subject) = subject.as_object_mut()
    {
        let namespace = subject.entry("namespace");
        namespace.or_insert_with(|| json!("default"));
    }
}

/// Loads this project's images under the manifest's names.
fn load_ours(set: &mut Value, cluster: &Cluster) -> Result<()> {
    let pod = set.pointer_mut("/spec/template/spec");
    let pod = pod.context("a StatefulSet without pod")?;
    for container in array(pod, "containers")? {
        let name = text(container, "/image").context("a container without image")?;
        ensure!(stand_in::load(cluster, name)?, "{name}: none of ours");
        say(&format!("    ours as  {name}"));
        if stand_in::base(name) == "hostpathplugin" {
            array(container, "args")?.push(json!("--enable-snapshot-metadata"));
        }
    }
    Ok(())
}

/// No manifest of a driver contains snapshot-controller: a cluster has one.
fn snapshot_controller(cluster: &Cluster, api: &Api) -> Result<Process> {
    let seat = Seat::controller(cluster, "snapshots.swap")?;
    let controller = Controller::install(cluster, SNAPSHOT_CONTROLLER, &seat)?;
    let group = "snapshot.storage.k8s.io";
    controller.until_permitted(api, group, "volumesnapshotcontents", "list")?;
    controller.start("0", Route::Direct, &["-v=4"])
}

/// Takes a snapshot of a claim's volume, and waits until it is ready.
pub(crate) fn take_snapshot(api: &Api, name: &str, claim: &str) -> Result<()> {
    api.create(SNAPSHOTS, &object::snapshot_of(name, "swap", claim))?;
    let path = format!("{SNAPSHOTS}/{name}");
    wait::until_true(LONG, &format!("snapshot {name} is ready"), || {
        Ok(api.get(&path)?.pointer("/status/readyToUse") == Some(&json!(true)))
    })
    .with_context(|| api.events("default", name))
}

/// Deletes a snapshot, and waits until its content is gone, too.
pub(crate) fn delete_snapshot(api: &Api, name: &str) -> Result<()> {
    let path = format!("{SNAPSHOTS}/{name}");
    let snapshot = api.get(&path)?;
    let content = text(&snapshot, "/status/boundVolumeSnapshotContentName");
    let content = content.with_context(|| format!("{path} has no content"))?;
    api.delete(&path)?;
    api.until_gone(LONG, &path)?;
    let contents = format!("{}/volumesnapshotcontents", snapshots::GROUP);
    api.until_gone(LONG, &format!("{contents}/{content}"))
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
        container.insert("terminationMessagePolicy".to_owned(), json!(LAST_WORDS));
    }
    until_succeeded(api, &pod).with_context(|| script.to_owned())
}

/// Creates a pod, waits for its end and deletes it; fails unless it succeeded.
pub(crate) fn until_succeeded(api: &Api, pod: &Value) -> Result<()> {
    until_ended(api, pod)?.map_or(Ok(()), |why| bail!("the pod failed: {why}"))
}

/// Creates a pod, waits for its end and deletes it. Returns why it failed, or nothing if it succeeded.
pub(crate) fn until_ended(api: &Api, pod: &Value) -> Result<Option<String>> {
    let name = text(pod, "/metadata/name").context("a pod without name")?;
    let path = format!("{PODS}/{name}");
    api.create(PODS, pod)?;
    let ended = wait::until(LONG, &format!("pod {name} ends"), || {
        let pod = api.get(&path)?;
        let phase = text(&pod, "/status/phase").unwrap_or_default();
        Ok(["Succeeded", "Failed"].contains(&phase).then_some(pod))
    });
    let ended = ended.with_context(|| api.events("default", name))?;
    api.delete(&path)?;
    api.until_gone(LONG, &path)?;
    let said = ended.pointer("/status/containerStatuses/0/state/terminated");
    let failed = text(&ended, "/status/phase") == Some("Failed");
    Ok(failed.then(|| said.unwrap_or(&ended).to_string()))
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
