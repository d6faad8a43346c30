//! From one container per sidecar to one process, and back, while the driver keeps running.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::node::Seat;
use e2e::object::{self, Binding};
use e2e::suite::{Scenario, Verdict, say};
use e2e::{image, program, stand_in, wait};
use serde_json::json;

use crate::helm::Helm;

/// Scenarios of this file.
pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[Scenario {
    name: "a_74_helm_upgrade_to_one_process_and_back_under_a_pod_that_writes",
    run: upgrade_and_back,
}];

const DRIVER: &str = "together.csi.example.com";
const LONG: Duration = Duration::from_secs(90);
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const STORAGE: &str = "/apis/storage.k8s.io/v1";

/// A failed write ends the container, which is visible as a restart.
const WRITER: &str =
    "i=0; while :; do i=$((i+1)); echo $i >> /data/file || exit 1; sleep 0.05; done";

/// Longer than any of the chart's liveness probes takes to fail.
const PROBED: Duration = Duration::from_secs(70);

fn upgrade_and_back(cluster: &Cluster) -> Result<Verdict> {
    if program::all_in_one().is_err() || program::node_sidecars().is_err() {
        return Ok(Verdict::Skipped(
            "`make images` or `make unit` builds csi-sidecars and csi-node-sidecars".to_owned(),
        ));
    }
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, DRIVER)?;
    let mut driver = seat.start_driver(&["--enable-attach=true", "--enable-topology=false"])?;
    let class = object::storage_class(DRIVER, DRIVER, Binding::Immediate);
    api.create(&format!("{STORAGE}/storageclasses"), &class)?;

    let separate = release(cluster, &seat, DRIVER, &["sidecars=separate"])?;
    let together = release(cluster, &seat, DRIVER, &["sidecars=together"])?;
    for name in &separate.images()? | &together.images()? {
        let found = stand_in::load(cluster, &name)?;
        ensure!(found, "the chart wants {name}, and there is none of ours");
    }
    let kinds = "all,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings";
    roll(&separate, "install")?;
    let writer = start_writer(&api)?;
    let begin = written(&separate)?;
    live(&api, "separate")?;
    let before = separate.kubectl(&["get", kinds, "--namespace", "storage", "-o", "name"])?;
    roll(&together, "upgrade")?;
    live(&api, "together")?;
    let middle = written(&separate)?;
    wait::stays(PROBED, "no container restarts", || {
        none_restarted(&together)
    })?;
    roll(&separate, "upgrade")?;
    live(&api, "again")?;
    let end = written(&separate)?;
    let after = separate.kubectl(&["get", kinds, "--namespace", "storage", "-o", "name"])?;
    ensure!(
        lasting(&before) == lasting(&after),
        "objects differ: {before}, {after}"
    );

    driver.must_run()?;
    let pod = api.get(&format!("{PODS}/writer"))?;
    ensure!(
        text(&pod, "/metadata/uid") == Some(&writer),
        "the pod was replaced"
    );
    let restarts = pod.pointer("/status/containerStatuses/0/restartCount");
    ensure!(
        restarts == Some(&json!(0)),
        "the pod restarted: {restarts:?}"
    );
    ensure!(
        begin < middle && middle < end,
        "{begin}, {middle}, {end} lines"
    );
    say(&format!(
        "    {begin} lines before, {middle} in one process, {end} afterwards, none missing"
    ));
    remove(&api, "writer", "data")?;
    separate.uninstall()?;
    api.delete(&format!("{STORAGE}/storageclasses/{DRIVER}"))?;
    separate.nothing_left(cluster)?;
    Ok(Verdict::Passed)
}

/// The chart beside the driver of `seat`, with further values.
pub(crate) fn release(
    cluster: &Cluster,
    seat: &Seat<'_>,
    driver: &str,
    more: &[&str],
) -> Result<Helm> {
    let socket = seat.socket();
    let directory = socket.parent().context("a directory")?.display();
    let kubelet = seat.kubelet_dir().display();
    let settings = [
        format!("driver.name={driver}"),
        "image.registry=registry.example.com/storage".to_owned(),
        "features.topology=false".to_owned(),
        "csiDriver.create=true".to_owned(),
        format!("controller.hostPath={directory}"),
        format!("node.socketDirectory={directory}"),
        format!("node.kubeletDir={kubelet}"),
    ];
    let settings = settings.iter().map(String::as_str);
    let settings: Vec<_> = settings.chain(more.iter().copied()).collect();
    Helm::new(cluster, "beside", "csi-sidecars", &settings)
}

