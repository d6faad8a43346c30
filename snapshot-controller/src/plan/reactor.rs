//! The controller as one object: its state, the keys that events requeue, and its attempts.
//!
//! The triggers of a failure are recorded in the same turn that decides on the failure, so that no
//! event gets lost in between. The crash simulation drives this object and no other.

mod change;
mod observe;
mod why;

use jiff::Timestamp;
use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::controller::script;
use sidecar::queue::Place;
use sidecar::trace::{self, Goal};

use super::attempt::{End, Log, told};
use super::complaint::{Complaint, Record, RequeueTrigger};
use super::in_flight::{InFlightState, Key};
use super::informers::Informers;
use super::operation::Operations;
use super::request::{ApiError, Object, Purpose, Reply, Request, Write, status};
use super::settled::{content_is_settled, is_settled};
use super::subject::Subject;
use super::unhandled::Reaction;
use super::{outcome, status as statuses};
use crate::model::{Head, Kind};

pub use super::attempt::Attempt;
pub use change::{About, Change, Event, Failed, Notice, Update};

/// The queue of VolumeSnapshots.
pub const SNAPSHOTS: usize = 0;
/// The queue of VolumeSnapshotContents.
pub const CONTENTS: usize = 1;
/// The queue of claims that may lose our finalizer.
pub const CLAIMS: usize = 2;
/// The queue of VolumeGroupSnapshots.
pub const GROUPS: usize = 3;
/// The queue of VolumeGroupSnapshotContents.
pub const GROUP_CONTENTS: usize = 4;

pub(super) type Informed<'a> = &'a (dyn Informers + 'static);
type Wakes = Due<Key, Notice>;

/// The controller.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    /// The state beyond the caches.
    pub in_flight: InFlightState,
    /// The running measurements.
    pub operations: Operations,
}

impl Reactor for Controller {
    type Key = Key;
    type Informers = dyn Informers;
    type Change<'a> = Change<'a>;
    type Attempt = Attempt;
    type Request = Request;
    type Notice = Notice;
    type Failure = Failed;

    fn observe(&mut self, change: Change<'_>, informers: Informed<'_>) -> Wakes {
        let mut due = Wakes::default();
        match change {
            Change::Snapshot(update) => self.snapshot_changed(update, informers, &mut due),
            Change::Content(update) => self.content_changed(update, informers, &mut due),
            Change::Claim(key, update) => self.claim_changed(key, update, &mut due),
            Change::Volume(name) => {
                self.triggered(&RequeueTrigger::Object(Object::Volume(name)), &mut due)
            }
            Change::Class(name) => {
                self.triggered(&RequeueTrigger::Class(name), &mut due);
                self.triggered(&RequeueTrigger::AnyClass, &mut due);
            }
            Change::Group(update) => self.group_changed(update, informers, &mut due),
            Change::GroupContent(update) => {
                self.group_content_changed(update, informers, &mut due);
            }
            Change::GroupClass(name) => {
                self.triggered(&RequeueTrigger::GroupClass(name), &mut due);
                self.triggered(&RequeueTrigger::AnyGroupClass, &mut due);
            }
            Change::Resync(key) if is_at_rest(&key, informers) => {}
            Change::Resync(key) => due.wakes.push(Wake {
                unless_delayed: true,
                ..wake(key)
            }),
        }
        due
    }

    fn begin(&mut self, key: &Key, informers: Informed<'_>, now: Now) -> Attempt {
        self.in_flight.forget(key);
        self.measure(key, informers, now, |_| true);
        Attempt {
            key: key.clone(),
            subject: None,
            log: Log::default(),
            over: None,
        }
    }

    fn decide(
        &mut self,
        attempt: &mut Attempt,
        informers: Informed<'_>,
        now: Now,
    ) -> Option<Request> {
        // An object that is deleted during an attempt may be gone before the next one.
        self.measure(&attempt.key, informers, now, |of| of.deleting);
        if attempt.over.is_some() {
            return None;
        }
        let script = self.script(attempt, informers);
        let next = script::next(script.map(|()| End::Done));
        let request = next.or_else(|end| self.over(attempt, end, now.timestamp));
        let request = request.map_err(|end| attempt.over = Some(end)).ok()?;
        if let Request::Write(Write {
            object: Object::Claim(claim),
            ..
        }) = &request
        {
            self.in_flight.claims.begin(claim);
        }
        Some(request)
    }

