//! The attacher's view of the driver behind its socket.

use std::time::Duration;

use sidecar::controller::{self, Capabilities, IncompatibleDriver};
use sidecar::flags::Exit;
use sidecar::names;

use crate::plan::Driver;
use crate::plan::driver::{Abilities, accept};

/// Deadline of `GetPluginInfo`, and of both capability calls together, independent of `--timeout`.
pub const IDENTITY_TIMEOUT: Duration = Duration::from_secs(1);

/// The attacher's driver.
pub type DriverView = controller::View<Driver>;

/// Settings that decisions read together with the driver.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--default-fstype`
    pub default_fs_type: String,
    /// Feature gate `MutableCSINodeAllocatableCount`
    pub error_codes: bool,
}

impl controller::Driver for Driver {
    type Settings = Settings;

    const CONTROLLER: &'static str = "attacher";
    const ASKS_ANY_CONTROLLER: bool = false;

    fn new(name: &str, capabilities: &Capabilities, settings: &Settings) -> Result<Self, Exit> {
        Ok(Self {
            finalizer: names::finalizer(name),
            name: name.to_owned(),
            abilities: Abilities::new(
                |kind| capabilities.plugin.has(kind),
                |kind| capabilities.controller.has(kind),
            ),
            default_fs_type: settings.default_fs_type.clone(),
            error_codes: settings.error_codes,
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn accept(&self, now: &Self) -> Result<(), IncompatibleDriver> {
        accept(self.abilities, now.abilities)
    }
}
