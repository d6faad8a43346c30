//! Attempts advance: requests reach the server, calls reach the driver, answers come back, and
//! every change is held against the invariants.

use std::sync::Arc;

use serde_json::Value;
use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::watch::{Versioned, key as key_of};

use super::call::rpc;
use super::death::Late;
use super::driver::{Kind, key};
use super::mutant::Mutant;
use super::process::{State, Written};
use super::run::{Faults, World, target};
use crate::model::{Attachment, Text, Volume};
use crate::plan::attachment::Answer;
use crate::plan::flight::Target;
use crate::plan::in_flight::Key;
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::reactor::{Answered, Step};
use crate::testing::F;

impl World {
    pub(super) fn faulty(&self) -> bool {
        self.has_faults() && !self.settling
    }

    /// Something in the process advances.
    pub(super) fn work(&mut self) {
        let attempts = self.process.attempts.running.len();
        let choice = self.dice.below(attempts + 2);
        if choice < attempts {
            self.advance(choice);
        } else {
            self.begin();
        }
    }

    /// A queued key gets a worker.
    fn begin(&mut self) {
        if !self.process.synced {
            return self.deliver();
        }
        if let Some(key) = self.process.attempts.choose(&mut self.dice, 6) {
            self.process.begin(&key);
        }
    }

    fn fate(&mut self) -> Fate {
        if self.faulty() {
            Fate::draw(&mut self.dice, 5, &Fate::FAULTS)
        } else {
            Fate::Applied
        }
    }

    fn advance(&mut self, index: usize) {
        match self.process.attempts.leave(index) {
            State::Deciding => {
                if let Some(step) = self.process.decide(index) {
                    self.take_step(index, step);
                }
            }
            State::Sent(step) => {
                let (answer, written) = match self.fate() {
                    Fate::Applied => self.apply(&step),
                    Fate::Unheard => {
                        self.apply(&step);
                        (Answer::Refused(lost()), None)
                    }
                    Fate::Late => {
                        self.late.extend(Late::of(&step));
                        (Answer::Refused(lost()), None)
                    }
                    Fate::Lost => (Answer::Refused(lost()), None),
                    Fate::Refused => (Answer::Refused(refused()), None),
                };
                let state = State::Answered(step, answer.into(), written);
                self.process.attempts.enter(index, state);
            }
            State::Calling(step, id) => self.call(index, step, id),
            State::Answered(step, answered, written) => {
                let answered = self.absorb(&step, answered, written);
                self.process.answer(index, step, answered);
            }
            State::Fenced => unreachable!("its lease does not end"),
        }
    }

    fn take_step(&mut self, index: usize, step: Step) {
        let (target, kind) = match &step {
            Step::Publish(request, _) => {
                (called(&request.volume_id, &request.node_id), Kind::Publish)
            }
            Step::Unpublish(request, _) => (
                called(&request.volume_id, &request.node_id),
                Kind::Unpublish,
            ),
            Step::Read(_)
            | Step::ReadVolume(_)
            | Step::PatchAttachment(..)
            | Step::PatchStatus(..)
            | Step::PatchVolume(..)
            | Step::LoadSecret(_) => {
                self.announce(&step);
                self.process.attempts.enter(index, State::Sent(step));
                return;
            }
        };
        self.take_off(index, step, target, kind);
    }

    fn take_off(&mut self, index: usize, step: Step, target: Target, kind: Kind) {
        let others = self.process.attempts.running.iter().enumerate();
        let calling: Vec<u64> = others
            .filter_map(|(other, running)| match &running.state {
                State::Calling(_, id) if other != index => Some(*id),
                State::Deciding
                | State::Sent(_)
                | State::Waiting(..)
                | State::Calling(..)
                | State::Answered(..)
                | State::Fenced => None,
            })
            .collect();
        let mut held = self.driver.running.iter();
        if held.any(|call| calling.contains(&call.id) && call.target == target) {
            self.complain(format!("two calls at once for {target:?}"));
        }
        let whom = match &self.process.attempts.running[index].key {
            Key::Attachment(name) => {
                let known = self.process.informers.attachments.get(name);
                let uid = known.map(|known| known.uid.clone()).unwrap_or_default();
                format!("{name} {uid}")
            }
            key @ (Key::Orphan(_) | Key::Volume(_)) => format!("{key:?}"),
        };
        self.asks(whom);
        let state = match self.driver.begin(&target, kind) {
            Ok(id) => State::Calling(step, id),
            Err(code) => State::Answered(step, Answer::Failed(rpc(code)).into(), None),
        };
        self.process.attempts.enter(index, state);
    }

    /// An own write, or a GET, is about to be sent.
    fn announce(&mut self, step: &Step) {
        let informers = &mut self.process.informers;
        match step {
            Step::PatchVolume(volume, _) | Step::ReadVolume(volume) => {
                informers.volumes.slots.begin_write(&key_of(volume))
            }
            Step::PatchAttachment(of, _) | Step::PatchStatus(of, _) => {
                informers.attachments.slots.begin_write(&key_of(&of.name));
            }
            Step::Read(name) => informers.attachments.slots.begin_write(&key_of(name)),
            Step::LoadSecret(_) | Step::Publish(..) | Step::Unpublish(..) => {}
        }
    }

