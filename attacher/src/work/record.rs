//! Decodes objects of the API server into the records of [`model`](crate::model).
//!
//! Decoding never fails on anything an API server may send: absent and `null` fields are treated
//! alike.

use std::sync::Arc;

use migration::TRANSLATOR;
use serde::Deserialize;
use serde_json::Value;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, list, own, pairs, seconds};
use sidecar::kube::objects::{attachment, node, volume};
use sidecar::lifecycle::{Id, Lifecycle, Look, Step};
use sidecar::names;
use uuid::Uuid;

use super::kept::KeptVolume;
use crate::keys::{MIGRATED_TO_ANNOTATION, NODE_ID_ANNOTATION};
use crate::model::{
    Attachment, CsiNode, CsiSource, InTree, List, Pairs, Source, Volume, VolumeError, VolumeSpec,
};
use crate::plan::lifecycle::{AttachmentSeen, of_attachment};

/// A VolumeAttachment as the API server encodes it.
pub type AttachmentWire<'a> = lean::Parts<'a, attachment::Spec<'a>, StatusWire<'a>>;

/// The fields of `status` that the attacher reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusWire<'a> {
    attached: Option<bool>,
    #[serde(borrow)]
    attachment_metadata: lean::Pairs<'a>,
    attach_error: Option<ErrorWire>,
    detach_error: Option<ErrorWire>,
}

impl StatusWire<'_> {
    /// `attached`, `false` if absent.
    pub(super) fn is_attached(&self) -> bool {
        self.attached.unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ErrorWire {
    message: Option<String>,
    time: Option<String>,
    error_code: Option<i32>,
}

impl Record for Attachment {
    type Wire<'a> = AttachmentWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let AttachmentWire {
            metadata,
            spec,
            status,
        } = wire;
        Some(Self {
            name: own(&metadata.name),
            uid: own(&metadata.uid),
            version: metadata.version(),
            deleting: metadata.deletion_timestamp.is_some(),
            since: metadata.since(),
            created: seconds(metadata.creation_timestamp.as_deref()),
            finalizers: list(&metadata.finalizers, strings),
            node_id: metadata
                .annotations
                .get(NODE_ID_ANNOTATION)
                .map(|text| strings.intern(text)),
            attacher: interned(&spec.attacher, strings),
            node: interned(&spec.node_name, strings),
            volume: lean::shared(&spec.source.persistent_volume_name, strings),
            inline: spec
                .source
                .inline_volume_spec
                .map(|spec| Arc::new(volume_spec(&spec, strings))),
            attached: status.is_attached(),
            metadata: pairs(&status.attachment_metadata, strings),
            attach_error: status.attach_error.map(error),
            detach_error: status.detach_error.map(error),
        })
    }

    fn steps<'w>(wire: &'w Self::Wire<'_>, look: Look, measured: &Lifecycle) -> Vec<Step<'w>> {
        steps(wire, look, measured.driver())
    }

    fn lifecycle_id(&self) -> Option<Id> {
        Some(Id::of(&self.uid))
    }
}

