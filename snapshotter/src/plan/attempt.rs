//! One attempt on a content: what was learnt and done so far that the API objects do not show.
//!
//! Separate, because all goals share what surrounds their steps: an object that has changed, or of
//! which nobody knows what the last write did, is read again without a word; a failure is recorded,
//! told, then left to the back-off.

use std::sync::Arc;

use super::answer::Said;
use super::failing::Failing;
use super::goal::{Goal, goal, is_ours};
use super::memory::Start;
use super::outcome::{ApiError, Class, Failure, Problem, Refusal, RpcError, Task};
use super::request::{Parameters, Secrets};
use super::secret::Loaded;
use super::step::{Answer, Purpose, StatusWrite, Step, Write};
use super::{View, check, create, delete, patch};
use crate::model::{Content, SecretRef, Source, Text};
use jiff::Timestamp;
use tonic::Code;

/// How often in one attempt the content may have changed under its patch.
const CONFLICTS: u8 = 8;

/// A list of more pages has no end.
const PAGES: u32 = 10_000;

/// An attempt on one content. A crash loses it, and nothing with it.
#[derive(Debug)]
pub struct Attempt {
    name: Text,
    uid: Text,
    /// The content must be read before anything else.
    unread: bool,
    /// Before the next attempt.
    stale: bool,
    conflicts: u8,
    secret: Loaded,
    parameters: Option<Arc<Parameters>>,
    /// The mark on the content is this process's, and no call followed it.
    uncalled: bool,
    /// The mark on the content is this process's, and nothing is on its way that takes it away.
    owns_mark: bool,
    deleted: bool,
    said: Option<Said>,
    page: Page,
    cannot_get: bool,
    failing: Option<Failing>,
}

#[derive(Debug)]
enum Page {
    Next(String, u32),
    NoMore,
}

/// What an attempt wants.
#[derive(Debug)]
pub enum Next {
    /// This step.
    Step(Box<Step>),
    /// To fail.
    Fail(Task, Problem),
    /// To end.
    End(End),
}

impl Next {
    pub(super) fn step(step: Step) -> Self {
        Self::Step(Box::new(step))
    }

