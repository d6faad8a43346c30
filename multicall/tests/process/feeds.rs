//! Rows: controllers share one LIST and one watch per kind.

use std::time::Duration;

use sidecar_testkit::api::record::Request;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::measure::at_rest;
use sidecar_testkit::{CallFault, Fault, Gate};

use super::stage::{DRIVER, Running, Stage, free_address, get, settle};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/persistentvolumeclaims";
/// A call that is held must not end and be made again meanwhile.
const HELD: &str = "--timeout=5m";
const ADDS: &str = "workqueue_adds_total{";

/// How many keys each queue was given, by queue.
async fn adds(address: &str) -> Vec<(String, f64)> {
    let (_, text) = get(address, "/metrics").await;
    let lines = text.lines().filter(|line| line.starts_with(ADDS));
    let adds = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    });
    adds.collect()
}

/// The keys that each queue gets between a claim's provisioner annotation and the call to the driver.
async fn told(stage: &Stage, programs: &[(u32, String)]) -> Vec<(String, f64)> {
    let at_rest = async || {
        for (id, _) in programs {
            at_rest(*id).await;
        }
    };
    let gate = Gate::new();
    let held = CallFault::on("CreateVolume").hold(&gate);
    stage.driver.fault(held);
    let claim = build::claim("ns1/told").class("sc1").mode("RWO");
    stage.api.insert(claim.uid("uid-told"));
    at_rest().await;
    let mut before = Vec::new();
    for (_, address) in programs {
        before.extend(adds(address).await);
    }
    let calls = stage.driver.calls().len();
    stage
        .api
        .edit("persistentvolumeclaims", "ns1/told", |claim| {
            let asked = "volume.kubernetes.io/storage-provisioner";
            claim["metadata"]["annotations"][asked] = DRIVER.into();
        });
    let is_asked = || stage.driver.calls().len() > calls;
    stage.until("CreateVolume", is_asked).await;
    at_rest().await;
    let mut told = Vec::new();
    for (_, address) in programs {
        for (queue, now) in adds(address).await {
            let was = before.iter().find(|(of, _)| *of == queue);
            told.push((queue.clone(), now - was.map_or(0.0, |(_, was)| *was)));
        }
    }
    gate.open();
    told.sort_by(|one, other| one.0.cmp(&other.0));
    told
}

#[tokio::test]
async fn a_25_each_controller_is_told_of_a_claim_as_its_single_program_is() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let running = stage.three(&[&endpoint, HELD]);
    stage.all_work(0).await;
    let together = told(&stage, &[(running.id(), address)]).await;
    running.terminated().await.well();

    let stage = Stage::new().await;
    let addresses = [free_address(), free_address(), free_address()];
    let mut singles = Vec::new();
    for (name, address) in ["csi-provisioner", "csi-attacher", "csi-resizer"]
        .iter()
        .zip(&addresses)
    {
        let endpoint = format!("--http-endpoint={address}");
        singles.push((stage.single(name, &[&endpoint, HELD]), address.clone()));
    }
    stage.all_work(0).await;
    let programs = singles
        .iter()
        .map(|(one, address)| (one.id(), address.clone()));
    let separate = told(&stage, &programs.collect::<Vec<_>>()).await;
    assert_eq!(together, separate);
    let claims = "workqueue_adds_total{name=\"claims\"}".to_owned();
    assert!(together.contains(&(claims, 1.0)), "{together:?}");
}

fn patches(stage: &Stage, name: &str) -> Vec<Request> {
    let path = format!("{VOLUMES}/{name}");
    let mut patches = stage.api.requests_to("PATCH", &path);
    patches.extend(stage.api.requests_to("PATCH", &format!("{path}/*")));
    patches
}

/// Makes the attacher add its finalizer to the volume of `ns1/e0`, then the resizer patch the same volume.
async fn finalizer_then_size(stage: &Stage, running: Running, order: &str) {
    settle().await;
    stage.api.clear_requests();
    let attachment = build::attachment("va-e0").by(DRIVER).on("node1").of("e0");
    stage.api.insert(attachment);
    let is_attached = || {
        let attachment = stage.api.object("volumeattachments", "va-e0");
        attachment.unwrap_or_default()["status"]["attached"] == true
    };
    stage.until(order, is_attached).await;
    stage.api.clear_faults();
    stage.api.release_watches("persistentvolumes");
    settle().await;
    let made = patches(stage, "e0");
    let agents: Vec<_> = made.iter().map(|patch| &patch.user_agent[..12]).collect();
    assert_eq!(agents, ["csi-attacher"], "{order}");
    stage.expand(0);
    let is_larger = || stage.done(0).contains(&"resizer");
    stage.until(order, is_larger).await;
    settle().await;
    let made = patches(stage, "e0");
    let refused = made.iter().filter(|patch| patch.status != Some(200));
    assert_eq!(
        refused.count(),
        0,
        "{order}: who has not learnt of it: {made:#?}"
    );
    let by_attacher = made
        .iter()
        .filter(|patch| patch.user_agent.starts_with("csi-attacher"));
    assert_eq!(by_attacher.count(), 1, "{order}");
    let by_provisioner = made
        .iter()
        .filter(|patch| patch.user_agent.starts_with("csi-provisioner"));
    assert_eq!(by_provisioner.count(), 0, "{order}");
    let mut sizes: Vec<_> = made[1..]
        .iter()
        .map(|patch| patch.body.to_string())
        .collect();
    let count = sizes.len();
    sizes.dedup();
    assert_eq!(sizes.len(), count, "{order}: {sizes:#?}");
    let volume = stage.api.object("persistentvolumes", "e0").unwrap();
    let finalizers = volume["metadata"]["finalizers"].to_string();
    assert!(finalizers.contains("\"external-attacher/test-csi-driver\""));
    assert_eq!(volume["spec"]["capacity"]["storage"], "2Gi");
    running.terminated().await.well();
}

#[tokio::test]
async fn a_26_the_watch_tells_of_the_finalizer_before_the_answer_does() {
    let stage = Stage::new().await;
    let running = stage.three(&[]);
    stage.all_work(1).await;
    let late = Fault::on("PATCH", "/api/v1/persistentvolumes/*").user_agent("csi-attacher*");
    stage.api.fault(late.late_reply(Duration::from_secs(2)));
    finalizer_then_size(&stage, running, "event first").await;
}

#[tokio::test]
async fn a_26_the_watch_tells_of_the_finalizer_after_the_answer_does() {
    let stage = Stage::new().await;
    let running = stage.three(&[]);
    stage.all_work(1).await;
    stage.api.hold_watches("persistentvolumes");
    finalizer_then_size(&stage, running, "answer first").await;
}

#[tokio::test]
async fn a_28_one_relist_serves_all_whose_version_is_too_old() {
    let stage = Stage::new().await;
    let running = stage.three(&[]);
    stage.all_work(0).await;
    settle().await;
    let calls = stage.driver.calls().len();
    stage.api.clear_requests();
    stage.api.expire_watches();
    let lists = |path: &str| {
        let mut lists = stage.api.requests_to("GET", path);
        lists.retain(|list| !list.is_watch());
        lists
    };
    let both = || !lists(VOLUMES).is_empty() && !lists(CLAIMS).is_empty();
    stage.until("lists", both).await;
    settle().await;
    for path in [VOLUMES, CLAIMS] {
        let lists = lists(path);
        assert_eq!(lists.len(), 1, "{path}: {lists:#?}");
    }
    let asked = stage.driver.calls().len();
    assert_eq!(asked, calls, "nothing has changed");
    stage.all_work(1).await;
    running.terminated().await.well();
}
