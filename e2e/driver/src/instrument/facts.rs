//! Facts about a request, read from its bytes: method, object, node, hashes, presence of secrets.
//!
//! Pure. Secrets are removed before anything is hashed or stored.

use std::collections::BTreeMap;

use csi_proto::csi;
use csi_proto::sanitize::{Sanitize, sanitized};
use prost::Message;

/// Facts about a call before it is performed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Method without service.
    pub method: String,
    /// Volume or snapshot handle, empty if there is none.
    pub volume: String,
    /// Name of a Create call.
    pub name: String,
    /// Node id of a controller call.
    pub node: String,
    /// Target or volume path.
    pub target: String,
    /// Staging path.
    pub staging: String,
    /// Whether it had secrets.
    pub secrets: bool,
    /// Hash of the secrets, compared with those that a rule requires; never written anywhere.
    pub(super) secrets_hash: String,
    /// Hash of everything except secrets.
    pub request_hash: String,
    /// Hash of everything except secrets and topology: the part that has to stay the same in all
    /// calls for one name, while topology may change after a final error.
    pub parameters_hash: String,
    /// The request as JSON without secrets.
    pub request: String,
}

impl Facts {
    /// Whether the call had exactly these secrets.
    pub fn has_secrets(&self, wanted: &BTreeMap<String, String>) -> bool {
        self.secrets_hash == hash_secrets(wanted)
    }

    /// The object on which an operation is pending while the call is delayed or held; `None` for
    /// calls that only read.
    pub fn object(&self) -> Option<String> {
        let Self {
            method,
            name,
            volume,
            node,
            target,
            ..
        } = self;
        let reads = [
            "Get",
            "List",
            "Probe",
            "Validate",
            "NodeGet",
            "ControllerGet",
            "ControllerList",
        ];
        if reads.iter().any(|start| method.starts_with(start)) || method.contains("Capabilities") {
            return None;
        }
        if !name.is_empty() {
            return Some(format!("name {name}"));
        }
        if volume.is_empty() {
            return None;
        }
        Some(match method.strip_prefix("Node") {
            Some(_) => format!("volume {volume} on this node {target}"),
            None => format!("volume {volume} {node}"),
        })
    }
}

/// Requests whose fields are read.
trait Describe: Message + Default + Sanitize + Clone {
    fn describe(&self, facts: &mut Facts);
    /// The request without the parts that may change between two calls for one name.
    fn lasting(&self) -> Self {
        self.clone()
    }
}

macro_rules! describe {
    ($($request:ident { $($fact:ident: $field:ident),* } $($secrets:ident)?;)*) => {$(
        impl Describe for csi::$request {
            fn describe(&self, facts: &mut Facts) {
                $(facts.$fact = self.$field.clone();)*
                $(
                    facts.$secrets = !self.$secrets.is_empty();
                    facts.secrets_hash = hash_secrets(&self.$secrets);
                )?
                let _ = facts;
            }
        }
    )*};
}

describe! {
    DeleteVolumeRequest { volume: volume_id } secrets;
    ControllerPublishVolumeRequest { volume: volume_id, node: node_id } secrets;
    ControllerUnpublishVolumeRequest { volume: volume_id, node: node_id } secrets;
    ValidateVolumeCapabilitiesRequest { volume: volume_id } secrets;
    ListVolumesRequest {};
    GetCapacityRequest {};
    CreateSnapshotRequest { volume: source_volume_id, name: name } secrets;
    DeleteSnapshotRequest { volume: snapshot_id } secrets;
    ListSnapshotsRequest { volume: snapshot_id } secrets;
    GetSnapshotRequest { volume: snapshot_id } secrets;
    GetMetadataAllocatedRequest { volume: snapshot_id } secrets;
    GetMetadataDeltaRequest { volume: target_snapshot_id, name: base_snapshot_id } secrets;
    ControllerExpandVolumeRequest { volume: volume_id } secrets;
    ControllerGetVolumeRequest { volume: volume_id };
    ControllerModifyVolumeRequest { volume: volume_id } secrets;
    CreateVolumeGroupSnapshotRequest { name: name } secrets;
    DeleteVolumeGroupSnapshotRequest { volume: group_snapshot_id } secrets;
    GetVolumeGroupSnapshotRequest { volume: group_snapshot_id } secrets;
    NodeStageVolumeRequest { volume: volume_id, staging: staging_target_path } secrets;
    NodeUnstageVolumeRequest { volume: volume_id, staging: staging_target_path };
    NodePublishVolumeRequest
        { volume: volume_id, staging: staging_target_path, target: target_path } secrets;
    NodeUnpublishVolumeRequest { volume: volume_id, target: target_path };
    NodeGetVolumeStatsRequest
        { volume: volume_id, staging: staging_target_path, target: volume_path };
    NodeExpandVolumeRequest
        { volume: volume_id, staging: staging_target_path, target: volume_path } secrets;
}

