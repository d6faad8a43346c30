//! Attempts advance: requests reach the server, calls reach the driver, answers come back.

use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::storage::{Wish, plain};
use tonic::Code;

use super::process::{Running, State, is_about_content};
use super::world::World;
use crate::model::{Content, Text};
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::reactor::Request;
use crate::plan::step::{Answer, Step};
use crate::testing::{Versioned, refused};

impl World {
    pub(super) fn faulty(&self) -> bool {
        self.has_all_faults() && !self.settling
    }

    /// Something in the process advances.
    pub(super) fn work(&mut self) {
        let attempts = self.process.attempts.running.len();
        let choice = self.dice.below(attempts + 2);
        if choice < attempts {
            return self.advance(choice);
        }
        let process = &mut self.process;
        if !process.is_open() {
            return;
        }
        if let Some(name) = process.attempts.choose(&mut self.dice, 3) {
            // Whatever woke it meanwhile counts, also what the last attempt had seen.
            if !process.begin(&name) {
                self.truth(&name).impossible = None;
            }
        }
    }

    fn fate(&mut self) -> Fate {
        let rare = if self.stormy { 3 } else { 6 };
        if self.faulty() {
            Fate::draw(&mut self.dice, rare, &Fate::FAULTS)
        } else {
            Fate::Applied
        }
    }

    pub(super) fn advance(&mut self, index: usize) {
        let name = self.process.attempts.running[index].key.clone();
        let state = match self.process.attempts.leave(index) {
            State::Deciding => return self.decide(index),
            State::Sent(request) => self.arrive(&name, request),
            State::Calling(request, id) => self.call(&name, request, id),
            State::Answered(request, answer, object) => {
                if is_about_content(&request.step) {
                    self.process.absorb(&name, object);
                    // What others changed is known from this answer.
                    self.begin_anew();
                }
                if !self.thawed && shows(&request.step, &answer) {
                    self.truth(&name).found = true;
                }
                let untold = &mut self.process.attempts.running[index].note.untold;
                match (&request.step, &answer) {
                    (Step::Create(_), Answer::Created(_)) => *untold = true,
                    (Step::PatchStatus(..), Answer::Done) => *untold = false,
                    _ => {}
                }
                return self.process.answer(index, request, answer);
            }
            State::Fenced => State::Fenced,
        };
        self.process.attempts.enter(index, state);
    }

    fn decide(&mut self, index: usize) {
        let Running { key, note, .. } = &self.process.attempts.running[index];
        let (name, untold) = (key.clone(), note.untold);
        let Some(request) = self.process.decide(index) else {
            if untold && self.is_unwanted(&name) {
                self.truth(&name).unwanted += 1;
            }
            return;
        };
        let name = request.content.clone();
        if self.is_fenced(&request.step) {
            self.process.attempts.enter(index, State::Fenced);
            return;
        }
        self.count_effort(&name);
        let state = match &request.step {
            Step::Announce(event) => {
                self.check_event(&name, event);
                State::Answered(request, Answer::Done, None)
            }
            Step::Read | Step::Patch(..) | Step::PatchStatus(..) => {
                self.process.announce(&name);
                State::Sent(request)
            }
            Step::LoadSecret(..) => State::Sent(request),
            Step::Create(_)
            | Step::Delete(_)
            | Step::List(_)
            | Step::Get(_)
            | Step::CreateGroup(_)
            | Step::GetGroup(_)
            | Step::DeleteGroup(_)
                if self.driver.away =>
            {
                let unsent = Answer::Unreachable(rpc(Code::Unavailable));
                State::Answered(request, unsent, None)
            }
            Step::List(_) | Step::Get(_) | Step::GetGroup(_) => {
                self.check_list(&name, &request.step);
                State::Sent(request)
            }
            Step::Create(call) => {
                self.check_create(&name, (&call.name, &call.secrets));
                let wish = Wish::Create(call.name.clone());
                self.ask(&name, request, wish)
            }
            Step::Delete(call) => {
                self.check_delete(&name, (&call.snapshot_id, &call.secrets));
                let wish = Wish::Delete(plain(&call.snapshot_id).into());
                self.ask(&name, request, wish)
            }
            Step::CreateGroup(call) => {
                self.check_create(&name, (&call.name, &call.secrets));
                let wish = Wish::Create(call.name.clone());
                self.ask(&name, request, wish)
            }
            Step::DeleteGroup(call) => {
                let group = &call.group_snapshot_id;
                self.check_delete(&name, (group, &call.secrets));
                self.check_members(group, &call.snapshot_ids);
                let wish = Wish::Delete(plain(group).into());
                self.ask(&name, request, wish)
            }
        };
        self.process.attempts.enter(index, state);
    }

    fn ask(&mut self, name: &Text, request: Request, wish: Wish) -> State {
        match self.driver.begin(wish) {
            Ok(id) => State::Calling(request, id),
            Err(code) => {
                if code == Code::InvalidArgument {
                    self.truth(name).impossible = Some(self.process.attempts.now.instant);
                }
                State::Answered(request, Answer::Failed(rpc(code)), None)
            }
        }
    }

