//! The driver's configuration and state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use csi_proto::csi;
use tonic::{Code, Status};

pub use super::metadata::Part;

pub use csi::controller_service_capability::rpc::Type as ControllerRpc;
pub use csi::group_controller_service_capability::rpc::Type as GroupRpc;
pub use csi::node_service_capability::rpc::Type as NodeRpc;
pub use csi::plugin_capability::service::Type as PluginService;

/// The state behind all services.
#[derive(Clone)]
pub struct Model {
    /// `GetPluginInfo.name`.
    pub name: String,
    /// `GetPluginInfo.vendor_version`.
    pub vendor_version: String,
    /// Responses to the next probes; afterwards the driver is ready.
    pub probes: VecDeque<Probe>,
    /// Services that the driver announces.
    pub services: Vec<PluginService>,
    /// Capabilities of the controller service; other calls are `Unimplemented`.
    pub controller: Vec<ControllerRpc>,
    /// Capabilities of the group controller service; `None` if there is none.
    pub group: Option<Vec<GroupRpc>>,
    /// Capabilities of the node service.
    pub node: Vec<NodeRpc>,
    /// `NodeGetInfo.node_id`.
    pub node_id: String,
    /// `NodeGetInfo.max_volumes_per_node`; also the limit for publishing, when positive.
    pub max_volumes: i64,
    /// `NodeGetInfo.accessible_topology`.
    pub topology: Option<BTreeMap<String, String>>,
    /// The `GetCapacity` response, in bytes.
    pub capacity: i64,
    /// The publish context of `ControllerPublishVolume`.
    pub publish_context: BTreeMap<String, String>,
    /// Publishes unknown volumes as if they existed.
    pub any_volume: bool,
    /// The volumes by handle.
    pub volumes: BTreeMap<String, Volume>,
    /// The snapshots by id.
    pub snapshots: BTreeMap<String, csi::Snapshot>,
    pub(super) snapshot_names: BTreeMap<String, String>,
    /// The group snapshots by id.
    pub groups: BTreeMap<String, csi::VolumeGroupSnapshot>,
    pub(super) group_names: BTreeMap<String, String>,
    /// The parts of the streams that SnapshotMetadata calls return.
    pub metadata: Vec<Part>,
    /// Numbers of controller capabilities that CSI 1.13 does not define, which the controller announces as well.
    pub older: Vec<i32>,
    /// Health of the volumes that lists contain, by handle. An empty list is an entry without conditions.
    pub health: BTreeMap<String, Vec<csi::volume_health::VolumeHealthEntry>>,
    /// Maximum number of entries in a page of volume health; 0 means no limit.
    pub health_page: i32,
    /// The conditions that a driver for CSI 1.12 and older reports, by handle: abnormal or not, and a message. `None`
    /// for a newer driver.
    pub conditions: Option<BTreeMap<String, (bool, String)>>,
    pub(super) made: usize,
}

/// One response to `Probe`.
#[derive(Clone, Debug)]
pub enum Probe {
    /// `ready: true`.
    Ready,
    /// `ready: false`.
    NotReady,
    /// A response without the field, which means ready.
    Unset,
    /// An error.
    Fail(Code, String),
}

/// One volume.
#[derive(Clone, Debug, Default)]
pub struct Volume {
    /// The name in CreateVolume.
    pub name: String,
    /// Size in bytes.
    pub capacity: i64,
    /// `volume_context`.
    pub context: BTreeMap<String, String>,
    /// Its accessible topology.
    pub topology: Option<BTreeMap<String, String>>,
    /// Its content source.
    pub source: Option<csi::VolumeContentSource>,
    /// The nodes to which it is published, with the request of each.
    pub nodes: BTreeMap<String, csi::ControllerPublishVolumeRequest>,
    /// The staging paths in use.
    pub staged: BTreeSet<String>,
    /// The target paths in use.
    pub targets: BTreeSet<String>,
    /// The mutable parameters of the last ModifyVolume.
    pub modified: BTreeMap<String, String>,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("name", &self.name)
            .field("volumes", &self.volumes)
            .finish_non_exhaustive()
    }
}

