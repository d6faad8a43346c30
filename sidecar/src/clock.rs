//! Time that goes on while the machine is suspended.
//!
//! [`std::time::Instant`] stands still meanwhile (`CLOCK_MONOTONIC`), but a lease that others may
//! take goes on ageing. Code that asks how old a lease is uses this clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Differences below this are noise: the two clocks cannot be read at the same moment.
const NOISE: Duration = Duration::from_millis(10);

/// The current time, including the time that the machine was suspended since the first call.
/// Comparable only with other results of this function.
pub fn now() -> Instant {
    let awake = tokio::time::Instant::now().into_std();
    awake.checked_add(suspended()).unwrap_or(awake)
}

fn suspended() -> Duration {
    static BEFORE: OnceLock<Duration> = OnceLock::new();
    // A process that is stopped between the two readings counts its own pause as suspension. The
    // smallest of several readings is the true one, since callers only use what is added to it.
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

/// How long the machine was suspended since boot; too much if the process is stopped between the
/// two readings, never too little.
fn total() -> Duration {
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    let awake = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(awake)
}

#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::time::Duration;

    thread_local! {
        /// How long this thread believes the machine was suspended.
        pub(crate) static SUSPENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// Makes a paused clock advance in small steps, so that it does not race with sockets: data in the kernel does not
    /// keep it from advancing. To be run beside the test. Limits by such a clock hold on a machine that stalls.
    pub(crate) async fn in_small_steps() -> Infallible {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            // The kernel delivers meanwhile.
            std::thread::sleep(Duration::from_millis(1));
        }
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