/// The progress of the attachment, if it belongs to this attacher.
fn steps(wire: &AttachmentWire<'_>, look: Look, attacher: &str) -> Vec<Step<'static>> {
    let metadata = &wire.metadata;
    let Some(uid) = metadata.uid.as_deref() else {
        return Vec::new();
    };
    if wire.spec.attacher.as_deref() != Some(attacher) {
        return Vec::new();
    }
    let deleted = metadata.deletion_timestamp.as_deref();
    let has_finalizer = || {
        let finalizer = names::finalizer(attacher);
        let mut finalizers = metadata.finalizers.iter();
        finalizers.any(|held| **held == *finalizer)
    };
    let seen = AttachmentSeen {
        uid,
        created: seconds(metadata.creation_timestamp.as_deref()),
        deleted: deleted.map(|time| seconds(Some(time))),
        held: deleted.is_some() && has_finalizer(),
        attached: wire.status.is_attached(),
    };
    of_attachment(&seen, look)
}

impl Record for KeptVolume {
    type Wire<'a> = volume::Volume<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let volume::Volume {
            metadata, mut spec, ..
        } = wire;
        let volume = Volume {
            uid: metadata
                .uid
                .as_deref()
                .and_then(|text| Uuid::parse_str(text).ok()),
            created: seconds(metadata.creation_timestamp.as_deref()),
            deleting: metadata.deletion_timestamp.is_some(),
            // The API server does not distinguish an empty list from an absent one.
            finalizers: (!metadata.finalizers.is_empty())
                .then(|| list(&metadata.finalizers, strings)),
            migrated_to: metadata
                .annotations
                .get(MIGRATED_TO_ANNOTATION)
                .map(|text| strings.intern(text)),
            spec: match spec.take_in_tree(&metadata) {
                Some(object) => translated(&object, &spec, strings),
                None => volume_spec(&spec, strings),
            },
        };
        Some(Self::new(volume, strings))
    }
}

impl Record for CsiNode {
    type Wire<'a> = node::CsiNode<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let entries = wire.spec.drivers.iter();
        // Node ids are unique: interning them would cost more than it saves.
        let texts = entries.flat_map(|driver| {
            let name = driver.name.as_deref().unwrap_or_default();
            [strings.intern(name), own(&driver.node_id)]
        });
        Some(Self {
            drivers: Pairs::new(texts.collect()),
        })
    }
}

fn error(wire: ErrorWire) -> Arc<VolumeError> {
    Arc::new(VolumeError {
        message: wire.message,
        time: wire.time,
        code: wire.error_code,
    })
}

fn volume_spec(wire: &volume::Spec<'_>, strings: &Interner) -> VolumeSpec {
    VolumeSpec {
        source: match &wire.csi {
            Some(csi) => Source::Csi(csi_source(csi, strings)),
            None => Source::Other,
        },
        access_modes: list(&wire.access_modes, strings),
        block: wire.is_block(),
        mount_options: list(&wire.mount_options, strings),
    }
}

fn csi_source(wire: &volume::Csi<'_>, strings: &Interner) -> CsiSource {
    let secret = wire.controller_publish_secret_ref.as_ref();
    CsiSource {
        driver: interned(&wire.driver, strings),
        handle: own(&wire.volume_handle),
        read_only: wire.read_only.unwrap_or_default(),
        fs_type: interned(&wire.fs_type, strings),
        attributes: pairs(&wire.volume_attributes, strings),
        publish_secret: secret.map(|secret| Arc::new(secret.secret(strings))),
    }
}

/// The specification of an in-tree volume, translated for the driver that replaced the plugin.
fn translated(object: &Value, wire: &volume::Spec<'_>, strings: &Interner) -> VolumeSpec {
    let spec = volume_spec(wire, strings);
    let Some(driver) = TRANSLATOR.of_volume(object) else {
        return spec;
    };
    let (csi, access_modes) = match in_words_of_csi(object, strings) {
        Ok((csi, access_modes)) => (Ok(csi), access_modes),
        Err(why) => (Err(why.into()), spec.access_modes),
    };
    let driver = driver.name;
    VolumeSpec {
        source: Source::InTree(Box::new(InTree { driver, csi })),
        access_modes,
        ..spec
    }
}

fn in_words_of_csi(object: &Value, strings: &Interner) -> Result<(CsiSource, List), String> {
    let volume = TRANSLATOR.volume_to_csi(object);
    let volume = volume.map_err(|error| error.to_string())?;
    let read = |spec: &volume::Spec<'_>| {
        let csi = spec.csi.as_ref().map(|csi| csi_source(csi, strings));
        let csi = csi.unwrap_or_else(|| csi_source(&volume::Csi::default(), strings));
        (csi, list(&spec.access_modes, strings))
    };
    volume::read_spec(&volume, read).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
