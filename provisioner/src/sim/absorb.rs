//! What the answers to own writes bring into the caches.

use sidecar_testkit::sim::watch::{Versioned, key as key_of};

use super::process::{Process, Written, keep};
use super::run::World;
use super::step::edit_of;
use crate::model::{Claim, Text, VolumeDetail};
use crate::plan::claim as claims;
use crate::plan::in_flight::Unsaved;
use crate::plan::reactor::{Reply, Step};
use crate::plan::request;

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
            Reply::Volume(request::Reply::Write(write, _)) => {
                process.absorb_volume(&write.object, volume);
            }
            Reply::Other(Step::Take(taken, _), _) => process.absorb_claim(&taken.key(), claim),
            Reply::Other(
                Step::Claim {
                    step:
                        claims::Step::Save(Unsaved { name, .. }) | claims::Step::LoadNamesake(name, _),
                    ..
                },
                _,
            ) => process.absorb_volume(name, volume),
            Reply::Other(step, _) => {
                if let Some(edit) = edit_of(step) {
                    let name: Text = format!("{}/{}", edit.namespace, edit.name).into();
                    process.absorb_claim(&name, claim);
                }
            }
            Reply::Volume(_) => {}
        }
    }
}

impl Process {
    /// The answer to an own write of a claim that was announced to the cache.
    fn absorb_claim(&mut self, name: &Text, written: Option<Versioned<Claim>>) {
        let forgets = self.mutant.forgets_own_writes();
        let kept = written.and_then(|(version, object)| Some((version, keep(&object)?)));
        let slots = &mut self.informers.claims.slots;
        let change = match kept.filter(|_| !forgets) {
            Some((version, kept)) => slots.write_answered(&key_of(name), kept, version),
            None => slots.write_failed(&key_of(name)),
        };
        if let Some(change) = change {
            self.claim_changed(&change);
        }
    }

    /// The same of a volume.
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
