//! Rows about the answers to health requests.

use std::time::{Duration, Instant};

use sidecar_testkit::CallFault;
use sidecar_testkit::driver::{Memory, Probe};
use tokio::io::AsyncWriteExt;
use tonic::Code;

use crate::process::{self, PATIENCE, Serving, request, until};

#[tokio::test]
async fn what_the_driver_says_is_what_kubelet_gets() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &[]).await;
    let internal = "rpc error: code = Internal desc = x";
    let unavailable = "rpc error: code = Unavailable desc = later";
    let unimplemented = "rpc error: code = Unimplemented desc = no";
    for (row, probe, status, body) in [
        (
            "L-13",
            Probe::NotReady,
            500,
            "driver responded but is not ready",
        ),
        ("L-14", Probe::Unset, 200, "ok"),
        ("L-14", Probe::Ready, 200, "ok"),
        (
            "L-15",
            Probe::Fail(Code::Internal, "x".to_owned()),
            500,
            internal,
        ),
        (
            "L-23",
            Probe::Fail(Code::Unavailable, "later".to_owned()),
            500,
            unavailable,
        ),
        (
            "",
            Probe::Fail(Code::Unimplemented, "no".to_owned()),
            500,
            unimplemented,
        ),
    ] {
        for (method, body) in [("GET", body), ("HEAD", ""), ("POST", body)] {
            driver.configure(|model| model.probes.push_back(probe.clone()));
            let answer = request(&serving.address, method, "/healthz").await;
            let row = if method == "HEAD" { "L-28" } else { row };
            assert_eq!(answer.head_and_body(), (status, body), "{row} {method}");
            let content_type = "content-type: text/plain; charset=utf-8";
            assert!(answer.head.contains(content_type), "{row}: {}", answer.head);
        }
    }
    assert_eq!(driver.calls_to("Probe").len(), 18, "one for each request");
}

/// A health request, with its duration.
async fn timed(serving: &Serving) -> (process::Answer, Duration) {
    let start = Instant::now();
    let answer = serving.health().await;
    (answer, start.elapsed())
}

#[tokio::test]
async fn l_16_the_socket_is_removed() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &["--probe-timeout=3s"]).await;
    serving.becomes_healthy().await;
    // The driver itself lives on, and so do its connections.
    let away = driver.directory().join("away");
    std::fs::rename(driver.socket(), &away).unwrap();
    let (answer, took) = timed(&serving).await;
    Serving::must_be(&answer, 500, "context deadline exceeded");
    assert!(took > Duration::from_millis(2900), "{took:?}");
    std::fs::rename(&away, driver.socket()).unwrap();
    serving.becomes_healthy().await;
}

#[tokio::test]
async fn l_17_the_driver_restarts() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &["--probe-timeout=1s"]).await;
    for _ in 0..3 {
        serving.becomes_healthy().await;
        driver.stop();
        let answer = serving.health().await;
        assert_eq!(answer.status, 500, "{}", answer.body);
        driver.start();
        serving.becomes_healthy().await;
        driver.restart(Memory::Kept);
    }
}

#[tokio::test]
async fn a_driver_that_comes_back_in_time_is_waited_for() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &[]).await;
    driver.stop();
    let back = async {
        // Within the probe's minute.
        tokio::time::sleep(Duration::from_secs(1)).await;
        driver.start();
    };
    tokio::join!(serving.is_healthy(), back);
}

#[tokio::test]
async fn l_18_the_probe_hangs() {
    let driver = process::driver();
    // Long enough for a connection, without which the answer is another.
    let serving = Serving::beside(&driver, &["--probe-timeout=5s"]).await;
    driver.fault(CallFault::on("Probe").hang());
    let (answer, took) = timed(&serving).await;
    let text = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    Serving::must_be(&answer, 500, text);
    assert!(took > Duration::from_millis(4900), "{took:?}");
    let probe = &driver.calls_to("Probe")[0];
    assert!(probe.deadline.unwrap() <= Duration::from_secs(5));
    assert_eq!(probe.authority, "localhost");
}

#[tokio::test]
async fn l_19_no_time_at_all() {
    for timeout in ["0s", "-1s", "0"] {
        let driver = process::driver();
        let flag = format!("--probe-timeout={timeout}");
        let serving = Serving::beside(&driver, &[&flag]).await;
        for _ in 0..3 {
            let answer = serving.health().await;
            Serving::must_be(&answer, 500, "context deadline exceeded");
        }
        assert!(driver.calls_to("Probe").is_empty());
    }
}

#[tokio::test]
async fn l_20_a_stuck_request_holds_up_nobody() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &["--probe-timeout=1h"]).await;
    driver.fault(CallFault::on("Probe").times(1).hang());
    let stuck = serving.health();
    let others = async {
        until("the stuck Probe", async || {
            driver.calls_to("Probe").len() == 1
        })
        .await;
        for _ in 0..3 {
            serving.is_healthy().await;
        }
        assert!(driver.calls_to("Probe")[0].is_running());
    };
    tokio::select! {
        answer = stuck => panic!("it has ended: {answer:?}"),
        () = others => {}
    }
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_probe_along() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &["--probe-timeout=1h"]).await;
    driver.fault(CallFault::on("Probe").hang());
    let mut client = tokio::net::TcpStream::connect(&serving.address)
        .await
        .unwrap();
    client
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    until("the Probe", async || driver.calls_to("Probe").len() == 1).await;
    drop(client);
    until("the end of the Probe", async || {
        driver.calls_to("Probe")[0].is_cancelled()
    })
    .await;
}

#[tokio::test]
async fn many_requests_at_once_are_as_many_probes() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &["--probe-timeout=8s"]).await;
    let hang = driver.fault(CallFault::on("Probe").hang());
    for answer in serving.crowd(60).await {
        assert!(answer.body.contains("DeadlineExceeded"), "{}", answer.body);
    }
    assert_eq!(driver.calls_to("Probe").len(), 60);
    until("the end of all", async || {
        driver.calls().iter().all(|call| !call.is_running())
    })
    .await;
    hang.remove();
    for answer in serving.crowd(60).await {
        Serving::must_be(&answer, 200, "ok");
    }
    assert_eq!(driver.calls_to("Probe").len(), 120);
}

/// The driver dies during a Probe.
#[tokio::test]
async fn a_driver_that_dies_while_it_is_probed_is_noticed_at_once() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &["--probe-timeout=1h"]).await;
    serving.is_healthy().await;
    driver.fault(CallFault::on("Probe").hang());
    let dying = async {
        until("the Probe", async || driver.calls_to("Probe").len() == 2).await;
        driver.stop();
    };
    let health = tokio::time::timeout(PATIENCE, serving.health());
    let (answer, ()) = tokio::join!(health, dying);
    let answer = answer.unwrap();
    assert_eq!(answer.status, 500);
    assert!(
        answer.body.contains("code = Unavailable"),
        "{}",
        answer.body
    );
}
