//! Attempts on claims advance: calls reach the driver, requests reach the server, answers come back,
//! and every change is held against the invariants.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use std::sync::Arc;

use csi_proto::csi::{CreateVolumeRequest, CreateVolumeResponse, Volume};
use tonic::Code;

use super::driver::{Kind, Refused};
use super::mutant::Mutant;
use super::process::{Process, Running, keep};
use super::run::{Fate, World, lost, refused, rpc};
use super::server::Versioned;
use super::watch::key as key_of;
use crate::model::{Claim, VolumeDetail};
use crate::plan::claim::{Answer, Attempt, Failure, Step};
use crate::plan::memory::{ClaimKey, Unsaved};
use crate::plan::outcome::ApiError;
use crate::plan::view::View;

#[expect(clippy::large_enum_variant, reason = "a handful at a time, in a test")]
pub(super) enum State {
    Deciding,
    /// Sent to the API server, not yet applied.
    Sent(Step),
    /// The driver works on it.
    Calling(Step, u64),
    /// The answer is on its way; with the object if a write was applied and heard of.
    Answered(Step, Answer, Option<Written>),
}

/// What a write returned.
pub(super) enum Written {
    Claim(Versioned<Claim>),
    Volume(Versioned<VolumeDetail>),
}

impl World {
    /// A queued claim gets a worker.
    pub(super) fn begin_claim(&mut self, key: &ClaimKey) {
        let process = &mut self.process;
        process.ready.remove(key);
        let cached = process
            .claims
            .get(&key.name)
            .filter(|claim| claim.uid == key.uid);
        let doubtful = process.memory.doubtful_claim(key);
        let doubtful = doubtful.filter(|_| process.mutant != Mutant::ForgetsDeletedClaims);
        let gone = cached.is_none();
        let known = cached.or(doubtful);
        let Some(current) = known.cloned() else {
            return;
        };
        let class = process
            .classes
            .get(current.class_name())
            .map(|class| class.uid.clone());
        if !process
            .memory
            .slow(key, class.as_deref(), self.clock)
            .is_zero()
        {
            process.later.insert(key.clone());
            return;
        }
        process.later.remove(key);
        let start = process.mutant.begins(process.memory.begin(key));
        process.running.push(Running {
            key: key.clone(),
            attempt: Attempt::new(start),
            current,
            gone,
            state: State::Deciding,
        });
    }

    pub(super) fn advance_claim(&mut self, index: usize) {
        let running = &mut self.process.running[index];
        match std::mem::replace(&mut running.state, State::Deciding) {
            State::Deciding => self.decide_claim(index),
            State::Sent(step) => {
                let (answer, written) = match self.fate() {
                    Fate::Applied => self.apply_claim(&step),
                    Fate::Unheard => {
                        self.apply_claim(&step);
                        (Answer::Refused(lost()), None)
                    }
                    Fate::Lost => (Answer::Refused(lost()), None),
                    Fate::Refused => (Answer::Refused(refused()), None),
                };
                self.process.running[index].state = State::Answered(step, answer, written);
            }
            State::Calling(step, id) => self.end_create_call(index, step, id),
            State::Answered(step, answer, written) => {
                self.fold_claim(index, &step, answer, written);
            }
        }
    }

    fn decide_claim(&mut self, index: usize) {
        let process = &mut self.process;
        let running = &mut process.running[index];
        let cached =
            { process.claims.get(&running.key.name) }.filter(|claim| claim.uid == running.key.uid);
        if let Some(cached) = cached
            && cached.version > running.current.version
        {
            running.current = Arc::clone(cached);
        }
        let name = running
            .attempt
            .volume_name(&running.current, &process.settings);
        let view = View {
            driver: &process.driver,
            settings: &process.settings,
            claim: &running.current,
            gone: running.gone,
            class: process
                .classes
                .get(running.current.class_name())
                .map(|class| &**class),
            volume_exists: name.is_ok_and(|name| process.volumes.get(&name).is_some()),
            grants: &[],
            places: &process.places,
        };
        let step = process.mutant.decides(running.attempt.decide(&view), &view);
        self.take_step(index, step);
    }

