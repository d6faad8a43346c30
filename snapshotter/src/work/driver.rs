//! The driver behind its socket, as the snapshotter's decisions see it.

use csi_proto::csi::group_controller_service_capability::rpc::Type;
use csi_proto::csi::plugin_capability::service::Type as Service;
use sidecar::controller::{self, Capabilities};
use sidecar::flags::Exit;

use crate::plan::Driver;
use crate::plan::driver::Abilities;

/// The snapshotter's driver.
pub type DriverView = controller::View<Driver>;

impl controller::Driver for Driver {
    /// Whether group snapshots are served from the start, so that the driver's group capabilities
    /// are read.
    type Settings = bool;

    const CONTROLLER: &'static str = "snapshotter";

    // Upstream queries the controller regardless of the plugin's capabilities.
    const ASKS_ANY_CONTROLLER: bool = true;

    fn asks_group(with: &bool) -> bool {
        *with
    }

    fn new(name: &str, capabilities: &Capabilities, asked: &bool) -> Result<Self, Exit> {
        // If group snapshots come later, the driver's responses to the calls show whether it
        // supports them.
        let group = !asked || { &capabilities.group }.has(Type::CreateDeleteGetVolumeGroupSnapshot);
        let topology = { &capabilities.plugin }.has(Service::SnapshotAccessibilityConstraints);
        let others = Abilities {
            group,
            topology,
            ..Abilities::default()
        };
        let has = |kind| capabilities.controller.has(kind);
        let abilities = Abilities::new(name, has, others);
        Ok(Self {
            name: name.to_owned(),
            abilities: abilities.map_err(|unsuitable| Exit::failure(1, unsuitable))?,
        })
    }

    fn name(&self) -> &str {
        &self.name
    }
}
