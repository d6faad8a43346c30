//! What the answers to own writes bring into the caches.

use std::sync::Arc;

use sidecar_testkit::sim::watch::{Versioned, key as key_of};

use super::process::{Process, Written, keep};
use super::run::World;
use super::step::edit_of;
use crate::model::{Claim, Text, Volume, VolumeDetail};
use crate::plan::claim as claims;
use crate::plan::delete;
use crate::plan::reactor::{Answer, Step};

impl World {
    /// Takes the result of an own write into the caches; `None` is a failure.
    pub(super) fn absorb(
        &mut self,
        step: &Step,
        answer: Answer,
        written: Option<Written>,
    ) -> Answer {
        let (claim, volume) = match written {
            Some(Written::Claim(written)) => (Some(written), None),
            Some(Written::Volume(written)) => (None, Some(written)),
            None => (None, None),
        };
        if let Some(edit) = edit_of(step) {
            let name: Text = format!("{}/{}", edit.namespace, edit.name).into();
            self.process.absorb_claim(&name, claim);
            return answer;
        }
        match (step, answer) {
            (Step::Take(taken, _), answer) => {
                self.process.absorb_claim(&taken.key(), claim);
                answer
            }
            (
                Step::Claim {
                    step: claims::Step::Save(unsaved),
                    ..
                },
                answer,
            ) => {
                self.process.absorb_volume(&unsaved.name, volume);
                answer
            }
            (
                Step::Claim {
                    step: claims::Step::LoadNamesake(name, _),
                    ..
                },
                answer,
            ) => {
                self.process.absorb_volume(name, volume);
                answer
            }
            (
                Step::Volume {
                    step:
                        delete::Step::FinalizerAction(_)
                        | delete::Step::Remove { .. }
                        | delete::Step::Release(_),
                    name,
                    ..
                },
                Answer::Volume(answer, _),
            ) => {
                let current = self.process.absorb_volume(name, volume);
                Answer::Volume(answer, current)
            }
            (_, answer) => answer,
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

    /// The same of a volume. As it is now, if that was heard.
    fn absorb_volume(
        &mut self,
        name: &Text,
        written: Option<Versioned<VolumeDetail>>,
    ) -> Option<Arc<Volume>> {
        let slots = &mut self.informers.volumes.slots;
        let (change, current) = match written {
            Some((version, object)) => {
                let current = Arc::new(self.mutant.keeps(&object));
                let gone = object.deleting && object.finalizers.is_empty();
                let change = if self.mutant.forgets_own_writes() || gone {
                    slots.write_failed(&key_of(name))
                } else {
                    let kept = self.mutant.keeps(&object);
                    slots.write_answered(&key_of(name), kept, version)
                };
                (change, Some(current))
            }
            None => (slots.write_failed(&key_of(name)), None),
        };
        if let Some(change) = change {
            self.volume_changed(&change);
        }
        current
    }
}