    fn take_step(&mut self, index: usize, step: Step) {
        let process = &mut self.process;
        let running = &mut process.running[index];
        match step {
            Step::Done(_) => self.finish_claim(index, None),
            Step::Fail(failure) => self.finish_claim(index, Some(failure)),
            Step::Announce(_) => running.state = State::Answered(step, Answer::Done, None),
            Step::LoadSecret(_) => {
                let answer = Answer::Secret(Default::default());
                running.state = State::Answered(step, answer, None);
            }
            Step::Guard(ref edit, _) | Step::Settle(ref edit, _) => {
                let name = format!("{}/{}", edit.namespace, edit.name);
                process.claims.slots.begin_write(&key_of(&name));
                running.state = State::Sent(step);
            }
            Step::Save(ref unsaved) => {
                process.volumes.slots.begin_write(&key_of(&unsaved.name));
                running.state = State::Sent(step);
            }
            Step::Create(ref prepared, ref request) => {
                let (prepared, request) = (Arc::clone(prepared), request.clone());
                process.memory.calling(&running.current, &prepared);
                self.begin_create_call(index, step, &request);
            }
            Step::Discard(ref request) => {
                let id = request.volume_id.clone();
                self.discard(index, step, &id);
            }
            Step::LoadSnapshot(..)
            | Step::LoadContent(_)
            | Step::LoadSourceClaim(..)
            | Step::LoadSourceVolume(_)
            | Step::LoadAttributesClass(_)
            | Step::ProtectSource(_)
            | Step::ReleaseSource(_) => unreachable!("no data source and no attributes class"),
        }
    }

    fn begin_create_call(&mut self, index: usize, step: Step, request: &CreateVolumeRequest) {
        let uid = self.process.running[index].key.uid.clone();
        let same = Kind::Create(request.name.clone());
        if { self.driver.running.iter() }.any(|call| call.awaited && call.kind == same) {
            self.complain(format!(
                "two CreateVolume calls at once for {}",
                request.name
            ));
        }
        self.names
            .entry(uid.clone())
            .or_default()
            .insert(request.name.clone());
        let state = match self.driver.create(request) {
            Ok(id) => State::Calling(step, id),
            Err(refused) => {
                if refused == Refused::Different {
                    self.complain(format!(
                        "CreateVolume of {} repeated as another one",
                        request.name
                    ));
                }
                State::Answered(step, Answer::Failed(rpc(refused.code())), None)
            }
        };
        self.process.running[index].state = state;
    }

    /// The driver answers, or the deadline expires.
    fn end_create_call(&mut self, index: usize, step: Step, id: u64) {
        let answer = match self.faulty() && self.dice.one_in(3) {
            false => self.created(id, 1 << 30),
            true => match self.dice.below(6) {
                0 | 1 => {
                    self.driver.abandon(id);
                    Answer::Failed(rpc(Code::DeadlineExceeded))
                }
                2 => {
                    self.driver.succeed(id);
                    Answer::Failed(rpc(Code::Unavailable))
                }
                3 => self.created(id, 1),
                _ => match self.driver.fail(id) {
                    true => {
                        let codes = [
                            Code::Internal,
                            Code::InvalidArgument,
                            Code::ResourceExhausted,
                        ];
                        Answer::Failed(rpc(codes[self.dice.below(3)]))
                    }
                    false => Answer::Failed(rpc(Code::Aborted)),
                },
            },
        };
        self.process.running[index].state = State::Answered(step, answer, None);
    }

    /// The volume is there; the driver says that it has so many bytes.
    fn created(&mut self, id: u64, bytes: i64) -> Answer {
        let volume_id = self.driver.succeed(id).unwrap();
        self.check_doubles();
        Answer::Created(Box::new(CreateVolumeResponse {
            volume: Some(Volume {
                volume_id,
                capacity_bytes: bytes,
                ..Volume::default()
            }),
        }))
    }

