//! Rows: the end.

use std::time::Duration;

use sidecar_testkit::build::{self, Object};
use sidecar_testkit::measure::stood_still;
use sidecar_testkit::process::no_more_memory;
use sidecar_testkit::{CallFault, Gate};
use tokio::time::{Instant, sleep};

use super::stage::{ALL, Stage, is_together, lease_writes};

const METHODS: [&str; 3] = [
    "CreateVolume",
    "ControllerPublishVolume",
    "ControllerExpandVolume",
];

/// The moment at which the process is told to end.
fn now() -> Instant {
    let now = Instant::now();
    // Standstills of the machine are noticed from the first question on.
    let _ = stood_still(now.into_std(), now.into_std());
    now
}

/// Time since then, as the process had it.
fn since(told: Instant) -> Duration {
    let now = Instant::now();
    (now - told).saturating_sub(stood_still(told.into_std(), now.into_std()))
}

/// A container's memory limit ends it like SIGKILL; a limit of the process ends it at an allocation.
#[tokio::test]
async fn a_54_without_memory_the_process_ends_and_the_next_one_goes_on() {
    let stage = Stage::new().await;
    let running = stage.three_in_election(&[]);
    stage.all_work(0).await;
    let holder = stage.holder_of("provisioner");
    no_more_memory(running.id());
    let much = "x".repeat(1 << 20);
    for number in 0..8 {
        let claim = build::claim(&format!("ns1/large{number}"));
        stage.api.insert(claim.annotation("much", &much));
    }
    let ended = running.end().await;
    assert_eq!(ended.code, None, "{}", ended.log);
    assert!(ended.log.contains("memory allocation of"), "{}", ended.log);
    assert_eq!(stage.holder_of("provisioner"), holder, "not given back");
    stage.ask_all(1);
    let next = stage.three_in_election(&[]);
    stage.until_done_by(1, &ALL).await;
    next.terminated().await.well();
}

#[tokio::test]
async fn a_62_what_is_under_way_ends_and_is_recorded() {
    let stage = Stage::new().await;
    let gates = METHODS.map(|method| {
        let gate = Gate::new();
        stage.driver.fault(CallFault::on(method).hold(&gate));
        gate
    });
    let running = stage.three_in_election(&[]);
    stage.until_held(&ALL, is_together).await;
    stage.ask_all(0);
    for method in METHODS {
        stage.until_calls(method, 1).await;
    }
    running.terminate();
    let told = now();
    // No controller ends before its calls.
    sleep(Duration::from_millis(500)).await;
    // The attacher finishes first, and releases its lease while the others go on.
    gates[1].open();
    stage.until_held(&["attacher"], str::is_empty).await;
    assert!(is_together(&stage.holder_of("provisioner")));
    assert!(is_together(&stage.holder_of("resizer")));
    gates[0].open();
    gates[2].open();
    let ended = running.end().await;
    ended.well();
    let took = since(told);
    assert!(took < Duration::from_secs(28), "{took:?}");
    assert_eq!(stage.done(0), ALL);
    let freed = lease_writes(&stage);
    let last = freed.last().unwrap();
    assert_eq!((last.0.as_str(), last.1.as_str()), ("test-csi-driver", ""));
}

#[tokio::test]
async fn a_63_a_driver_that_never_answers_holds_up_nobody_for_long() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    for method in METHODS {
        stage.driver.fault(CallFault::on(method).hold(&gate));
    }
    let running = stage.three_in_election(&["--timeout=5m"]);
    stage.until_held(&ALL, is_together).await;
    stage.ask_all(0);
    for method in METHODS {
        stage.until_calls(method, 1).await;
    }
    running.terminate();
    let told = now();
    running.end().await.well();
    let took = since(told);
    assert!(took < Duration::from_secs(29), "{took:?}");
    for controller in ALL {
        assert_eq!(stage.holder_of(controller), "", "{controller}");
    }
    // The journal contains the provisioner's call with unknown outcome.
    let leases = stage.api.objects("leases");
    let journal = leases.iter().find(|lease| {
        let name = lease["metadata"]["name"].as_str();
        name.is_some_and(|name| name.contains("journal"))
    });
    let text = journal.expect("there is a journal").to_string();
    assert!(text.contains("intent.csi-sidecars.io/"), "{text}");
}

#[tokio::test]
async fn a_65_a_second_signal_ends_it_at_once() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage
        .driver
        .fault(CallFault::on("CreateVolume").hold(&gate));
    let running = stage.three(&[]);
    stage.ask_all(0);
    stage.until_calls("CreateVolume", 1).await;
    running.terminate();
    running.logs("Signal received").await;
    let told = Instant::now();
    running.terminate();
    let ended = running.end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    // Not only after the twenty-five seconds that a call has.
    assert!(told.elapsed() < Duration::from_secs(20));
}
