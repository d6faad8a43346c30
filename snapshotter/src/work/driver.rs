//! The driver behind its socket, as the snapshotter's decisions see it.

use sidecar::controller::{self, Capabilities};
use sidecar::flags::Exit;

use crate::plan::Driver;
use crate::plan::driver::{Abilities, Renamed, accept};

/// The snapshotter's driver.
pub type DriverView = controller::View<Driver>;

impl controller::Driver for Driver {
    type Settings = ();
    type IncompatibleDriver = Renamed;

    // Upstream asks the controller without a look at the plugin's capabilities.
    const ASKS_ANY_CONTROLLER: bool = true;

    fn new(name: &str, capabilities: &Capabilities, _: &()) -> Result<Self, Exit> {
        let abilities = Abilities::new(name, |kind| capabilities.controller.has(kind));
        Ok(Self {
            name: name.to_owned(),
            abilities: abilities.map_err(|unsuitable| Exit::failure(1, unsuitable))?,
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn accept(&self, now: &Self) -> Result<(), Renamed> {
        accept(self, &now.name)
    }
}
