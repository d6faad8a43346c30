//! The health monitor's view of the driver behind its socket.

use csi_proto::csi::plugin_capability::service::Type;
use sidecar::controller::{self, Capabilities};
use sidecar::flags::Exit;

use crate::plan::Driver;
use crate::plan::mode::Mode;

/// The health monitor's driver.
pub type DriverView = controller::View<Driver>;

impl controller::Driver for Driver {
    type Settings = ();

    const CONTROLLER: &'static str = "health monitor";
    const ASKS_ANY_CONTROLLER: bool = false;

    fn new(name: &str, capabilities: &Capabilities, (): &()) -> Result<Self, Exit> {
        if !capabilities.plugin.has(Type::ControllerService) {
            let line = format!(
                "driver {name} does not have the capability CONTROLLER_SERVICE: the health monitor asks \
                 controllers alone, remove it from the pods of nodes"
            );
            return Err(Exit::failure(1, line));
        }
        Ok(Self {
            name: name.to_owned(),
            mode: Mode::of(|number| capabilities.controller.has_number(number)),
        })
    }

    fn name(&self) -> &str {
        &self.name
    }
}
