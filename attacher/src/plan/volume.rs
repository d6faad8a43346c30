//! The finalizer on a PersistentVolume: when to add and when to remove it.
//!
//! Removal has its own queue. The finalizer keeps the PersistentVolume until no VolumeAttachment
//! refers to it, because a detach needs its volume handle.

use serde_json::{Value, json};
use sidecar::controller::script;

use super::Driver;
use super::attempt::{End, Flow};
use super::reactor::Informed;
use super::request::{self, Purpose};
use crate::model::{Source, Text, Volume};

/// JSON patch that adds `finalizer`; `None` if it is present.
///
/// A merge patch would write the whole list and restore finalizers that others have just removed.
/// For an absent or empty list the patch tests for exactly that state, since there is nothing to
/// append to.
#[must_use]
pub fn protect(volume: &Volume, finalizer: &str) -> Option<Value> {
    const PATH: &str = "/metadata/finalizers";
    if volume.has_finalizer(finalizer) {
        return None;
    }
    Some(match volume.finalizers.as_deref() {
        None => json!([
            { "op": "test", "path": PATH, "value": null },
            { "op": "add", "path": PATH, "value": [finalizer] },
        ]),
        Some([]) => json!([
            { "op": "test", "path": PATH, "value": [] },
            { "op": "replace", "path": PATH, "value": [finalizer] },
        ]),
        Some(_) => json!([
            { "op": "add", "path": format!("{PATH}/-"), "value": finalizer },
        ]),
    })
}

/// Whether the finalizer on `volume` may have to be removed; only such volumes are queued.
#[must_use]
pub fn may_release(volume: &Volume, driver: &Driver) -> bool {
    volume.has_finalizer(&driver.finalizer) && (volume.deleting || rolled_back(volume, driver))
}

/// JSON patch that removes the finalizer; `None` if it must stay. `referenced` says whether any
/// VolumeAttachment, of any driver and in any state, names the volume; the deletion of that
/// attachment requeues the volume.
#[must_use]
pub fn release(volume: &Volume, referenced: bool, driver: &Driver) -> Option<Value> {
    if referenced || !may_release(volume, driver) {
        return None;
    }
    let index = volume.finalizer_index(&driver.finalizer)?;
    let path = format!("/metadata/finalizers/{index}");
    Some(json!([
        { "op": "test", "path": path, "value": driver.finalizer },
        { "op": "remove", "path": path },
    ]))
}

/// The script: removes every copy of the finalizer once nothing needs the volume.
pub(super) fn release_unused(name: &Text, used: bool, informers: Informed<'_>) -> Flow<End> {
    let volume = informers.volume(name).ok_or(End::Done)?;
    let patch = release(&volume, used, &informers.driver());
    script::write(patch.map(|patch| request::patch_volume(name, Purpose::ReleaseVolume, patch)))?;
    Ok(End::Done)
}

/// Whether this driver no longer serves an in-tree volume: its migration was turned off again.
fn rolled_back(volume: &Volume, driver: &Driver) -> bool {
    match volume.spec.source {
        Source::InTree(_) => volume.migrated_to.as_deref() != Some(&*driver.name),
        Source::Csi(_) | Source::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{F, csi, driver, in_tree as in_tree_source, json_patch, list, pv, spec};

    fn finalizers(items: &[&str], deleting: bool) -> Volume {
        Volume {
            deleting,
            finalizers: (!items.is_empty()).then(|| list(items)),
            ..pv()
        }
    }

    fn in_tree(migrated_to: Option<&str>) -> Volume {
        Volume {
            migrated_to: migrated_to.map(Into::into),
            spec: spec(in_tree_source("ebs.csi.aws.com", Ok(csi()))),
            ..finalizers(&[F], false)
        }
    }

    fn of_ours_deleted() -> Volume {
        Volume {
            deleting: true,
            ..in_tree(Some("test.csi.driver"))
        }
    }

    fn remove(index: usize) -> Option<Value> {
        let path = format!("/metadata/finalizers/{index}");
        Some(json!([
            { "op": "test", "path": path, "value": F },
            { "op": "remove", "path": path },
        ]))
    }

    #[test]
    fn finalizer_goes_when_it_is_due() {
        let rows = [
            (
                "104",
                finalizers(&["a/b", F, "c/d"], true),
                false,
                remove(1),
            ),
            ("105", finalizers(&[F], true), true, None),
            ("107", finalizers(&[F], false), false, None),
            ("109", in_tree(None), false, remove(0)),
            ("109 with attachment", in_tree(None), true, None),
            ("110", in_tree(Some("test.csi.driver")), false, None),
            ("111", in_tree(Some("other.driver")), false, remove(0)),
            ("M-121", in_tree(None), true, None),
            ("M-123", in_tree(Some("")), true, None),
            ("M-123 then", in_tree(Some("")), false, remove(0)),
            (
                "M-124",
                in_tree(Some("kubernetes.io/aws-ebs")),
                false,
                remove(0),
            ),
            ("M-125", of_ours_deleted(), false, remove(0)),
            ("M-125 with attachment", of_ours_deleted(), true, None),
            ("112", finalizers(&["a/b"], true), false, None),
            ("112 none", finalizers(&[], true), false, None),
        ];
        for (row, volume, referenced, expected) in rows {
            assert_eq!(
                release(&volume, referenced, &driver()),
                expected,
                "row {row}"
            );
        }
    }

    #[test]
    fn row_106_a_doubled_finalizer_goes_one_at_a_time() {
        let mut volume = finalizers(&["a/b", F, F], true);
        let mut patches = 0;
        while let Some(patch) = release(&volume, false, &driver()) {
            assert!(json_patch(&mut volume, &patch));
            patches += 1;
        }
        assert_eq!((patches, volume.finalizers), (2, Some(list(&["a/b"]))));
    }

    #[test]
    fn only_volumes_whose_finalizer_may_be_due_are_queued() {
        assert!(may_release(&finalizers(&[F], true), &driver()));
        assert!(may_release(&in_tree(None), &driver()));
        assert!(!may_release(&finalizers(&[F], false), &driver()));
        assert!(!may_release(&finalizers(&["a/b"], true), &driver()));
        assert!(!may_release(&in_tree(Some("test.csi.driver")), &driver()));
    }
}
