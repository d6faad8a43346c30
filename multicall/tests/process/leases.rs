//! Rows: all leases of the single programs, in one order.

use std::time::Duration;

use sidecar_testkit::build::Object;
use sidecar_testkit::process::{Process, Signal};
use sidecar_testkit::{FakeDriver, Fault, build, controller};
use tokio::time::{Instant, sleep};

use super::stage::{
    ALL, CALM, PATIENT, Stage, free_address, get, is_together, lease, lease_writes, settle,
    until_answer,
};

/// A lease that is soon lost, where that is what happens.
const QUICK: [&str; 3] = [
    "--leader-election-lease-duration=4s",
    "--leader-election-renew-deadline=3s",
    OFTEN,
];
const OFTEN: &str = "--leader-election-retry-period=500ms";

#[tokio::test]
async fn a_34_one_replica_holds_all_leases_and_the_other_none() {
    let stage = Stage::new().await;
    let first = stage.three_in_election(&[OFTEN]);
    stage.until_held(&ALL, is_together).await;
    let mut second = stage.three_elsewhere(&[OFTEN]);
    second.says("Attempting to acquire leader lease").await;
    settle().await;
    stage.all_work(0).await;
    let log = second.log();
    assert!(!log.contains("Successfully acquired lease"), "{log}");
    // It campaigns for the head lease only.
    assert_eq!(log.matches("Attempting to acquire").count(), 1, "{log}");
    first.terminated().await.well();
    stage
        .until_held(&ALL, |holder| holder.starts_with("elsewhere_"))
        .await;
    stage.all_work(1).await;
    assert!(second.is_running());
}

#[tokio::test]
async fn a_35_and_36_one_that_leads_elsewhere_delays_itself_alone() {
    let stage = Stage::new().await;
    stage.foreign("attacher", "another-host", 3600);
    let running = stage.three_in_election(&[OFTEN]);
    stage.ask_all(0);
    stage.until_done_by(0, &["provisioner", "resizer"]).await;
    settle().await;
    let log = running.log();
    let told = log.lines().filter(|line| line.contains("another-host"));
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("external-attacher-leader"), "{told:?}");
    stage.take_away("attacher", "");
    stage.until_done_by(0, &ALL).await;
    running.terminated().await.well();
}

#[tokio::test]
async fn a_38_without_the_head_nothing_works_and_the_process_lives() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let controllers = "--controllers=provisioner,attacher,resizer,livenessprobe";
    let election = ["--leader-election", "--leader-election-namespace=ns"];
    let arguments = [controllers, &endpoint, PATIENT, OFTEN];
    let arguments = [&arguments, &election[..], &CALM].concat();
    let mut running = stage.start(&arguments);
    stage.until_held(&ALL, is_together).await;
    stage.all_work(0).await;
    stage.take_away("provisioner", "somebody");
    running.logs("Stopped leading").await;
    stage.ask_all(1);
    settle().await;
    assert!(stage.done(1).is_empty(), "nobody leads");
    assert_eq!(get(&address, "/healthz").await.0, 200);
    assert!(running.is_running(), "{}", running.log());
    stage.take_away("provisioner", "");
    stage.until_done_by(1, &ALL).await;
    stage.until_held(&ALL, is_together).await;
    running.terminated().await.well();
}

/// In turn leaves requests unanswered and refuses them, each time until the head lease is lost; the last time a signal
/// comes.
#[tokio::test]
async fn a_103_outages_longer_than_the_lease_cost_one_lease_duration_each() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let controllers = "--controllers=provisioner,attacher,resizer,livenessprobe";
    let election = ["--leader-election", "--leader-election-namespace=ns"];
    let arguments = [controllers, &endpoint, PATIENT];
    let arguments = [&arguments, &election[..], &QUICK].concat();
    let mut running = stage.start(&arguments);
    stage.until_held(&ALL, is_together).await;
    for round in 0..4 {
        let fault = Fault::on("*", "*/leases*");
        let fault = match round % 2 {
            0 => fault.hang(),
            _ => fault.answer(503),
        };
        let outage = stage.api.fault(fault);
        let lost = format!("\"Stopped leading\" lease=\"{}\"", lease("provisioner"));
        running.logs_times(&lost, round + 1).await;
        assert_eq!(get(&address, "/healthz").await.0, 200);
        assert_eq!(get(&address, "/livez").await.0, 200);
        if round == 3 {
            break;
        }
        outage.remove();
        stage.all_work(round).await;
        until_answer(&address, "/readyz", 200, "").await;
    }
    assert!(running.is_running());
    running.terminated().await.well();
}

