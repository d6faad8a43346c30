//! The attacher as one object: what it remembers, what events make due, and its attempts.
//!
//! The order within each function here matters as much as the steps' order does: what a failure waits
//! for is remembered in the same turn in which the failure is decided on, so that no event passes
//! between the two. The crash simulation drives this object and no other.

mod attachment;
mod drift;
mod orphan;
mod volume;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::queue::Place;
use sidecar::trace::{Goal, Subject};

use super::drift::Expected;
use super::fairness::{self, Pace};
use super::in_flight::{Ended, InFlightState, Key};
use super::informers::Informers;
use super::orphan::{Orphan, is_unexplained};
use super::outcome::{ApiError, Direction, Failure, RequeueTrigger};
use super::request::{Called, Reply, Request};
use super::{event, volume as finalizer};
use crate::model::{Attachment, CsiNode, Text, Volume};

/// The queue of attachments and of what such have left.
pub const ATTACHMENTS: usize = 0;
/// The queue of volumes whose finalizer may be due.
pub const RELEASES: usize = 1;

/// What an informer tells.
#[derive(Debug)]
pub enum Change<'a> {
    /// A VolumeAttachment is new or has changed.
    Attachment {
        /// What was known of it.
        old: Option<&'a Attachment>,
        /// What is known now.
        new: &'a Attachment,
        /// Whether it is known from the answer to a write of this process, which the attempt that
        /// wrote it looks at.
        own: bool,
    },
    /// A VolumeAttachment is gone.
    AttachmentGone(&'a Attachment),
    /// Nothing happened to this VolumeAttachment; the time for a resync has come.
    AttachmentResync(&'a Attachment),
    /// A PersistentVolume is new, or has changed.
    Volume {
        /// Its name.
        name: Text,
        /// Whether it is new, or may be: of volumes that are not kept nobody knows.
        new: bool,
    },
    /// Nothing happened to the PersistentVolume of this name; the time for a resync has come.
    VolumeResync(Text),
    /// A CSINode is new or has changed.
    Node(Text, &'a CsiNode),
    /// The driver can be asked again.
    DriverBack,
}

/// An attempt on a key.
pub enum Attempt {
    /// On a VolumeAttachment.
    Attachment(attachment::Run),
    /// On what a VolumeAttachment that is gone has left.
    Orphan(orphan::Run),
    /// On a volume's finalizer.
    Volume(volume::Run),
}

/// What the log is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The VolumeAttachment is gone and left this.
    Orphaned(Orphan),
    /// The VolumeAttachment is gone, and what it left cannot be detached.
    Undetachable(Box<Attachment>, Failure),
    /// The VolumeAttachment is gone and cannot be, unless something was missed.
    Unexplained(Box<Attachment>),
    /// The VolumeAttachment of this name is another driver's.
    OfAnother(Text),
    /// The failure could not be recorded on the VolumeAttachment of this name.
    Unrecorded(Text, ApiError),
    /// The VolumeAttachment of this name cannot be compared with the driver's list.
    Incomparable(Text, Failure),
    /// The driver's list contradicts this.
    Contradicted(Expected),
}

/// Why an attempt is to be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The VolumeAttachment in doubt could not be read.
    Unread(Failure),
    /// The attempt on this VolumeAttachment failed, which names this volume.
    Attachment(Arc<Attachment>, Option<Arc<Volume>>, Failure),
    /// What a VolumeAttachment has left could not be unpublished.
    Orphan(Failure),
    /// The volume's finalizer could not be removed.
    Volume(ApiError),
}

