//! What happens around a running registrar, and how things come right again.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::process::Signal;

use crate::driver::{Driver, NAME};
use crate::process::{Seat, until};
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

/// R-39 has upstream's "not re-created", which is deliberately not ours.
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

/// Upstream's first instance removes the file of the second.
#[tokio::test]
async fn r_50_two_instances() {
    let seat = Seat::new();
    let (_driver, mut first) = seat.running(&[]).await;
    let inode = || {
        std::fs::metadata(seat.socket())
            .map(|metadata| metadata.ino())
            .ok()
    };
    let before = inode();
    let mut second = seat.start(&[]);
    until("the second one's socket", async || {
        inode().is_some() && inode() != before
    })
    .await;
    let socket = inode();
    first.says("not the socket of this process any more").await;
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
    assert_eq!(kubelet::ask(&seat.socket()).await.name, NAME);
    first.must_run();
}
