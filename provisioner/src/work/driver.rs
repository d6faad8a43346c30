//! The driver behind its socket, as the provisioner's decisions see it.

use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::{NodeGetInfoRequest, Topology};
use sidecar::controller::{self, Capabilities, IncompatibleDriver};
use sidecar::csi::call;
use sidecar::flags::Exit;
use sidecar::rpc_code;

use crate::args::FATAL;
use crate::plan::Driver;
use crate::plan::driver::{Abilities, accept};

/// The provisioner's driver.
pub type DriverView = controller::View<Driver>;

impl controller::Driver for Driver {
    type Settings = ();

    const CONTROLLER: &'static str = "provisioner";

    // A driver without controller service usually ends the process here already, as upstream.
    const ASKS_ANY_CONTROLLER: bool = true;

    fn new(name: &str, capabilities: &Capabilities, _: &()) -> Result<Self, Exit> {
        Ok(Self {
            name: name.to_owned(),
            abilities: Abilities::new(
                |kind| capabilities.plugin.has(kind),
                |kind| capabilities.controller.has(kind),
            ),
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn accept(&self, now: &Self) -> Result<(), IncompatibleDriver> {
        accept(self.abilities, now.abilities)
    }
}

/// The driver's information about the node of this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnNode {
    /// `accessible_topology`; empty where the driver reports none.
    pub topology: Topology,
}

/// Calls NodeGetInfo, for node deployment.
///
/// # Errors
/// The exit of the process.
pub async fn node(driver: &DriverView) -> Result<OwnNode, Exit> {
    let channel = driver.channel().await.map_err(|error| {
        Exit::failure(
            FATAL,
            format_args!("--node-deployment: NodeGetInfo: {error}"),
        )
    })?;
    let mut client = NodeClient::new(channel);
    let answer = call(driver.timeout(), NodeGetInfoRequest {}, async |request| {
        client.node_get_info(request).await
    });
    let answer = answer.await.map_err(|status| {
        let text = rpc_code::text(&status);
        Exit::failure(
            FATAL,
            format_args!("--node-deployment: NodeGetInfo: {text}"),
        )
    })?;
    Ok(OwnNode {
        topology: answer.accessible_topology.unwrap_or_default(),
    })
}