type Informed<'a> = &'a (dyn Informers + 'static);
type Wakes = Due<Key, Notice>;

/// The attacher.
#[derive(Debug, Default)]
pub struct Attacher {
    pub(crate) in_flight: InFlightState,
    /// How long calls take, by direction.
    paces: [Pace; 2],
}

impl Reactor for Attacher {
    type Key = Key;
    type Informers = dyn Informers;
    type Change<'a> = Change<'a>;
    type Attempt = Attempt;
    type Request = Request;
    type Notice = Notice;
    type Failure = Failed;

    fn observe(&mut self, change: Change<'_>, informers: Informed<'_>) -> Wakes {
        let (driver, mut due) = (informers.driver(), Wakes::default());
        match change {
            Change::Attachment { old, new, own } => {
                let lost = self.in_flight.upserted(old, new, &driver);
                self.orphaned(old.filter(|_| lost), informers, &mut due);
                self.wake_orphans_beside(new, informers, &mut due);
                if !own && event::is_work(old, new, &driver) {
                    self.wake(Key::Attachment(new.name.clone()), informers, &mut due);
                }
            }
            Change::AttachmentGone(old) => {
                let lost = self.in_flight.deleted(old, &driver);
                if *old.attacher == *driver.name && is_unexplained(old, &driver) {
                    due.notices.push(Notice::Unexplained(Box::new(old.clone())));
                }
                self.orphaned(Some(old).filter(|_| lost), informers, &mut due);
                self.wake_orphans_beside(old, informers, &mut due);
                let volume = old.volume.clone().map(Key::Volume);
                self.wake_all(volume, informers, &mut due);
            }
            Change::AttachmentResync(attachment) => {
                // This also retries what waits for its back-off, without lengthening it.
                if *attachment.attacher == *driver.name {
                    self.wake(
                        Key::Attachment(attachment.name.clone()),
                        informers,
                        &mut due,
                    );
                }
            }
            Change::Volume { name, new } => {
                if new {
                    self.in_flight.asked.came(&name);
                    let triggered = self
                        .in_flight
                        .triggered(&RequeueTrigger::Volume(name.clone()));
                    self.wake_all(triggered, informers, &mut due);
                }
                self.wake(Key::Volume(name), informers, &mut due);
            }
            Change::VolumeResync(name) => self.wake(Key::Volume(name), informers, &mut due),
            Change::Node(name, node) => {
                if node.id_for(&driver.name).is_some() {
                    let triggered = self.in_flight.triggered(&RequeueTrigger::CsiNode(name));
                    self.wake_all(triggered, informers, &mut due);
                }
            }
            Change::DriverBack => {
                let triggered = self.in_flight.triggered(&RequeueTrigger::Driver);
                self.wake_all(triggered, informers, &mut due);
            }
        }
        due
    }

    fn begin(&mut self, key: &Key, _informers: Informed<'_>, _now: Now) -> Attempt {
        match key {
            Key::Attachment(name) => {
                let start = self.in_flight.begin(name);
                Attempt::Attachment(attachment::Run::new(name, start))
            }
            Key::Orphan(target) => Attempt::Orphan(orphan::Run::new(target)),
            Key::Volume(name) => Attempt::Volume(volume::Run::new(name)),
        }
    }

    fn decide(
        &mut self,
        attempt: &mut Attempt,
        informers: Informed<'_>,
        now: Now,
    ) -> Option<Request> {
        match attempt {
            Attempt::Attachment(run) => self.decide_attachment(run, informers, now.timestamp),
            Attempt::Orphan(run) => self.decide_orphan(run, informers),
            Attempt::Volume(run) => self.decide_volume(run, informers),
        }
    }

    fn answered(&mut self, attempt: &mut Attempt, reply: Reply, informers: Informed<'_>) -> Wakes {
        if let Reply::Call(called, took) = &reply {
            let direction = match called {
                Called::Publish(_, Ok(_)) => Some(Direction::Attach),
                Called::Unpublish(_, Ok(_)) => Some(Direction::Detach),
                Called::Publish(_, Err(_)) | Called::Unpublish(_, Err(_)) => None,
            };
            if let Some(pace) = direction.and_then(|way| self.paces.get_mut(fairness::index(way))) {
                pace.observe(*took);
            }
        }
        let mut due = Wakes::default();
        let waiting = self.in_flight.answered(&reply);
        match attempt {
            Attempt::Attachment(run) => self.attachment_answered(run, reply, informers, &mut due),
            Attempt::Orphan(run) => run.answered(reply),
            Attempt::Volume(run) => run.answered(reply),
        }
        self.wake_all(waiting, informers, &mut due);
        due
    }

    fn end(
        &mut self,
        attempt: Attempt,
        informers: Informed<'_>,
        _now: Now,
    ) -> (Verdict<Failed>, Wakes) {
        let mut due = Wakes::default();
        let verdict = match attempt {
            Attempt::Attachment(run) => self.end_attachment(run, informers, &mut due),
            Attempt::Orphan(run) => self.end_orphan(run),
            Attempt::Volume(run) => run.end(),
        };
        (verdict, due)
    }

    fn subject(&self, key: &Key, informers: Informed<'_>) -> Option<Subject> {
        // What is done about finalizers of volumes and about what is left over nobody waits for.
        let Key::Attachment(name) = key else {
            return None;
        };
        let driver = informers.driver();
        let attachment = informers.attachment(name)?;
        let ours = *attachment.attacher == *driver.name;
        let volume = attachment.volume.as_deref().unwrap_or_default();
        let subject = |work, goal| Subject::new(attachment.uid.clone(), work, goal);
        let subject = if attachment.deleting {
            subject("VolumeAttachment detach", Goal::Again("".into()))
        } else {
            subject("VolumeAttachment attach", Goal::Root)
        };
        let since = i64::from(attachment.since);
        let since = { Timestamp::from_second(since).ok() }.filter(|_| since != 0);
        let subject = subject.since(since).linked_to_claim_of(volume).with(&[
            ("csi.driver.name", &driver.name),
            ("k8s.persistentvolume.name", volume),
            ("k8s.node.name", &attachment.node),
        ]);
        ours.then_some(Subject {
            open: !attachment.deleting && !attachment.attached,
            ..subject
        })
    }

    fn hangs_after(&self, key: &Key, informers: Informed<'_>) -> Option<Duration> {
        let direction = match key {
            Key::Attachment(name) => {
                let attachment = informers.attachment(name);
                let direction = attachment.as_deref().map(Direction::of);
                direction.unwrap_or(Direction::Attach)
            }
            Key::Orphan(_) => Direction::Detach,
            Key::Volume(_) => return None,
        };
        let pace = self.paces.get(fairness::index(direction)).copied();
        pace.and_then(Pace::limit)
    }
}

impl Attacher {
    /// This attachment is gone and may have left its volume on the node.
    fn orphaned(&mut self, lost: Option<&Attachment>, informers: Informed<'_>, due: &mut Wakes) {
        let Some(lost) = lost else { return };
        match informers.with_view(lost, Orphan::of) {
            Ok(orphan) => {
                due.notices.push(Notice::Orphaned(orphan.clone()));
                let key = Key::Orphan(orphan.target.clone());
                self.in_flight.owe(orphan);
                self.wake(key, informers, due);
            }
            Err(failure) => {
                let lost = Box::new(lost.clone());
                due.notices.push(Notice::Undetachable(lost, failure));
            }
        }
    }

    fn wake_orphans_beside(&self, of: &Attachment, informers: Informed<'_>, due: &mut Wakes) {
        let targets = self.in_flight.orphans_beside(of).into_iter();
        self.wake_all(targets.map(Key::Orphan), informers, due);
    }

    fn wake_all(
        &self,
        keys: impl IntoIterator<Item = Key>,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        keys.into_iter()
            .for_each(|key| self.wake(key, informers, due));
    }

    /// Has `key` worked on, if there is anything by this name to work on.
    fn wake(&self, key: Key, informers: Informed<'_>, due: &mut Wakes) {
        let place = match &key {
            Key::Attachment(name) => {
                let attachment = informers.attachment(name);
                attachment.map(|attachment| (ATTACHMENTS, fairness::place(&attachment)))
            }
            Key::Orphan(target) => {
                let orphan = self.in_flight.orphan(target);
                orphan.map(|orphan| (ATTACHMENTS, fairness::place_of_orphan(orphan)))
            }
            Key::Volume(name) => {
                let driver = informers.driver();
                let volume = informers.volume(name);
                let due = volume.filter(|volume| finalizer::may_release(volume, &driver));
                due.map(|_| (RELEASES, Place::default()))
            }
        };
        if let Some((queue, place)) = place {
            due.wakes.push(Wake {
                queue,
                key,
                place,
                unless_delayed: false,
            });
        }
    }

    /// An attempt on an attachment ended: what depended on it is looked at.
    fn ended(&mut self, ended: Ended, informers: Informed<'_>, due: &mut Wakes) {
        self.orphaned(ended.lost.as_ref(), informers, due);
        self.wake_all(ended.volume.map(Key::Volume), informers, due);
    }
}
