//! The metrics of a process's controllers.

use prometheus::{IntGaugeVec, Opts};

use super::{RegisterError, Registry};

/// `csi_sidecar_controller_up`: 1 while the controller of that name runs, whether it works or waits for
/// its lease, and 0 while it waits for a restart or stays off.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    up: IntGaugeVec,
}

impl ControllerMetrics {
    /// Adds the family to `registry`; a series appears with its first value.
    ///
    /// # Errors
    /// The registry has it already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let up = IntGaugeVec::new(
            Opts::new(
                "csi_sidecar_controller_up",
                "Whether a controller of this process is there, at work or waiting for its lease (1), or has \
                 failed or is switched off (0).",
            ),
            &["controller"],
        )?;
        registry.register(Box::new(up.clone()))?;
        Ok(Self { up })
    }

    /// Records whether the controller of this name runs.
    pub fn set_up(&self, controller: &str, up: bool) {
        self.up.with_label_values(&[controller]).set(i64::from(up));
    }
}