    pub(super) fn load(purpose: Purpose, secret: Option<SecretRef>) -> Self {
        match secret {
            Some(secret) => Self::step(Step::LoadSecret(purpose, secret)),
            None => Self::End(End::Done),
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do, or not now.
    Done,
    /// The snapshot is there, and not ready.
    NotReady,
    /// The controller still has to write the member's status.
    Awaits,
    /// The content names a class of another driver, which may change or be made anew.
    Foreign(Text),
    /// The content is gone.
    Gone,
    /// It failed, and is tried again.
    Failed(Failure),
}

impl Attempt {
    /// A new attempt on the content as the cache knows it, which goes on where an earlier one ended.
    #[must_use]
    pub fn new(name: &Text, content: &Content, start: Start) -> Self {
        Self {
            name: name.clone(),
            uid: content.uid.clone(),
            unread: start.unread,
            stale: false,
            conflicts: 0,
            secret: Loaded::NotYet,
            parameters: start.parameters,
            uncalled: start.uncalled,
            owns_mark: start.owns_mark,
            deleted: start.deleted,
            said: None,
            page: Page::Next(String::new(), 0),
            cannot_get: false,
            failing: None,
        }
    }

    /// UID of the content it is about.
    #[must_use]
    pub fn uid(&self) -> &Text {
        &self.uid
    }

    /// The handle that the driver answered with, for a content that does not say it yet.
    #[must_use]
    pub fn said(&self) -> Option<&Said> {
        self.said.as_ref()
    }

    /// The next step under `view`.
    #[must_use]
    pub fn decide(&self, view: &View<'_>) -> Next {
        let content = view.content;
        if self.unread {
            return Next::step(Step::Read);
        }
        if !is_ours(content, view.class, view.driver) {
            let class = content.class.as_ref();
            let class = class.filter(|_| is_ours(content, None, view.driver));
            return Next::End(class.cloned().map_or(End::Done, End::Foreign));
        }
        let goal = goal(content);
        if let Some(failing) = &self.failing {
            // What cannot be taken or found need not be once it is to be deleted.
            let failure = &failing.failure;
            let unknown = matches!(failure.problem, Problem::Read(_));
            let outlived = goal == Goal::Delete && failure.task != Task::Delete && !unknown;
            match failing.decide(view).filter(|_| !outlived) {
                Some(step) => return Next::step(step),
                None if outlived => {}
                None => return Next::End(End::Failed(failure.clone())),
            }
        }
        match goal {
            Goal::Nothing => Next::End(End::Done),
            Goal::Await => Next::End(End::Awaits),
            Goal::Unmark => Next::step(Step::Patch(Write::Unmark, patch::unmark(content))),
            Goal::Create => create::decide(self, view),
            Goal::Check => check::decide(self, view),
            Goal::Delete => delete::decide(self, view),
        }
    }

    /// It fails with this.
    pub fn fail(&mut self, content: Option<&Content>, task: Task, problem: Problem) -> &Failure {
        let volume = match content.and_then(|content| content.source.as_ref()) {
            Some(Source::Volume(volume)) => Some(volume.clone()),
            Some(Source::Snapshot(_)) | None => None,
        };
        let failure = Failure {
            task,
            content: self.name.clone(),
            volume,
            problem,
        };
        let failing = Failing::new(failure, self.uncalled);
        &self.failing.insert(failing).failure
    }

    /// Takes in what came of `step`; the problem, if it fails with that.
    pub fn fold(&mut self, step: &Step, answer: Answer, now: Timestamp) -> Option<(Task, Problem)> {
        match step {
            Step::Read => self.read(answer),
            Step::Patch(write, _) => self.patched(*write, answer),
            Step::PatchStatus(write, _) => self.status_patched(write, answer),
            Step::Announce(_) => {
                if let Some(failing) = &mut self.failing {
                    failing.is_announced();
                }
                None
            }
            Step::LoadSecret(purpose, secret) => self.loaded(*purpose, secret, answer),
            Step::Create(_) => self.created(answer, now),
            Step::List(request) => self.listed(&request.snapshot_id, answer, now),
            Step::Get(request) => self.got(&request.snapshot_id, answer, now),
            Step::Delete(_) => match answer {
                Answer::Deleted => {
                    self.deleted = true;
                    None
                }
                answer => Some((Task::Delete, called(answer))),
            },
        }
    }

    fn read(&mut self, answer: Answer) -> Option<(Task, Problem)> {
        self.unread = false;
        let Answer::Refused(error) = answer else {
            return None;
        };
        // The deletion is on its way as an event.
        self.stale = true;
        Some((Task::Check, Problem::Read(error)))
    }

    /// The content has changed, or may have: whether it is read and looked at again.
    fn rereads(&mut self, error: &ApiError) -> bool {
        match error.refusal {
            Refusal::Conflict => {
                self.conflicts += 1;
                self.unread = self.conflicts < CONFLICTS;
                self.stale = !self.unread;
                self.unread
            }
            Refusal::NotFound | Refusal::Unknown => {
                self.stale = true;
                false
            }
            Refusal::Forbidden | Refusal::AlreadyExists | Refusal::Other => false,
        }
    }

    fn patched(&mut self, write: Write, answer: Answer) -> Option<(Task, Problem)> {
        let Answer::Refused(error) = answer else {
            self.uncalled &= write != Write::Unmark;
            self.owns_mark = match write {
                Write::Mark => true,
                Write::Unmark => false,
                Write::Release => self.owns_mark,
            };
            return None;
        };
        self.owns_mark &= error.refusal != Refusal::Unknown;
        if self.rereads(&error) {
            return None;
        }
        if let Some(failing) = &mut self.failing
            && failing.failure.task != Task::Delete
        {
            failing.could_not_unmark();
            return None;
        }
        let task = match write {
            Write::Mark | Write::Unmark => Task::Create,
            Write::Release => Task::Delete,
        };
        Some((task, Problem::Write(write, error)))
    }

    fn status_patched(&mut self, write: &StatusWrite, answer: Answer) -> Option<(Task, Problem)> {
        let refused = match answer {
            Answer::Refused(error) => Some(error),
            Answer::Done
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Created(_)
            | Answer::Listed(_)
            | Answer::Got(_)
            | Answer::Deleted
            | Answer::Failed(_)
            | Answer::Unreachable(_) => None,
        };
        if let Some(error) = &refused
            && self.rereads(error)
        {
            return None;
        }
        let task = match write {
            StatusWrite::Fail(announcement) => {
                // Whoever cannot be told in the status is told all the same.
                if let Some(failing) = &mut self.failing {
                    failing.is_in_status(announcement);
                }
                return None;
            }
            StatusWrite::Report(task) => *task,
            StatusWrite::Clear => Task::Delete,
        };
        refused.map(|error| (task, Problem::Status(error)))
    }

    fn loaded(
        &mut self,
        purpose: Purpose,
        secret: &SecretRef,
        answer: Answer,
    ) -> Option<(Task, Problem)> {
        let annotated = purpose != Purpose::List;
        let problem = match answer {
            Answer::Secret(values) => {
                self.secret = Loaded::Values(secret.clone(), values);
                return None;
            }
            Answer::SecretNotText => Problem::SecretNotText(secret.clone(), annotated),
            Answer::Refused(error) => Problem::Secret(secret.clone(), error, annotated),
            answer => called(answer),
        };
        Some((purpose.task(), problem))
    }

    fn created(&mut self, answer: Answer, now: Timestamp) -> Option<(Task, Problem)> {
        let problem = match answer {
            Answer::Created(answer) => {
                self.said = Said::new(answer.snapshot, now);
                if self.said.is_some() {
                    return None;
                }
                Problem::NoId
            }
            answer => called(answer),
        };
        Some((Task::Create, problem))
    }

    fn listed(&mut self, handle: &str, answer: Answer, now: Timestamp) -> Option<(Task, Problem)> {
        let page = match answer {
            Answer::Listed(page) => page,
            answer => return Some((Task::Check, called(answer))),
        };
        let snapshots = page.entries.into_iter().filter_map(|entry| entry.snapshot);
        let found = { snapshots }.find(|snapshot| snapshot.snapshot_id == handle);
        self.said = Said::new(found, now);
        self.page = match &self.page {
            Page::Next(last, pages)
                if !page.next_token.is_empty() && page.next_token != *last && *pages < PAGES =>
            {
                Page::Next(page.next_token, pages + 1)
            }
            Page::Next(..) | Page::NoMore => Page::NoMore,
        };
        None
    }

    fn got(&mut self, handle: &str, answer: Answer, now: Timestamp) -> Option<(Task, Problem)> {
        let not_found = || Problem::NotFound(handle.into());
        let problem = match answer {
            Answer::Got(answer) => {
                self.said = Said::new(answer.snapshot, now).map(|said| Said {
                    handle: handle.into(),
                    ..said
                });
                if self.said.is_some() {
                    return None;
                }
                Problem::NoId
            }
            Answer::Failed(error) if error.code == Code::NotFound => not_found(),
            Answer::Failed(error) if error.code == Code::Unimplemented => {
                self.cannot_get = true;
                return None;
            }
            answer => called(answer),
        };
        Some((Task::Check, problem))
    }

    pub(super) fn secrets(&self, reference: Option<&SecretRef>) -> Option<Secrets> {
        self.secret.values(reference)
    }

    pub(super) fn parameters(&self) -> Option<&Parameters> {
        self.parameters.as_deref()
    }

    pub(super) fn has_deleted(&self) -> bool {
        self.deleted
    }

    pub(super) fn cannot_get(&self) -> bool {
        self.cannot_get
    }

    pub(super) fn next_page(&self) -> Option<&str> {
        match &self.page {
            Page::Next(token, _) => Some(token),
            Page::NoMore => None,
        }
    }

    /// Whether the content must be read before the next attempt.
    pub(super) fn is_stale(&self) -> bool {
        self.stale || self.unread
    }

    /// The driver is asked for a snapshot with these parameters, now and from now on.
    pub(super) fn calls(&mut self, parameters: Parameters) -> Arc<Parameters> {
        self.uncalled = false;
        Arc::clone(self.parameters.get_or_insert_with(|| Arc::new(parameters)))
    }

    /// The mark that is about to be written is this process's.
    pub(super) fn marks(&mut self) {
        self.uncalled = true;
    }

    pub(super) fn owns_mark(&self) -> bool {
        self.owns_mark
    }

    pub(super) fn is_uncalled(&self) -> bool {
        self.uncalled
    }

    /// Whether the driver's last answer leaves nothing in doubt: another call may have other
    /// parameters.
    pub(super) fn is_settled(&self) -> bool {
        let said = { self.failing.as_ref() }.and_then(|failing| failing.failure.class());
        let refused = matches!(said, Some(Class::Final | Class::Infeasible));
        refused || self.said.as_ref().is_some_and(|said| said.ready)
    }
}

/// Why a call did not bring what it was made for.
fn called(answer: Answer) -> Problem {
    match answer {
        Answer::Failed(error) => Problem::Call(error),
        Answer::Unreachable(error) => Problem::Away(error),
        Answer::Refused(error) => Problem::Read(error),
        Answer::Done
        | Answer::Secret(_)
        | Answer::SecretNotText
        | Answer::Created(_)
        | Answer::Listed(_)
        | Answer::Got(_)
        | Answer::Deleted => Problem::Call(RpcError {
            code: Code::Internal,
            message: "answered with something else".to_owned(),
        }),
    }
}
