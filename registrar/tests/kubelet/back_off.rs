//! The operation map: K-22 to K-24 as a table over a manual clock.

use std::path::Path;
use std::time::{Duration, Instant};

use registrar::kubelet::plan::operation::{FORGET_AFTER, Operations, Refused};

const SOCKET: &str = "/registry/d-reg.sock";

/// Waits until an operation may start; returns the time in steps of a millisecond.
fn start(operations: &mut Operations, now: &mut Instant) -> Duration {
    let begin = *now;
    loop {
        match operations.start(Path::new(SOCKET), *now) {
            Ok(()) => return *now - begin,
            Err(Refused::BackOff) => *now += Duration::from_millis(1),
            Err(Refused::AlreadyRunning) => panic!("nothing runs"),
        }
    }
}

fn fail(operations: &mut Operations, now: Instant) -> Duration {
    operations.finish(Path::new(SOCKET), false, now).unwrap()
}

#[test]
fn k_22_pauses_double_up_to_two_minutes_and_two_seconds() {
    let expected = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0];
    let mut now = Instant::now();
    let mut operations = Operations::default();
    assert_eq!(start(&mut operations, &mut now), Duration::ZERO);
    for seconds in expected {
        let pause = Duration::from_secs_f64(seconds);
        assert_eq!(fail(&mut operations, now), pause);
        // Exactly at the end of the pause it is still refused.
        assert_eq!(
            start(&mut operations, &mut now),
            pause + Duration::from_millis(1)
        );
    }
}

#[test]
fn k_23_success_forgets_failures() {
    let mut now = Instant::now();
    let mut operations = Operations::default();
    for _ in 0..2 {
        start(&mut operations, &mut now);
        fail(&mut operations, now);
    }
    start(&mut operations, &mut now);
    assert_eq!(operations.finish(Path::new(SOCKET), true, now), None);
    assert!(operations.is_empty());
    assert_eq!(start(&mut operations, &mut now), Duration::ZERO);
    assert_eq!(fail(&mut operations, now), Duration::from_millis(500));
}

#[test]
fn one_operation_per_socket_and_no_limit_across_sockets() {
    let now = Instant::now();
    let mut operations = Operations::default();
    assert_eq!(operations.start(Path::new("/a"), now), Ok(()));
    assert_eq!(
        operations.start(Path::new("/a"), now),
        Err(Refused::AlreadyRunning)
    );
    assert_eq!(operations.start(Path::new("/b"), now), Ok(()));
}

#[test]
fn failures_of_vanished_sockets_are_forgotten_long_after() {
    let mut now = Instant::now();
    let mut operations = Operations::default();
    start(&mut operations, &mut now);
    fail(&mut operations, now);
    now += FORGET_AFTER - Duration::from_secs(1);
    operations.forget(now, |_| false);
    assert_eq!(operations.len(), 1, "not yet");
    now += Duration::from_secs(1);
    operations.forget(now, |_| true);
    assert_eq!(operations.len(), 1, "the socket exists");
    operations.forget(now, |_| false);
    assert!(operations.is_empty());
}
