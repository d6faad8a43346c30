//! Objects for tests: the fixture of the acceptance tables, and patches applied to it.
//!
//! Decision tables and crash simulation start from the same objects.

use std::sync::Arc;

use serde_json::Value;

use crate::keys::{NODE_EXPANSION_NOT_REQUIRED, PRE_RESIZE_CAPACITY};
use crate::model::{
    AttributesClass, ClaimDetail, ClaimPhase, ClaimRef, Condition, CsiSource, InTree, List, Modify,
    ModifyPhase, PreResize, Quantity, ResizeStatus, Source, Text, Uid, Volume, VolumeKind,
};
use crate::plan::Driver;
use crate::plan::driver::{Abilities, Expansion};
use crate::plan::request::About;

pub(crate) mod bench;

/// The time in every test.
pub(crate) const NOW: &str = "2026-01-02T03:04:05Z";

/// UID of the fixture's claim.
pub(crate) const UID: &str = "2f0d7a3e-7f0c-4d53-8f4e-0f5f4f7d9a11";

/// The fixture's driver: expands and modifies.
pub(crate) fn driver() -> Driver {
    Driver {
        name: "test.csi.driver".into(),
        abilities: Abilities {
            expansion: Expansion::Controller,
            modify: true,
            single_node_multi_writer: false,
        },
        migrated: false,
    }
}

/// A list of strings.
pub(crate) fn list(items: &[&str]) -> List {
    items.iter().map(|item| Text::from(*item)).collect()
}

/// A quantity.
pub(crate) fn size(text: &str) -> Quantity {
    text.parse().unwrap()
}

/// `ns/c1`: bound, requests 1Gi, has 1Gi.
pub(crate) fn claim() -> ClaimDetail {
    ClaimDetail {
        namespace: "ns".into(),
        name: "c1".into(),
        uid: Uid::new(UID),
        version: "1".into(),
        volume: "pv1".into(),
        request: Some(size("1Gi")),
        phase: ClaimPhase::Bound,
        capacity: Some(size("1Gi")),
        ..ClaimDetail::default()
    }
}

/// `pv1`: 1Gi, bound to the fixture's claim.
pub(crate) fn pv() -> Volume {
    Volume {
        handle: "h1".into(),
        capacity: Some(size("1Gi")),
        claim: Some(ClaimRef {
            namespace: "ns".into(),
            uid: Uid::new(UID),
        }),
        kind: Arc::new(VolumeKind {
            source: csi("test.csi.driver"),
            access_modes: list(&["ReadWriteOnce"]),
            ..VolumeKind::default()
        }),
        ..Volume::default()
    }
}

/// The source of a volume of `driver`, without other fields.
pub(crate) fn csi(driver: &str) -> Source {
    Source::Csi(CsiSource {
        driver: driver.into(),
        ..CsiSource::default()
    })
}

/// The source of a volume of the in-tree plugin that `driver` has replaced.
pub(crate) fn in_tree(driver: &'static str, translated: Result<(), &str>) -> Source {
    let csi = translated.map_err(Text::from).map(|()| CsiSource {
        driver: driver.into(),
        ..CsiSource::default()
    });
    Source::InTree(Box::new(InTree { driver, csi }))
}

/// The volume's shared fields, to be changed for this volume alone.
pub(crate) fn kind(volume: &mut Volume) -> &mut VolumeKind {
    Arc::make_mut(&mut volume.kind)
}

/// The annotation on `pv1` for `c1`.
pub(crate) fn pre_resize(capacity: &str) -> Option<Box<PreResize>> {
    Some(Box::new(PreResize {
        capacity: capacity.into(),
        claim: "c1".into(),
    }))
}

/// A class of the fixture's driver.
pub(crate) fn class(iops: &str) -> AttributesClass {
    AttributesClass {
        uid: format!("uid-{iops}").into(),
        driver: "test.csi.driver".into(),
        parameters: [("iops", iops)].into_iter().collect(),
    }
}

/// A condition that holds.
pub(crate) fn condition(kind: &str, message: &str) -> Condition {
    Condition {
        kind: kind.into(),
        status: "True".into(),
        message: message.into(),
        changed: Some("2026-01-01T00:00:00Z".into()),
        ..Condition::default()
    }
}

fn text(value: &Value) -> Option<Text> {
    value.as_str().map(Text::from)
}

fn storage(value: &Value) -> Option<&str> {
    (!value.is_null()).then(|| value["storage"].as_str().unwrap())
}

