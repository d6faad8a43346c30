//! The controller as one object: its state, the keys that events requeue, and its attempts.
//!
//! The triggers of a failure are recorded in the same turn that decides on the failure, so that no
//! event gets lost in between. The crash simulation drives this object and no other.

mod attempt;
mod change;
mod observe;
mod outcome;
mod replies;
mod why;

use std::time::Duration;

use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::queue::Place;
use sidecar::trace::{self, Goal};

use super::complaint::RequeueTrigger;
use super::in_flight::{InFlightState, Key};
use super::informers::Informers;
use super::operation::{Operations, State};
use super::request::{Object, Reply, Request};
use super::settled::{content_is_settled, is_settled};
use super::unhandled::Unhandled;
use crate::model::List;

use attempt::Subject;
use observe::wake_named;

pub use attempt::Attempt;
pub use change::{About, Change, Event, Failed, Notice};

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

type Informed<'a> = &'a (dyn Informers + 'static);
type Wakes = Due<Key, Notice>;

/// The controller.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    in_flight: InFlightState,
    operations: Operations,
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
            Change::Snapshot { old, new, own } => {
                self.snapshot_changed(old, new, own, informers, &mut due);
            }
            Change::Content { old, new, own } => {
                self.content_changed(old, new, &mut due);
                // The attempt that made the write goes on with it; a write of a group's attempt
                // requeues the object.
                let grouped = new.is_some_and(|new| new.group.is_some());
                if !own || grouped {
                    wake_named(old, new, informers, &mut due);
                }
            }
            Change::Claim { key, old, new } => self.claim_changed(key, old, new, &mut due),
            Change::Volume(name) => {
                self.triggered(&RequeueTrigger::Object(Object::Volume(name)), &mut due)
            }
            Change::Class(name) => {
                self.triggered(&RequeueTrigger::Class(name), &mut due);
                self.triggered(&RequeueTrigger::AnyClass, &mut due);
            }
            Change::Group { old, new, own } => {
                self.group_changed(old, new, own, informers, &mut due);
            }
            Change::GroupContent { old, new, own } => {
                self.group_content_changed(old, new, own, informers, &mut due);
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
        Attempt::new(key)
    }

    fn decide(
        &mut self,
        attempt: &mut Attempt,
        informers: Informed<'_>,
        now: Now,
    ) -> Option<Request> {
        // An object that is deleted during an attempt may be gone before the next one.
        self.measure(&attempt.key, informers, now, |state| state.deleting);
        self.next(attempt, informers, now.timestamp)
    }

    fn answered(&mut self, attempt: &mut Attempt, reply: Reply, informers: Informed<'_>) -> Wakes {
        let mut due = Wakes::default();
        self.apply_reply(attempt, reply, informers, &mut due);
        due
    }

    fn most_requests(&self, key: &Key) -> u32 {
        attempt::most_requests(key)
    }

    fn end(
        &mut self,
        attempt: Attempt,
        informers: Informed<'_>,
        now: Now,
    ) -> (Verdict<Failed>, Wakes) {
        let mut due = Wakes::default();
        let unhandled = &mut self.in_flight.unhandled;
        let (verdict, notices) = attempt.end(|subject| match subject {
            Subject::Snapshot(of) => {
                let content = attempt::content(of, informers)?;
                unhandled.look(&of.uid, Unhandled::of(of, &content), now.timestamp)
            }
            Subject::Group(of) => {
                let content = attempt::content_of_group(of, informers)?;
                unhandled.look(&of.uid, Unhandled::of_group(of, &content), now.timestamp)
            }
            Subject::Content(_) | Subject::GroupContent(_) => None,
        });
        due.notices = notices;
        let in_flight = self.operations.len();
        due.notices.push(Notice::InFlight(in_flight));
        (verdict, due)
    }

    fn hangs_after(&self, _key: &Key, _informers: Informed<'_>) -> Option<Duration> {
        None
    }

    fn subject(&self, key: &Key, informers: Informed<'_>) -> Option<trace::Subject> {
        let (uid, work, [namespace, name], deleting, left) = match key {
            Key::Snapshot(key) => {
                let it = informers.snapshot(key)?;
                let ready = it.status.as_ref().and_then(|status| status.ready);
                let left = is_left(it.deleting, &it.finalizers, ready);
                let names = [it.namespace.clone(), it.name.clone()];
                (it.uid.clone(), "VolumeSnapshot", names, it.deleting, left)
            }
            Key::Group(key) => {
                let it = informers.group(key)?;
                let ready = it.status.as_ref().and_then(|status| status.ready);
                let left = is_left(it.deleting, &it.finalizers, ready);
                let names = [it.namespace.clone(), it.name.clone()];
                (
                    it.uid.clone(),
                    "VolumeGroupSnapshot",
                    names,
                    it.deleting,
                    left,
                )
            }
            Key::Content(_) | Key::Claim(_) | Key::GroupContent(_) => return None,
        };
        let (work, goal) = if deleting {
            ("delete", Goal::Again("".into()))
        } else {
            (work, Goal::Root)
        };
        let subject = trace::Subject::new(uid, work, goal).with(&[
            ("k8s.namespace.name", &namespace),
            ("k8s.volumesnapshot.name", &name),
        ]);
        Some(trace::Subject {
            open: left,
            ..subject
        })
    }
}

impl Controller {
    /// Starts measuring the object's operations if `counts` accepts its state.
    fn measure(
        &mut self,
        key: &Key,
        informers: Informed<'_>,
        now: Now,
        counts: impl Fn(State<'_>) -> bool,
    ) {
        if let Key::Snapshot(name) = key
            && let Some(snapshot) = informers.snapshot(name)
            && counts(snapshot.state())
        {
            let driver = attempt::driver(&snapshot, informers);
            self.operations.begin(snapshot.state(), driver, now.instant);
        }
        if let Key::Group(name) = key
            && let Some(group) = informers.group(name).filter(|_| informers.groups())
            && counts(group.state())
        {
            let driver = attempt::driver_of_group(&group, informers);
            self.operations.begin(group.state(), driver, now.instant);
        }
    }

    /// The state beyond the caches.
    #[must_use]
    pub fn in_flight(&self) -> &InFlightState {
        &self.in_flight
    }

    /// The running measurements.
    #[must_use]
    pub fn operations(&self) -> &Operations {
        &self.operations
    }
}

/// Whether work is left on the object, be it other controllers' work.
fn is_left(deleting: bool, finalizers: &List, ready: Option<bool>) -> bool {
    if deleting {
        !finalizers.is_empty()
    } else {
        ready != Some(true)
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