impl Model {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            vendor_version: "1.0.0".to_owned(),
            probes: VecDeque::new(),
            services: vec![PluginService::ControllerService],
            controller: vec![ControllerRpc::PublishUnpublishVolume],
            group: None,
            node: Vec::new(),
            node_id: "NID1".to_owned(),
            max_volumes: 0,
            topology: None,
            capacity: 1 << 40,
            publish_context: BTreeMap::new(),
            any_volume: false,
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            snapshot_names: BTreeMap::new(),
            groups: BTreeMap::new(),
            group_names: BTreeMap::new(),
            metadata: Vec::new(),
            older: Vec::new(),
            health: BTreeMap::new(),
            health_page: 0,
            conditions: None,
            made: 0,
        }
    }

    /// Adds an empty volume.
    pub fn add(&mut self, handle: &str) {
        self.volumes.entry(handle.to_owned()).or_default();
    }

    /// Publishes a volume without a call.
    pub fn publish(&mut self, handle: &str, node: &str) {
        let volume = self.volumes.entry(handle.to_owned()).or_default();
        volume.nodes.insert(
            node.to_owned(),
            csi::ControllerPublishVolumeRequest::default(),
        );
    }

    /// Unpublishes a volume without a call.
    pub fn unpublish(&mut self, handle: &str, node: &str) {
        if let Some(volume) = self.volumes.get_mut(handle) {
            volume.nodes.remove(node);
        }
    }

    pub(super) fn published(&self) -> BTreeSet<(String, String)> {
        let pairs = self.volumes.iter().flat_map(|(handle, volume)| {
            volume
                .nodes
                .keys()
                .map(|node| (handle.clone(), node.clone()))
        });
        pairs.collect()
    }

    /// Clears everything but the configuration.
    pub(super) fn forget(&mut self) {
        self.volumes.clear();
        self.snapshots.clear();
        self.snapshot_names.clear();
        self.groups.clear();
        self.group_names.clear();
    }

    pub(super) fn needs(&self, rpc: ControllerRpc) -> Result<(), Status> {
        if self.controller.contains(&rpc) {
            return Ok(());
        }
        Err(Status::unimplemented(format!("no {}", rpc.as_str_name())))
    }

    pub(super) fn get_plugin_info(
        &mut self,
        _: &csi::GetPluginInfoRequest,
    ) -> Result<csi::GetPluginInfoResponse, Status> {
        Ok(csi::GetPluginInfoResponse {
            name: self.name.clone(),
            vendor_version: self.vendor_version.clone(),
            manifest: BTreeMap::new(),
        })
    }

    pub(super) fn get_plugin_capabilities(
        &mut self,
        _: &csi::GetPluginCapabilitiesRequest,
    ) -> Result<csi::GetPluginCapabilitiesResponse, Status> {
        use csi::plugin_capability::{Service, Type};
        let capability = |service: &PluginService| csi::PluginCapability {
            r#type: Some(Type::Service(Service {
                r#type: *service as i32,
            })),
        };
        Ok(csi::GetPluginCapabilitiesResponse {
            capabilities: self.services.iter().map(capability).collect(),
        })
    }

    pub(super) fn probe(&mut self, _: &csi::ProbeRequest) -> Result<csi::ProbeResponse, Status> {
        let ready = match self.probes.pop_front().unwrap_or(Probe::Ready) {
            Probe::Ready => Some(true),
            Probe::NotReady => Some(false),
            Probe::Unset => None,
            Probe::Fail(code, message) => return Err(Status::new(code, message)),
        };
        Ok(csi::ProbeResponse { ready })
    }

    pub(super) fn controller_get_capabilities(
        &mut self,
        _: &csi::ControllerGetCapabilitiesRequest,
    ) -> Result<csi::ControllerGetCapabilitiesResponse, Status> {
        use csi::controller_service_capability::{Rpc, Type};
        if !self.services.contains(&PluginService::ControllerService) {
            return Err(Status::unimplemented("unknown service csi.v1.Controller"));
        }
        let capability = |rpc: i32| csi::ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: rpc })),
        };
        let known = self.controller.iter().map(|rpc| *rpc as i32);
        let all = known.chain(self.older.iter().copied());
        Ok(csi::ControllerGetCapabilitiesResponse {
            capabilities: all.map(capability).collect(),
        })
    }
}

/// Fails with `InvalidArgument` if a required field is empty.
pub(super) fn require(fields: &[(&str, bool)]) -> Result<(), Status> {
    match fields.iter().find(|(_, present)| !present) {
        Some((field, _)) => Err(Status::invalid_argument(format!("{field} is required"))),
        None => Ok(()),
    }
}
