//! One attempt on a content: its progress, as far as the API objects do not show it.
//!
//! All goals share the handling of conflicts and failures: an object that has changed, or whose last write
//! has an unknown outcome, is read again without an event; a failure is recorded, reported, then the content
//! backs off.

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

/// Number of consecutive timeouts after which the failure's text has a hint.
const OFTEN: u32 = 3;
const HINT: &str = " (the last 3 calls or more ran out of time: if the storage system takes that long, \
                    --timeout should be longer)";

/// An attempt on one content. A crash loses it without harm.
#[derive(Debug)]
pub struct Attempt {
    name: Text,
    uid: Text,
    kind: Kind,
    /// The content has to be read before anything else.
    unread: bool,
    /// The content has to be read before the next attempt.
    stale: bool,
    conflicts: u8,
    secret: Loaded,
    parameters: Option<Arc<Parameters>>,
    /// This process has marked the content, and has not called the driver since.
    uncalled: bool,
    /// This process has marked the content, and no patch that removes the mark is on its way.
    owns_mark: bool,
    deleted: bool,
    said: Option<Said>,
    /// The driver's report to an earlier attempt that could not write it.
    untold: Option<Said>,
    /// Writes that the API server has accepted.
    written: Vec<Written>,
    page: Page,
    cannot_get: bool,
    /// The driver's missing capability was reported.
    warned: bool,
    /// Number of consecutive create calls that timed out, earlier attempts included.
    expired: u32,
    /// Failure of the previous attempt.
    before: Before,
    failing: Option<Failing>,
}

#[derive(Debug)]
enum Page {
    Next(String, u32),
    NoMore,
}

/// The next action of an attempt.
pub enum Next {
    /// Send this request.
    Ask(Box<Request>),
    /// Fail with this problem.
    Fail(Task, Problem),
    /// End.
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

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do, or not now.
    Done,
    /// The snapshot exists and is not ready.
    NotReady,
    /// The controller has not written the member's status yet.
    Awaits,
    /// The driver lacks the required capability.
    Incapable,
    /// The content names a class of another driver; the class may change or be recreated.
    Foreign(Text),
    /// The content was deleted.
    Gone,
    /// It failed: requeue after a back-off.
    Failed(Failure),
}

impl Attempt {
    /// A new attempt on the cached content, which continues where an earlier one ended.
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

    /// UID of its content.
    #[must_use]
    pub fn uid(&self) -> &Text {
        &self.uid
    }

    /// The driver's report that the content does not have yet.
    #[must_use]
    pub fn said(&self) -> Option<&Said> {
        self.said.as_ref()
    }

    /// The next request under `view`. A write that the API server has accepted is not repeated: if it does
    /// not show in the object, the definition lacks the field or an admission webhook reverts it, and would
    /// do so again.
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
            // Once the content is to be deleted, a failed creation or look-up does not matter any more.
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

    /// The driver's report about a snapshot whose handle is not recorded: recording it comes before the
    /// deletion, or nobody deletes the snapshot.
    fn unrecorded(&self, content: &Content) -> Option<&Said> {
        let said = self.said.as_ref().or(self.untold.as_ref());
        let open = content.handle().is_none() && !self.deleted;
        said.filter(|_| open && !self.has_written(Written::Report))
    }

    fn has_written(&self, what: Written) -> bool {
        self.written.contains(&what)
    }

    /// The unwritten report, for the next attempt.
    pub(super) fn untold(&self) -> Option<Said> {
        let said = self.said.as_ref().or(self.untold.as_ref());
        let told = self.deleted || self.has_written(Written::Report);
        said.filter(|_| !told).cloned()
    }

    /// Ends an attempt that needs group snapshots from a driver without that capability; reports it first.
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

    /// Records that the attempt fails with this problem.
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

    /// The failure, for the next attempt.
    pub(super) fn failed(&self) -> Before {
        let failing = self.failing.as_ref();
        failing.map(Failing::as_before).unwrap_or_default()
    }

    /// Counts timeouts of create calls; after several in a row the error gets a hint about `--timeout`.
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

    /// Number of consecutive create calls that timed out.
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

    /// Whether the content has to be read before the next attempt.
    pub(super) fn is_stale(&self) -> bool {
        self.stale || self.unread
    }

    /// A create call with these parameters is about to be sent; all later ones use them too.
    pub(super) fn calls(&mut self, parameters: Parameters) -> Arc<Parameters> {
        self.uncalled = false;
        Arc::clone(self.parameters.get_or_insert_with(|| Arc::new(parameters)))
    }

    /// This process is about to mark the content.
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

    /// Whether the driver's last response was final: the next create call may have other parameters.
    pub(super) fn is_settled(&self) -> bool {
        let said = self
            .failing
            .as_ref()
            .and_then(|failing| failing.failure.finality());
        let refused = matches!(said, Some(Finality::Final | Finality::Infeasible));
        refused || self.said.as_ref().is_some_and(|said| said.ready)
    }
}
