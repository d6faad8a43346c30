//! One connection is kept, and yet every request gets the answer that a new one would get.

use std::time::Duration;

use sidecar_testkit::driver::Probe;
use sidecar_testkit::{CallFault, FakeDriver};

use crate::process::{self, Serving, is_foreign, until};

/// The call for the name has a connection of its own.
const AT_START: usize = 1;

#[tokio::test]
async fn requests_share_one_connection() {
    if is_foreign() {
        return;
    }
    let driver = process::driver();
    let serving = Serving::beside(&driver, &[]).await;
    assert_eq!(driver.connections(), AT_START);
    for answer in serving.crowd(40).await {
        Serving::must_be(&answer, 200, "ok");
    }
    for _ in 0..10 {
        serving.is_healthy().await;
    }
    assert_eq!(driver.connections(), AT_START + 1);
    driver.stop();
    serving
        .process
        .says("Lost the connection to the driver")
        .await;
    driver.start();
    for answer in serving.crowd(40).await {
        Serving::must_be(&answer, 200, "ok");
    }
    assert_eq!(driver.connections(), AT_START + 2);
}

#[tokio::test]
async fn a_connection_that_the_driver_ends_in_good_order_is_not_lost() {
    if is_foreign() {
        return;
    }
    let driver = process::driver();
    let serving = Serving::beside(&driver, &[]).await;
    for connections in 1..3 {
        serving.is_healthy().await;
        assert_eq!(driver.connections(), AT_START + connections);
        driver.end_connections();
        until("its end", async || driver.open_connections() == 0).await;
    }
    let log = serving.process.log();
    assert!(!log.contains("Lost the connection"), "{log}");
}

#[tokio::test]
async fn the_driver_is_replaced_while_its_predecessor_lives_on() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &[]).await;
    serving.is_healthy().await;
    let successor = FakeDriver::new("successor.example.com");
    successor.start();
    successor.configure(|model| model.probes.push_back(Probe::NotReady));
    std::fs::rename(successor.socket(), driver.socket()).unwrap();
    let answer = serving.health().await;
    Serving::must_be(&answer, 500, "driver responded but is not ready");
    serving.is_healthy().await;
    assert_eq!(driver.calls_to("Probe").len(), 1);
    assert_eq!(successor.calls_to("Probe").len(), 2);
    if !is_foreign() {
        assert_eq!(successor.connections(), 1);
        let log = serving.process.log();
        assert!(
            !log.contains("Lost the connection"),
            "given up, not lost: {log}"
        );
    }
}

/// Upstream answers with the failure of the first Probe.
#[tokio::test]
async fn a_driver_that_restarts_while_it_is_probed_is_probed_again() {
    if is_foreign() {
        return;
    }
    let driver = process::driver();
    let serving = Serving::beside(&driver, &[]).await;
    serving.is_healthy().await;
    driver.fault(CallFault::on("Probe").times(1).hang());
    let restarting = async {
        until("the Probe", async || driver.calls_to("Probe").len() == 2).await;
        // Listens on a new socket before the connections of the old one end.
        driver.start();
    };
    tokio::join!(serving.is_healthy(), restarting);
    assert_eq!(driver.calls_to("Probe").len(), 3);
}

#[tokio::test]
async fn l_27_nothing_grows_with_requests() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &[]).await;
    let count = |what: &str| {
        let path = format!("/proc/{}/{what}", serving.process.id());
        std::fs::read_dir(path).unwrap().count()
    };
    for answer in serving.crowd(20).await {
        Serving::must_be(&answer, 200, "ok");
    }
    // Connections of clients that have gone are closed a moment later.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = (count("fd"), count("task"));
    for _ in 0..50 {
        for answer in serving.crowd(20).await {
            Serving::must_be(&answer, 200, "ok");
        }
    }
    // Go starts a thread now and then.
    let slack = if is_foreign() { 4 } else { 0 };
    until("as few descriptors and threads as before", async || {
        count("fd") <= before.0 + slack && count("task") <= before.1 + slack
    })
    .await;
    assert_eq!(driver.calls_to("Probe").len(), 1020);
}
