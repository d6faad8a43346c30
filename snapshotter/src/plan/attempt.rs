//! One attempt on a content: what was learnt and done so far that the API objects do not show.
//!
//! All goals share what surrounds their steps: an object that has changed, or of which nobody knows
//! what the last write did, is read again without a word; a failure is recorded, told, then left to
//! the back-off.

mod fold;

use std::sync::Arc;

use tonic::Code;

use super::answer::Said;
use super::failing::{Before, Failing, GROUP_CREATION_FAILED};
use super::goal::{Goal, deletes, goal, is_ours};
use super::in_flight::Start;
use super::outcome::{Failure, Finality, Problem, RpcError, Task};
use super::request::{
    Announcement, Call, ContentWrite, Parameters, Request, Secrets, Use, Wanted, Written,
};
use super::secret::Loaded;
use super::{View, check, create, delete, patch};
use crate::model::{Content, Kind, SecretRef, Source, Text};

/// So many calls in a row that run out of time are not by chance.
const OFTEN: u32 = 3;
const HINT: &str = " (the last 3 calls or more ran out of time: if the storage system takes that long, \
                    --timeout should be longer)";

/// An attempt on one content. A crash loses it, and nothing with it.
#[derive(Debug)]
pub struct Attempt {
    name: Text,
    uid: Text,
    kind: Kind,
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
    /// What an attempt before this one was told and could not write.
    untold: Option<Said>,
    /// What it has written, as the API server says.
    written: Vec<Written>,
    page: Page,
    cannot_get: bool,
    /// It was said what the driver cannot do.
    warned: bool,
    /// How many calls for a snapshot in a row, of this attempt and those before, ran out of time.
    expired: u32,
    /// How the attempt before this one failed.
    before: Before,
    failing: Option<Failing>,
}

#[derive(Debug)]
enum Page {
    Next(String, u32),
    NoMore,
}

/// What an attempt wants.
pub enum Next {
    /// This request.
    Ask(Box<Request>),
    /// To fail.
    Fail(Task, Problem),
    /// To end.
    End(End),
}

impl Next {
    pub(super) fn ask(request: Request) -> Self {
        Self::Ask(Box::new(request))
    }

    pub(super) fn call(call: Call) -> Self {
        Self::ask(Request::Call(call))
    }

