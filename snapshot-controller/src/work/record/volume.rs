//! PersistentVolumes on the wire.

use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{interned, own};
use sidecar::kube::objects::volume;

use crate::model::{ClaimRef, Csi, Uid, Volume};

impl Record for Volume {
    type Wire<'a> = volume::Volume<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let spec = wire.spec;
        Some(Self {
            affinity: spec.affinity().map(|json| strings.intern(json)),
            csi: spec.csi.map(|csi| Csi {
                driver: interned(&csi.driver, strings),
                handle: own(&csi.volume_handle),
            }),
            claim: spec.claim_ref.map(|claim| ClaimRef {
                namespace: interned(&claim.namespace, strings),
                name: own(&claim.name),
                uid: { claim.uid.as_deref() }
                    .filter(|uid| !uid.is_empty())
                    .map(Uid::new),
            }),
            mode: spec.volume_mode.as_deref().map(|mode| strings.intern(mode)),
        })
    }
}
