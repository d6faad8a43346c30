//! Disturbances of a running registrar, and its recovery.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sidecar_testkit::FakeDriver;

use crate::driver::{Driver, NAME};
use crate::process::{PROGRAM, Process, Seat, must_not_skip, until};
use crate::{http, kubelet};

#[tokio::test]
async fn r_47_the_driver_restarts() {
    let seat = Seat::new();
    let (driver, mut process, address) = http::running(&seat, &[]).await;
    let inode = std::fs::metadata(seat.socket()).unwrap().ino();
    driver.kill().await;
    process.says("Lost the connection to the driver").await;
    assert_eq!(
        http::get(&address, "/healthz").await.head_and_body(),
        (200, "ok")
    );
    let driver = Driver::start(&seat.csi());
    process.says("The driver is back").await;
    driver.kill().await;
    until("the second loss", async || {
        process.log().matches("Lost the connection").count() == 2
    })
    .await;
    let _driver = Driver::start(&seat.csi());
    until("the second return", async || {
        process.log().matches("is back").count() == 2
    })
    .await;
    process.must_run();
    assert_eq!(std::fs::metadata(seat.socket()).unwrap().ino(), inode);
    assert_eq!(
        http::get(&address, "/healthz").await.head_and_body(),
        (200, "ok")
    );
}

#[tokio::test]
async fn a_driver_that_ends_idle_connections_in_good_order_is_no_error() {
    let seat = Seat::new();
    let driver = FakeDriver::new(NAME);
    driver.start();
    std::os::unix::fs::symlink(driver.socket(), seat.csi()).unwrap();
    let mut process = seat.start(&[]);
    process.listening(&seat.socket()).await;
    for asked in 2..4 {
        driver.end_connections();
        until("the next connection", async || {
            driver.calls_to("GetPluginInfo").len() >= asked
        })
        .await;
    }
    process.must_run();
    let log = process.log();
    assert!(!log.contains("Lost") && !log.contains("is back"), "{log}");
    driver.stop();
    process.says("Lost the connection to the driver").await;
}

/// An answer follows each of its losses, so that only a pause keeps the calls apart.
#[tokio::test]
async fn fr_12_a_driver_that_drops_every_connection_is_asked_once_a_second() {
    let seat = Seat::new();
    let driver = Driver::dropping(&seat.csi());
    let mut process = seat.start(&[]);
    process.listening(&seat.socket()).await;
    until("the second return", async || {
        process.log().matches("is back").count() == 2
    })
    .await;
    let (before, begun) = (driver.calls(), Instant::now());
    // Calls are counted over this time.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let calls = driver.calls() - before;
    let most = begun.elapsed().as_secs() + 2;
    assert!(u64::from(calls) <= most, "{calls} calls, not {most}");
    process.must_run();
}

#[tokio::test]
async fn another_driver_in_the_place_of_the_first_ends_the_process() {
    let seat = Seat::new();
    let (driver, mut process) = seat.running(&[]).await;
    driver.kill().await;
    let _other = Driver::named(&seat.csi(), "other.example.com");
    let end = process.ended().await;
    end.failed_naming(&["--csi-address=", NAME, "other.example.com"]);
    assert!(seat.socket().exists());
}

#[tokio::test]
async fn a_driver_that_comes_back_without_a_name_is_waited_for() {
    let seat = Seat::new();
    let (driver, mut process) = seat.running(&[]).await;
    driver.kill().await;
    let nameless = Driver::named(&seat.csi(), "");
    process.says("driver name is empty").await;
    nameless.kill().await;
    let _driver = Driver::start(&seat.csi());
    process.says("The driver is back").await;
    process.must_run();
}

/// R-39 has upstream's "not re-created", from which ours differs deliberately.
#[tokio::test]
async fn r_39_a_removed_socket_is_created_again() {
    let seat = Seat::new();
    let (_driver, mut process, address) = http::running(&seat, &[]).await;
    kubelet::notify(&seat.socket(), true, "").await.unwrap();
    assert_eq!(http::get(&address, "/registration").await.status, 200);
    for round in 1..=2 {
        std::fs::remove_file(seat.socket()).unwrap();
        process.listening(&seat.socket()).await;
        assert_eq!(kubelet::ask(&seat.socket()).await.name, NAME);
        assert_eq!(
            http::get(&address, "/healthz").await.head_and_body(),
            (200, "ok")
        );
        assert_eq!(
            http::get(&address, "/registration").await.status,
            503,
            "kubelet starts over"
        );
        until("the log", async || {
            process.log().matches("is created again").count() == round
        })
        .await;
    }
    process.signal(Signal::TERM);
    process.ended().await.with_code(0);
    assert!(seat.is_clean());
}

