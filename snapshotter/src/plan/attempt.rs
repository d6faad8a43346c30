//! One attempt on a content: a script, and the replies that it has got so far.
//!
//! A write or call that fails is the attempt's failure in the turn of its reply, so that no event passes between a
//! failure and the note of what it waits for. A failure ends the attempt once it is reported. An object that has
//! changed, or whose last write has an unknown outcome, is read again without an event.

use sidecar::controller::script;

use super::View;
use super::answer::{self, Report};
use super::ask::Ask;
use super::check::check;
use super::create::create;
use super::delete::delete;
use super::failing::{self, Failing, GROUP_CREATION_FAILED};
use super::goal::{Goal, deletes, goal, is_ours};
use super::in_flight::{Before, Start};
use super::outcome::{ApiError, Failure, Problem, Task};
use super::reactor::Snapshotter;
use super::request::{
    Announcement, Called, ContentWrite, Purpose, Reply, Request, StatusWrite, Write,
};
use crate::model::{Content, Kind, Text};

/// The requests of an attempt, with their replies.
pub(super) type Log = script::Log<Snapshotter>;
/// A value, or why the script stops.
pub(super) type Flow<T> = script::Flow<T, Snapshotter, End>;

/// Number of consecutive timeouts after which the failure's text has a hint.
const OFTEN: u32 = 3;
const HINT: &str = " (the last 3 calls or more ran out of time: if the storage system takes that long, \
                    --timeout should be longer)";

/// An attempt on one content. A crash loses it without harm.
pub struct Attempt {
    pub(super) name: Text,
    pub(super) uid: Text,
    pub(super) start: Start,
    pub(super) log: Log,
    failing: Option<Failing>,
    pub(super) over: Option<End>,
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
    Failed(Box<Failure>),
}

impl Attempt {
    /// A new attempt on the cached content, which continues where an earlier one ended.
    #[must_use]
    pub fn new(name: &Text, content: &Content, start: Start) -> Self {
        Self {
            name: name.clone(),
            uid: content.uid.clone(),
            start,
            log: Log::default(),
            failing: None,
            over: None,
        }
    }

    /// The next request under `view`.
    ///
    /// # Errors
    /// The outcome. A failure that is not [reported](Self::has_reported) has to be [taken in](Self::fails) first.
    pub(super) fn decide(&mut self, view: &View<'_>) -> Result<Request, End> {
        let request = script::next(self.script(view))?;
        let marks = |write: &Write| matches!(write.purpose, Purpose::Content(ContentWrite::Mark));
        if let Request::Write(write) = &request {
            // Whatever comes of the patch: the mark may be this process's, and no call has followed it.
            self.start.uncalled |= marks(write) && !view.content.being_created;
        }
        Ok(request)
    }

    fn script(&self, view: &View<'_>) -> Flow<End> {
        let (content, attempt) = (view.content, self);
        let ask = Ask { attempt, view };
        if let Err(error) = self.log.read(&self.start.in_doubt)? {
            return Ok(ask.fails(Task::Check, Problem::Read(error.clone())));
        }
        if !is_ours(content, view.class, view.driver) {
            let class = content.class.as_ref();
            let class = class.filter(|_| is_ours(content, None, view.driver));
            return Ok(class.cloned().map_or(End::Done, End::Foreign));
        }
        let goal = goal(content);
        is_capable(ask, goal)?;
        let unrecorded = self.unrecorded(content);
        if let Some(failing) = &self.failing {
            // Once the content is to be deleted, a failed creation or look-up does not matter any more.
            let outlived = goal == Goal::Delete && failing.failure.task != Task::Delete;
            if outlived && unrecorded.is_none() {
                failing::last_word(ask, failing)?;
            } else {
                failing::report(ask, failing)?;
                return Ok(End::Failed(Box::new(failing.failure.clone())));
            }
        }
        match (goal, unrecorded) {
            (Goal::Delete, Some(report)) => ask.record(Task::Check, &report),
            (Goal::Delete, None) => delete(ask),
            (Goal::Nothing, _) => Ok(End::Done),
            (Goal::Await, _) => Ok(End::Awaits),
            (Goal::Unmark, _) => {
                ask.unmark()?;
                Ok(End::Done)
            }
            (Goal::Create, _) => create(ask),
            (Goal::Check, _) => check(ask),
        }
    }

    /// The driver's report in this attempt.
    pub(super) fn report(&self) -> Option<Report> {
        self.log.calls().find_map(Called::report)
    }

