//! Settings from the command line that decisions depend on.

use std::time::Duration;

/// Settings that decisions depend on; constant while the process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--handle-volume-inuse-error`
    pub handle_in_use: bool,
    /// `--extra-modify-metadata`
    pub extra_modify_metadata: bool,
    /// `--retry-interval-max`: also the time before an expansion or modification that the driver
    /// called infeasible is repeated.
    pub infeasible_wait: Duration,
    /// Feature gates.
    pub gates: Gates,
}

impl Default for Settings {
    /// The flags' defaults.
    fn default() -> Self {
        Self {
            handle_in_use: true,
            extra_modify_metadata: false,
            infeasible_wait: Duration::from_secs(300),
            gates: Gates::default(),
        }
    }
}

/// Feature gates that decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `AnnotateFsResize`
    pub annotate: bool,
    /// `VolumeAttributesClass`, after discovery.
    pub attributes_class: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            annotate: true,
            attributes_class: true,
        }
    }
}
