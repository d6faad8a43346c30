//! Memory of the program, idle and with many volumes.
//!
//! For a released build: `CSI_RESIZER_BINARY=bin/csi-resizer cargo test -p resizer --test process
//! memory -- --ignored --nocapture --test-threads=1`.

use std::time::Duration;

use sidecar_testkit::build::Object;
use tokio::time::sleep;

use super::stage::{Running, Stage, claim, volume};

/// Resident memory, and the part of it that is not mapped from the program's file, in MB of 10^6
/// bytes.
fn resident(program: &Running) -> (f64, f64) {
    let path = format!("/proc/{}/status", program.id());
    let status = std::fs::read_to_string(path).unwrap();
    let field = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kilobytes * 1024.0 / 1e6
    };
    (field("VmRSS:"), field("RssAnon:"))
}

#[tokio::test]
#[ignore = "a measurement of a released build"]
async fn memory_idle_and_with_50000_volumes() {
    let election = ["--leader-election", "--leader-election-namespace=ns"];
    let stage = Stage::modifying().await;
    let program = stage.started(&election).await;
    // By then the process has given back the memory of its start.
    sleep(Duration::from_secs(10)).await;
    let (idle, anonymous) = resident(&program);
    println!("idle: {idle:.1} MB resident, {anonymous:.1} MB anonymous");
    assert!(idle <= 8.0, "{idle}");
    drop(program);

    for index in 0..50_000_u32 {
        let uuid = format!("{index:08x}-7f0c-4d53-8f4e-0f5f4f7d9a11");
        let (key, pv) = (
            format!("team-{}/data-postgres-{index}", index % 500),
            format!("pvc-{uuid}"),
        );
        let bound = volume(&pv, &format!("vol-{uuid}"), &key)
            .with("/spec/claimRef/uid", uuid.as_str())
            .fs_type("ext4")
            .attribute(
                "storage.kubernetes.io/csiProvisionerIdentity",
                "1700000000000-1234-test.csi.driver",
            )
            .annotation("pv.kubernetes.io/provisioned-by", "test.csi.driver");
        stage.api.insert(bound);
        stage.api.insert(claim(&key, &pv).uid(&uuid));
    }
    let program = stage
        .started(&["--leader-election", "--leader-election-namespace=ns2"])
        .await;
    // By then the process has given back the memory of its start.
    sleep(Duration::from_secs(10)).await;
    let (full, anonymous) = resident(&program);
    println!("50,000 volumes and claims: {full:.1} MB resident, {anonymous:.1} MB anonymous");
    assert!(full <= 40.0, "{full}");
}
