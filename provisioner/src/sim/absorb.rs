//! Takes the replies to own writes into the caches.

use sidecar_testkit::sim::watch::{Versioned, key as key_of};

use super::process::{Process, Written, keep};
use super::run::World;
use crate::model::{Claim, Text, VolumeDetail};
use crate::plan::claim::ClaimReply;
use crate::plan::reactor::Reply;
use crate::plan::request::{self, Object};

impl World {
    /// Takes the result of an own write into the caches; `None` is a failure.
    pub(super) fn absorb(&mut self, reply: &Reply, written: Option<Written>) {
        let (claim, volume) = match written {
            Some(Written::Claim(written)) => (Some(written), None),
            Some(Written::Volume(written)) => (None, Some(written)),
            None => (None, None),
        };
        let process = &mut self.process;
        match reply {
            Reply::Ask(request::Reply::Write(write, _)) => match &write.object {
                Object::Claim(key) => process.absorb_claim(key, claim),
                Object::Volume(name) => process.absorb_volume(name, volume),
                Object::Snapshot(_)
                | Object::Content(_)
                | Object::SourceClaim(_)
                | Object::SourceVolume(_)
                | Object::Owner(..)
                | Object::AttributesClass(_) => {}
            },
            Reply::Claim(ClaimReply::ExistingPv(name, _)) => process.absorb_volume(name, volume),
            Reply::Ask(_) | Reply::Claim(_) => {}
        }
    }
}

impl Process {
    /// Applies the reply to an own write of a claim that was announced to the cache.
    fn absorb_claim(&mut self, name: &Text, written: Option<Versioned<Claim>>) {
        let forgets = self.mutant.forgets_own_writes();
        let slots = &mut self.informers.claims.slots;
        let change = match written.filter(|_| !forgets) {
            Some((version, object)) => match keep(&object) {
                Some(kept) => slots.write_answered(&key_of(name), kept, version),
                None => slots.write_answered_unkept(&key_of(name), version),
            },
            None => slots.write_failed(&key_of(name)),
        };
        if let Some(change) = change {
            self.claim_changed(&change);
        }
    }

    /// The same for a volume.
    fn absorb_volume(&mut self, name: &Text, written: Option<Versioned<VolumeDetail>>) {
        let forgets = self.mutant.forgets_own_writes();
        let slots = &mut self.informers.volumes.slots;
        let change = match written.filter(|_| !forgets) {
            Some((version, object)) => {
                let kept = self.mutant.keeps(&object);
                slots.write_answered(&key_of(name), kept, version)
            }
            None => slots.write_failed(&key_of(name)),
        };
        if let Some(change) = change {
            self.volume_changed(&change);
        }
    }
}