/// Installs or upgrades, and waits until all pods are ready.
pub(crate) fn roll(helm: &Helm, verb: &str) -> Result<()> {
    let mut words = vec![verb, "--wait", "--timeout=90s"];
    if verb == "install" {
        words.push("--create-namespace");
    }
    helm.run(&words).with_context(|| helm.pods())?;
    Ok(())
}

/// Creates a claim and a pod that writes to its volume until it is deleted; returns the pod's UID.
fn start_writer(api: &Api) -> Result<String> {
    api.create(CLAIMS, &object::claim("data", DRIVER, "1Mi"))?;
    start_pod(api, "writer", "data", WRITER)
}

/// Creates a pod that runs a script with the claim's volume, and waits until it is ready; returns
/// its UID.
fn start_pod(api: &Api, name: &str, claim: &str, script: &str) -> Result<String> {
    let pod = object::pod(name, "node-0", &object::claimed_volume(claim));
    let mut pod = object::with(pod, &json!({ "spec": { "restartPolicy": "Always" } }));
    if let Some(container) = pod.pointer_mut("/spec/containers/0") {
        let runs = json!({ "image": image::SHELL, "command": ["/bin/sh", "-c", script] });
        *container = object::with(container.take(), &runs);
    }
    api.create(PODS, &pod)?;
    let what = format!("pod {name} is ready");
    let uid = wait::until(LONG, &what, || {
        let pod = api.get(&format!("{PODS}/{name}"))?;
        let is_ready = pod.pointer("/status/containerStatuses/0/ready") == Some(&json!(true));
        Ok(is_ready.then(|| text(&pod, "/metadata/uid").unwrap_or_default().to_owned()))
    });
    uid.with_context(|| api.events("default", name))
}

/// The life of a volume: create, attach, mount, detach, delete.
fn live(api: &Api, name: &str) -> Result<()> {
    api.create(CLAIMS, &object::claim(name, DRIVER, "1Mi"))?;
    start_pod(api, name, name, "echo x > /data/x && exec sleep 100000")?;
    remove(api, name, name)
}

/// Deletes a pod and its claim, and waits until the volume is detached and deleted.
fn remove(api: &Api, pod: &str, claim: &str) -> Result<()> {
    let bound = api.get(&format!("{CLAIMS}/{claim}"))?;
    let volume = text(&bound, "/spec/volumeName").context("the claim is not bound")?;
    api.delete(&format!("{PODS}/{pod}"))?;
    api.until_gone(LONG, &format!("{PODS}/{pod}"))?;
    api.delete(&format!("{CLAIMS}/{claim}"))?;
    api.until_gone(LONG, &format!("/api/v1/persistentvolumes/{volume}"))
        .with_context(|| api.events("default", claim))
}

/// Number of lines that the pod has written; fails if one is missing.
fn written(helm: &Helm) -> Result<usize> {
    let said = helm.kubectl(&["exec", "writer", "--", "cat", "/data/file"])?;
    // The last line may be incomplete.
    let mut lines: Vec<_> = said.split('\n').collect();
    lines.pop();
    for (index, line) in lines.iter().enumerate() {
        if line.parse() != Ok(index + 1) {
            bail!("line {} of the file says {line:?}", index + 1);
        }
    }
    Ok(lines.len())
}

/// Objects that a change does not recreate.
fn lasting(names: &str) -> BTreeSet<&str> {
    let made = ["pod/", "replicaset.apps/", "controllerrevision.apps/"];
    let names = names.lines();
    names
        .filter(|name| !made.iter().any(|it| name.starts_with(it)))
        .collect()
}

fn none_restarted(helm: &Helm) -> Result<bool> {
    let restarts = "jsonpath={range .items[*].status.containerStatuses[*]}{.restartCount} {end}";
    let said = helm.kubectl(&["get", "pods", "--namespace", "storage", "-o", restarts])?;
    Ok(said.split_whitespace().all(|number| number == "0"))
}
