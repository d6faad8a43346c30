//! A volume's whole life on a node without kubelet and container runtime: csi-node-agent, under the
//! permissions that are shipped with it, with the real controllers, our attacher and real mounts.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use csi_test_driver::invariants::Options;
use e2e::api::{Api, text};
use e2e::calls::Calls;
use e2e::cluster::Cluster;
use e2e::controller::{ATTACHER, Controller, Route};
use e2e::deployment::{Deployment, Pod};
use e2e::node::Seat;
use e2e::node_agent::NodeAgent;
use e2e::process::Process;
use e2e::suite::{Scenario, Verdict};
use e2e::{object, program, wait};
use rustix::process::{Signal, geteuid};
use serde_json::{Value, json};

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "node_agent_takes_a_volume_through_its_whole_life",
        run: whole_life,
    },
    Scenario {
        name: "node_agent_leaves_a_node_with_a_kubelet_alone",
        run: beside_a_kubelet,
    },
];

const SOON: Duration = Duration::from_secs(40);
const STORAGE: &str = "/apis/storage.k8s.io/v1";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

const FLAGS: [&str; 3] = [
    "--enable-attach=true",
    "--enable-topology=false",
    "--sync=false",
];

/// A pod that is bound to its node without the scheduler: the node must get no other pods.
fn pod(api: &Api, name: &str, node: &str, claim: &str) -> Result<Pod> {
    let pod = object::free_pod(name, &object::claimed_volume(claim));
    let pod = object::with(pod, &json!({ "spec": { "nodeName": node } }));
    api.create("/api/v1/namespaces/default/pods", &pod)?;
    Pod::find(api, name)
}

fn attached(api: &Api) -> Result<usize> {
    let list = api.get(&format!("{STORAGE}/volumeattachments"))?;
    let items = list.pointer("/items").and_then(Value::as_array);
    let items = items.into_iter().flatten();
    Ok(items
        .filter(|it| text(it, "/spec/nodeName") == Some("solo"))
        .count())
}

fn until_gone(api: &Api, agent: &mut Process, path: &str) -> Result<()> {
    wait::until_true(SOON, &format!("{path} is gone"), || {
        agent.must_run()?;
        Ok(api.find(path)?.is_none())
    })
    .with_context(|| agent.tail())
}