    fn answered(&mut self, attempt: &mut Attempt, reply: Reply, informers: Informed<'_>) -> Wakes {
        let mut due = Wakes::default();
        match &reply {
            Reply::Get(object, result) => {
                let is_known = match result {
                    Ok(_) => true,
                    Err(error) => error.is_not_found(),
                };
                if let (Object::Claim(claim), true) = (object, is_known) {
                    self.in_flight.claims.settle(claim);
                }
                let concerned = concerned(object, &attempt.key, informers);
                push(&mut due, concerned.filter(|_| result.is_ok()));
            }
            Reply::Write(write, result) => {
                if let Object::Claim(claim) = &write.object {
                    let unknown = result.as_ref().is_err_and(ApiError::is_unknown);
                    let waiting = self.in_flight.claims.end(claim, unknown);
                    push(&mut due, waiting);
                }
                if let Some(subject) = &attempt.subject {
                    self.report(subject, (write, result), informers, &mut due);
                }
            }
            Reply::Secret(..) | Reply::Call(..) | Reply::Event(_) => {}
        }
        attempt.log.push(reply);
        due
    }

    fn most_requests(&self, key: &Key) -> u32 {
        match key {
            // More than the largest group needs.
            Key::Group(_) => 4096,
            Key::Snapshot(_) | Key::Content(_) | Key::Claim(_) | Key::GroupContent(_) => 48,
        }
    }

    fn end(
        &mut self,
        attempt: Attempt,
        informers: Informed<'_>,
        now: Now,
    ) -> (Verdict<Failed>, Wakes) {
        let mut due = Wakes::default();
        let (subject, is_over) = (attempt.subject.as_ref(), attempt.over.is_some());
        let mut tell = |complaint: &Complaint| {
            let events = subject.map(|of| outcome::events(of, complaint));
            due.notices.extend(events.into_iter().flatten());
        };
        let failure = match attempt.over {
            Some(End::Complain(complaint)) => {
                // What the status shows has been told when it was written.
                if complaint.record == Record::Nothing {
                    tell(&complaint);
                }
                Some(complaint.failed())
            }
            Some(End::Failed(failed)) => Some(failed),
            Some(End::Orphan(complaint)) => {
                tell(&complaint);
                None
            }
            Some(End::Done | End::Wait(_) | End::Await(_)) | None => None,
        };
        let reaction = subject.filter(|_| is_over && failure.is_none());
        let reaction = reaction.and_then(|of| self.look(of, informers, now.timestamp));
        let verdict = match (failure, reaction) {
            (Some(failure), _) => Verdict::Retry {
                failure,
                hung: false,
            },
            (None, Some(Reaction { event, after })) => {
                event.iter().for_each(tell);
                Verdict::After {
                    delay: after,
                    failure: None,
                }
            }
            (None, None) => Verdict::Done,
        };
        let in_flight = self.operations.len();
        due.notices.push(Notice::InFlight(in_flight));
        (verdict, due)
    }

    fn subject(&self, key: &Key, informers: Informed<'_>) -> Option<trace::Subject> {
        let subject = Subject::of(key, informers)?;
        let it = subject.head()?;
        // Be it other controllers' work.
        let (work, goal, open) = if it.deleting {
            ("delete", Goal::Again("".into()), !it.finalizers.is_empty())
        } else {
            (it.kind.whole().kind, Goal::Root, it.ready != Some(true))
        };
        let name = match it.kind {
            Kind::Single => "k8s.volumesnapshot.name",
            Kind::Group => "k8s.volumegroupsnapshot.name",
        };
        let traced = trace::Subject::new(it.uid.clone(), work, goal)
            .with(&[("k8s.namespace.name", it.namespace), (name, it.name)]);
        Some(trace::Subject {
            open,
            links: subject.related(informers),
            ..traced
        })
    }
}

