//! Scraped metrics.

use sidecar_testkit::{Fault, Gate};

use super::stage::{Stage, free_address, get, until_metrics};

#[tokio::test]
async fn c_87_c_88_c_89_what_is_measured() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let process = stage.working(&[&endpoint]).await;
    let uid = stage.snapshot("s1");
    let content = format!("snapcontent-{uid}");
    until_metrics(&address, "snapshot_controller_operations_in_flight 2\n").await;
    stage.take_when_there(&content).await;
    let series = |operation: &str, status: &str, count: usize| {
        format!(
            "snapshot_controller_operation_total_seconds_count{{driver_name=\"test.csi.driver\",\
             operation_name=\"{operation}\",operation_status=\"{status}\",\
             snapshot_type=\"dynamic\"}} {count}\n"
        )
    };
    until_metrics(&address, &series("CreateSnapshot", "success", 1)).await;
    until_metrics(&address, &series("CreateSnapshotAndReady", "success", 1)).await;
    until_metrics(&address, "snapshot_controller_operations_in_flight 0\n").await;
    stage
        .until_snapshot("s1", |snapshot| snapshot["status"]["readyToUse"] == true)
        .await;
    stage.api.delete("volumesnapshots", "ns/s1");
    stage.lets_go(&content).await;
    until_metrics(&address, &series("DeleteSnapshot", "success", 1)).await;
    // The VolumeSnapshot is deleted during an attempt, which goes on to handle the deletion.
    let gate = Gate::new();
    let path = "*/volumesnapshots/s2/status";
    stage.api.fault(Fault::on("PATCH", path).hold(&gate));
    let content = format!("snapcontent-{}", stage.snapshot("s2"));
    stage
        .until("the status on its way", |api| {
            !api.requests_to("PATCH", path).is_empty()
        })
        .await;
    stage.api.delete("volumesnapshots", "ns/s2");
    stage.api.clear_faults();
    gate.open();
    stage.lets_go(&content).await;
    until_metrics(&address, &series("DeleteSnapshot", "success", 2)).await;
    until_metrics(&address, &series("CreateSnapshot", "cancel", 1)).await;
    until_metrics(&address, &series("CreateSnapshotAndReady", "cancel", 1)).await;
    until_metrics(&address, "snapshot_controller_operations_in_flight 0\n").await;
    // Without leader election there is no health check for it.
    assert_eq!(get(&address, "/healthz/leader-election").await.0, 404);
    until_metrics(
        &address,
        "workqueue_adds_total{name=\"snapshot-controller-snapshot\"}",
    )
    .await;
    drop(process);
}
