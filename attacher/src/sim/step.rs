//! Attempts advance: requests reach the server, calls reach the driver, answers come back, and
//! every change is held against the invariants.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use std::sync::Arc;

use serde_json::Value;

use super::call::rpc;
use super::death::Late;
use super::driver::{Kind, key};
use super::process::{Process, Releasing, State, Written};
use super::run::{Faults, World, target};
use super::server::Versioned;
use super::watch::key as key_of;
use crate::model::{Attachment, Text, Volume};
use crate::plan::attachment::{Answer, Step};
use crate::plan::flight::Target;
use crate::plan::memory::{Item, Waiter};
use crate::plan::outcome::{ApiError, Failure};
use crate::plan::wake::End;
use crate::testing::F;

const TIME: &str = "2026-01-02T03:04:05Z";

/// What becomes of a request to the API server.
enum Fate {
    Applied,
    /// Applied, and the answer is lost.
    Unheard,
    /// Not applied, and nobody knows.
    Lost,
    /// The answer is not waited for any longer, and it is applied at any later time.
    Late,
    Refused,
}

impl World {
    pub(super) fn faulty(&self) -> bool {
        self.has_faults() && !self.settling
    }

    /// Something in the process advances.
    pub(super) fn work(&mut self) {
        let attempts = self.process.running.len();
        let releases = self.process.releasing.len();
        let orphans = self.process.unpublishing.len();
        let choice = self.dice.below(attempts + releases + orphans + 2);
        if choice < attempts {
            self.advance(choice);
        } else if choice < attempts + releases {
            self.release(choice - attempts);
        } else if choice < attempts + releases + orphans {
            self.unpublished(choice - attempts - releases);
        } else {
            self.begin();
        }
    }

    /// A queued attachment or volume gets a worker.
    fn begin(&mut self) {
        if !self.process.synced {
            return self.deliver();
        }
        let process = &mut self.process;
        let busy = |item: &&Item| match item {
            Item::Attachment(name) => process.running.iter().any(|running| running.name == *name),
            Item::Orphan(target) => {
                { process.unpublishing.iter() }.any(|call| call.target == *target)
            }
        };
        let ready = process.ready.iter().filter(|item| !busy(item));
        let ready: Vec<Item> = ready.cloned().collect();
        if !ready.is_empty() && process.running.len() < 4 && !self.dice.one_in(4) {
            return match &ready[self.dice.below(ready.len())] {
                Item::Attachment(name) => process.begin(name, &self.server),
                Item::Orphan(target) => self.unpublish(target),
            };
        }
        let Some(name) = process.ready_volumes.pop_first() else {
            return;
        };
        if let Some(patch) = process.release(&name) {
            let waiter = Waiter::Volume(name.clone());
            if !process.memory.patches.begin(&name, waiter) {
                return;
            }
            process.volumes.slots.begin_write(&key_of(&name));
            process.releasing.push(Releasing { name, patch });
        }
    }

    fn release(&mut self, index: usize) {
        let Releasing { name, patch } = self.process.releasing.remove(index);
        let result = match self.fate() {
            Fate::Applied => self.patch_volume(&name, &patch),
            Fate::Unheard => {
                self.patch_volume(&name, &patch).ok();
                Err(lost())
            }
            Fate::Late => {
                self.late.push(Late::of_volume(&name, &patch));
                Err(lost())
            }
            Fate::Lost => Err(lost()),
            Fate::Refused => Err(refused()),
        };
        let written = result.ok();
        match written {
            Some(_) => self.process.ready_volumes.insert(name.clone()),
            None => self.process.later_volumes.insert(name.clone()),
        };
        self.process.absorb_release(&name, written);
        self.process.patched(&name);
    }

    fn fate(&mut self) -> Fate {
        match self.faulty() && self.dice.one_in(5) {
            true => match self.dice.below(4) {
                0 => Fate::Unheard,
                1 => Fate::Lost,
                2 => Fate::Late,
                _ => Fate::Refused,
            },
            false => Fate::Applied,
        }
    }

    fn advance(&mut self, index: usize) {
        let running = &mut self.process.running[index];
        let current = Arc::clone(&running.current);
        match std::mem::replace(&mut running.state, State::Deciding) {
            State::Deciding => self.decide(index),
            State::Sent(step) => {
                let (answer, written) = match self.fate() {
                    Fate::Applied => self.apply(&current, &step),
                    Fate::Unheard => {
                        self.apply(&current, &step);
                        (Answer::Refused(lost()), None)
                    }
                    Fate::Late => {
                        self.late.extend(Late::of(&current, &step));
                        (Answer::Refused(lost()), None)
                    }
                    Fate::Lost => (Answer::Refused(lost()), None),
                    Fate::Refused => (Answer::Refused(refused()), None),
                };
                self.process.running[index].state = State::Answered(step, answer, written);
            }
            State::Calling(step, id) => self.call(index, step, id),
            State::Answered(step, answer, written) => self.fold(index, &step, answer, written),
            State::Recording(failure, patch) => {
                let result = match self.fate() {
                    Fate::Applied => self.patch_attachment(&current, &patch).ok(),
                    Fate::Unheard => {
                        self.patch_attachment(&current, &patch).ok();
                        None
                    }
                    Fate::Late => {
                        self.late.push(Late::of_attachment(&current, &patch));
                        None
                    }
                    Fate::Lost | Fate::Refused => None,
                };
                self.process
                    .absorb(index, None, result.map(Written::Attachment));
                self.process.finish(index, &End::Failed(failure));
            }
        }
    }