#[tokio::test]
async fn a_39_one_lease_taken_away_stops_its_controller_alone() {
    let stage = Stage::new().await;
    let mut running = stage.three_in_election(&[OFTEN]);
    stage.until_held(&ALL, is_together).await;
    stage.all_work(0).await;
    stage.take_away("attacher", "somebody");
    running.logs("Stops at once").await;
    stage.ask_all(1);
    stage.until_done_by(1, &["provisioner", "resizer"]).await;
    assert!(running.is_running());
    stage.take_away("attacher", "");
    stage.until_done_by(1, &ALL).await;
    running.terminated().await.well();
}

#[tokio::test]
async fn a_40_one_that_was_frozen_does_nothing_when_it_goes_on() {
    let stage = Stage::new().await;
    let frozen = stage.three_in_election(&QUICK);
    stage.until_held(&ALL, is_together).await;
    stage.all_work(0).await;
    let second = stage.three_elsewhere(&QUICK);
    second.says("Attempting to acquire leader lease").await;
    frozen.signal(Signal::STOP);
    stage.ask_all(1);
    stage.until_done_by(1, &ALL).await;
    let calls = stage.driver.calls().len();
    let writes = stage.api.writes().len();
    frozen.signal(Signal::CONT);
    frozen.logs("Stopped leading").await;
    // No further call may arrive meanwhile.
    sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.driver.calls_to("CreateVolume").len(), 2);
    assert!(stage.driver.overlaps().is_empty());
    // The controller repeats the handshake, and asks the driver nothing else.
    let after = stage.driver.calls().split_off(calls);
    let asked: Vec<_> = after.iter().map(|call| call.method).collect();
    let meets = |method: &&str| method.starts_with("Get") || *method == "Probe";
    let meets = |method: &&str| meets(method) || *method == "ControllerGetCapabilities";
    assert!(asked.iter().all(meets), "{asked:?}");
    let after = stage.api.writes().split_off(writes);
    let other = |path: &str| !path.contains("/leases") && !path.contains("/events");
    let written: Vec<_> = after.iter().map(|write| &write.path).collect();
    assert!(!written.iter().any(|path| other(path)), "{written:?}");
    drop((frozen, second));
}

#[tokio::test]
async fn a_42_killed_and_started_again_it_takes_its_leases_at_once() {
    let stage = Stage::new().await;
    let running = stage.three_in_election(&[]);
    stage.until_held(&ALL, is_together).await;
    running.kill().await;
    let start = Instant::now();
    let again = stage.three_in_election(&[]);
    stage.all_work(0).await;
    // Not only after the leases' two minutes.
    assert!(start.elapsed() < Duration::from_secs(100), "{start:?}");
    for controller in ALL {
        let stored = stage.api.object("leases", lease(controller));
        let transitions = stored.unwrap()["spec"]["leaseTransitions"].clone();
        assert_eq!(transitions, 0, "{controller}");
    }
    again.terminated().await.well();
}

#[tokio::test]
async fn a_43_the_head_is_given_back_last() {
    let stage = Stage::new().await;
    let running = stage.three_in_election(&[]);
    stage.until_held(&ALL, is_together).await;
    stage.all_work(0).await;
    running.terminated().await.well();
    let mut freed = lease_writes(&stage);
    freed.retain(|(_, holder)| holder.is_empty());
    let names: Vec<&str> = freed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[2], "test-csi-driver", "{names:?}");
}

#[tokio::test]
async fn a_41_and_36_a_sidecar_left_in_the_same_pod_is_waited_for() {
    let stage = Stage::new().await;
    let mut single = stage.single("csi-attacher", &[OFTEN]);
    single.says("Successfully acquired lease").await;
    let running = stage.three_in_election(&[OFTEN]);
    stage.ask_all(0);
    stage.until_done_by(0, &ALL).await;
    running.logs("Leader lease is held").await;
    // The single program attached the volume.
    let attaches = stage.api.requests_to("PATCH", "*/volumeattachments/*");
    let agents = attaches.iter().map(|write| write.user_agent.as_str());
    assert!(
        agents
            .clone()
            .all(|agent| agent.starts_with("csi-attacher/"))
    );
    assert!(!running.log().contains("Starting CSI attacher"));
    single.signal(Signal::TERM);
    single.ended_within(controller::PATIENCE).await;
    running.logs("Starting CSI attacher").await;
    stage.all_work(1).await;
    assert_eq!(stage.calls("ControllerPublishVolume"), 2);
    assert!(stage.driver.overlaps().is_empty());
    running.terminated().await.well();
}

