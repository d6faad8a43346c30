//! What is scraped.

use std::net::TcpListener;

use sidecar_testkit::process::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::stage::{PATIENCE, Stage};

/// An address to listen on.
pub(crate) fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

pub(crate) async fn get(address: &str, path: &str) -> (u16, String) {
    let mut connected = None;
    within(PATIENCE, "the listener", async || {
        connected = TcpStream::connect(address).await.ok();
        connected.is_some()
    })
    .await;
    let mut stream = connected.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (code, body)
}

async fn until_metrics(address: &str, line: &str) {
    within(PATIENCE, line, async || {
        get(address, "/metrics").await.1.contains(line)
    })
    .await;
}

#[tokio::test]
async fn c_87_c_88_c_89_what_is_measured() {
    let stage = Stage::new().await;
    let address = free_port();
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
    let content = format!("snapcontent-{}", stage.snapshot("s2"));
    stage
        .until("the content", |api| {
            api.object("volumesnapshotcontents", &content).is_some()
        })
        .await;
    stage
        .until_snapshot("s2", |snapshot| !snapshot["status"].is_null())
        .await;
    stage.api.delete("volumesnapshots", "ns/s2");
    stage.lets_go(&content).await;
    until_metrics(&address, &series("DeleteSnapshot", "success", 2)).await;
    until_metrics(&address, &series("CreateSnapshot", "cancel", 1)).await;
    until_metrics(&address, &series("CreateSnapshotAndReady", "cancel", 1)).await;
    until_metrics(&address, "snapshot_controller_operations_in_flight 0\n").await;
    // Without an election nobody asks for its health.
    assert_eq!(get(&address, "/healthz/leader-election").await.0, 404);
    until_metrics(
        &address,
        "workqueue_adds_total{name=\"snapshot-controller-snapshot\"}",
    )
    .await;
    drop(process);
}
