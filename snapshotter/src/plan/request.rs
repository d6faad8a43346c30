//! What the driver is asked.
//!
//! A request must be the same in every attempt on one snapshot.

use std::collections::BTreeMap;

use csi_proto::csi::{CreateSnapshotRequest, CreateVolumeGroupSnapshotRequest};
use sidecar::snapshot::{
    PARAMETER_PREFIX, SECRET_NAME_PARAMETER, SECRET_NAMESPACE_PARAMETER, group,
};

use super::Settings;
use crate::model::{Class, Content, Kind, List, Text};

/// The values of a Secret.
pub type Secrets = BTreeMap<String, String>;

/// Parameters of a call that takes a snapshot or a group.
pub type Parameters = BTreeMap<String, String>;

/// Class parameter: template of the name of the Secret for lists.
pub const LIST_SECRET_NAME: &str = "csi.storage.k8s.io/snapshotter-list-secret-name";
/// See [`LIST_SECRET_NAME`].
pub const LIST_SECRET_NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-list-secret-namespace";

/// Class parameters that are for the sidecars, so that the driver does not get them.
const RESERVED: [&str; 8] = [
    SECRET_NAME_PARAMETER,
    SECRET_NAMESPACE_PARAMETER,
    LIST_SECRET_NAME,
    LIST_SECRET_NAMESPACE,
    group::SECRET_NAME_PARAMETER,
    group::SECRET_NAMESPACE_PARAMETER,
    group::GET_SECRET_NAME_PARAMETER,
    group::GET_SECRET_NAMESPACE_PARAMETER,
];

/// Parameters that say for what VolumeSnapshot, in what namespace and for what content a snapshot is.
const METADATA: [&str; 3] = [
    "csi.storage.k8s.io/volumesnapshot/name",
    "csi.storage.k8s.io/volumesnapshot/namespace",
    "csi.storage.k8s.io/volumesnapshotcontent/name",
];
const GROUP_METADATA: [&str; 3] = [
    group::NAME_METADATA,
    group::NAMESPACE_METADATA,
    group::CONTENT_NAME_METADATA,
];

/// The parameters that the driver gets.
///
/// # Errors
/// A parameter of this name is for the sidecars, and means nothing to this one.
pub fn parameters(
    (name, content): (&Text, &Content),
    class: &Class,
    settings: &Settings,
) -> Result<Parameters, String> {
    let mut parameters = Parameters::new();
    for (key, value) in class.parameters.iter() {
        match key.starts_with(PARAMETER_PREFIX) {
            true if RESERVED.contains(&key) => {}
            true => return Err(key.to_owned()),
            false => drop(parameters.insert(key.to_owned(), value.to_owned())),
        }
    }
    if settings.extra_create_metadata {
        let keys = match content.kind() {
            Kind::Single => METADATA,
            Kind::Group => GROUP_METADATA,
        };
        let snapshot = &content.snapshot;
        let values = [&snapshot.name, &snapshot.namespace, name];
        for (key, value) in keys.into_iter().zip(values) {
            parameters.insert(key.to_owned(), value.to_string());
        }
    }
    Ok(parameters)
}

/// `CreateSnapshot` of this volume.
#[must_use]
pub fn create(
    content: &Content,
    volume: &str,
    (parameters, secrets): (Parameters, Secrets),
    settings: &Settings,
) -> CreateSnapshotRequest {
    CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: settings.name.of(&content.snapshot.uid),
        secrets: secrets.into_iter().collect(),
        parameters: parameters.into_iter().collect(),
        accessibility_requirements: None,
    }
}

/// `CreateVolumeGroupSnapshot` of these volumes, in the order of the content.
#[must_use]
pub fn create_group(
    content: &Content,
    volumes: &List,
    (parameters, secrets): (Parameters, Secrets),
    settings: &Settings,
) -> CreateVolumeGroupSnapshotRequest {
    CreateVolumeGroupSnapshotRequest {
        source_volume_ids: volumes.iter().map(ToString::to_string).collect(),
        name: settings.name.of(&content.snapshot.uid),
        secrets,
        parameters,
    }
}
