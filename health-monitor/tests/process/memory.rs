//! H-58 and H-73: what the program weighs beside many volumes and many events.
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

/// As many lists as there are in an hour at the default interval, a second apart.
#[tokio::test]
#[ignore = "a measurement of a released build"]
async fn h_58_many_volumes_cost_no_request_in_sixty_lists() {
    let stage = Stage::listing().await;
    for index in 0..50_000_u32 {
        let uuid = format!("{index:08x}-7f0c-4d53-8f4e-0f5f4f7d9a11");
        let key = format!("team-{}/data-postgres-{index}", index % 500);
        let pv = format!("pvc-{uuid}");
        let bound = volume(&pv, &format!("vol-{uuid}"), &key);
        stage
            .api
            .insert(bound.with("/spec/claimRef/uid", uuid.as_str()));
        stage.api.insert(claim(&key, &pv).uid(&uuid));
    }
    let program = stage.started(&["--monitor-interval=1s"]).await;
    for _ in 0..4 {
        stage.cycles(15).await;
        assert!(stage.patches().is_empty());
    }
    assert!(stage.calls(LIST) >= 60);
    // By then the allocator has returned the memory of the start-up.
    sleep(Duration::from_secs(10)).await;
    let resident = memory(program.id(), "VmRSS") as f64 / 1e6;
    println!(
        "50,000 volumes and claims, 60 lists: {resident:.1} MB resident, {:?} of processor time",
        program.busy()
    );
    assert!(resident <= 25.0, "{resident}");
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
