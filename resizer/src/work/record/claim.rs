//! PersistentVolumeClaims on the wire.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, nullable, own, seconds};
use sidecar::kube::objects::claim::Spec;
use sidecar::kube::objects::quantity;
use sidecar::lifecycle::{Id, Lifecycle, Look, Step};

use crate::keys::{
    FILE_SYSTEM_RESIZE_PENDING, MODIFYING_VOLUME, NODE_EXPANSION_NOT_REQUIRED, RESIZING,
    STORAGE_PROVISIONER, STORAGE_RESIZER,
};
use crate::model::{
    Claim, ClaimDetail, ClaimPhase, Condition, Modify, ModifyPhase, Quiet, ResizeStatus, Signs, Uid,
};
use crate::plan::lifecycle::{ClaimSeen, of_claim};

/// A PersistentVolumeClaim on the wire.
type ClaimWire<'a> = lean::Parts<'a, Spec<'a>, StatusWire<'a>>;

/// `status`, as far as the resizer reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusWire<'a> {
    #[serde(borrow)]
    phase: Option<lean::Text<'a>>,
    #[serde(borrow)]
    capacity: lean::Pairs<'a>,
    #[serde(borrow)]
    allocated_resources: lean::Pairs<'a>,
    #[serde(borrow)]
    allocated_resource_statuses: lean::Pairs<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    conditions: Vec<ConditionWire<'a>>,
    #[serde(borrow)]
    current_volume_attributes_class_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    modify_volume_status: Option<ModifyWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConditionWire<'a> {
    #[serde(borrow)]
    r#type: Option<lean::Text<'a>>,
    #[serde(borrow)]
    status: Option<lean::Text<'a>>,
    #[serde(borrow)]
    reason: Option<lean::Text<'a>>,
    #[serde(borrow)]
    message: Option<lean::Text<'a>>,
    #[serde(borrow)]
    last_transition_time: Option<lean::Text<'a>>,
    #[serde(borrow)]
    last_probe_time: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModifyWire<'a> {
    #[serde(borrow)]
    status: Option<lean::Text<'a>>,
    #[serde(borrow)]
    target_volume_attributes_class_name: Option<lean::Text<'a>>,
}

impl Record for Claim {
    type Wire<'a> = ClaimWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let ClaimWire {
            metadata,
            spec,
            status,
        } = wire;
        // Most claims have no due task; the cache does not even keep them.
        let uid = Uid::new(metadata.uid.as_deref().unwrap_or_default());
        let signs = signs(&spec, &status);
        if !signs.wants_growth() && !signs.wants_change() {
            let capacity = signs.capacity;
            return Some(Self::Quiet(Quiet { uid, capacity }));
        }
        let (request, capacity) = (signs.request, signs.capacity);
        let phase = signs.phase;
        let annotation = |key| {
            metadata
                .annotations
                .get(key)
                .map(|text| strings.intern(text))
        };
        let resize = status.allocated_resource_statuses.get("storage");
        let conditions = status.conditions.iter();
        Some(Self::new(ClaimDetail {
            namespace: interned(&metadata.namespace, strings),
            name: own(&metadata.name),
            uid,
            version: own(&metadata.resource_version),
            resizer: annotation(STORAGE_RESIZER),
            provisioner: annotation(STORAGE_PROVISIONER),
            node_expansion_not_required: annotation(NODE_EXPANSION_NOT_REQUIRED),
            volume: own(&spec.volume_name),
            request,
            class: interned(&spec.volume_attributes_class_name, strings),
            phase,
            capacity,
            allocated: quantity(status.allocated_resources.get("storage")),
            resize: resize.map(|text| ResizeStatus::parse(text)),
            conditions: conditions.map(|wire| condition(wire, strings)).collect(),
            current_class: interned(&status.current_volume_attributes_class_name, strings),
            modify: status.modify_volume_status.as_ref().map(|wire| Modify {
                phase: ModifyPhase::parse(wire.status.as_deref().unwrap_or_default()),
                target: interned(&wire.target_volume_attributes_class_name, strings),
            }),
        }))
    }

    fn steps<'w>(wire: &'w Self::Wire<'_>, look: Look, measured: &Lifecycle) -> Vec<Step<'w>> {
        let seen = seen(wire);
        let volume = wire.spec.volume_name.as_deref().unwrap_or_default();
        let is_kept = look != Look::Gone && seen.is_open();
        if is_kept && !measured.may_be_ours(seen.uid, volume) {
            return Vec::new();
        }
        of_claim(&seen, look)
    }

    fn lifecycle_id(&self) -> Option<Id> {
        match self {
            Self::Open(claim) => Some(Id::of(&claim.uid.to_string())),
            Self::Quiet(_) => None,
        }
    }
}

/// What is looked at of a claim, whether or not it is kept.
fn seen<'w>(wire: &'w ClaimWire<'_>) -> ClaimSeen<'w> {
    let signs = signs(&wire.spec, &wire.status);
    let condition = |kind| {
        let mut conditions = wire.status.conditions.iter();
        conditions.find(|held| held.r#type.as_deref() == Some(kind))
    };
    let since =
        |kind| seconds(condition(kind).and_then(|held| held.last_transition_time.as_deref()));
    let resize = wire.status.allocated_resource_statuses.get("storage");
    ClaimSeen {
        uid: wire.metadata.uid.as_deref().unwrap_or_default(),
        bound: signs.is_bound(),
        grows: signs.wants_growth(),
        resize: resize.map(|text| ResizeStatus::parse(text)),
        node_left: condition(FILE_SYSTEM_RESIZE_PENDING).is_some(),
        resizing: since(RESIZING),
        class: signs.class,
        current_class: signs.current_class,
        modifying: since(MODIFYING_VOLUME),
    }
}

fn signs<'w>(spec: &'w Spec<'_>, status: &'w StatusWire<'_>) -> Signs<'w> {
    let phase = status.modify_volume_status.as_ref();
    let phase = phase.map(|wire| wire.status.as_deref().unwrap_or_default());
    let mut conditions = status.conditions.iter();
    Signs {
        volume: spec.volume_name.as_deref().unwrap_or_default(),
        phase: ClaimPhase::parse(status.phase.as_deref().unwrap_or_default()),
        request: quantity(spec.resources.requests.get("storage")),
        capacity: quantity(status.capacity.get("storage")),
        class: spec
            .volume_attributes_class_name
            .as_deref()
            .unwrap_or_default(),
        current_class: status
            .current_volume_attributes_class_name
            .as_deref()
            .unwrap_or_default(),
        modify: phase.map(ModifyPhase::parse),
        modifying: conditions.any(|held| held.r#type.as_deref() == Some(MODIFYING_VOLUME)),
    }
}

fn condition(wire: &ConditionWire<'_>, strings: &Interner) -> Condition {
    Condition {
        kind: interned(&wire.r#type, strings),
        status: interned(&wire.status, strings),
        reason: interned(&wire.reason, strings),
        message: own(&wire.message),
        changed: wire.last_transition_time.as_deref().map(Into::into),
        probed: wire.last_probe_time.as_deref().map(Into::into),
    }
}
