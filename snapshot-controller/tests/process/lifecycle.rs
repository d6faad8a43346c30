//! How long users wait, for service levels: rows of `docs/spec/observability.md`.

use super::stage::{Stage, free_address, until_metrics};

#[tokio::test]
async fn o_90_a_snapshot_that_gets_ready_after_a_restart_is_one_sample() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let first = stage.working(&[&endpoint]).await;
    let content = format!("snapcontent-{}", stage.snapshot("s1"));
    let open = "csi_sidecar_lifecycle_unfinished{stage=\"snapshot_ready\"} 1\n";
    until_metrics(&address, open).await;
    stage
        .until("the content", |api| {
            api.object("volumesnapshotcontents", &content).is_some()
        })
        .await;
    drop(first);

    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _second = stage.working(&[&endpoint]).await;
    stage.take_when_there(&content).await;
    let count = |name: &str| {
        format!(
            "csi_sidecar_lifecycle_seconds_count{{class=\"\",driver_name=\"test.csi.driver\",stage=\"{name}\"}} 1\n"
        )
    };
    until_metrics(&address, &count("snapshot_cut")).await;
    until_metrics(&address, &count("snapshot_ready")).await;
    stage.api.delete("volumesnapshots", "ns/s1");
    stage.lets_go(&content).await;
    // By then no object is left that knows the driver.
    until_metrics(&address, &count("snapshot_deleted")).await;
}