    /// A request reaches the API server, or the driver's list.
    fn arrive(&mut self, name: &Text, request: Request) -> State {
        let fate = self.fate();
        let unknown = || Err(refused(Refusal::Unknown));
        let result = match &request.step {
            Step::LoadSecret(_, secret) => {
                let answer = match (fate, self.server.secrets.get(secret)) {
                    (Fate::Applied, Some(Some(values))) => Answer::Secret(values.clone()),
                    (Fate::Applied, Some(None)) => Answer::SecretNotText,
                    (Fate::Applied, None) => Answer::Refused(refused(Refusal::NotFound)),
                    (Fate::Refused, _) => Answer::Refused(refused(Refusal::Other)),
                    (Fate::Unheard | Fate::Lost | Fate::Late, _) => {
                        Answer::Refused(refused(Refusal::Unknown))
                    }
                };
                return State::Answered(request, answer, None);
            }
            Step::List(call) => {
                let answer = match fate {
                    Fate::Applied => self.list(&call.snapshot_id, &call.starting_token),
                    Fate::Unheard | Fate::Lost => Answer::Failed(rpc(Code::DeadlineExceeded)),
                    Fate::Late | Fate::Refused => Answer::Failed(rpc(Code::Internal)),
                };
                return State::Answered(request, answer, None);
            }
            Step::GetGroup(call) => {
                let answer = match fate {
                    Fate::Applied => self.get_group(&call.group_snapshot_id),
                    Fate::Unheard | Fate::Lost => Answer::Failed(rpc(Code::DeadlineExceeded)),
                    Fate::Late | Fate::Refused => Answer::Failed(rpc(Code::Internal)),
                };
                return State::Answered(request, answer, None);
            }
            step @ (Step::Read
            | Step::Patch(..)
            | Step::PatchStatus(..)
            | Step::Announce(_)
            | Step::Create(_)
            | Step::Get(_)
            | Step::Delete(_)
            | Step::CreateGroup(_)
            | Step::DeleteGroup(_)) => match fate {
                Fate::Applied => self.apply(name, step),
                Fate::Unheard => {
                    drop(self.apply(name, step));
                    unknown()
                }
                Fate::Lost => unknown(),
                Fate::Late => {
                    self.leave_behind(name, copy(step));
                    unknown()
                }
                Fate::Refused => Err(refused(Refusal::Other)),
            },
        };
        match result {
            Ok(object) => State::Answered(request, Answer::Done, Some(object)),
            Err(error) => State::Answered(request, Answer::Refused(error), None),
        }
    }

    /// The driver's call comes to its end, one way or the other.
    pub(super) fn call(&mut self, name: &Text, request: Request, id: u64) -> State {
        let rare = if self.stormy { 2 } else { 4 };
        let answer = if self.faulty() && self.dice.one_in(rare) {
            self.fail(id)
        } else {
            self.succeed(name, id)
        };
        State::Answered(request, answer, None)
    }

    fn succeed(&mut self, content: &Text, id: u64) -> Answer {
        let taken = self.taken();
        let call = self.driver.end(id, true, taken);
        let Wish::Create(name) = call.wish else {
            return Answer::Deleted;
        };
        self.created(content, &name)
    }

    fn fail(&mut self, id: u64) -> Answer {
        let taken = self.taken();
        let code = match self.dice.below(5) {
            0 => {
                self.driver.abandon(id);
                Code::DeadlineExceeded
            }
            1 => {
                self.driver.end(id, true, taken);
                Code::Unavailable
            }
            2 => {
                self.driver.end(id, false, taken);
                Code::ResourceExhausted
            }
            _ => {
                let call = self.driver.end(id, false, taken);
                // A driver that has the snapshot does not say that there is none.
                if call.found.is_some() {
                    Code::Aborted
                } else {
                    [Code::Internal, Code::NotFound][self.dice.below(2)]
                }
            }
        };
        Answer::Failed(rpc(code))
    }

    /// The server does what `step` asks for.
    pub(super) fn apply(
        &mut self,
        name: &Text,
        step: &Step,
    ) -> Result<Versioned<Content>, ApiError> {
        let (status, body) = match step {
            Step::Patch(_, body) => (false, body),
            Step::PatchStatus(_, body) => (true, body),
            Step::Read
            | Step::Announce(_)
            | Step::LoadSecret(..)
            | Step::Create(_)
            | Step::List(_)
            | Step::Get(_)
            | Step::Delete(_)
            | Step::CreateGroup(_)
            | Step::GetGroup(_)
            | Step::DeleteGroup(_) => {
                let found = self.server.contents.get(name).cloned();
                return found.ok_or(refused(Refusal::NotFound));
            }
        };
        let before = self.server.contents.get(name).cloned();
        let (version, after) = self.server.patch(name, (status, body))?;
        if let Some((_, before)) = before {
            self.check_patch(name, (&before, &after), step);
        }
        self.check_gone(name, &after);
        self.check_storage();
        Ok((version, after))
    }
}

/// Whether an answer shows what was looked up.
fn shows(step: &Step, answer: &Answer) -> bool {
    let Answer::Listed(page) = answer else {
        return matches!(answer, Answer::GroupGot(_));
    };
    let snapshots = page.entries.iter().filter_map(|one| one.snapshot.as_ref());
    let mut ids = snapshots.map(|one| plain(&one.snapshot_id));
    ids.any(|id| step.looks_up().map(plain) == Some(id))
}

fn copy(step: &Step) -> Step {
    match step {
        Step::Patch(write, body) => Step::Patch(*write, body.clone()),
        Step::PatchStatus(write, body) => Step::PatchStatus(write.clone(), body.clone()),
        Step::Read
        | Step::Announce(_)
        | Step::LoadSecret(..)
        | Step::Create(_)
        | Step::List(_)
        | Step::Get(_)
        | Step::Delete(_)
        | Step::CreateGroup(_)
        | Step::GetGroup(_)
        | Step::DeleteGroup(_) => Step::Read,
    }
}

pub(super) fn rpc(code: Code) -> RpcError {
    let message = "simulated".into();
    RpcError { code, message }
}
