//! Rows about the time before the driver has answered.

use std::time::Duration;

use csi_proto::csi::GetPluginInfoResponse;
use sidecar_testkit::{CallFault, FakeDriver};
use tonic::Code;

use crate::process::{self, NAME, Serving, free_address, listening, start, until};

#[tokio::test]
async fn l_10_a_driver_that_comes_late() {
    let driver = FakeDriver::new(NAME);
    let address = free_address();
    let mut process = start(&driver, &[&format!("--http-endpoint={address}")]);
    while process.elapsed() < Duration::from_secs(15) {
        process.must_run();
        let refused = std::net::TcpStream::connect(&address).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        // Nothing may be served meanwhile.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    process.says("Still connecting").await;
    driver.start();
    listening(&mut process, &address).await;
    let serving = Serving { process, address };
    serving.is_healthy().await;
}

#[tokio::test]
async fn l_11_a_driver_without_a_name() {
    let nameless = GetPluginInfoResponse::default();
    let fault = || CallFault::on("GetPluginInfo");
    for (what, fault) in [
        ("Unimplemented", fault().fail(Code::Unimplemented, "no")),
        ("Unavailable", fault().fail(Code::Unavailable, "no")),
        ("empty", fault().answer(nameless)),
    ] {
        let driver = process::driver();
        driver.fault(fault);
        let end = start(&driver, &["--http-endpoint=127.0.0.1:0"])
            .ended()
            .await;
        assert_eq!(end.status.code(), Some(1), "{what}: {}", end.stderr);
        assert!(end.stderr.contains(what), "{what}: {}", end.stderr);
        if !process::is_foreign() {
            end.failed_naming(&["--csi-address=", what]);
        }
    }
}

#[tokio::test]
async fn l_12_a_driver_that_never_tells_its_name() {
    let driver = process::driver();
    driver.fault(CallFault::on("GetPluginInfo").hang());
    let address = free_address();
    let mut process = start(&driver, &[&format!("--http-endpoint={address}")]);
    until("the question", async || !driver.calls().is_empty()).await;
    while process.elapsed() < Duration::from_secs(12) {
        process.must_run();
        assert!(std::net::TcpStream::connect(&address).is_err());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    if !process::is_foreign() {
        process.says("Still waiting for the driver's name").await;
    }
    assert!(driver.calls()[0].is_running());
}

#[tokio::test]
async fn fa_6_no_core_file() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &[]).await;
    if !process::is_foreign() {
        sidecar_testkit::process::keeps_no_core(serving.process.id());
    }
}
