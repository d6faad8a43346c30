//! Builders for the tests of the plans.

use std::collections::BTreeMap;

use csi_proto::csi;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};

use super::Policy;
use crate::model::state::{Change, Node, State};
use crate::model::topology::Segments;
use crate::model::volume::{Backing, Kind, Phase, Volume};

pub fn volume(id: &str, sequence: u64) -> Volume {
    Volume {
        id: id.to_owned(),
        sequence,
        name: format!("name-{id}"),
        capacity: 1 << 20,
        grown_to: 1 << 20,
        kind: Kind::Mount,
        backing: Backing::Directory,
        fs_type: String::new(),
        ephemeral: false,
        phase: Phase::Ready,
        parameters: BTreeMap::new(),
        mutable_parameters: BTreeMap::new(),
        source: None,
        topology: Vec::new(),
        attachments: BTreeMap::new(),
        staged: BTreeMap::new(),
        published: BTreeMap::new(),
    }
}

pub fn policy() -> Policy {
    Policy {
        max_volume_size: 1 << 40,
        max_volume_size_node: 1 << 40,
        capacity: BTreeMap::new(),
        topology: true,
        modify: false,
        mutable_names: Vec::new(),
        check_lifecycle: true,
        attach: true,
        fs_images: false,
        any_node: false,
        id_prefix: String::new(),
        node_expansion: true,
    }
}

pub fn segments(text: &str) -> Segments {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

pub fn node(id: &str, topology: &str, attach_limit: i64) -> Change {
    Change::PutNode(Node {
        id: id.to_owned(),
        topology: segments(topology),
        attach_limit,
    })
}

pub fn state(changes: impl IntoIterator<Item = Change>) -> State {
    let mut state = State::default();
    for change in changes {
        state.apply(change);
    }
    state
}

pub fn put(volume: Volume) -> Change {
    Change::PutVolume(Box::new(volume))
}

pub fn mount(mode: Mode) -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_mode: Some(AccessMode { mode: mode as i32 }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

pub fn block(mode: Mode) -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_mode: Some(AccessMode { mode: mode as i32 }),
        access_type: Some(AccessType::Block(BlockVolume {})),
    }
}

pub fn create(name: &str, bytes: i64) -> csi::CreateVolumeRequest {
    csi::CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(csi::CapacityRange {
            required_bytes: bytes,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![mount(Mode::SingleNodeWriter)],
        ..Default::default()
    }
}

pub fn topology_requirement(requisite: &[&str], preferred: &[&str]) -> csi::TopologyRequirement {
    let terms = |list: &[&str]| {
        list.iter()
            .map(|text| csi::Topology {
                segments: segments(text),
            })
            .collect()
    };
    csi::TopologyRequirement {
        requisite: terms(requisite),
        preferred: terms(preferred),
    }
}
