//! Requests that several scripts make.

use serde_json::Value;
use sidecar::controller::request::SecretError;

use super::answer::Report;
use super::attempt::{Attempt, End, Flow, Log};
use super::outcome::{Failure, Problem, Task};
use super::request::{Announcement, ContentWrite, Secrets, StatusWrite, Written};
use super::secret::{self, Unnamed};
use super::view::View;
use super::{patch, topology};
use crate::model::SecretRef;

/// A script's input: the attempt so far, and the cached objects.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) view: &'a View<'a>,
}

impl<'a> Ask<'a> {
    pub(super) fn log(self) -> &'a Log {
        &self.attempt.log
    }

    /// The attempt fails with this problem.
    pub(super) fn fails(self, task: Task, problem: Problem) -> End {
        let View { name, content, .. } = self.view;
        End::Failed(Box::new(Failure::new(task, name, content, problem)))
    }

    /// Patches the content, unless `body` is `None` because nothing would change. A patch that the API server has
    /// accepted is not repeated: if it does not show, an admission webhook reverts it, and would do so again.
    pub(super) fn content(self, what: ContentWrite, body: Option<Value>) -> Flow<()> {
        let write = body.map(|body| self.view.patch(what, body));
        let ignored = Problem::NoEffect(Written::Content(what));
        self.log()
            .mark(write, 1, || self.fails(what.task(), ignored))
    }

    /// Removes the mark, if it is there.
    pub(super) fn unmark(self) -> Flow<()> {
        let marked = self.view.content.being_created;
        let body = marked.then(|| patch::unmark(self.view.content));
        self.content(ContentWrite::Unmark, body)
    }

    /// Clears the status, unless it is clear.
    pub(super) fn clear(self) -> Flow<()> {
        let body = patch::clear(self.view.content);
        let write = body.map(|body| self.view.patch_status(StatusWrite::Clear, body));
        let ignored = Problem::NoEffect(Written::Clear);
        self.log()
            .mark(write, 1, || self.fails(Task::Delete, ignored))
    }

    /// Writes the driver's report. A definition without a field drops it.
    pub(super) fn record(self, task: Task, report: &Report) -> Flow<End> {
        let View { content, .. } = self.view;
        let topology = topology::news(self.view, report);
        let body = topology.map(|topology| patch::topology(content, topology));
        self.content(ContentWrite::Topology(task), body)?;
        let end = if report.ready {
            End::Done
        } else {
            End::NotReady
        };
        let body = patch::report(content, report);
        let write = body.map(|body| self.view.patch_status(StatusWrite::Report(task), body));
        self.log().mark(write, 1, || end.clone())?;
        Ok(end)
    }

    /// The values of the Secret that the content's annotations reference; empty without a reference.
    pub(super) fn annotated_secret(self, task: Task) -> Flow<Secrets> {
        let secret = secret::annotated(self.view.content);
        let secret = secret.map_err(|Unnamed| self.fails(task, Problem::Unnamed))?;
        self.secret(task, secret)
    }

    /// The values of the Secret; empty without a reference.
    pub(super) fn secret(self, task: Task, secret: Option<SecretRef>) -> Flow<Secrets> {
        let values = self.log().secret(secret)?;
        let annotated = task != Task::Check || self.view.content.wished().is_none();
        let values = values.map_err(|(secret, error)| {
            let secret = secret.clone();
            let problem = match error {
                SecretError::NotText => Problem::SecretNotText(secret, annotated),
                SecretError::Unread(error) => Problem::Secret(secret, error.clone(), annotated),
            };
            self.fails(task, problem)
        })?;
        Ok(values.clone())
    }

    /// Sends an event about the driver, unless this process has.
    pub(super) fn warn(self, announcement: Announcement) -> Flow<()> {
        if self.attempt.start.warned {
            return Ok(());
        }
        self.announce(announcement)
    }

    /// Sends an event, once per attempt.
    pub(super) fn announce(self, announcement: Announcement) -> Flow<()> {
        self.log().tell(self.view.event(announcement))
    }
}
