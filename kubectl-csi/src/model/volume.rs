//! Claims, volumes, classes and attachments.

use migration::TRANSLATOR;
use serde::Deserialize;
use serde_json::json;

use super::in_tree::{InTree, Translated, map, translated};
use super::pod::{HostPath, Nothing};
use super::{Condition, Healths, Many, Meta, ObjectRef, Pairs, Selector, Text, Time};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    pub metadata: Meta,
    pub spec: ClaimSpec,
    pub status: ClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    pub access_modes: Many<Text>,
    pub storage_class_name: Option<Text>,
    pub volume_name: Text,
    pub volume_mode: Text,
    pub resources: Resources,
    pub data_source: Option<ObjectRef>,
    pub data_source_ref: Option<ObjectRef>,
    pub volume_attributes_class_name: Text,
    pub selector: Option<Nothing>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub requests: Size,
}

/// A map of quantities; only `storage` is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Size {
    pub storage: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    pub phase: Text,
    pub capacity: Size,
    pub conditions: Many<Condition>,
    pub allocated_resource_statuses: Size,
    pub modify_volume_status: Option<ModifyStatus>,
    pub current_volume_attributes_class_name: Text,
    pub health_status: Option<Healths>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyStatus {
    pub status: Text,
    pub target_volume_attributes_class_name: Text,
}

impl Claim {
    /// The class that it names, in the field or in the old annotation.
    pub fn class(&self) -> Option<&str> {
        let old = "volume.beta.kubernetes.io/storage-class";
        let field = self.spec.storage_class_name.as_deref();
        self.metadata.annotations.get(old).or(field)
    }

    /// The data source of its volume.
    pub fn source(&self) -> Option<&ObjectRef> {
        let spec = &self.spec;
        spec.data_source_ref.as_ref().or(spec.data_source.as_ref())
    }

    /// Kind, namespace and name of its data source. A source without a namespace is in the claim's own.
    pub fn filled_from(&self) -> Option<(&str, &str, &str)> {
        let source = self.source()?;
        let namespace = match &*source.namespace {
            "" => &*self.metadata.namespace,
            other => other,
        };
        Some((&source.kind, namespace, &source.name))
    }

    /// The node that the scheduler selected for its volume.
    pub fn selected_node(&self) -> Option<&str> {
        let annotations = &self.metadata.annotations;
        let now = annotations.get("volume.kubernetes.io/selected-node");
        now.filter(|node| !node.is_empty())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Volume {
    pub metadata: Meta,
    pub spec: VolumeSpec,
    pub status: VolumeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    pub capacity: Size,
    pub access_modes: Many<Text>,
    pub claim_ref: Option<ObjectRef>,
    pub persistent_volume_reclaim_policy: Text,
    pub storage_class_name: Text,
    pub volume_mode: Text,
    pub node_affinity: Option<VolumeAffinity>,
    pub csi: Option<CsiSource>,
    pub local: Option<HostPath>,
    #[serde(flatten)]
    pub in_tree: InTree,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSource {
    pub driver: Text,
    /// Needed for the names of attachments; never shown, since some drivers put addresses into it.
    pub volume_handle: Text,
    pub fs_type: Text,
    pub node_stage_secret_ref: Option<SecretRef>,
    pub node_publish_secret_ref: Option<SecretRef>,
}

/// Namespace and name of a Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SecretRef {
    pub namespace: Text,
    pub name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeAffinity {
    pub required: Selector,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeStatus {
    pub phase: Text,
    pub last_phase_transition_time: Time,
}

impl Volume {
    /// Whether it was created by hand, without a provisioner.
    pub fn is_by_hand(&self) -> bool {
        let provisioner = "pv.kubernetes.io/provisioned-by";
        self.metadata.annotations.get(provisioner).is_none()
    }

    /// Whether a claim can still be bound to it.
    pub fn is_free(&self) -> bool {
        self.status.phase == "Available" && self.spec.claim_ref.is_none()
    }

    /// Its CSI driver.
    pub fn driver(&self) -> Option<&str> {
        self.spec.csi.as_ref().map(|csi| &*csi.driver)
    }

    /// The CSI driver that has taken over its in-tree plugin, and its translated handle; `None` for others.
    pub fn in_words_of_csi(&self) -> Option<(&'static str, Translated)> {
        let (meta, spec) = (&self.metadata, &self.spec);
        let modes: Vec<&str> = spec.access_modes.iter().map(|mode| &**mode).collect();
        let claim = spec
            .claim_ref
            .as_ref()
            .map(|claim| json!({"namespace": &*claim.namespace}));
        let spec = self
            .spec
            .in_tree
            .within(json!({"accessModes": modes, "claimRef": claim}))?;
        let volume = json!({
            "metadata": {"name": &*meta.name, "labels": map(&meta.labels), "annotations": map(&meta.annotations)},
            "spec": spec,
        });
        let driver = TRANSLATOR.of_volume(&volume)?.name;
        Some((driver, translated(TRANSLATOR.volume_to_csi(&volume))))
    }

    /// The nodes that can reach it; `None` if all can.
    pub fn reached_from(&self) -> Option<&Selector> {
        let required = self.spec.node_affinity.as_ref().map(|one| &one.required);
        required.filter(|selector| !selector.terms().is_empty())
    }

    /// Whether only one node at a time may use it.
    pub fn is_for_one_node(&self) -> bool {
        let many = |mode: &Text| matches!(&**mode, "ReadWriteMany" | "ReadOnlyMany");
        !self.spec.access_modes.iter().any(many)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Class {
    pub metadata: Meta,
    pub provisioner: Text,
    pub volume_binding_mode: Text,
    pub allow_volume_expansion: Option<bool>,
    pub allowed_topologies: Many<AllowedTerm>,
    /// Only the parameters that CSI defines, such as names of Secrets.
    pub parameters: Pairs<false>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedTerm {
    pub match_label_expressions: Many<AllowedLabel>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllowedLabel {
    pub key: Text,
    pub values: Many<Text>,
}

impl Class {
    /// Whether provisioning waits for the first pod.
    pub fn waits_for_consumer(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }

    /// Whether it is the default for claims without a class.
    pub fn is_default(&self) -> bool {
        let names = [
            "storageclass.kubernetes.io",
            "storageclass.beta.kubernetes.io",
        ];
        let annotations = &self.metadata.annotations;
        names.iter().any(|name| {
            let name = format!("{name}/is-default-class");
            annotations.get(&name) == Some("true")
        })
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Attachment {
    pub metadata: Meta,
    pub spec: AttachmentSpec,
    pub status: AttachmentStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSpec {
    pub attacher: Text,
    pub node_name: Text,
    pub source: Source,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    pub persistent_volume_name: Text,
    /// Present in attachments of volumes without a PersistentVolume.
    pub inline_volume_spec: Option<InlineVolume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct InlineVolume {
    pub csi: Option<CsiSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentStatus {
    pub attached: bool,
    pub attach_error: Option<AttachError>,
    pub detach_error: Option<AttachError>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachError {
    pub time: Time,
    pub message: Text,
    pub error_code: Option<i64>,
}
