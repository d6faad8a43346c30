//! The program's memory with many volumes.
//!
//! For a released build: `CSI_HEALTH_MONITOR_BINARY=bin/csi-external-health-monitor-controller cargo test -p
//! health-monitor --test process memory -- --ignored --nocapture`.

use std::time::Duration;

use sidecar_testkit::build::Object as _;
use tokio::time::sleep;

use super::stage::{Stage, claim, volume};

#[tokio::test]
#[ignore = "a measurement of a released build"]
async fn memory_with_50000_volumes_and_no_request_for_them() {
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
    stage.cycles(3).await;
    // By then the allocator has returned the memory of the start-up.
    sleep(Duration::from_secs(10)).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    let resident = kilobytes * 1024.0 / 1e6;
    println!(
        "50,000 volumes and claims: {resident:.1} MB resident, {:?} of processor time",
        program.busy()
    );
    assert!(stage.patches().is_empty());
    assert!(resident <= 25.0, "{resident}");
}
