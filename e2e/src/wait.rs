//! Waits for a condition; the error names the condition that did not become true.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::interrupt;

const PERIOD: Duration = Duration::from_millis(40);

/// Polls `probe` until it returns a value. An `Err` of the probe counts as "not yet"; the error
/// after the time limit includes it. A signal that the program listens to ends the waiting.
pub fn until<T>(
    limit: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        interrupt::check()?;
        let last = match probe() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if Instant::now() >= deadline {
            match last {
                Some(error) => bail!("{what}: not within {limit:?}: {error:#}"),
                None => bail!("{what}: not within {limit:?}"),
            }
        }
        sleep(PERIOD);
    }
}

/// Polls `probe` until it is true.
pub fn until_true(
    limit: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<bool>,
) -> Result<()> {
    until(limit, what, || Ok(probe()?.then_some(())))
}

/// Fails if `probe` turns false during `period`.
pub fn stays(period: Duration, what: &str, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + period;
    while Instant::now() < end {
        interrupt::check()?;
        if !probe()? {
            bail!("{what}: did not last {period:?}");
        }
        sleep(PERIOD);
    }
    Ok(())
}
