//! PersistentVolumes in the form the cache stores.
//!
//! A cluster has tens of thousands of them. The values that volumes of one class share are stored
//! once, and [`KeptVolume::volume`] rebuilds the full record on each read.

use std::sync::Arc;

use sidecar::kube::interner::Interner;
use uuid::Uuid;

use crate::model::{List, Pairs, Text, Volume, VolumeSpec};

/// A PersistentVolume, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptVolume {
    /// Sixteen bytes instead of a string.
    uid: Option<Uuid>,
    /// Fits into bytes that would be padding otherwise.
    created: u32,
    deleting: bool,
    handle: Text,
    /// Often unique to the volume.
    attributes: Pairs,
    kind: Arc<Kind>,
}

/// The values that volumes of one class mostly share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    finalizers: Option<List>,
    migrated_to: Option<Text>,
    /// Without handle and attributes.
    spec: VolumeSpec,
}

impl KeptVolume {
    /// Stores the volume in fewer bytes.
    #[must_use]
    pub fn new(volume: Volume, strings: &Interner) -> Self {
        let Volume {
            uid,
            created,
            deleting,
            finalizers,
            migrated_to,
            mut spec,
        } = volume;
        let (handle, attributes) = match spec.source.csi_mut() {
            Some(csi) => {
                let empty = strings.intern("");
                let handle = std::mem::replace(&mut csi.handle, empty);
                (handle, std::mem::take(&mut csi.attributes))
            }
            None => (strings.intern(""), Pairs::default()),
        };
        let kind = Kind {
            finalizers,
            migrated_to,
            spec,
        };
        Self {
            uid,
            created,
            deleting,
            handle,
            attributes,
            kind: strings.share(kind),
        }
    }

    /// Rebuilds the volume.
    #[must_use]
    pub fn volume(&self) -> Volume {
        let Kind {
            finalizers,
            migrated_to,
            mut spec,
        } = Kind::clone(&self.kind);
        if let Some(csi) = spec.source.csi_mut() {
            csi.handle = Arc::clone(&self.handle);
            csi.attributes = self.attributes.clone();
        }
        Volume {
            uid: self.uid,
            created: self.created,
            deleting: self.deleting,
            finalizers,
            migrated_to,
            spec,
        }
    }

    /// Whether the cache keeps the volume: it belongs to this driver or has its finalizer.
    #[must_use]
    pub fn is_of(&self, driver: &str, finalizer: &str) -> bool {
        let mut finalizers = self.kind.finalizers.iter().flat_map(|list| list.iter());
        self.kind.spec.source.is_of(driver) || finalizers.any(|held| **held == *finalizer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CsiSource, Source};
    use crate::testing::{F, csi, in_tree, list, pv, spec};

    fn with_source(source: Source) -> Volume {
        Volume {
            spec: spec(source),
            ..pv()
        }
    }

    fn of(driver: &str, handle: &str) -> Source {
        Source::Csi(CsiSource {
            driver: driver.into(),
            handle: handle.into(),
            attributes: Pairs::new(list(&["share", handle])),
            ..csi()
        })
    }

    #[test]
    fn a_volume_comes_out_as_it_went_in() {
        let strings = Interner::default();
        let deleting = Volume {
            uid: Some(Uuid::from_u128(7)),
            created: 1_767_225_600,
            deleting: true,
            finalizers: None,
            migrated_to: Some("d".into()),
            ..pv()
        };
        for volume in [
            pv(),
            deleting,
            with_source(of("d", "h")),
            with_source(Source::Other),
            with_source(in_tree("ebs.csi.aws.com", Ok(csi()))),
            with_source(in_tree("ebs.csi.aws.com", Err("no".into()))),
        ] {
            assert_eq!(KeptVolume::new(volume.clone(), &strings).volume(), volume);
        }
    }

    #[test]
    fn what_volumes_have_in_common_is_kept_once() {
        // In its `Arc` 80 bytes, beside the text of the handle.
        assert!(size_of::<KeptVolume>() <= 64, "{}", size_of::<KeptVolume>());
        let strings = Interner::default();
        let kept = |handle| KeptVolume::new(with_source(of("d", handle)), &strings);
        assert!(Arc::ptr_eq(&kept("a").kind, &kept("b").kind));
    }

    #[test]
    fn volumes_of_this_driver_are_kept_unasked_and_those_with_its_finalizer() {
        let strings = Interner::default();
        let free = |source| Volume {
            finalizers: Some(list(&["a/b"])),
            ..with_source(source)
        };
        let rows = [
            ("ours", free(of("d", "h")), true),
            ("in-tree, ours", free(in_tree("d", Err("no".into()))), true),
            ("another driver's", free(of("x", "h")), false),
            ("in-tree, another's", free(in_tree("x", Ok(csi()))), false),
            ("of no driver", free(Source::Other), false),
            (
                "another's with our finalizer",
                with_source(of("x", "h")),
                true,
            ),
        ];
        for (row, volume, kept) in rows {
            assert_eq!(
                KeptVolume::new(volume, &strings).is_of("d", F),
                kept,
                "{row}"
            );
        }
    }
}
