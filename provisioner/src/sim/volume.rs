//! Attempts on volumes advance: calls reach the driver, requests reach the server, answers come
//! back, and every change is held against the invariants.

use std::sync::Arc;

use serde_json::Value;

use super::driver::{Kind, ModelDriver};
use super::mutant::Mutant;
use super::process::Deleting;
use super::run::{Fate, Faults, World, lost, refused, rpc};
use super::server::{Versioned, refusal};
use super::watch::key;
use crate::model::{Reclaim, Text, Volume, VolumeDetail};
use crate::plan::delete::{Answer, Attempt, Failure, Refresh, Step, View};
use crate::plan::outcome::{ApiError, Refusal};
use tonic::Code;

#[expect(clippy::large_enum_variant, reason = "a handful at a time, in a test")]
pub(super) enum State {
    Deciding,
    /// Sent to the API server, not yet applied.
    Sent(Step),
    /// The driver works on it.
    Calling(Step, u64),
    /// The answer is on its way; with the object if a write was applied and heard of.
    Answered(Step, Answer, Option<Versioned<VolumeDetail>>),
}

impl World {
    /// A queued volume gets a worker.
    pub(super) fn begin_volume(&mut self, name: &Text) {
        let process = &mut self.process;
        process.ready_volumes.remove(name);
        let Some(current) = process.volumes.get(name).cloned() else {
            return;
        };
        if let Volume::Ending(detail) = &*current
            && process.memory.has_removed(name, &detail.uid)
        {
            return;
        }
        process.deleting.push(Deleting {
            name: name.clone(),
            attempt: Attempt::new(&current),
            current,
            deleted: false,
            state: State::Deciding,
        });
    }

    pub(super) fn advance_volume(&mut self, index: usize) {
        let deleting = &mut self.process.deleting[index];
        let name = deleting.name.clone();
        match std::mem::replace(&mut deleting.state, State::Deciding) {
            State::Deciding => self.decide_volume(index),
            State::Sent(step) => {
                let (answer, written) = match self.fate() {
                    Fate::Applied => self.apply_volume(&name, &step),
                    Fate::Unheard => {
                        self.apply_volume(&name, &step);
                        (Answer::Refused(lost()), None)
                    }
                    Fate::Lost => (Answer::Refused(lost()), None),
                    Fate::Refused => (Answer::Refused(refused()), None),
                };
                self.process.deleting[index].state = State::Answered(step, answer, written);
            }
            State::Calling(step, id) => self.end_delete_call(index, step, id),
            State::Answered(step, answer, written) => {
                self.fold_volume(index, &step, answer, written);
            }
        }
    }

    fn decide_volume(&mut self, index: usize) {
        let process = &mut self.process;
        let deleting = &mut process.deleting[index];
        let cached = process.volumes.get(&deleting.name);
        let known = cached.map(|cached| &**cached);
        match deleting.attempt.refresh(&deleting.current, known) {
            Refresh::Keep => {}
            Refresh::Take => deleting.current = cached.unwrap().clone(),
            Refresh::Gone => return self.finish_volume(index, None),
        }
        let attached_to = { process.attachments.slots.iter() }
            .find(|(_, attachment)| attachment.volume == deleting.name)
            .map(|(_, attachment)| attachment.node.clone());
        let view = View {
            driver: &process.driver,
            volume: &deleting.current,
            class: None,
            attached_to: process.mutant.sees_attachment(attached_to.as_ref()),
            attachments_missed: process.attachments_missed
                && process.mutant != Mutant::TrustsBrokenWatches,
            node: process
                .mutant
                .lives_on(process.node.as_ref().map(|(_, labels)| labels)),
        };
        let step = process
            .mutant
            .decides_volume(deleting.attempt.decide(&view), &view);
        match step {
            Step::Done | Step::Ignored => self.finish_volume(index, None),
            Step::Fail(failure) => self.finish_volume(index, Some(failure)),
            Step::LoadSecret(_) => {
                let answer = match self.server.secret {
                    true => Answer::Secret(Default::default()),
                    false => Answer::Refused(refusal(Refusal::NotFound)),
                };
                if !self.server.secret && process.mutant == Mutant::NeedsSecrets {
                    return self.finish_volume(index, Some(Failure::Upkeep(refused())));
                }
                deleting.state = State::Answered(step, answer, None);
            }
            Step::Delete(ref request, _) => {
                let id = request.volume_id.clone();
                self.begin_delete_call(index, step, &id);
            }
            Step::Upkeep(_) | Step::Remove { .. } | Step::Release(_) => {
                process.volumes.slots.begin_write(&key(&deleting.name));
                deleting.state = State::Sent(step);
            }
        }
    }