#[tokio::test]
async fn r_39_while_it_is_away_health_says_so() {
    let seat = Seat::new();
    let (_driver, mut process, address) = http::running(&seat, &[]).await;
    std::fs::rename(seat.directory(), seat.path("away")).unwrap();
    for _ in 0..3 {
        let gone = (404, "registration socket does not exist");
        assert_eq!(http::get(&address, "/healthz").await.head_and_body(), gone);
        // Longer than one round of its own checks.
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    process.says("cannot be created again").await;
    assert_eq!(
        process.log().matches("cannot be created again").count(),
        1,
        "said once"
    );
    std::fs::create_dir(seat.directory()).unwrap();
    process.listening(&seat.socket()).await;
    assert_eq!(
        http::get(&address, "/healthz").await.head_and_body(),
        (200, "ok")
    );
}

/// Upstream's first instance removes the second one's file.
#[tokio::test]
async fn r_50_two_instances() {
    let seat = Seat::new();
    let (_driver, mut first) = seat.running(&[]).await;
    let inode = || {
        std::fs::metadata(seat.socket())
            .map(|metadata| metadata.ino())
            .ok()
    };
    let mut second = seat.start(&[]);
    first.says("not the socket of this process any more").await;
    let socket = inode();
    first.signal(Signal::TERM);
    first.ended().await.with_code(0);
    second.must_run();
    assert_eq!(
        inode(),
        socket,
        "the file of the second instance is its own"
    );
    assert_eq!(kubelet::ask(&seat.socket()).await.name, NAME);
    second.signal(Signal::TERM);
    second.ended().await.with_code(0);
    assert!(seat.is_clean());
}

#[tokio::test]
async fn the_first_of_two_instances_takes_over_when_the_second_ends() {
    let seat = Seat::new();
    let (_driver, mut first) = seat.running(&[]).await;
    let mut second = seat.start(&[]);
    first.says("not the socket of this process any more").await;
    second.signal(Signal::TERM);
    second.ended().await.with_code(0);
    first.says("is created again").await;
    // It may have said so when the second one was about to bind.
    first.listening(&seat.socket()).await;
    assert_eq!(kubelet::ask(&seat.socket()).await.name, NAME);
    first.must_run();
}

/// A killed instance leaves its file, which its successor on that path must not take for that of a live one.
#[tokio::test]
async fn fr_12_the_first_of_two_instances_takes_over_when_the_second_is_killed() {
    let seat = Seat::new();
    let (_driver, mut first) = seat.running(&[]).await;
    let second = seat.start(&[]);
    first.says("not the socket of this process any more").await;
    second.signal(Signal::KILL);
    drop(second);
    first.says("is created again").await;
    first.listening(&seat.socket()).await;
    assert_eq!(kubelet::ask(&seat.socket()).await.name, NAME);
    first.must_run();
}

/// Before the next look, which would come within a minute.
#[tokio::test]
async fn fr_13_the_watch_follows_the_directory() {
    let seat = Seat::new();
    let (_driver, mut process) = seat.running(&[]).await;
    for _ in 0..2 {
        std::fs::rename(seat.directory(), seat.path("away")).unwrap();
        std::fs::create_dir(seat.directory()).unwrap();
        process.listening(&seat.socket()).await;
        std::fs::remove_file(seat.socket()).unwrap();
        process.listening(&seat.socket()).await;
        std::fs::remove_dir_all(seat.path("away")).unwrap();
    }
}

/// The host replaces `plugins_registry`: in a container the bind mount stays on the deleted directory, where nothing
/// can be created any more.
#[tokio::test]
async fn fr_6_a_directory_that_was_replaced_below_a_bind_mount_ends_the_process() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let (host, mounted) = (seat.path("host"), seat.directory());
    std::fs::create_dir(&host).unwrap();
    let mut command = Command::new("unshare");
    let script = format!(
        "mount --bind {} {} && exec \"$0\" \"$@\"",
        host.display(),
        mounted.display()
    );
    command.args(["--mount", "--propagation=private", "sh", "-c", &script]);
    command.arg(PROGRAM).args(seat.flags());
    let mut process = Process::start(command);
    let socket = host.join(format!("{NAME}-reg.sock"));
    let refused = async || !process.is_running() && !process.log().contains("Starting");
    if may_be_skipped(refused, &socket).await {
        return;
    }
    let gone = process.elapsed();
    std::fs::remove_dir_all(&host).unwrap();
    std::fs::create_dir(&host).unwrap();
    process.says("cannot be created again").await;
    let end = process.ended_within(Duration::from_secs(60)).await;
    end.failed_naming(&["--plugin-registration-path", "cannot listen"]);
    let took = (end.took - gone).as_secs_f32();
    assert!((29.0..45.0).contains(&took), "ended after {took} s");
}

/// Whether a mount namespace was denied; never in continuous integration, where root can create one.
async fn may_be_skipped(mut refused: impl AsyncFnMut() -> bool, socket: &Path) -> bool {
    let mut skip = false;
    until("the socket below the bind mount", async || {
        skip = refused().await;
        skip || socket.exists()
    })
    .await;
    if skip {
        must_not_skip("a mount namespace");
    }
    skip
}