impl Describe for csi::CreateVolumeRequest {
    fn describe(&self, facts: &mut Facts) {
        facts.name.clone_from(&self.name);
        facts.secrets = !self.secrets.is_empty();
        facts.secrets_hash = hash_secrets(&self.secrets);
    }

    fn lasting(&self) -> Self {
        Self {
            accessibility_requirements: None,
            ..self.clone()
        }
    }
}

/// Reads the bytes of a request message.
pub fn read(method: &str, message: &[u8]) -> Facts {
    let read: fn(&[u8], &mut Facts) = match method {
        "CreateVolume" => describe::<csi::CreateVolumeRequest>,
        "DeleteVolume" => describe::<csi::DeleteVolumeRequest>,
        "ControllerPublishVolume" => describe::<csi::ControllerPublishVolumeRequest>,
        "ControllerUnpublishVolume" => describe::<csi::ControllerUnpublishVolumeRequest>,
        "ValidateVolumeCapabilities" => describe::<csi::ValidateVolumeCapabilitiesRequest>,
        "ListVolumes" => describe::<csi::ListVolumesRequest>,
        "GetCapacity" => describe::<csi::GetCapacityRequest>,
        "CreateSnapshot" => describe::<csi::CreateSnapshotRequest>,
        "DeleteSnapshot" => describe::<csi::DeleteSnapshotRequest>,
        "ListSnapshots" => describe::<csi::ListSnapshotsRequest>,
        "GetSnapshot" => describe::<csi::GetSnapshotRequest>,
        "GetMetadataAllocated" => describe::<csi::GetMetadataAllocatedRequest>,
        "GetMetadataDelta" => describe::<csi::GetMetadataDeltaRequest>,
        "ControllerExpandVolume" => describe::<csi::ControllerExpandVolumeRequest>,
        "ControllerGetVolume" => describe::<csi::ControllerGetVolumeRequest>,
        "ControllerModifyVolume" => describe::<csi::ControllerModifyVolumeRequest>,
        "CreateVolumeGroupSnapshot" => describe::<csi::CreateVolumeGroupSnapshotRequest>,
        "DeleteVolumeGroupSnapshot" => describe::<csi::DeleteVolumeGroupSnapshotRequest>,
        "GetVolumeGroupSnapshot" => describe::<csi::GetVolumeGroupSnapshotRequest>,
        "NodeStageVolume" => describe::<csi::NodeStageVolumeRequest>,
        "NodeUnstageVolume" => describe::<csi::NodeUnstageVolumeRequest>,
        "NodePublishVolume" => describe::<csi::NodePublishVolumeRequest>,
        "NodeUnpublishVolume" => describe::<csi::NodeUnpublishVolumeRequest>,
        "NodeGetVolumeStats" => describe::<csi::NodeGetVolumeStatsRequest>,
        "NodeExpandVolume" => describe::<csi::NodeExpandVolumeRequest>,
        _ => |_, _| {},
    };
    let mut facts = Facts {
        method: method.to_owned(),
        ..Facts::default()
    };
    read(message, &mut facts);
    facts
}

fn describe<R: Describe>(message: &[u8], facts: &mut Facts) {
    // The service itself answers an undecodable request with an error.
    let Ok(request) = R::decode(message) else {
        return;
    };
    request.describe(facts);
    // The log form has sorted keys and no secrets, so equal requests have equal texts.
    facts.request = sanitized(&request).to_string();
    facts.request_hash = hash(&facts.request);
    facts.parameters_hash = hash(&sanitized(&request.lasting()).to_string());
}

/// The handle in the response to a Create call.
pub fn created(method: &str, message: &[u8]) -> Option<String> {
    match method {
        "CreateVolume" => csi::CreateVolumeResponse::decode(message)
            .ok()?
            .volume
            .map(|v| v.volume_id),
        "CreateSnapshot" => csi::CreateSnapshotResponse::decode(message)
            .ok()?
            .snapshot
            .map(|s| s.snapshot_id),
        _ => None,
    }
}

