//! Wall clock and fresh IDs, the two inputs that pure code must not fetch itself.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the epoch. Wall clock, because records of several processes and the API
/// server's audit log are compared.
pub fn now() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "this module owns the clock")]
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds since the epoch.
pub fn now_seconds() -> i64 {
    i64::try_from(now() / 1_000_000_000).unwrap_or(i64::MAX)
}

/// A random UUID from the kernel.
pub fn fresh_id() -> std::io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?
        .trim()
        .to_owned())
}
