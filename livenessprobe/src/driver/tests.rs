//! Behaviour that only a movable clock can show.

use sidecar::metrics::{OperationsConfig, Registry};
use sidecar_testkit::FakeDriver;

use super::*;
use crate::connection::MAX_AGE;

const TIMEOUT: Duration = Duration::from_secs(10);

fn beside(driver: &FakeDriver) -> Driver {
    let operations = CsiOperations::new(&Registry::new(), OperationsConfig::default());
    Driver::new(Address::Unix(driver.socket()), operations.unwrap())
}

/// Probes on the paused clock. That runs to the next timer whenever everything waits, if only for the other end of a
/// socket; a timer that is always near keeps it from running past a deadline.
async fn probe(driver: &Driver, timeout: Duration) -> Health {
    async fn near() -> Infallible {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    tokio::select! {
        health = driver.probe(timeout) => health,
        never = near() => match never {},
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_used_for_a_minute() {
    let model = FakeDriver::new("d.example.com");
    model.start();
    let driver = beside(&model);
    for (after, connections) in [(0, 1), (30, 1), (29, 1), (2, 2), (59, 2), (600, 3)] {
        tokio::time::advance(Duration::from_secs(after)).await;
        let health = probe(&driver, TIMEOUT).await;
        assert!(matches!(health, Health::Ready), "{health:?}");
        assert_eq!(model.connections(), connections, "after {after} s more");
    }
}

/// For example a driver out of file descriptors. Upstream notices that with the next request.
#[tokio::test(start_paused = true)]
async fn a_driver_that_accepts_no_more_is_seen_within_a_minute() {
    let model = FakeDriver::new("d.example.com");
    model.start();
    let driver = beside(&model);
    assert!(matches!(probe(&driver, TIMEOUT).await, Health::Ready));
    model.stop_accepting();
    assert!(matches!(probe(&driver, TIMEOUT).await, Health::Ready));
    tokio::time::advance(MAX_AGE).await;
    let health = probe(&driver, Duration::from_millis(300)).await;
    assert!(matches!(health, Health::Unreachable(_)), "{health:?}");
}

#[tokio::test(start_paused = true)]
async fn the_reason_is_that_of_the_last_attempt() {
    let model = FakeDriver::new("d.example.com");
    let driver = beside(&model);
    let health = driver.probe(Duration::from_millis(50)).await;
    let Health::Unreachable(reason) = health else {
        panic!("{health:?}");
    };
    assert!(reason.contains("No such file"), "{reason}");
}
