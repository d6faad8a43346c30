//! What the command line says about decisions.

use std::time::Duration;

/// How often the driver is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--monitor-interval`: between the starts of two lists of volume health, and of two questions about a volume.
    pub interval: Duration,
    /// `--list-volumes-interval`: between the starts of two lists of volume conditions.
    pub list_interval: Duration,
    /// `--worker-threads`: calls about single volumes at the same time, and begun per second.
    pub workers: usize,
}
