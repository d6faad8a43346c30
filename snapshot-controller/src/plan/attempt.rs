//! One attempt on a key: the script of its object, and the replies that it has got so far.
//!
//! A script looks at the last reply first. A request that failed ends the attempt, whatever the objects show by then.
//! An object that somebody else has changed, deleted or created is read again, without an event.

use sidecar::controller::request::Body;
use sidecar::controller::script::{self, Leave};

use super::ask::Ask;
use super::complaint::{Complaint, RequeueTrigger};
use super::in_flight::Key;
use super::reactor::{Controller, Failed, Informed};
use super::request::{ApiError, Object, Purpose, Refusal, Reply, Write, read};
use super::subject::Subject;
use super::{claim, content, group, outcome, snapshot};
use crate::model::Text;

/// The requests of an attempt, with their replies.
pub(super) type Log = script::Log<Controller>;
/// A value, or why the script stops.
pub(super) type Flow<T = ()> = script::Flow<T, Controller, End>;

/// How often an attempt reads an object again after a conflict before it fails.
const CONFLICTS: usize = 5;

/// An attempt on a key. A crash loses it without harm.
pub struct Attempt {
    pub(super) key: Key,
    /// The newest known state of the object, so that events can name it after its deletion.
    pub(super) subject: Option<Subject>,
    pub(super) log: Log,
    pub(super) over: Option<End>,
}

/// The outcome of an attempt.
pub(super) enum End {
    /// Nothing is left to do, or not now.
    Done,
    /// Another attempt is writing to this claim.
    Wait(Text),
    /// Waits for this change, without an event.
    Await(RequeueTrigger),
    /// It failed, which users have to be told.
    Complain(Box<Complaint>),
    /// Nothing will ever delete the content, which users have to be told. No retry: only an administrator, or the
    /// deletion of the content for its owner, ends this.
    Orphan(Box<Complaint>),
    /// It failed, and users were told if they have to be.
    Failed(Failed),
}

impl From<Complaint> for Leave<Controller, End> {
    fn from(complaint: Complaint) -> Self {
        Self::End(End::Complain(Box::new(complaint)))
    }
}

impl Attempt {
    /// Ends the attempt if its last request failed, or reads the object again that is not as it was known.
    fn last(&self, informers: Informed<'_>) -> Flow {
        match self.log.replies().last() {
            Some(Reply::Get(object, Err(error))) if !is_finding(object, error, informers) => {
                Err(failed("reading", error).into())
            }
            Some(Reply::Write(write, result)) => match (told(write, result), result) {
                (Some(complaint), _) => Err(End::Failed(complaint.failed()).into()),
                (None, Ok(_)) => Ok(()),
                (None, Err(error)) => self.refused(write, error),
            },
            Some(_) | None => Ok(()),
        }
    }

    fn refused(&self, write: &Write, error: &ApiError) -> Flow {
        if is_stale(error) {
            let is_patch = matches!(write.body, Body::Patch(..));
            if error.is_not_found() && is_patch && self.key.object() == write.object {
                // The watch will report the deletion.
                return Err(End::Done.into());
            }
            let stale = |reply: &&Reply| matches!(reply, Reply::Write(_, Err(e)) if is_stale(e));
            if self.log.replies().iter().filter(stale).count() <= CONFLICTS {
                return read(&write.object);
            }
            return Err(failed("writing", error).into());
        }
        let subject = self.subject.as_ref();
        let complaint = subject.and_then(|of| outcome::refusal(&of.head()?, write, error));
        Err(complaint.map_or_else(|| failed("writing", error).into(), Leave::from))
    }
}

fn failed(what: &'static str, error: &ApiError) -> End {
    End::Failed(Failed {
        what,
        error: error.message.clone(),
    })
}

/// The failure that this write was to report. Its event reports it, too, so the status may lack it.
pub(super) fn told<'a, T>(write: &'a Write, result: &Result<T, ApiError>) -> Option<&'a Complaint> {
    let Purpose::Complain(complaint) = &write.purpose else {
        return None;
    };
    (!result.as_ref().is_err_and(is_stale)).then_some(&**complaint)
}

/// Whether the object was changed, deleted or created, and the watch has not reported that yet.
fn is_stale(error: &ApiError) -> bool {
    matches!(
        error.refusal,
        Refusal::Conflict | Refusal::NotFound | Refusal::AlreadyExists
    )
}

/// Whether the script goes on without the object.
fn is_finding(object: &Object, error: &ApiError, informers: Informed<'_>) -> bool {
    match object {
        Object::Volume(_) | Object::Claims(..) => true,
        // A role need not grant access to kinds that are not served.
        Object::Group(_) if !informers.groups() && error.is_refused() => true,
        Object::Snapshot(_)
        | Object::Content(_)
        | Object::Claim(_)
        | Object::Group(_)
        | Object::GroupContent(_) => error.is_not_found(),
    }
}

impl Controller {
    /// The script for the attempt's key.
    pub(super) fn script(&self, attempt: &mut Attempt, informers: Informed<'_>) -> Flow {
        attempt.last(informers)?;
        let ask = Ask {
            informers,
            in_flight: &self.in_flight,
            log: &attempt.log,
        };
        if ask.is_gone(&attempt.key.object()) {
            // The watch will report the deletion.
            return Ok(());
        }
        if let Key::Claim(key) = &attempt.key {
            return claim::release(ask, key, None);
        }
        let was = attempt.subject.as_ref().map(Subject::uid);
        let now = Subject::of(&attempt.key, informers);
        // The replies are about the earlier object; another one of the name gets its own attempt.
        let same = |now: &Subject| was.is_none_or(|was| was == now.uid());
        let Some(now) = now.filter(same) else {
            return Ok(());
        };
        match attempt.subject.insert(now) {
            Subject::Snapshot(it) => snapshot::script(ask, it),
            Subject::Content(it) => content::script(ask, it),
            Subject::Group(it) => group::script(ask, it),
            Subject::GroupContent(it) => content::settle(ask, &it.head()),
        }
    }
}