    /// The driver's report that the content does not have, for all that is known.
    fn unwritten(&self) -> Option<Report> {
        let reports =
            |write: &Write| matches!(write.purpose, Purpose::Status(StatusWrite::Report(_)));
        let mut writes = self.log.writes();
        let written = writes.any(|(write, result)| reports(write) && result.is_ok());
        let report = self.report().or_else(|| self.start.unwritten.clone());
        report.filter(|_| !written && !self.start.deleted)
    }

    /// The driver's report about a snapshot whose handle is not recorded: recording it comes before the
    /// deletion, or nobody deletes the snapshot.
    fn unrecorded(&self, content: &Content) -> Option<Report> {
        self.unwritten().filter(|_| content.handle().is_none())
    }

    /// Takes in the reply to a request. Returns the task and problem that the attempt fails with.
    pub(super) fn answered(&mut self, mut reply: Reply) -> Option<(Task, Problem)> {
        if let Reply::Call(Called::List(call, Ok(page)), _) = &mut reply {
            answer::narrow(call, page);
        }
        self.start.learn(&reply, self.failing.is_some());
        let of_call = match &reply {
            Reply::Call(called, _) => called.problem().map(|problem| (called.task(), problem)),
            Reply::Get(..) | Reply::Write(..) | Reply::Secret(..) | Reply::Event(_) => None,
        };
        self.log.push(reply);
        let of_write = self.log.refused();
        let of_write = of_write.and_then(|(write, error)| match write.purpose {
            // What is being reported is the attempt's failure, and stays it.
            Purpose::Content(ContentWrite::Unmark) if self.failing.is_some() => None,
            Purpose::Content(what) => Some((what.task(), Problem::Write(what, error.clone()))),
            Purpose::Status(StatusWrite::Fail(_)) => None,
            Purpose::Status(StatusWrite::Report(task)) => {
                Some((task, Problem::Status(error.clone())))
            }
            Purpose::Status(StatusWrite::Clear) => {
                Some((Task::Delete, Problem::Status(error.clone())))
            }
        });
        of_call.or(of_write)
    }

    /// Whether it fails with this, and has reported it.
    pub(super) fn has_reported(&self, failure: &Failure) -> bool {
        let failing = self.failing.as_ref();
        failing.is_some_and(|failing| failing.failure == *failure)
    }

    /// It fails with this, which the next run of the script reports.
    pub(super) fn fails(&mut self, mut failure: Failure) {
        if let (Task::Create, Problem::Call(error)) = (failure.task, &mut failure.problem)
            && self.start.expired >= OFTEN
        {
            error.message.push_str(HINT);
        }
        self.failing = Some(Failing::new(failure, self.start.uncalled));
    }

    /// The content, if the next attempt has to read it first: also after an answer that it does not exist, since another
    /// one may have its name by now.
    fn in_doubt(&self) -> Vec<Text> {
        let unread = self.log.reads().filter_map(|(_, result)| result.err());
        let unwritten = self.log.writes().filter_map(|(_, result)| result.err());
        if unread.chain(unwritten).any(ApiError::is_not_found) {
            return vec![self.name.clone()];
        }
        self.log.in_doubt(&self.start.in_doubt)
    }

    /// What the next attempt begins with.
    pub(super) fn left(&self, end: &End) -> Start {
        let start = self.start.clone();
        let failing = self.failing.as_ref();
        let refused = failing.is_some_and(|failing| failing.failure.is_final());
        // The next create call may have other parameters.
        let settled = refused || self.report().is_some_and(|report| report.ready);
        let before = match end {
            End::Failed(failure) => Before {
                unanswered: failure.is_unanswered(),
                ..start.before
            },
            End::Done
            | End::NotReady
            | End::Awaits
            | End::Incapable
            | End::Foreign(_)
            | End::Gone => Before::default(),
        };
        Start {
            in_doubt: self.in_doubt(),
            parameters: start.parameters.filter(|_| !settled),
            unwritten: self.unwritten(),
            before,
            ..start
        }
    }
}

/// Ends an attempt that needs group snapshots from a driver without that capability; reports it first.
fn is_capable(ask: Ask<'_>, goal: Goal) -> Flow<()> {
    let (driver, content) = (ask.view.driver, ask.view.content);
    let needed = content.kind() == Kind::Group
        && match goal {
            Goal::Create | Goal::Check => true,
            Goal::Delete => deletes(content).is_some() && !ask.attempt.start.deleted,
            Goal::Nothing | Goal::Await | Goal::Unmark => false,
        };
    if driver.abilities.group || !needed {
        return Ok(());
    }
    let message = format!(
        "CSI driver {} does not announce CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT and is not asked \
         about group snapshots",
        driver.name
    );
    ask.warn(Announcement {
        reason: GROUP_CREATION_FAILED,
        message: message.into(),
    })?;
    Err(End::Incapable.into())
}
