//! Time that goes on while the machine is suspended.
//!
//! [`std::time::Instant`] stands still meanwhile (`CLOCK_MONOTONIC`), and a lease that others may
//! take does not. What asks how old a lease is asks here.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Two clocks cannot be read at the same moment; what differs by less may be that.
const NOISE: Duration = Duration::from_millis(10);

/// Now, with the time that the machine was suspended since the first call of this. Comparable with
/// other answers of this alone.
pub fn now() -> Instant {
    let awake = tokio::time::Instant::now().into_std();
    awake.checked_add(suspended()).unwrap_or(awake)
}

fn suspended() -> Duration {
    static BEFORE: OnceLock<Duration> = OnceLock::new();
    // A process that is stopped between the two readings takes its own pause for the machine's: the
    // least of several is the true one, since what counts is how much is added to it.
    let before = BEFORE.get_or_init(|| {
        [total(), total(), total()]
            .into_iter()
            .min()
            .unwrap_or_default()
    });
    let since = total().saturating_sub(*before);
    #[cfg(test)]
    let since = since + testing::SUSPENDED.get();
    if since < NOISE { Duration::ZERO } else { since }
}

/// How long the machine was suspended since it was started; too much if the process is stopped
/// between the two readings, never too little.
fn total() -> Duration {
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    let awake = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(awake)
}

#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        /// For how long this thread takes the machine to have been suspended.
        pub(crate) static SUSPENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_the_machine_was_suspended_counts() {
        let before = now();
        testing::SUSPENDED.set(Duration::from_secs(3600));
        assert!(now() - before >= Duration::from_secs(3600));
    }

    #[tokio::test(start_paused = true)]
    async fn otherwise_it_is_the_runtimes_time() {
        let start = now();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(now() - start, Duration::from_secs(5));
    }
}
