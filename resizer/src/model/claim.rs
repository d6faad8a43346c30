//! PersistentVolumeClaim: the requested size and attributes of a volume.
//!
//! The cache holds a claim in full only while a task is due for it. Of a cluster's 50,000 satisfied
//! claims it holds nothing, except capacity and UID of those that this process has worked on or
//! read.

use std::sync::Arc;

use super::{Condition, Modify, ModifyPhase, Quantity, ResizeStatus, Text, Uid};
use crate::keys::{FILE_SYSTEM_RESIZE_PENDING, MODIFYING_VOLUME};

/// A `core/v1` PersistentVolumeClaim in the cache, under the key `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// No task is due for it.
    Quiet(Quiet),
    /// Its volume has to be expanded or modified.
    Open(Box<ClaimDetail>),
}

/// A claim without a due task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quiet {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `status.capacity.storage`.
    pub capacity: Option<Quantity>,
}

/// A claim with a due task, as far as the resizer reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimDetail {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`, as written: patches carry it.
    pub version: Text,
    /// Annotation [`STORAGE_RESIZER`](crate::keys::STORAGE_RESIZER).
    pub resizer: Option<Text>,
    /// Annotation [`STORAGE_PROVISIONER`](crate::keys::STORAGE_PROVISIONER).
    pub provisioner: Option<Text>,
    /// Annotation [`NODE_EXPANSION_NOT_REQUIRED`](crate::keys::NODE_EXPANSION_NOT_REQUIRED).
    pub node_expansion_not_required: Option<Text>,
    /// `spec.volumeName`, empty where unset.
    pub volume: Text,
    /// `spec.resources.requests.storage`: S.
    pub request: Option<Quantity>,
    /// `spec.volumeAttributesClassName`, empty where unset.
    pub class: Text,
    /// `status.phase`.
    pub phase: ClaimPhase,
    /// `status.capacity.storage`: C.
    pub capacity: Option<Quantity>,
    /// `status.allocatedResources.storage`: A, the size that the driver was last asked for.
    pub allocated: Option<Quantity>,
    /// `status.allocatedResourceStatuses.storage`.
    pub resize: Option<ResizeStatus>,
    /// `status.conditions`, all of them, in order.
    pub conditions: Arc<[Condition]>,
    /// `status.currentVolumeAttributesClassName`, empty where unset.
    pub current_class: Text,
    /// `status.modifyVolumeStatus`.
    pub modify: Option<Modify>,
}

/// The fields that show whether a task is due for a claim.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signs<'a> {
    /// `spec.volumeName`, empty where unset.
    pub volume: &'a str,
    /// `status.phase`.
    pub phase: ClaimPhase,
    /// `spec.resources.requests.storage`.
    pub request: Option<Quantity>,
    /// `status.capacity.storage`.
    pub capacity: Option<Quantity>,
    /// `spec.volumeAttributesClassName`, empty where unset.
    pub class: &'a str,
    /// `status.currentVolumeAttributesClassName`, empty where unset.
    pub current_class: &'a str,
    /// `status.modifyVolumeStatus.status`.
    pub modify: Option<ModifyPhase>,
    /// Whether the condition [`MODIFYING_VOLUME`] exists, with any status.
    pub modifying: bool,
}

impl Signs<'_> {
    /// Whether it is bound to a volume.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.phase == ClaimPhase::Bound && !self.volume.is_empty()
    }

    /// Whether it requests more than its capacity. A missing capacity counts as zero.
    #[must_use]
    pub fn wants_growth(&self) -> bool {
        let request = self.request.filter(|_| self.is_bound());
        request.is_some_and(|request| self.capacity.is_none_or(|capacity| request > capacity))
    }

    /// Whether its volume has to be modified, or the traces of a modification removed.
    #[must_use]
    pub fn wants_change(&self) -> bool {
        let changing = self.modify == Some(ModifyPhase::InProgress);
        self.is_bound()
            && if self.class.is_empty() {
                changing || self.modifying
            } else {
                self.modify.is_some() || self.class != self.current_class
            }
    }
}

/// `status.phase` of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimPhase {
    /// `Bound`
    Bound,
    /// Anything else.
    #[default]
    Other,
}

impl ClaimPhase {
    /// The phase that the API spells `text`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "Bound" => Self::Bound,
            _ => Self::Other,
        }
    }
}

impl Claim {
    /// Reduces the claim to the part that the cache holds.
    #[must_use]
    pub fn new(detail: ClaimDetail) -> Self {
        if detail.wants_growth() || detail.wants_change() {
            Self::Open(Box::new(detail))
        } else {
            Self::Quiet(Quiet {
                uid: detail.uid.clone(),
                capacity: detail.capacity,
            })
        }
    }

    /// The claim in full, if a task is due for it.
    #[must_use]
    pub fn detail(&self) -> Option<&ClaimDetail> {
        match self {
            Self::Open(detail) => Some(detail),
            Self::Quiet(_) => None,
        }
    }

    /// Whether a task is due for it: the cache holds other claims only if this process has read
    /// them.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        match self {
            Self::Open(detail) => &detail.uid,
            Self::Quiet(quiet) => &quiet.uid,
        }
    }

    /// `status.capacity.storage`.
    #[must_use]
    pub fn capacity(&self) -> Option<Quantity> {
        match self {
            Self::Open(detail) => detail.capacity,
            Self::Quiet(quiet) => quiet.capacity,
        }
    }
}

impl ClaimDetail {
    /// `namespace/name`: the key under which the claim is cached and queued.
    #[must_use]
    pub fn key(&self) -> Text {
        format!("{}/{}", self.namespace, self.name).into()
    }

    /// Whether it is bound to a volume.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.phase == ClaimPhase::Bound && !self.volume.is_empty()
    }

    /// Whether it requests more than its capacity. A missing capacity counts as zero.
    #[must_use]
    pub fn wants_growth(&self) -> bool {
        self.signs().wants_growth()
    }

    /// Whether its volume has to be modified, or the traces of a modification removed.
    #[must_use]
    pub fn wants_change(&self) -> bool {
        self.signs().wants_change()
    }

    fn signs(&self) -> Signs<'_> {
        Signs {
            volume: &self.volume,
            phase: self.phase,
            request: self.request,
            capacity: self.capacity,
            class: &self.class,
            current_class: &self.current_class,
            modify: self.modify.as_ref().map(|modify| modify.phase),
            modifying: self.has_condition(MODIFYING_VOLUME),
        }
    }

    /// Whether a modification is under way according to the status.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.modify
            .as_ref()
            .is_some_and(|modify| modify.phase == ModifyPhase::InProgress)
    }

    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| *condition.kind == *kind)
    }

    /// Whether a condition of this type exists, with any status.
    #[must_use]
    pub fn has_condition(&self, kind: &str) -> bool {
        self.condition(kind).is_some()
    }

    /// Whether kubelet's part is pending according to the older condition.
    #[must_use]
    pub fn is_file_system_pending(&self) -> bool {
        self.condition(FILE_SYSTEM_RESIZE_PENDING)
            .is_some_and(Condition::is_true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_calls_for_nothing_is_small() {
        assert!(size_of::<Claim>() <= 40, "{}", size_of::<Claim>());
    }
}