/// Applies a strategic merge patch of the status. Returns `false` on a conflict.
pub(crate) fn patch_claim(claim: &mut ClaimDetail, patch: &Value) -> bool {
    for (name, value) in patch["metadata"].as_object().unwrap() {
        match name.as_str() {
            "resourceVersion" if *value != *claim.version => return false,
            "resourceVersion" => {}
            "annotations" => {
                let annotations = value.as_object().unwrap();
                assert_eq!(annotations.len(), 1);
                claim.node_expansion_not_required = text(&annotations[NODE_EXPANSION_NOT_REQUIRED]);
            }
            other => unreachable!("metadata.{other}"),
        }
    }
    let versioned = patch["metadata"].get("resourceVersion").is_some();
    let none = serde_json::Map::new();
    for (name, value) in patch
        .get("status")
        .map_or(&none, |status| status.as_object().unwrap())
    {
        match name.as_str() {
            "allocatedResources" => claim.allocated = storage(value).map(size),
            "allocatedResourceStatuses" => claim.resize = storage(value).map(ResizeStatus::parse),
            "capacity" => claim.capacity = storage(value).map(size),
            "currentVolumeAttributesClassName" => claim.current_class = text(value).unwrap(),
            "modifyVolumeStatus" => patch_modify(claim, value),
            "conditions" => patch_conditions(claim, value, versioned),
            "$setElementOrder/conditions" => {}
            other => unreachable!("status.{other}"),
        }
    }
    true
}

fn patch_modify(claim: &mut ClaimDetail, value: &Value) {
    if value.is_null() {
        claim.modify = None;
        return;
    }
    let before = claim.modify.take();
    let mut modify = before.unwrap_or(Modify {
        phase: ModifyPhase::Unknown,
        target: Text::default(),
    });
    for (name, value) in value.as_object().unwrap() {
        match name.as_str() {
            "status" => modify.phase = ModifyPhase::parse(value.as_str().unwrap()),
            "targetVolumeAttributesClassName" => modify.target = text(value).unwrap(),
            other => unreachable!("modifyVolumeStatus.{other}"),
        }
    }
    claim.modify = Some(modify);
}

fn patch_conditions(claim: &mut ClaimDetail, value: &Value, versioned: bool) {
    let mut conditions = claim.conditions.to_vec();
    if value.is_null() {
        conditions.clear();
    }
    for entry in value.as_array().into_iter().flatten() {
        let kind = entry["type"].as_str().unwrap();
        let place = conditions.iter().position(|held| *held.kind == *kind);
        if entry.get("$patch").is_some() {
            // A patch with the version that its author has read deletes only existing conditions.
            assert!(place.is_some() || !versioned, "there is one to delete");
            place.map(|place| conditions.remove(place));
            continue;
        }
        let place = place.unwrap_or_else(|| {
            conditions.push(Condition {
                kind: kind.into(),
                ..Condition::default()
            });
            conditions.len() - 1
        });
        let condition = &mut conditions[place];
        for (name, value) in entry.as_object().unwrap() {
            match name.as_str() {
                "type" => {}
                "status" => condition.status = text(value).unwrap(),
                "reason" => condition.reason = text(value).unwrap_or_default(),
                "message" => condition.message = text(value).unwrap_or_default(),
                "lastTransitionTime" => condition.changed = text(value),
                "lastProbeTime" => condition.probed = text(value),
                other => unreachable!("conditions.{other}"),
            }
        }
    }
    claim.conditions = Arc::from(conditions);
}

/// Applies a strategic merge patch of a PersistentVolume.
pub(crate) fn patch_volume(volume: &mut Volume, patch: &Value) {
    for (path, value) in [("/metadata/annotations", true), ("/spec", false)] {
        let Some(fields) = patch.pointer(path).and_then(Value::as_object) else {
            continue;
        };
        for (name, field) in fields {
            match (name.as_str(), value) {
                (PRE_RESIZE_CAPACITY, true) => {
                    volume.pre_resize = text(field).and_then(|text| pre_resize(&text));
                }
                ("capacity", false) => volume.capacity = storage(field).map(size),
                ("volumeAttributesClassName", false) => kind(volume).class = text(field),
                other => unreachable!("{other:?}"),
            }
        }
    }
}

/// The reference to the claim in requests.
pub(crate) fn about(claim: &ClaimDetail) -> About {
    About {
        claim: claim.key(),
        uid: claim.uid.clone(),
    }
}