fn whole_life(cluster: &Cluster) -> Result<Verdict> {
    if !geteuid().is_root() || program::driver_is_foreign() {
        let why = "needs root, for mounts, and the record of the embedded driver";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    let api = cluster.api()?;
    api.create("/api/v1/nodes", &object::node("solo"))?;
    let deployment = Deployment::new(cluster, &api, "agent.volume.test", &FLAGS)?;
    let _controller = deployment.start_controller(&[])?;
    let attacher = Controller::install(cluster, ATTACHER, &deployment.controller)?;
    attacher.until_permitted(&api, "storage.k8s.io", "volumeattachments/status", "patch")?;
    let _attacher = attacher.start("0", Route::Direct, &["-v=2"])?;

    let seat = Seat::with_mounts(cluster, "solo", deployment.driver())?;
    let seat = seat.sharing(&deployment.controller);
    let _node = seat.start_driver(&[&FLAGS[..], &["--role=node"]].concat())?;
    let account = NodeAgent::install(cluster, &api)?;
    let mut agent = account.start(&seat, &["-v=4"])?;
    let mut registrar = seat.start_registrar(&[])?;
    seat.until_registered(&api, &mut registrar)
        .with_context(|| agent.tail())?;

    let names = ["solo-0".to_owned()];
    let handles = deployment
        .controller
        .control()
        .make_volumes(&names, 1 << 20)?;
    let handle = handles.first().context("a handle")?;
    let volume = object::persistent_volume("solo-0", deployment.driver(), handle);
    api.create("/api/v1/persistentvolumes", &volume)?;
    api.create(CLAIMS, &object::claim_of("solo-0", "solo-0"))?;
    // A scheduler waits for this, too. The attach/detach controller processes a pod when it is created and when its
    // claim changes: if its watch of PersistentVolumes lags behind both, it tries again only after minutes.
    wait::until_true(SOON, "the claim is bound", || {
        let claim = api.get(&format!("{CLAIMS}/solo-0"))?;
        Ok(text(&claim, "/status/phase") == Some("Bound"))
    })?;

    let mut writer = pod(&api, "solo-writer", "solo", "solo-0")?;
    writer.until_running(&api).with_context(|| agent.tail())?;
    writer.must_be_mounted(&seat, "solo-0")?;
    writer.write(&seat, "solo-0", "kept")?;
    api.delete(&writer.path)?;
    until_gone(&api, &mut agent, &writer.path)?;
    wait::until_true(SOON, "the volume is detached", || Ok(attached(&api)? == 0))
        .with_context(|| agent.tail())?;

    // The agent is killed while the volume is in use; the pod is deleted before it restarts.
    let mut reader = pod(&api, "solo-reader", "solo", "solo-0")?;
    reader.until_running(&api).with_context(|| agent.tail())?;
    let read = reader.read(&seat, "solo-0")?;
    ensure!(read == "kept", "what was written is there: {read:?}");
    agent.signal(Signal::KILL)?;
    agent.exit_code(SOON).ok();
    reader.must_be_mounted(&seat, "solo-0")?;
    api.delete_with(&reader.path, &json!({ "gracePeriodSeconds": 0 }))?;
    let mut agent = account.start(&seat, &["-v=4"])?;
    wait::until_true(SOON, "the volume is detached", || {
        agent.must_run()?;
        Ok(attached(&api)? == 0)
    })
    .with_context(|| agent.tail())?;

    nothing_left(&api, &seat, &agent)?;
    asked_twice(&deployment)?;
    api.delete(&format!("{CLAIMS}/solo-0"))?;
    api.delete("/api/v1/persistentvolumes/solo-0")?;
    drop(agent);
    api.delete("/api/v1/nodes/solo")?;
    Ok(Verdict::Passed)
}

/// Asserts that no mount and no volume in use is left, and that no request was refused.
fn nothing_left(api: &Api, seat: &Seat<'_>, agent: &Process) -> Result<()> {
    let mounts = seat.mounts_below(seat.kubelet_dir())?;
    ensure!(mounts.is_empty(), "mounts left: {mounts:?}");
    let node = api.get("/api/v1/nodes/solo")?;
    let in_use = node.pointer("/status/volumesInUse");
    ensure!(
        in_use.is_none_or(|it| *it == json!([])),
        "in use: {in_use:?}"
    );
    let log = agent.log();
    ensure!(
        !log.contains("Permission is missing") && !log.contains("forbidden"),
        "{log}"
    );
    Ok(())
}

/// Asserts each call once per life of the volume on the node, of which there were two.
fn asked_twice(deployment: &Deployment<'_>) -> Result<()> {
    let calls = Calls::read(&deployment.controller.record())?;
    calls.check(&Options::default())?;
    let count = |method: &str| (method.to_owned(), calls.of(method).count());
    let asked = [
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
    ]
    .map(count);
    ensure!(
        asked.iter().all(|(_, times)| *times == 2),
        "calls: {asked:?}"
    );
    Ok(())
}

fn beside_a_kubelet(cluster: &Cluster) -> Result<Verdict> {
    let (node, _) = cluster.node(0)?;
    let seat = Seat::without_kubelet(&cluster.dir().join("run"), &node, "beside.example.com")?;
    let account = NodeAgent::install(cluster, &cluster.api()?)?;
    let mut agent = account.start(&seat, &[])?;
    let code = agent.exit_code(SOON)?;
    ensure!(code == 1, "exit code {code}\n{}", agent.tail());
    ensure!(
        agent.log().contains("is run by a kubelet"),
        "the reason and the way out\n{}",
        agent.tail()
    );
    Ok(Verdict::Passed)
}
