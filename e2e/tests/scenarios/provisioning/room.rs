//! Storage capacity: claims where it suffices, and where it does not.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::deployment::Pod;
use e2e::object::{self, Binding};
use e2e::process::Process;
use e2e::suite::Verdict;
use e2e::wait;
use serde_json::{Value, json};

use super::scene::{CLAIMS, CLASSES, SOON, Scene, at_most, skipped, writes};
use super::zones::Zones;

const ZONES: [&str; 2] = ["near", "far"];

/// Publishes capacity for the scheduler, at the scenario's interval.
const CAPACITY: [&str; 4] = [
    "--enable-capacity",
    "--capacity-ownerref-level=0",
    "--kube-api-capacity-qps=50",
    "--kube-api-capacity-burst=100",
];

/// The CSIStorageCapacity objects, as zone and bytes, sorted by zone.
fn told(scene: &Scene<'_>) -> Result<Vec<(String, String)>> {
    let namespace = scene.provisioner.namespace();
    let objects = format!("/apis/storage.k8s.io/v1/namespaces/{namespace}/csistoragecapacities");
    let list = scene.api.get(&objects)?;
    let items = list.pointer("/items").and_then(Value::as_array);
    let mut told: Vec<_> = items
        .into_iter()
        .flatten()
        .map(|object| {
            let labels = object.pointer("/nodeTopology/matchLabels");
            let labels = labels.and_then(Value::as_object);
            let zone = labels.and_then(|labels| labels.values().next());
            let zone = zone.and_then(Value::as_str).unwrap_or_default();
            let bytes = text(object, "/capacity").unwrap_or_default();
            (zone.to_owned(), bytes.to_owned())
        })
        .collect();
    told.sort();
    Ok(told)
}

fn until_told(scene: &Scene<'_>, provisioner: &mut Process, near: &str, far: &str) -> Result<()> {
    let expected = [("far", far), ("near", near)];
    let expected = expected.map(|(zone, bytes)| (zone.to_owned(), bytes.to_owned()));
    let what = format!("there is room for {near} near and {far} far");
    let done = wait::until_true(SOON, &what, || {
        provisioner.must_run()?;
        Ok(told(scene)? == expected)
    });
    done.with_context(|| format!("told: {:?}", told(scene)))
        .with_context(|| provisioner.tail())
}

/// Makes the driver report this capacity in each zone, whatever is free.
fn say(scene: &Scene<'_>, zones: &Zones<'_>, bytes: [u64; 2]) -> Result<()> {
    let answers = ZONES
        .into_iter()
        .zip(bytes)
        .map(|(zone, bytes)| json!({ "topology": zones.segments(zone), "available": bytes }));
    let answers: Vec<_> = answers.collect();
    let control = scene.deployment.controller.control();
    Ok(control.set(&json!({ "capacity": answers }))?)
}

/// Makes the scheduler respect the driver's CSIStorageCapacity objects.
fn heed(scene: &Scene<'_>) -> Result<()> {
    let driver = scene.deployment.driver();
    let object = format!("/apis/storage.k8s.io/v1/csidrivers/{driver}");
    let patch = json!({ "spec": { "storageCapacity": true } });
    scene.api.merge(&object, &patch).map(drop)
}

const MANY: u64 = 100 << 20;

pub(super) fn capacity(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let binding = Binding::WaitForFirstConsumer;
    let scene = Scene::new(cluster, "room", binding, &["--sync=false"])?;
    heed(&scene)?;
    let zones = Zones::start(cluster, &scene, &ZONES, &[])?;
    let _driver = scene.deployment.start_controller(&[])?;
    say(&scene, &zones, [0, MANY])?;
    let own = scene.provisioner.create_pod(&scene.api, "0")?;
    let mut flags = CAPACITY.to_vec();
    flags.push("--capacity-poll-interval=1s");
    let mut provisioner = scene.start_provisioner(&flags)?;
    until_told(&scene, &mut provisioner, "0", "100Mi")?;

    for (claim, bytes, other, zone) in [
        ("room-0", [0, MANY], "near", "far"),
        ("room-1", [MANY, 0], "far", "near"),
    ] {
        say(&scene, &zones, bytes)?;
        let [near, far] = bytes.map(|bytes| if bytes == 0 { "0" } else { "100Mi" });
        until_told(&scene, &mut provisioner, near, far)?;
        scene.claim(claim)?;
        // Without the capacity the scheduler would take the other node.
        let mut pod = Pod::create_near(&scene.api, claim, zones.node(other)?, claim)?;
        let volume = scene.until_bound(&mut provisioner, claim)?;
        zones.must_hold(zone, &volume)?;
        pod.until_running(&scene.api)?;
        ensure!(pod.node == zones.node(zone)?, "the pod is on {}", pod.node);
        scene.api.delete(&pod.path)?;
    }
    scene.until_unstaged()?;
    for claim in ["room-0", "room-1"] {
        scene.release(claim)?;
    }
    scene.until_nothing_is_left(&mut provisioner)?;
    let name = scene.deployment.driver();
    scene.api.delete(&format!("{CLASSES}/{name}"))?;
    let gone = wait::until_true(SOON, "nothing is told of a class that is gone", || {
        provisioner.must_run()?;
        Ok(told(&scene)?.is_empty())
    });
    gone.with_context(|| provisioner.tail())?;
    scene.api.delete(&own)?;
    // Volumes, then two objects made, changed once, and deleted; one refused write finds out the
    // version of the API.
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 6 + 6 + 1, &requests)?;
    scene.finish()
}

