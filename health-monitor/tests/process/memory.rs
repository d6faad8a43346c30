//! H-58 and H-73: what the program costs beside many volumes and many events.
//!
//! For a released build: `CSI_HEALTH_MONITOR_BINARY=bin/csi-external-health-monitor-controller cargo test -p
//! health-monitor --test process memory -- --ignored --nocapture`.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::build::Object as _;
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::measure::memory;
use tokio::time::sleep;

use super::stage::{LIST, Stage, claim, settle, volume};

const EACH_MINUTE: [&str; 2] = ["--monitor-interval=1m", "--list-volumes-interval=1m"];

/// 50,000 volumes with their claims; `stored` is told each handle.
fn fill(stage: &Stage, stored: impl Fn(&str)) {
    for index in 0..50_000_u32 {
        let uuid = format!("{index:08x}-7f0c-4d53-8f4e-0f5f4f7d9a11");
        let key = format!("team-{}/data-postgres-{index}", index % 500);
        let (pv, handle) = (format!("pvc-{uuid}"), format!("vol-{uuid}"));
        let bound = volume(&pv, &handle, &key);
        stage
            .api
            .insert(bound.with("/spec/claimRef/uid", uuid.as_str()));
        stage.api.insert(claim(&key, &pv).uid(&uuid));
        stored(&handle);
    }
}

#[tokio::test]
#[ignore = "a measurement of a released build, for an hour"]
async fn h_58_many_volumes_cost_no_request_in_an_hour() {
    let stage = Stage::listing().await;
    fill(&stage, |_| {});
    let program = stage.started(&EACH_MINUTE).await;
    for minutes in (5..=60).step_by(5) {
        // The hour is the measurement.
        sleep(Duration::from_mins(5)).await;
        assert!(stage.patches().is_empty());
        println!("{minutes} minutes: {} lists", stage.calls(LIST));
    }
    assert!((58..=61).contains(&stage.calls(LIST)));
    let resident = memory(program.id(), "VmRSS") as f64 / 1e6;
    println!(
        "50,000 volumes and claims, an hour: {resident:.1} MB resident, {:?} of processor time",
        program.busy()
    );
    assert!(resident <= 25.0, "{resident}");
}

/// What v0.18 knows, too: `CSI_HEALTH_MONITOR_BINARY` names either program.
#[tokio::test]
#[ignore = "a measurement of released builds, for ten minutes"]
async fn volumes_of_an_older_driver_for_ten_minutes() {
    let stage = Stage::older(ControllerRpc::ListVolumes).await;
    fill(&stage, |handle| {
        stage.driver.volume(handle);
    });
    // v0.18 says in other words that it is ready.
    let program = stage.start(&EACH_MINUTE);
    for minute in 1..=10 {
        // The ten minutes are the measurement.
        sleep(Duration::from_mins(1)).await;
        let [resident, peak] =
            ["VmRSS", "VmHWM"].map(|kind| memory(program.id(), kind) as f64 / 1e6);
        println!(
            "{minute} min: {resident:.1} MB, at most {peak:.1}; {:?} of processor time; {} calls",
            program.busy(),
            stage.calls("ListVolumes")
        );
    }
}

/// Resident and anonymous bytes of a program that has asked an older driver for its volumes, in a cluster with so many
/// events that are not its own.
async fn beside_events(count: usize) -> [u64; 2] {
    let stage = Stage::older(ControllerRpc::ListVolumes).await;
    for number in 0..count {
        // A hundredth is of another driver's monitor, and in the only list.
        let (component, reason) = match number % 100 {
            0 => (
                "csi-pv-monitor-controller-another",
                "VolumeConditionAbnormal",
            ),
            _ => ("kubelet", "FailedMount"),
        };
        stage.api.insert(json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": format!("team-{}", number % 500), "name": format!("event-{number}")},
            "involvedObject": {"kind": "Pod", "name": "p", "uid": format!("uid-{number}")},
            "reason": reason, "type": "Warning", "message": "m".repeat(200), "count": 1,
            "source": {"component": component},
        }));
    }
    let program = stage.started(&[]).await;
    stage.until_calls("ListVolumes", 10).await;
    settle().await;
    assert_eq!(stage.api.requests_to("GET", "*/events").len(), 1);
    ["VmRSS", "RssAnon"].map(|kind| memory(program.id(), kind))
}

#[tokio::test]
async fn h_73_foreign_events_cost_no_memory() {
    let (without, with) = (beside_events(0).await, beside_events(10_000).await);
    println!("resident and anonymous: {without:?} without, {with:?} with 10,000 foreign events");
    for (without, with) in without.into_iter().zip(with) {
        // v0.18 has 23 MB more.
        assert!(with < without + 2_000_000, "{with} instead of {without}");
    }
}
