//! Responses that a test has set in place of the driver's own.

use std::collections::BTreeMap;

use csi_proto::csi;
use serde::{Deserialize, Serialize};

use super::rules::CodeName;
use crate::model::topology::{self, Segments};
use crate::service::advertise::Override;

/// Response to Probe. Errors come from rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// `ready: true`.
    #[default]
    Ready,
    /// `ready: false`.
    NotReady,
    /// A response without `ready`, which means ready.
    Unset,
}

/// A part of a SnapshotMetadata stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A message with these ranges, by offset and size.
    Ranges(Vec<(i64, i64)>),
    /// Endless messages with this many blocks each.
    Endless(i64),
    /// Nothing any more.
    Stall,
    /// The end, with this status.
    Fail {
        /// gRPC code by name.
        code: CodeName,
        /// Message.
        #[serde(default)]
        message: String,
    },
}

/// A health condition of a volume or of its storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ailment {
    /// Its severity.
    pub status: HealthStatus,
    /// Reason, for programs.
    #[serde(default)]
    pub reason: String,
    /// Message, for people.
    #[serde(default)]
    pub message: String,
}

/// `VolumeHealthErrorType` and `StorageHealthErrorType`, whose numbers agree as far as both are defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealthStatus {
    /// Works, but not well.
    Degraded,
    /// Unreachable.
    Inaccessible,
    /// Data is lost; for volumes only.
    DataLoss,
}

impl HealthStatus {
    /// Number of the enum value.
    pub fn number(self) -> i32 {
        match self {
            Self::Degraded => csi::VolumeHealthErrorType::Degraded as i32,
            Self::Inaccessible => csi::VolumeHealthErrorType::Inaccessible as i32,
            Self::DataLoss => csi::VolumeHealthErrorType::DataLoss as i32,
        }
    }
}

/// A fixed response to GetCapacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// Applies only to this topology; without it, to all.
    #[serde(default)]
    pub topology: Option<Segments>,
    /// Applies only to requests with all these parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// `available_capacity`.
    pub available: i64,
    /// `maximum_volume_size`.
    #[serde(default)]
    pub maximum: Option<i64>,
    /// `minimum_volume_size`.
    #[serde(default)]
    pub minimum: Option<i64>,
}

impl Capacity {
    /// Whether it applies to this request.
    pub fn applies_to(&self, request: &csi::GetCapacityRequest) -> bool {
        let place = topology::segments(request.accessible_topology.as_ref());
        self.topology.as_ref().is_none_or(|wanted| *wanted == place)
            && self
                .parameters
                .iter()
                .all(|(key, value)| request.parameters.get(key) == Some(value))
    }

    /// The response message.
    pub fn message(&self) -> csi::GetCapacityResponse {
        csi::GetCapacityResponse {
            available_capacity: self.available,
            maximum_volume_size: self.maximum,
            minimum_volume_size: self.minimum,
        }
    }
}

/// All settings that a test may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Driver name.
    pub name: Option<String>,
    /// Version of GetPluginInfo.
    pub vendor_version: Option<String>,
    /// Response to Probe.
    pub probe: Probe,
    /// Capability sets.
    pub capabilities: Override,
    /// Responses to GetCapacity; the first that applies counts.
    pub capacity: Vec<Capacity>,
    /// Node ID in NodeGetInfo.
    pub node_id: Option<String>,
    /// Topology segments in NodeGetInfo.
    pub topology: Option<Segments>,
    /// `max_volumes_per_node` in NodeGetInfo.
    pub max_volumes: Option<i64>,
    /// Attachments per node after which ControllerPublishVolume returns RESOURCE_EXHAUSTED.
    pub attach_limit: Option<i64>,
    /// Published nodes in ListVolumes and ControllerGetVolume, by volume handle.
    pub published_nodes: BTreeMap<String, Vec<String>>,
    /// Whether completed snapshots are `ready_to_use`.
    pub snapshots_ready: bool,
    /// Health conditions by volume handle.
    pub health: BTreeMap<String, Vec<Ailment>>,
    /// Messages of abnormal volumes by handle, in the format of CSI 1.12 and older; all other volumes are normal
    /// then. `None`: the driver sends no such conditions.
    pub conditions: Option<BTreeMap<String, String>>,
    /// Health conditions of the storage.
    pub storage_health: Vec<Ailment>,
    /// Parts that SnapshotMetadata streams in place of the real ranges.
    pub metadata: Option<Vec<Part>>,
    /// Add fields that CSI 1.13 does not define to every response.
    pub unknown_fields: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: None,
            vendor_version: None,
            probe: Probe::default(),
            capabilities: Override::default(),
            capacity: Vec::new(),
            node_id: None,
            topology: None,
            max_volumes: None,
            attach_limit: None,
            published_nodes: BTreeMap::new(),
            snapshots_ready: true,
            health: BTreeMap::new(),
            conditions: None,
            storage_health: Vec::new(),
            metadata: None,
            unknown_fields: false,
        }
    }
}

