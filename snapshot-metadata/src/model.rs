//! API objects, as far as this program reads them. A missing field is read as empty: whoever uses a
//! field checks it, since a new snapshot has no status.

use std::collections::BTreeMap;

use serde::Deserialize;
use sidecar::snapshot::{
    DEFAULT_CLASS, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, Kind, SECRET_NAME_PARAMETER,
    SECRET_NAMESPACE_PARAMETER,
};

/// SnapshotMetadataServices: the address of this program, and the audience that clients' tokens need.
pub const SERVICES: Kind = Kind {
    group: "cbt.storage.k8s.io",
    kind: "SnapshotMetadataService",
    plural: "snapshotmetadataservices",
};
/// The version of [`SERVICES`] that this program reads.
pub const SERVICES_VERSION: &str = "v1beta1";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    annotations: Option<BTreeMap<String, String>>,
}

/// A SnapshotMetadataService.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// `spec.address`, host and port.
    pub address: String,
    /// `spec.audience`
    pub audience: String,
}

impl Service {
    /// Parses the JSON of a SnapshotMetadataService.
    ///
    /// # Errors
    /// The text is no SnapshotMetadataService.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            address: String,
            audience: String,
        }
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            spec: Spec,
        }
        let Wire { spec } = serde_json::from_str(text)?;
        Ok(Self {
            address: spec.address,
            audience: spec.audience,
        })
    }
}

/// A VolumeSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// `spec.volumeSnapshotClassName`
    pub class: Option<String>,
    /// `status.boundVolumeSnapshotContentName`
    pub content: Option<String>,
    /// `status.readyToUse`
    pub ready: bool,
}

impl Snapshot {
    /// Parses the JSON of a VolumeSnapshot.
    ///
    /// # Errors
    /// The text is no VolumeSnapshot.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Spec {
            volume_snapshot_class_name: Option<String>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Status {
            bound_volume_snapshot_content_name: Option<String>,
            ready_to_use: Option<bool>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire {
            spec: Spec,
            status: Option<Status>,
        }
        let wire: Wire = serde_json::from_str(text)?;
        let status = wire.status.unwrap_or_default();
        Ok(Self {
            class: named(wire.spec.volume_snapshot_class_name),
            content: named(status.bound_volume_snapshot_content_name),
            ready: status.ready_to_use.unwrap_or_default(),
        })
    }
}

/// A VolumeSnapshotContent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// `spec.driver`
    pub driver: String,
    /// `status.snapshotHandle`
    pub handle: Option<String>,
    /// `status.readyToUse`
    pub ready: bool,
    /// Namespace and name of the Secret from the annotations that the snapshot-controller wrote.
    pub secret: Option<(String, String)>,
}

impl Content {
    /// Parses the JSON of a VolumeSnapshotContent.
    ///
    /// # Errors
    /// The text is no VolumeSnapshotContent.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            driver: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Status {
            snapshot_handle: Option<String>,
            ready_to_use: Option<bool>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire {
            metadata: Metadata,
            spec: Spec,
            status: Option<Status>,
        }
        let wire: Wire = serde_json::from_str(text)?;
        let status = wire.status.unwrap_or_default();
        let mut annotations = wire.metadata.annotations.unwrap_or_default();
        let mut noted = |key| named(annotations.remove(key));
        Ok(Self {
            driver: wire.spec.driver,
            handle: named(status.snapshot_handle),
            ready: status.ready_to_use.unwrap_or_default(),
            secret: noted(DELETION_SECRET_NAMESPACE).zip(noted(DELETION_SECRET_NAME)),
        })
    }
}

/// A VolumeSnapshotClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `metadata.name`
    pub name: String,
    /// `driver`
    pub driver: String,
    /// The class is annotated as its driver's default.
    pub is_default: bool,
    /// Template of the Secret's name.
    pub secret_name: Option<String>,
    /// Template of the Secret's namespace.
    pub secret_namespace: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClassWire {
    metadata: Metadata,
    driver: String,
    parameters: Option<BTreeMap<String, String>>,
}

impl From<ClassWire> for Class {
    fn from(wire: ClassWire) -> Self {
        let annotations = wire.metadata.annotations.unwrap_or_default();
        let mut parameters = wire.parameters.unwrap_or_default();
        Self {
            name: wire.metadata.name,
            driver: wire.driver,
            is_default: annotations
                .get(DEFAULT_CLASS)
                .is_some_and(|is| is == "true"),
            secret_name: parameters.remove(SECRET_NAME_PARAMETER),
            secret_namespace: parameters.remove(SECRET_NAMESPACE_PARAMETER),
        }
    }
}

impl Class {
    /// Parses the JSON of a VolumeSnapshotClass.
    ///
    /// # Errors
    /// The text is no VolumeSnapshotClass.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<ClassWire>(text).map(Self::from)
    }

    /// Parses the JSON of a list of VolumeSnapshotClasses.
    ///
    /// # Errors
    /// The text is no such list.
    pub fn read_list(text: &str) -> Result<Vec<Self>, serde_json::Error> {
        #[derive(Deserialize)]
        struct List {
            #[serde(default)]
            items: Vec<ClassWire>,
        }
        let list: List = serde_json::from_str(text)?;
        Ok(list.items.into_iter().map(Self::from).collect())
    }
}

/// The text, unless it is empty.
fn named(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