    fn decide(&mut self, index: usize) {
        let Some(step) = self.process.decide(index) else {
            return;
        };
        match step {
            Step::Done => self.process.finish(index, &End::Done),
            Step::Again => self.process.finish(index, &End::Again),
            Step::Fail(failure) => self.fail(index, failure),
            Step::Protect(ref name, _) => {
                let waiter = Waiter::Attachment(self.process.running[index].name.clone());
                match self.process.memory.patches.begin(name, waiter) {
                    true => self.send(index, step),
                    false => self.process.finish(index, &End::Waits),
                }
            }
            Step::Publish(ref request, _) => {
                let target = Target {
                    volume: request.volume_id.as_str().into(),
                    node: request.node_id.as_str().into(),
                };
                self.take_off(index, step, target, Kind::Publish);
            }
            Step::Unpublish(ref request, _) => {
                let target = Target {
                    volume: request.volume_id.as_str().into(),
                    node: request.node_id.as_str().into(),
                };
                self.take_off(index, step, target, Kind::Unpublish);
            }
            Step::LoadSecret(_)
            | Step::Prepare(_)
            | Step::MarkAttached(_)
            | Step::Release(_)
            | Step::MarkDetached(_) => self.send(index, step),
        }
    }

    fn send(&mut self, index: usize, step: Step) {
        let name = self.process.running[index].name.clone();
        self.process.announce(&name, &step);
        self.process.running[index].state = State::Sent(step);
    }

    fn take_off(&mut self, index: usize, step: Step, target: Target, kind: Kind) {
        let name = self.process.running[index].name.clone();
        let guard = Target {
            node: self.process.mutant.flight(&name, &target.node),
            ..target.clone()
        };
        if !self
            .process
            .memory
            .calls
            .begin(&guard, Item::Attachment(name))
        {
            return self.process.finish(index, &End::Waits);
        }
        let others = self.process.running.iter().enumerate();
        let calling = others.filter_map(|(other, running)| match &running.state {
            State::Calling(_, id) if other != index => Some(*id),
            _ => None,
        });
        for id in calling.collect::<Vec<_>>() {
            if self
                .driver
                .running
                .iter()
                .any(|call| call.id == id && call.target == target)
            {
                self.complain(format!("two calls at once for {target:?}"));
            }
        }
        let running = &self.process.running[index];
        let asks = format!("{} {}", running.name, running.current.uid);
        self.asks(asks);
        self.process.running[index].target = Some(guard);
        self.process.running[index].state = match self.driver.begin(&target, kind) {
            Ok(id) => State::Calling(step, id),
            Err(code) => State::Answered(step, Answer::Failed(rpc(code)), None),
        };
    }

    fn fold(&mut self, index: usize, step: &Step, answer: Answer, written: Option<Written>) {
        if !matches!(step, Step::Publish(..) | Step::Unpublish(..)) {
            self.process.absorb(index, Some(step), written);
        }
        if let Step::Protect(name, _) = step {
            self.process.patched(name);
        }
        let answer = self.process.mutant.hears(step, answer);
        let running = &mut self.process.running[index];
        match running.attempt.fold(step, answer) {
            Ok(()) => {
                let current = Arc::clone(&running.current);
                let Process { memory, driver, .. } = &mut self.process;
                memory.took(step, &current, driver);
            }
            Err(failure) => self.fail(index, failure),
        }
    }

    fn fail(&mut self, index: usize, failure: Failure) {
        let running = &mut self.process.running[index];
        self.process.memory.failed(&running.name, &failure);
        let direction = running.attempt.direction();
        let driver = &self.process.driver;
        match failure.status_patch(&running.current, direction, driver, TIME) {
            Some(patch) => {
                running.state = State::Recording(failure, patch);
                let name = key_of(&running.name);
                self.process.attachments.slots.begin_write(&name);
            }
            None => self.process.finish(index, &End::Failed(failure)),
        }
    }

    /// The server applies what `step` asks for.
    pub(super) fn apply(&mut self, of: &Attachment, step: &Step) -> (Answer, Option<Written>) {
        let written = match step {
            Step::Protect(volume, patch) => self.patch_volume(volume, patch).map(Written::Volume),
            Step::Prepare(patch)
            | Step::MarkAttached(patch)
            | Step::Release(patch)
            | Step::MarkDetached(patch) => {
                self.patch_attachment(of, patch).map(Written::Attachment)
            }
            Step::Done
            | Step::Again
            | Step::LoadSecret(_)
            | Step::Publish(..)
            | Step::Unpublish(..)
            | Step::Fail(_) => unreachable!("no patch"),
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

fn refused() -> ApiError {
    ApiError {
        message: "simulated".into(),
        not_found: false,
        unknown: false,
    }
}

fn lost() -> ApiError {
    ApiError {
        unknown: true,
        ..refused()
    }
}