    fn begin_delete_call(&mut self, index: usize, step: Step, handle: &str) {
        let name = self.process.deleting[index].name.clone();
        let mut attachments = self.server.attachments.values();
        if let Some((_, held)) = attachments.find(|(_, held)| held.volume == name) {
            self.complain(format!("{name} deleted while attached to {}", held.node));
        }
        if let Some((_, volume)) = self.server.volumes.get(&name) {
            if volume.reclaim == Reclaim::Retain {
                self.complain(format!("{name} deleted though it is to be kept"));
            } else if !self.is_ours(volume) {
                self.complain(format!("{name} of another driver deleted"));
            }
        }
        self.complain_about_second_call(handle);
        let state = match self.driver.delete(handle) {
            Ok(id) => State::Calling(step, id),
            Err(refused) => State::Answered(step, Answer::Failed(rpc(refused.code())), None),
        };
        self.process.deleting[index].state = state;
    }

    /// This process must not call for a volume while another call of it for that volume runs.
    fn complain_about_second_call(&mut self, handle: &str) {
        let same = |kind: &Kind| *kind == Kind::Delete(handle.to_owned());
        let doubled = { self.driver.running.iter() }.any(|call| call.awaited && same(&call.kind));
        if doubled {
            self.complain(format!("two DeleteVolume calls at once for {handle}"));
        }
    }

    /// The driver answers, or the deadline expires.
    fn end_delete_call(&mut self, index: usize, step: Step, id: u64) {
        let answer = match self.faulty() && self.dice.one_in(4) {
            false => {
                self.driver.succeed(id);
                Answer::Deleted
            }
            true => match self.dice.below(3) {
                0 => {
                    self.driver.abandon(id);
                    Answer::Failed(rpc(Code::DeadlineExceeded))
                }
                1 => {
                    self.driver.succeed(id);
                    Answer::Failed(rpc(Code::Unavailable))
                }
                _ => {
                    self.driver.fail(id);
                    let codes = [Code::Internal, Code::NotFound, Code::FailedPrecondition];
                    Answer::Failed(rpc(codes[self.dice.below(3)]))
                }
            },
        };
        self.process.deleting[index].state = State::Answered(step, answer, None);
    }

    fn fold_volume(
        &mut self,
        index: usize,
        step: &Step,
        answer: Answer,
        written: Option<Versioned<VolumeDetail>>,
    ) {
        if matches!(
            step,
            Step::Upkeep(_) | Step::Remove { .. } | Step::Release(_)
        ) {
            self.process.absorb_volume(index, written);
        }
        let answer = self.process.mutant.hears_delete(answer);
        let deleting = &mut self.process.deleting[index];
        deleting.deleted |= matches!(answer, Answer::Deleted);
        if let Err(failure) = deleting.attempt.fold(step, answer) {
            self.finish_volume(index, Some(failure));
        }
    }

    fn finish_volume(&mut self, index: usize, failure: Option<Failure>) {
        let deleting = self.process.deleting.remove(index);
        if failure.is_none()
            && deleting.deleted
            && let Volume::Ending(detail) = &*deleting.current
        {
            self.process.note_removed(&deleting.name, &detail.uid);
        }
        let follows = failure.is_none() && deleting.attempt.is_to_follow(&deleting.current);
        if follows {
            self.observe_attachments();
        }
        if (follows || failure.is_some()) && !self.process.mutant.forgets_retries() {
            self.process.later_volumes.insert(deleting.name);
        }
    }

