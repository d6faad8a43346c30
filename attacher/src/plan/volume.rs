//! The finalizer on a PersistentVolume: when it is added, when it goes.
//!
//! It has a queue of its own. The finalizer keeps the PersistentVolume until no VolumeAttachment
//! refers to it, since a detach needs the volume handle in it.

use serde_json::{Value, json};
use sidecar::controller::script;

use super::Driver;
use super::attempt::{End, Flow};
use super::reactor::Informed;
use super::request::{self, Purpose};
use crate::model::{Source, Text, Volume};

/// JSON patch that adds `finalizer`; `None` if it is there.
///
/// A JSON patch instead of a merge patch, which would write the whole list and bring back
/// finalizers that others have just removed. An absent or empty list is tested for, because there
/// is no end to append to.
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

/// Whether the finalizer on `volume` may be due: such volumes are put into the queue.
#[must_use]
pub fn may_release(volume: &Volume, driver: &Driver) -> bool {
    volume.has_finalizer(&driver.finalizer) && (volume.deleting || rolled_back(volume, driver))
}

/// JSON patch that removes the finalizer; `None` if it must stay. `referenced` says whether any
/// VolumeAttachment, of whatever driver and in whatever state, names the volume; the deletion of
/// that attachment brings the volume here again.
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

/// The script: removes the finalizer as often as it is there, once nothing needs the volume.
pub(super) fn release_unused(name: &Text, used: bool, informers: Informed<'_>) -> Flow<End> {
    let volume = informers.volume(name).ok_or(End::Done)?;
    let patch = release(&volume, used, &informers.driver());
    script::write(patch.map(|patch| request::patch_volume(name, Purpose::ReleaseVolume, patch)))?;
    Ok(End::Done)
}

/// An in-tree volume that this driver served and no longer serves: migration was turned back.
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
