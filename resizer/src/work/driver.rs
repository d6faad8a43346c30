//! The driver behind its socket, as the resizer's decisions see it.

use csi_proto::csi::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::csi::plugin_capability::service::Type as PluginCapability;
use migration::TRANSLATOR;
use sidecar::controller::{self, Capabilities, IncompatibleDriver};
use sidecar::flags::Exit;

use crate::plan::Driver;
use crate::plan::driver::{Abilities, Unsuitable, accept};

/// The resizer's driver.
pub type DriverView = controller::View<Driver>;

impl controller::Driver for Driver {
    type Settings = ();

    const CONTROLLER: &'static str = "resizer";
    const ASKS_ANY_CONTROLLER: bool = false;

    fn asks_node(known: &Capabilities) -> bool {
        known.plugin.has(PluginCapability::ControllerService)
            && !known.controller.has(ControllerCapability::ExpandVolume)
    }

    fn new(name: &str, capabilities: &Capabilities, _: &()) -> Result<Self, Exit> {
        let abilities = Abilities::new(
            |kind| capabilities.plugin.has(kind),
            |kind| capabilities.controller.has(kind),
            |kind| capabilities.node.has(kind),
        );
        Ok(Self {
            name: name.to_owned(),
            abilities: abilities.map_err(|unsuitable| ends(&unsuitable))?,
            migrated: TRANSLATOR.has_moved_to(name),
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn accept(&self, now: &Self) -> Result<(), IncompatibleDriver> {
        accept(self.abilities, now.abilities)
    }
}

/// The exit for an unsuitable driver, with upstream's exit codes; one of them is that of its fatal
/// log line.
fn ends(unsuitable: &Unsuitable) -> Exit {
    let code = match unsuitable {
        Unsuitable::NoControllerService => 1,
        Unsuitable::Neither => 255,
    };
    Exit::failure(code, unsuitable)
}