impl Controller {
    /// Takes in how an attempt ends. The request, if there is one, writes its failure to the status.
    fn over(&mut self, attempt: &Attempt, end: End, now: Timestamp) -> Result<Request, End> {
        match end {
            End::Complain(complaint) => {
                self.in_flight.failed(&attempt.key, &complaint.triggers);
                let head = attempt.subject.as_ref().and_then(Subject::head);
                let patch = head.and_then(|head| {
                    let patch = statuses::complaint(&head, &complaint, now)?;
                    Some((head.object(), patch))
                });
                let Some((object, patch)) = patch else {
                    return Err(End::Complain(complaint));
                };
                let purpose = Purpose::Complain(complaint);
                return Ok(Request::Write(status(purpose, object, patch)));
            }
            // The write cannot have ended in between: this is the same turn.
            End::Wait(ref claim) => {
                self.in_flight.claims.wait(claim, attempt.key.clone());
            }
            End::Await(ref trigger) => {
                let triggers = std::slice::from_ref(trigger);
                self.in_flight.failed(&attempt.key, triggers);
            }
            End::Orphan(_) => {
                let uid = attempt.subject.as_ref().map(Subject::uid);
                self.in_flight.orphans.extend(uid.cloned());
            }
            End::Done | End::Failed(_) => {}
        }
        Err(end)
    }

    /// Tells users and metrics of what a write did.
    fn report<T>(
        &mut self,
        of: &Subject,
        (write, result): (&Write, &Result<T, ApiError>),
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        if result.is_ok() {
            if let Purpose::Status(progress) = write.purpose {
                let driver = of.driver(informers);
                let samples = self.operations.shown(of.uid(), progress, driver.as_ref());
                due.notices.extend(samples.map(Notice::Sample));
            }
            due.notices.extend(outcome::success(of, &write.purpose));
        }
        let told = told(write, result).map(|complaint| outcome::events(of, complaint));
        due.notices.extend(told.into_iter().flatten());
    }

    /// Whether an object that is settled waits for a sidecar that never begins.
    fn look(&mut self, of: &Subject, informers: Informed<'_>, now: Timestamp) -> Option<Reaction> {
        let (head, content) = (of.head()?, of.content(informers)?);
        // A member's content waits for its group.
        let is_member = matches!(of, Subject::Snapshot(of) if of.is_member());
        let content = content.content_head().filter(|_| !is_member);
        self.in_flight.unhandled.look(&head, content, now)
    }

    /// Starts measuring the object's operations if `counts` accepts it.
    fn measure(
        &mut self,
        key: &Key,
        informers: Informed<'_>,
        now: Now,
        counts: impl Fn(&Head<'_>) -> bool,
    ) {
        if let Key::Snapshot(_) | Key::Group(_) = key
            && let Some(subject) = Subject::of(key, informers)
            && let Some(head) = subject.head().filter(counts)
        {
            let driver = subject.driver(informers);
            self.operations.begin(&head, driver, now.instant);
        }
    }
}

fn is_at_rest(key: &Key, informers: Informed<'_>) -> bool {
    match key {
        Key::Snapshot(key) => {
            { informers.snapshot(key) }.is_some_and(|it| is_settled(&it, informers))
        }
        Key::Content(name) => { informers.content(name) }.is_some_and(|it| content_is_settled(&it)),
        Key::Claim(_) | Key::Group(_) | Key::GroupContent(_) => false,
    }
}

/// The key to requeue after another attempt's read: the watch will not report that object version again.
fn concerned(object: &Object, by: &Key, informers: Informed<'_>) -> Option<Key> {
    let key = match object {
        Object::Snapshot(key) => Key::Snapshot(key.clone()),
        Object::Content(name) => Key::Snapshot(informers.content(name)?.snapshot_key()),
        Object::GroupContent(name) => Key::Group(informers.group_content(name)?.group_key()),
        Object::Claim(_) | Object::Volume(_) | Object::Group(_) | Object::Claims(..) => {
            return None;
        }
    };
    let is_known = Subject::of(&key, informers).is_some();
    (is_known && key != *by).then_some(key)
}

fn push(due: &mut Wakes, keys: impl IntoIterator<Item = Key>) {
    due.wakes.extend(keys.into_iter().map(wake));
}

fn wake(key: Key) -> Wake<Key> {
    Wake {
        queue: match key {
            Key::Snapshot(_) => SNAPSHOTS,
            Key::Content(_) => CONTENTS,
            Key::Claim(_) => CLAIMS,
            Key::Group(_) => GROUPS,
            Key::GroupContent(_) => GROUP_CONTENTS,
        },
        key,
        place: Place::default(),
        unless_delayed: false,
    }
}