    /// The server applies what `step` asks for.
    pub(super) fn apply_volume(
        &mut self,
        name: &Text,
        step: &Step,
    ) -> (Answer, Option<Versioned<VolumeDetail>>) {
        let written = match step {
            Step::Upkeep(patch) | Step::Release(patch) => self.patch_volume(name, patch),
            Step::Remove { uid } => self.remove_volume(name, uid),
            Step::Done | Step::Ignored | Step::LoadSecret(_) | Step::Delete(..) | Step::Fail(_) => {
                unreachable!("no request")
            }
        };
        match written {
            Ok(written) => (Answer::Written, Some(written)),
            Err(error) => (Answer::Refused(error), None),
        }
    }

    fn patch_volume(
        &mut self,
        name: &Text,
        patch: &Value,
    ) -> Result<Versioned<VolumeDetail>, ApiError> {
        let before = self
            .server
            .volumes
            .get(name)
            .map(|(_, volume)| volume.clone());
        let result = self.server.patch_volume(name, patch);
        if let (Some(before), Ok((_, after))) = (before, &result)
            && before.is_protected()
            && !after.is_protected()
            && self.may_exist(&before)
        {
            self.complain(format!("finalizer of {name} removed before its volume"));
        }
        result
    }

    fn remove_volume(
        &mut self,
        name: &Text,
        uid: &Text,
    ) -> Result<Versioned<VolumeDetail>, ApiError> {
        match self
            .server
            .volumes
            .get(name)
            .map(|(_, volume)| volume.clone())
        {
            Some(volume) if self.may_exist(&volume) => {
                self.complain(format!("{name} deleted before its volume"));
            }
            // What nothing protected may go at any time.
            None if self.case.faults == Faults::None && !self.excused.contains(&**name) => {
                self.complain(format!("DELETE of {name}, which is gone"));
            }
            Some(_) | None => {}
        }
        self.server.delete_volume(name, Some(uid))
    }

    /// Whether the volume is the driver's. One of an in-tree plugin is as soon as it is said to be moved.
    pub(super) fn is_ours(&self, volume: &VolumeDetail) -> bool {
        let owner = &volume.owner;
        let named = match owner.in_tree {
            true => &owner.migrated_to,
            false => &owner.csi_driver,
        };
        named.as_deref() == Some(&*self.process.driver.name)
    }

    /// Whether a volume that is to be deleted exists, or may come to exist again.
    fn may_exist(&self, volume: &VolumeDetail) -> bool {
        let Some(handle) = handle(volume) else {
            return false;
        };
        let may = |driver: &ModelDriver| {
            let owed = self
                .unseen
                .contains(&(driver.site, volume.name.to_string()));
            driver.has(handle) || !owed && driver.may_have(&volume.name)
        };
        volume.reclaim == Reclaim::Delete && self.drivers().any(may)
    }
}

/// The id by which the volume's driver knows it, whichever that is.
pub(super) fn handle(volume: &VolumeDetail) -> Option<&str> {
    volume.handle_of(volume.driver()?)
}

impl super::process::Process {
    fn note_removed(&mut self, name: &Text, uid: &Text) {
        self.memory.removed(name, uid);
        if self.volumes.get(name).is_none() && self.mutant != Mutant::RemembersRemoved {
            self.memory.volume_gone(name);
        }
    }

    /// Takes the result of an own write into the cache; `None` is a failure.
    pub(super) fn absorb_volume(&mut self, index: usize, written: Option<Versioned<VolumeDetail>>) {
        let deleting = &mut self.deleting[index];
        let name = deleting.name.clone();
        let change = match written {
            Some((version, object)) => {
                let kept = Arc::new(self.mutant.keeps(&object));
                let gone = object.finalizers.is_empty();
                deleting.current = Arc::clone(&kept);
                match self.mutant.forgets_own_writes() || gone {
                    true => self.volumes.slots.write_failed(&key(&name)),
                    false => {
                        let kept = self.mutant.keeps(&object);
                        self.volumes
                            .slots
                            .write_answered(&key(&name), kept, version)
                    }
                }
            }
            None => self.volumes.slots.write_failed(&key(&name)),
        };
        if let Some(change) = change {
            self.volume_changed(change);
        }
    }
}
