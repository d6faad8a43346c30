//! The objects that a decision on a VolumeAttachment reads, and lookups for both directions.

use sidecar::csi::Migrated;

use super::Driver;
use super::outcome::Failure;
use crate::model::{Attachment, CsiNode, CsiSource, Source, Text, Volume, VolumeSpec};

/// All objects of a decision, read from the caches at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The driver.
    pub driver: &'a Driver,
    /// The object to work on.
    pub attachment: &'a Attachment,
    /// The PersistentVolume it references, if the cache has it.
    pub volume: Option<&'a Volume>,
    /// The node's CSINode, if the cache has it.
    pub node: Option<&'a CsiNode>,
}

/// The origin of the volume specification.
pub(super) enum From<'a> {
    Inline(&'a VolumeSpec),
    Volume(&'a Text, &'a Volume),
}

impl<'a> View<'a> {
    /// The attachment's source. Exactly one must be set, and a referenced volume must exist.
    pub(super) fn source(&self) -> Result<From<'a>, Failure> {
        match (&self.attachment.volume, &self.attachment.inline) {
            (Some(_), Some(_)) => Err(Failure::TwoSources),
            (None, None) => Err(Failure::NoSource),
            (None, Some(spec)) => Ok(From::Inline(spec)),
            (Some(name), None) => match self.volume {
                Some(volume) => Ok(From::Volume(name, volume)),
                None => Err(Failure::NoVolume(name.clone())),
            },
        }
    }

    /// The volume specification, from the inline source or the PersistentVolume.
    pub(super) fn spec(&self) -> Result<&'a VolumeSpec, Failure> {
        Ok(match self.source()? {
            From::Inline(spec) => spec,
            From::Volume(_, volume) => &volume.spec,
        })
    }

    /// The CSI source of `spec`, written or translated.
    pub(super) fn csi<'s>(&self, spec: &'s VolumeSpec) -> Result<&'s CsiSource, Failure> {
        match (&spec.source, &self.attachment.inline) {
            (Source::Csi(source), _) => Ok(source),
            (Source::InTree(_) | Source::Other, Some(_)) => Err(Failure::InlineNotCsi),
            (Source::InTree(source), None) => match &source.csi {
                Ok(source) => Ok(source),
                Err(why) => Err(Failure::Untranslatable(why.clone())),
            },
            (Source::Other, None) => Err(Failure::NotCsi),
        }
    }

    /// The `migrated` label of calls for the attachment's volume.
    pub(super) fn migrated(&self) -> Migrated {
        let in_tree = |volume: &Volume| matches!(volume.spec.source, Source::InTree(_));
        Migrated(self.volume.is_some_and(in_tree))
    }

    /// The driver's id of the node, from the CSINode only.
    pub(super) fn node_id(&self) -> Result<&'a str, Failure> {
        let Some(node) = self.node else {
            return Err(Failure::NoCsiNode(self.attachment.node.clone()));
        };
        node.id_for(&self.driver.name)
            .ok_or_else(|| Failure::NotRegistered {
                node: self.attachment.node.clone(),
                driver: self.driver.name.clone(),
            })
    }

    /// The driver's id of the node, or the saved one if the CSINode is gone or lacks the driver.
    pub(super) fn known_node_id(&self) -> Result<&'a str, Failure> {
        match (self.node_id(), self.attachment.node_id.as_deref()) {
            (Ok(id), _) => Ok(id),
            (Err(_), Some(saved)) => Ok(saved),
            (Err(failure), None) => Err(failure),
        }
    }
}