fn hash_secrets(secrets: &BTreeMap<String, String>) -> String {
    let pairs = secrets
        .iter()
        .map(|(key, value)| format!("{}:{key}={value};", key.len()));
    hash(&pairs.collect::<String>())
}

/// FNV-1a, 64 bit: stable across builds, unlike the standard library's hashes.
fn hash(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{create, topology_requirement};

    #[test]
    fn hashes_ignore_secrets_and_lasting_ones_also_topology() {
        let plain = create("pvc-1", 5);
        let mut secret = plain.clone();
        secret
            .secrets
            .insert("password".to_owned(), "hunter2".to_owned());
        let mut moved = plain.clone();
        moved.accessibility_requirements = Some(topology_requirement(&["zone=a"], &[]));
        let larger = create("pvc-1", 6);
        let facts =
            [&plain, &secret, &moved, &larger].map(|r| read("CreateVolume", &r.encode_to_vec()));
        let [plain, secret, moved, larger] = &facts;
        assert_eq!(
            (plain.name.as_str(), plain.secrets, secret.secrets),
            ("pvc-1", false, true)
        );
        assert!(!secret.request.contains("hunter2"));
        assert_eq!(plain.parameters_hash, moved.parameters_hash);
        assert_ne!(plain.request_hash, moved.request_hash);
        assert_ne!(plain.parameters_hash, larger.parameters_hash);
        assert_eq!(plain.request_hash.len(), 16);
    }

    #[test]
    fn secret_values_do_not_change_the_hash() {
        let with = |value: &str| {
            let mut request = create("pvc-1", 5);
            request
                .secrets
                .insert("password".to_owned(), value.to_owned());
            read("CreateVolume", &request.encode_to_vec()).request_hash
        };
        assert_eq!(with("a"), with("b"));
    }

    #[test]
    fn node_calls_tell_paths() {
        let request = csi::NodePublishVolumeRequest {
            volume_id: "v1".to_owned(),
            staging_target_path: "/s".to_owned(),
            target_path: "/t".to_owned(),
            ..Default::default()
        };
        let facts = read("NodePublishVolume", &request.encode_to_vec());
        let told = (
            facts.volume.as_str(),
            facts.staging.as_str(),
            facts.target.as_str(),
        );
        assert_eq!(told, ("v1", "/s", "/t"));
    }

    #[test]
    fn calls_that_change_an_object_name_it_calls_that_read_do_not() {
        let object = |method: &str, name: &str, volume: &str, node: &str| {
            let facts = Facts {
                method: method.to_owned(),
                name: name.to_owned(),
                volume: volume.to_owned(),
                node: node.to_owned(),
                ..Facts::default()
            };
            facts.object()
        };
        assert_eq!(
            object("CreateVolume", "a", "", ""),
            object("CreateVolume", "a", "v1", "")
        );
        let attach = object("ControllerPublishVolume", "", "v1", "n1");
        assert_eq!(attach, object("ControllerUnpublishVolume", "", "v1", "n1"));
        assert_ne!(attach, object("ControllerPublishVolume", "", "v1", "n2"));
        assert_ne!(attach, object("NodeStageVolume", "", "v1", "n1"));
        for reads in [
            "GetCapacity",
            "ListVolumes",
            "Probe",
            "NodeGetVolumeStats",
            "ControllerGetVolume",
            "GroupControllerGetCapabilities",
            "ValidateVolumeCapabilities",
        ] {
            assert_eq!(object(reads, "", "v1", ""), None, "{reads}");
        }
    }

    #[test]
    fn garbage_and_unknown_methods_are_no_error() {
        assert_eq!(read("CreateVolume", &[0xff, 0xff]).request_hash, "");
        assert_eq!(read("Fly", b"").method, "Fly");
        assert_eq!(created("CreateVolume", &[0xff]), None);
        let answer = csi::CreateVolumeResponse {
            volume: Some(csi::Volume {
                volume_id: "v1".to_owned(),
                ..Default::default()
            }),
        };
        assert_eq!(
            created("CreateVolume", &answer.encode_to_vec()).as_deref(),
            Some("v1")
        );
    }
}
