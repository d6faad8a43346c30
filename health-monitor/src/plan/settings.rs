//! The flags that decisions read.

use std::time::Duration;

/// Intervals and limits of calls to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--monitor-interval`: between the starts of two lists of volume health, and between two queries about one
    /// volume.
    pub interval: Duration,
    /// `--list-volumes-interval`: between the starts of two lists of volume conditions.
    pub list_interval: Duration,
    /// `--worker-threads`: limit of concurrent queries about single volumes, and of queries per second.
    pub workers: usize,
}