pub(super) fn elsewhere(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let binding = Binding::WaitForFirstConsumer;
    // Each zone has capacity for one volume.
    let scene = Scene::new(
        cluster,
        "other",
        binding,
        &["--sync=false", "--capacity=disk=1Mi"],
    )?;
    heed(&scene)?;
    let zones = Zones::start(cluster, &scene, &ZONES, &[])?;
    let _driver = scene.deployment.start_controller(&[])?;
    say(&scene, &zones, [MANY, MANY])?;
    let own = scene.provisioner.create_pod(&scene.api, "0")?;
    let mut flags = CAPACITY.to_vec();
    flags.extend(["--capacity-poll-interval=1h", "--strict-topology"]);
    let mut provisioner = scene.start_provisioner(&flags)?;
    until_told(&scene, &mut provisioner, "100Mi", "100Mi")?;

    let near = zones.node("near")?;
    let asked = scene.calls()?.of("GetCapacity").count();
    scene.claim("other-0")?;
    let mut first = Pod::create_near(&scene.api, "other-0", near, "other-0")?;
    zones.must_hold("near", &scene.until_bound(&mut provisioner, "other-0")?)?;
    first.until_running(&scene.api)?;
    wait::until_true(SOON, "the driver is asked what is left", || {
        Ok(scene.calls()?.of("GetCapacity").count() > asked)
    })?;
    // The zone is full now, and the scheduler does not know it.
    until_told(&scene, &mut provisioner, "100Mi", "100Mi")?;
    scene
        .deployment
        .controller
        .control()
        .set(&json!({ "capacity": null }))?;

    scene.claim("other-1")?;
    let mut second = Pod::create_near(&scene.api, "other-1", near, "other-1")?;
    let volume = scene.until_bound(&mut provisioner, "other-1")?;
    zones.must_hold("far", &volume)?;
    second.until_running(&scene.api)?;
    ensure!(
        second.node == zones.node("far")?,
        "the pod is on {}",
        second.node
    );
    let calls = scene.calls()?.of("CreateVolume");
    let codes: Vec<_> = calls
        .iter()
        .filter_map(|call| call.code.as_deref())
        .collect();
    ensure!(
        codes.starts_with(&["OK", "RESOURCE_EXHAUSTED"]) && codes.ends_with(&["OK"]),
        "CreateVolume: {codes:?}"
    );
    for pod in [first, second] {
        scene.api.delete(&pod.path)?;
    }
    scene.until_unstaged()?;
    scene.release("other-0")?;
    scene.release("other-1")?;
    scene.until_nothing_is_left(&mut provisioner)?;
    // Two volumes, one claim given back to the scheduler, two objects made, and changed after each
    // attempt.
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 6 + 1 + 2 + 6, &requests)?;
    drop(provisioner);
    scene.api.delete(&own)?;
    wait::until_true(SOON, "what is told vanishes with the pod", || {
        Ok(told(&scene)?.is_empty())
    })?;
    scene.finish()
}

pub(super) fn quota(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let limits = [
        "--enable-topology=false",
        "--sync=false",
        "--capacity=disk=3Mi",
        "--max-volume-size=2097152",
    ];
    let scene = Scene::new(cluster, "quota", Binding::Immediate, &limits)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let quick = ["--retry-interval-start=250ms", "--retry-interval-max=500ms"];
    let mut provisioner = scene.start_provisioner(&quick)?;
    for claim in ["quota-0", "quota-1", "quota-2"] {
        scene.claim(claim)?;
        scene.until_bound(&mut provisioner, claim)?;
    }
    scene.claim("quota-3")?;
    scene.until_event(&mut provisioner, "quota-3", "no room for 1048576 bytes")?;
    let class = scene.deployment.driver();
    scene.create_claim(&object::claim("quota-large", class, "3Mi"))?;
    scene.until_event(&mut provisioner, "quota-large", "maximum volume size")?;
    // Retries change nothing.
    let asked = scene.calls()?.of("CreateVolume").count();
    wait::until_true(SOON, "both are asked for again", || {
        Ok(scene.calls()?.of("CreateVolume").count() >= asked + 4)
    })?;
    wait::stays(Duration::from_millis(200), "both stay open", || {
        scene.must_be_open("quota-3")?;
        scene.must_be_open("quota-large").map(|()| true)
    })?;
    ensure!(scene.stored("/left_over/volumes")? == json!(3), "three fit");

    scene.release("quota-1")?;
    scene.until_bound(&mut provisioner, "quota-3")?;
    scene.must_be_open("quota-large")?;
    for claim in ["quota-0", "quota-2", "quota-3", "quota-large"] {
        scene.release(claim)?;
    }
    scene.until_nothing_is_left(&mut provisioner)?;
    // A refused claim leads to no writes.
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 12, &requests)?;
    let quota = scene.api.find(&format!("{CLAIMS}/quota-large"))?;
    ensure!(quota.is_none(), "a claim that was never served can go");
    scene.finish()
}
