//! The retry tables.

use std::time::Duration;

use registrar::kubelet::plan::schedule::{Attempts, INITIALIZE_ATTEMPTS, WRITE_ATTEMPTS};

fn pauses(attempts: Attempts, jitter: f64) -> Vec<Duration> {
    (1..)
        .map_while(|done| attempts.pause(done, jitter))
        .collect()
}

fn millis(values: &[u64]) -> Vec<Duration> {
    values.iter().copied().map(Duration::from_millis).collect()
}

#[test]
fn pauses_between_writes_and_between_initializations() {
    assert_eq!(pauses(WRITE_ATTEMPTS, 0.0), millis(&[10, 50, 250]));
    assert_eq!(
        pauses(INITIALIZE_ATTEMPTS, 0.0),
        millis(&[30, 240, 1920, 15_360, 122_880])
    );
    assert_eq!(pauses(WRITE_ATTEMPTS, 1.0), millis(&[11, 55, 275]));
}

#[test]
fn strange_jitter_is_clamped() {
    assert_eq!(pauses(WRITE_ATTEMPTS, 9.0), pauses(WRITE_ATTEMPTS, 1.0));
    assert_eq!(pauses(WRITE_ATTEMPTS, -1.0), pauses(WRITE_ATTEMPTS, 0.0));
}