/// A small form of row A-37: no rolling update of a chart, but both directions with work at every moment.
#[tokio::test]
async fn a_37_from_separate_to_together_and_back() {
    let stage = Stage::new().await;
    let names = ["csi-provisioner", "csi-attacher", "csi-resizer"];
    let separate = || names.map(|name| stage.single(name, &[OFTEN]));
    let end = async |singles: [Process; 3]| {
        for mut single in singles {
            single.signal(Signal::TERM);
            single.ended_within(controller::PATIENCE).await;
        }
    };
    let before = separate();
    stage.all_work(0).await;
    let together = stage.three_in_election(&[OFTEN]);
    together.logs("Leader lease is held").await;
    stage.ask_all(1);
    end(before).await;
    stage.until_held(&ALL, is_together).await;
    stage.until_done_by(1, &ALL).await;
    stage.all_work(2).await;
    let after = separate();
    for single in &after {
        single.says("Leader lease is held").await;
    }
    stage.ask_all(3);
    together.terminated().await.well();
    stage
        .until_held(&ALL, |holder| !holder.is_empty() && !is_together(holder))
        .await;
    stage.until_done_by(3, &ALL).await;
    assert!(stage.driver.overlaps().is_empty());
    for method in [
        "CreateVolume",
        "ControllerPublishVolume",
        "ControllerExpandVolume",
    ] {
        assert_eq!(stage.calls(method), 4, "{method}");
    }
    end(after).await;
}

#[tokio::test]
async fn a_100_single_programs_of_another_driver_in_the_same_cluster() {
    const OTHER: &str = "other.csi.driver";
    let stage = Stage::new().await;
    let other = FakeDriver::new(OTHER);
    let mut can = Vec::new();
    stage
        .driver
        .configure(|model| can.clone_from(&model.controller));
    other.configure(|model| model.controller = can);
    other.start();
    other.volume("h-other");
    stage.api.insert(build::class("sc2").of(OTHER));
    stage
        .api
        .insert(build::csinode("node2").driver(OTHER, "NID2"));
    let volume = build::volume("other").csi(OTHER, "h-other").mode("RWO");
    stage.api.insert(volume);

    let running = stage.three_in_election(&[]);
    let socket = format!("--csi-address={}", other.address());
    let names = ["csi-provisioner", "csi-attacher", "csi-resizer"];
    let singles = names.map(|name| stage.single(name, &[&socket]));
    stage.all_work(0).await;
    let claim = build::claim("ns1/other").class("sc2").mode("RWO");
    let claim = claim.uid("uid-other");
    stage
        .api
        .insert(claim.annotation("volume.kubernetes.io/storage-provisioner", OTHER));
    let attachment = build::attachment("va-other")
        .by(OTHER)
        .on("node2")
        .of("other");
    stage.api.insert(attachment);
    let is_done = || {
        let attachment = stage.api.object("volumeattachments", "va-other");
        let volume = stage.api.object("persistentvolumes", "pvc-uid-other");
        let volume = volume.unwrap_or_default();
        attachment.unwrap_or_default()["status"]["attached"] == true
            && volume["spec"]["csi"]["driver"] == OTHER
    };
    stage.until("the work of the other driver", is_done).await;
    for method in ["CreateVolume", "ControllerPublishVolume"] {
        assert_eq!(stage.calls(method), 1, "{method}");
        assert_eq!(other.calls_to(method).len(), 1, "{method}");
    }
    stage.until_held(&ALL, is_together).await;
    for name in [
        "other-csi-driver",
        "external-attacher-leader-other-csi-driver",
    ] {
        let lease = stage.api.object("leases", &format!("ns/{name}")).unwrap();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        assert!(
            !holder.is_empty() && !is_together(holder),
            "{name}: {holder}"
        );
    }
    // Neither process ends with the other.
    other.stop();
    drop(singles);
    stage.all_work(1).await;
    running.terminated().await.well();
}