    /// No claim has two volumes.
    pub(super) fn check_doubles(&mut self) {
        let doubled = self.names.iter().find(|(_, names)| {
            let exists = |name: &&String| self.driver.volumes.contains_key(*name);
            names.iter().filter(exists).count() > 1
        });
        if let Some((uid, _)) = doubled {
            self.complain(format!("two volumes for the claim {uid}"));
        }
    }

    /// DeleteVolume of a volume that nobody can use.
    fn discard(&mut self, index: usize, step: Step, handle: &str) {
        let answer = match self.driver.delete(handle) {
            Err(refused) => Answer::Failed(rpc(refused.code())),
            Ok(id) if self.faulty() && self.dice.one_in(3) => match self.dice.one_in(2) {
                true => {
                    self.driver.abandon(id);
                    Answer::Failed(rpc(Code::DeadlineExceeded))
                }
                false => {
                    self.driver.fail(id);
                    Answer::Failed(rpc(Code::Internal))
                }
            },
            Ok(id) => {
                self.driver.succeed(id);
                Answer::Done
            }
        };
        self.process.running[index].state = State::Answered(step, answer, None);
    }

    fn fold_claim(&mut self, index: usize, step: &Step, answer: Answer, written: Option<Written>) {
        self.process.absorb_claim(index, step, written);
        let running = &mut self.process.running[index];
        if let Err(failure) = running.attempt.fold(step, answer) {
            self.finish_claim(index, Some(failure));
        }
    }

    fn finish_claim(&mut self, index: usize, failure: Option<Failure>) {
        let Running {
            key,
            attempt,
            current,
            ..
        } = self.process.running.remove(index);
        let process = &mut self.process;
        let outcome = process.mutant.remembers(attempt.outcome(failure.as_ref()));
        process.memory.end(&current, outcome, self.clock);
        let Some(failure) = failure else {
            return;
        };
        if let Some(cure) = failure.cure(current.class_name()) {
            process.memory.wait_for(cure, &key);
        }
        if !process.mutant.forgets_retries() {
            process.later.insert(key);
        }
    }

    /// The server applies what `step` asks for.
    pub(super) fn apply_claim(&mut self, step: &Step) -> (Answer, Option<Written>) {
        let written = match step {
            Step::Guard(edit, _) | Step::Settle(edit, _) => {
                self.server.edit_claim(edit).map(Written::Claim)
            }
            Step::Save(unsaved) => self.save(unsaved),
            _ => unreachable!("no request"),
        };
        match written {
            Ok(written) => (Answer::Done, Some(written)),
            Err(error) => (Answer::Refused(error), None),
        }
    }
}

impl World {
    fn save(&mut self, unsaved: &Unsaved) -> Result<Written, ApiError> {
        let saved = self.server.create_volume(&unsaved.object)?;
        self.excused.remove(&*unsaved.name);
        Ok(Written::Volume(saved))
    }
}

impl Process {
    /// Takes the result of an own write into the caches; `None` is a failure.
    fn absorb_claim(&mut self, index: usize, step: &Step, written: Option<Written>) {
        let running = &mut self.running[index];
        match step {
            Step::Guard(..) | Step::Settle(..) => {
                let name = &running.key.name;
                let slots = &mut self.claims.slots;
                let change = match written {
                    Some(Written::Claim((version, object))) => {
                        running.current = Arc::new(object.clone());
                        match keep(&object).filter(|_| !self.mutant.forgets_own_writes()) {
                            Some(kept) => slots.write_answered(&key_of(name), kept, version),
                            None => slots.write_failed(&key_of(name)),
                        }
                    }
                    Some(Written::Volume(_)) | None => slots.write_failed(&key_of(name)),
                };
                if let Some(change) = change {
                    self.claim_changed(change);
                }
            }
            Step::Save(unsaved) => {
                let slots = &mut self.volumes.slots;
                let change = match written {
                    Some(Written::Volume((version, object)))
                        if !self.mutant.forgets_own_writes() =>
                    {
                        slots.write_answered(&key_of(&unsaved.name), object.keep(), version)
                    }
                    Some(_) | None => slots.write_failed(&key_of(&unsaved.name)),
                };
                if let Some(change) = change {
                    self.volume_changed(change);
                }
            }
            _ => {}
        }
    }
}