/// Why settings are refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// They do not parse.
    #[error("settings: {0}")]
    Malformed(#[source] serde_json::Error),
    /// A capability does not exist.
    #[error("settings: unknown capability {0:?}; use a name of the .proto file or a number")]
    Capability(String),
}

impl Settings {
    /// These settings with the members of `patch` replaced; `null` resets a member to its default.
    pub fn merge(&self, patch: serde_json::Map<String, serde_json::Value>) -> Result<Self, Error> {
        let mut merged = serde_json::to_value(self).map_err(Error::Malformed)?;
        if let Some(members) = merged.as_object_mut() {
            for (key, value) in patch {
                if value.is_null() {
                    members.remove(&key);
                } else {
                    members.insert(key, value);
                }
            }
        }
        let settings: Self = serde_json::from_value(merged).map_err(Error::Malformed)?;
        match settings.capabilities.unknown() {
            Some(name) => Err(Error::Capability(name)),
            None => Ok(settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(settings: &Settings, patch: serde_json::Value) -> Result<Settings, Error> {
        settings.merge(patch.as_object().unwrap().clone())
    }

    #[test]
    fn members_are_replaced_and_null_resets() {
        let first = merge(
            &Settings::default(),
            serde_json::json!({"probe": "not-ready", "max_volumes": 3, "snapshots_ready": false}),
        );
        let first = first.unwrap();
        assert_eq!((first.probe, first.max_volumes), (Probe::NotReady, Some(3)));
        let second = merge(
            &first,
            serde_json::json!({"probe": null, "snapshots_ready": null}),
        )
        .unwrap();
        assert_eq!((second.probe, second.max_volumes), (Probe::Ready, Some(3)));
        assert!(second.snapshots_ready);
    }

    #[test]
    fn typing_errors_are_refused() {
        for patch in [
            serde_json::json!({"prob": "ready"}),
            serde_json::json!({"probe": "perhaps"}),
            serde_json::json!({"capabilities": {"controller": ["NO_SUCH"]}}),
        ] {
            assert!(merge(&Settings::default(), patch).is_err());
        }
    }

    #[test]
    fn capacity_answers_apply_by_topology_and_parameters() {
        let entry: Capacity = serde_json::from_value(serde_json::json!({
            "topology": {"zone": "a"}, "parameters": {"kind": "fast"}, "available": 7
        }))
        .unwrap();
        let ask = |zone: &str, kind: &str| {
            let segments = Segments::from([("zone".to_owned(), zone.to_owned())]);
            entry.applies_to(&csi::GetCapacityRequest {
                parameters: BTreeMap::from([("kind".to_owned(), kind.to_owned())]),
                accessible_topology: Some(topology::message(&segments)),
                ..Default::default()
            })
        };
        assert!(ask("a", "fast"));
        assert!(!ask("b", "fast"));
        assert!(!ask("a", "slow"));
        assert_eq!(entry.message().available_capacity, 7);
    }
}