    pub(super) fn load(of: Use, secret: Option<SecretRef>) -> Self {
        match secret {
            Some(secret) => Self::ask(Request::Secret(Wanted { of, secret })),
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
    /// The driver cannot do what it would be asked for.
    Incapable,
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
            kind: content.kind(),
            unread: start.unread,
            stale: false,
            conflicts: 0,
            secret: Loaded::NotYet,
            parameters: start.parameters,
            uncalled: start.uncalled,
            owns_mark: start.owns_mark,
            deleted: start.deleted,
            said: None,
            untold: start.untold,
            written: Vec::new(),
            page: Page::Next(String::new(), 0),
            cannot_get: false,
            warned: start.warned,
            expired: start.expired,
            before: start.before,
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

    /// The next request under `view`. What the API server has taken is not written again: where that does not
    /// show in the object, a definition has dropped it or an admission webhook undone it, and would again.
    #[must_use]
    pub fn decide(&self, view: &View<'_>) -> Next {
        let next = self.next(view);
        let Next::Ask(request) = &next else {
            return next;
        };
        let Request::Write(write) = &**request else {
            return next;
        };
        let written = write.purpose.lasting();
        let Some(written) = written.filter(|&written| self.has_written(written)) else {
            return next;
        };
        match (&self.failing, written, &self.said) {
            (Some(failing), _, _) => Next::End(End::Failed(failing.failure.clone())),
            (None, Written::Report, Some(said)) if said.ready => Next::End(End::Done),
            (None, Written::Report, _) => Next::End(End::NotReady),
            (None, written, _) => Next::Fail(written.task(), Problem::NoEffect(written)),
        }
    }

    fn next(&self, view: &View<'_>) -> Next {
        let content = view.content;
        if self.unread {
            return Next::ask(Request::Get(self.name.clone()));
        }
        if !is_ours(content, view.class, view.driver) {
            let class = content.class.as_ref();
            let class = class.filter(|_| is_ours(content, None, view.driver));
            return Next::End(class.cloned().map_or(End::Done, End::Foreign));
        }
        let goal = goal(content);
        if let Some(next) = self.incapable(goal, view) {
            return next;
        }
        if let Some(failing) = &self.failing {
            // What cannot be taken or found need not be once it is to be deleted.
            let failure = &failing.failure;
            let unknown = matches!(failure.problem, Problem::Read(_));
            let unknown = unknown || self.unrecorded(content).is_some();
            let outlived = goal == Goal::Delete && failure.task != Task::Delete && !unknown;
            let request = if outlived {
                failing.last_word(view)
            } else {
                failing.decide(view)
            };
            match request {
                Some(request) => return Next::ask(request),
                None if outlived => {}
                None => return Next::End(End::Failed(failure.clone())),
            }
        }
        match goal {
            Goal::Nothing => Next::End(End::Done),
            Goal::Delete if let Some(said) = self.unrecorded(content) => check::report(view, said),
            Goal::Await => Next::End(End::Awaits),
            Goal::Unmark => Next::ask(view.patch(ContentWrite::Unmark, patch::unmark(content))),
            Goal::Create => create::decide(self, view),
            Goal::Check => check::decide(self, view),
            Goal::Delete => delete::decide(self, view),
        }
    }

    /// What the driver has said of a snapshot whose handle is not on record: that comes before a deletion,
    /// or nobody deletes the snapshot.
    fn unrecorded(&self, content: &Content) -> Option<&Said> {
        let said = self.said.as_ref().or(self.untold.as_ref());
        let open = content.handle().is_none() && !self.deleted;
        said.filter(|_| open && !self.has_written(Written::Report))
    }

    fn has_written(&self, what: Written) -> bool {
        self.written.contains(&what)
    }

    /// What the next attempt is to know of that.
    pub(super) fn untold(&self) -> Option<Said> {
        let said = self.said.as_ref().or(self.untold.as_ref());
        let told = self.deleted || self.has_written(Written::Report);
        said.filter(|_| !told).cloned()
    }

    /// What follows if the driver does nothing about groups.
    fn incapable(&self, goal: Goal, view: &View<'_>) -> Option<Next> {
        if self.kind == Kind::Single || view.driver.abilities.group {
            return None;
        }
        let asks = match goal {
            Goal::Create | Goal::Check => true,
            Goal::Delete => deletes(view.content).is_some() && !self.deleted,
            Goal::Nothing | Goal::Await | Goal::Unmark => false,
        };
        if !asks {
            return None;
        }
        if self.warned {
            return Some(Next::End(End::Incapable));
        }
        let message = format!(
            "CSI driver {} does not announce CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT and is not asked \
             about group snapshots",
            view.driver.name
        );
        let reason = GROUP_CREATION_FAILED;
        Some(Next::ask(view.announce(Announcement { reason, message })))
    }

    /// It fails with this.
    pub fn fail(&mut self, content: Option<&Content>, task: Task, problem: Problem) -> &Failure {
        let volume = match content.and_then(|content| content.source.as_ref()) {
            Some(Source::Volume(volume)) => Some(volume.clone()),
            Some(Source::Volumes(volumes)) => {
                let all: Vec<&str> = volumes.iter().map(|volume| &**volume).collect();
                Some(format!("[{}]", all.join(" ")).into())
            }
            Some(Source::Snapshot(_) | Source::Group(_)) | None => None,
        };
        let problem = match (problem, task) {
            (Problem::Call(error), Task::Create) => Problem::Call(self.expires(error)),
            (problem, _) => problem,
        };
        let failure = Failure {
            task,
            kind: self.kind,
            content: self.name.clone(),
            volume,
            problem,
        };
        let failing = Failing::new(failure, self.uncalled, &self.before);
        &self.failing.insert(failing).failure
    }

    /// How it failed, for the next one.
    pub(super) fn failed(&self) -> Before {
        let failing = self.failing.as_ref();
        failing.map(Failing::as_before).unwrap_or_default()
    }

    /// A call for a snapshot failed with this, which says what to do about it if that was too often for
    /// want of time.
    fn expires(&mut self, mut error: RpcError) -> RpcError {
        if error.code != Code::DeadlineExceeded {
            self.expired = 0;
            return error;
        }
        self.expired = self.expired.saturating_add(1);
        if self.expired >= OFTEN {
            error.message.push_str(HINT);
        }
        error
    }

    /// How many calls for a snapshot in a row ran out of time.
    pub(super) fn expired(&self) -> u32 {
        self.expired
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

    pub(super) fn is_warned(&self) -> bool {
        self.warned
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
        let said = self
            .failing
            .as_ref()
            .and_then(|failing| failing.failure.finality());
        let refused = matches!(said, Some(Finality::Final | Finality::Infeasible));
        refused || self.said.as_ref().is_some_and(|said| said.ready)
    }
}
