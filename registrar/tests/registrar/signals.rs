//! Rows about the end of the process.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::driver::Driver;
use crate::kubelet;
use crate::process::{PROGRAM, Process, Seat, as_init, signal_to, within_a_second};

#[tokio::test]
async fn r_33_sigterm_removes_the_socket() {
    within_a_second(terminated).await;
}

/// Returns the time until the process ended.
async fn terminated() -> Duration {
    let seat = Seat::new();
    let (_driver, mut process) = seat.running(&[]).await;
    let open = kubelet::connect(&seat.socket()).await;
    let start = Instant::now();
    process.signal(Signal::TERM);
    process.ended().await.with_code(0);
    let took = start.elapsed();
    assert!(seat.is_clean());
    drop(open);
    took
}

#[tokio::test]
async fn r_34_sigterm_with_the_socket_gone() {
    let seat = Seat::new();
    let (_driver, mut process) = seat.running(&[]).await;
    std::fs::remove_file(seat.socket()).unwrap();
    process.signal(Signal::TERM);
    process.ended().await.with_code(0);
    assert!(seat.is_clean());
}

#[tokio::test]
async fn r_35_other_signals_leave_the_socket() {
    for signal in [Signal::INT, Signal::HUP, Signal::KILL] {
        let seat = Seat::new();
        let (_driver, mut process) = seat.running(&[]).await;
        process.signal(signal);
        assert_eq!(process.ended().await.status.signal(), Some(signal.as_raw()));
        assert!(seat.socket().exists());
    }
}

#[tokio::test]
async fn r_36_sigterm_while_connecting() {
    let seat = Seat::new();
    let mut process = seat.start(&[]);
    process.says("Connection attempt failed").await;
    process.signal(Signal::TERM);
    assert!(!process.ended().await.status.success());
    assert!(seat.is_clean());
}

/// The registrar as process 1 of a new pid namespace, and its id outside.
async fn registrar_as_init(seat: &Seat) -> Option<(Process, u32)> {
    as_init(PROGRAM, &seat.flags()).await
}

#[tokio::test]
async fn r_37_as_process_1() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let Some((mut process, id)) = registrar_as_init(&seat).await else {
        return;
    };
    process.listening(&seat.socket()).await;
    signal_to(id, Signal::TERM);
    process.ended().await.with_code(0);
    assert!(seat.is_clean());
}

#[tokio::test]
async fn as_process_1_signals_without_handling_end_it_with_code_2() {
    for (signal, connected) in [
        (Signal::TERM, false),
        (Signal::INT, false),
        (Signal::INT, true),
    ] {
        let seat = Seat::new();
        let _driver = connected.then(|| Driver::start(&seat.csi()));
        let Some((mut process, id)) = registrar_as_init(&seat).await else {
            return;
        };
        if connected {
            process.listening(&seat.socket()).await
        } else {
            process.says("Connection attempt failed").await
        }
        signal_to(id, signal);
        process.ended().await.with_code(2);
        assert_eq!(seat.is_clean(), !connected);
    }
}

#[tokio::test]
async fn r_48_stays_up() {
    let seat = Seat::new();
    let (_driver, mut process) = seat.running(&[]).await;
    kubelet::notify(&seat.socket(), true, "").await.unwrap();
    // The process must not end meanwhile.
    tokio::time::sleep(Duration::from_secs(5)).await;
    process.must_run();
}