    /// The caches take in what came of a step, as the shell has them do.
    fn absorb(&mut self, step: &Step, answered: Answered, written: Option<Written>) -> Answered {
        let process = &mut self.process;
        let forgets = process.mutant == Mutant::ForgetsOwnWrites;
        let unheard =
            process.mutant == Mutant::TakesUnknownForMissing && matches!(step, Step::ReadVolume(_));
        let attachment = match step {
            Step::PatchVolume(volume, _) | Step::ReadVolume(volume) => {
                let slots = &mut process.informers.volumes.slots;
                let change = match written {
                    Some(Written::Volume((version, object))) if !unheard => {
                        slots.write_answered(&key_of(volume), object, version)
                    }
                    _ => slots.write_failed(&key_of(volume)),
                };
                if let Some(change) = change {
                    process.volume_changed(&change);
                }
                return answered;
            }
            Step::PatchAttachment(of, _) | Step::PatchStatus(of, _) => &of.name,
            Step::Read(name) => name,
            Step::LoadSecret(_) | Step::Publish(..) | Step::Unpublish(..) => return answered,
        };
        let (slots, key) = (&mut process.informers.attachments.slots, key_of(attachment));
        let (change, object) = match written {
            Some(Written::Attachment((version, object))) => {
                let change = if forgets {
                    slots.write_failed(&key)
                } else {
                    slots.write_answered(&key, object.clone(), version)
                };
                (change, Some(process.mutant.sees(&Arc::new(object))))
            }
            Some(Written::Volume(_)) | None => (slots.write_failed(&key), None),
        };
        if let Some(change) = change {
            process.attachment_changed(&change);
        }
        // What was read is what the cache has then.
        let read = matches!(step, Step::Read(_));
        let known = || process.informers.attachments.get(attachment).cloned();
        Answered {
            attachment: if read && object.is_some() {
                known()
            } else {
                object
            },
            ..answered
        }
    }

    /// The server applies what `step` asks for.
    pub(super) fn apply(&mut self, step: &Step) -> (Answer, Option<Written>) {
        let written = match step {
            Step::PatchVolume(volume, patch) => {
                self.patch_volume(volume, patch).map(Written::Volume)
            }
            Step::PatchAttachment(of, patch) | Step::PatchStatus(of, patch) => {
                self.patch_attachment(of, patch).map(Written::Attachment)
            }
            Step::Read(name) => match self.server.attachments.get(name) {
                Some(held) => Ok(Written::Attachment(held.clone())),
                None => Err(ApiError {
                    refusal: Refusal::NotFound,
                    ..refused()
                }),
            },
            Step::ReadVolume(name) => match self.server.volumes.get(name) {
                Some(held) => Ok(Written::Volume(held.clone())),
                None => Err(ApiError {
                    refusal: Refusal::NotFound,
                    ..refused()
                }),
            },
            Step::LoadSecret(_) | Step::Publish(..) | Step::Unpublish(..) => {
                unreachable!("no request that the model has")
            }
        };
        match written {
            Ok(written) => (Answer::Written, Some(written)),
            Err(error) => (Answer::Refused(error), None),
        }
    }

    pub(super) fn patch_attachment(
        &mut self,
        of: &Attachment,
        patch: &Value,
    ) -> Result<Versioned<Attachment>, ApiError> {
        let before = self
            .server
            .attachments
            .get(&of.name)
            .map(|(_, object)| object.clone());
        let result = self.server.patch_attachment(of, patch);
        if let (Some(before), Ok((_, after))) = (before, &result)
            && self.faults != Faults::Aliases
        {
            let target = target(&before);
            let released = before.has_finalizer(F) && !after.has_finalizer(F);
            if released && self.driver.may_hold(&target) {
                self.complain(format!(
                    "finalizer removed while {target:?} may be attached"
                ));
            }
            // A late report about one that is being deleted misleads nobody: it goes all the same.
            let late = self.arriving && before.deleting;
            let reported = !before.attached && after.attached && !late;
            if reported && self.driver.last.get(&key(&target)) != Some(&Kind::Publish) {
                self.complain(format!("{target:?} reported attached without publish"));
            }
        }
        result
    }

    pub(super) fn patch_volume(
        &mut self,
        name: &Text,
        patch: &Value,
    ) -> Result<Versioned<Volume>, ApiError> {
        let held = |volume: Option<&Versioned<Volume>>| {
            volume.is_some_and(|(_, volume)| volume.has_finalizer(F))
        };
        let before = held(self.server.volumes.get(name));
        let result = self.server.patch_volume(name, patch);
        if before && !held(self.server.volumes.get(name)) {
            let handle = format!("h-{name}");
            let mut attached = self.driver.attached.iter();
            let attached = attached.any(|(volume, _)| *volume == handle);
            let calls = self.driver.running.iter();
            let calling =
                { calls }.any(|call| *call.target.volume == *handle && call.kind == Kind::Publish);
            let stripped = self.stripped.iter().any(|(volume, _)| *volume == handle);
            if (attached || calling) && !stripped {
                self.complain(format!(
                    "volume finalizer removed while {name} may be attached"
                ));
            }
        }
        result
    }
}

fn called(volume: &str, node: &str) -> Target {
    Target {
        volume: volume.into(),
        node: node.into(),
    }
}

pub(super) fn refused() -> ApiError {
    ApiError {
        message: "simulated".into(),
        refusal: Refusal::Other,
    }
}

fn lost() -> ApiError {
    ApiError {
        refusal: Refusal::Unknown,
        ..refused()
    }
}
