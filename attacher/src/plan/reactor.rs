//! The attacher as one object: its state, its reaction to changes, and its attempts.
//!
//! The order of statements within each function matters as much as the order of the steps: the
//! requeue trigger of a failure is registered in the same turn as the failure, so that no event can
//! arrive between the two. The crash simulation runs this object.

mod drift;
mod end;
mod why;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::controller::script;
use sidecar::queue::Place;
use sidecar::trace::{Goal, Subject, claim_of};

use super::attempt::{Attempt, End};
use super::drift::Expected;
use super::fairness::{self, Pace};
use super::in_flight::{InFlightState, Key, Start};
use super::informers::Informers;
use super::orphan::{Orphan, is_unexplained};
use super::outcome::{ApiError, Direction, Failure, RequeueTrigger};
use super::request::{Called, Purpose, Reply, Request};
use super::{event, volume as finalizer};
use crate::model::{Attachment, CsiNode, Text, Volume};

/// Index of the queue for attachments and orphans.
pub const ATTACHMENTS: usize = 0;
/// Index of the queue for volumes whose finalizer may have to be removed.
pub const RELEASES: usize = 1;

/// Seconds between a volume's creation and that of an attachment for the pod that waited for it. Backends keep traces
/// by time, so later ones are traces of their own.
const FIRST: u32 = 600;

/// A change that an informer reports.
#[derive(Debug)]
pub enum Change<'a> {
    /// A VolumeAttachment was created or changed.
    Attachment {
        /// The previous reading.
        old: Option<&'a Attachment>,
        /// The new reading.
        new: &'a Attachment,
        /// Whether it comes from the reply to a write of this process. The attempt that wrote
        /// handles it.
        own: bool,
    },
    /// A VolumeAttachment is gone.
    AttachmentGone(&'a Attachment),
    /// The resync period of this VolumeAttachment has passed.
    AttachmentResync(&'a Attachment),
    /// A PersistentVolume was created or changed.
    Volume {
        /// `metadata.name`.
        name: Text,
        /// Whether it may be new; volumes that the cache does not keep always count as new.
        new: bool,
    },
    /// The resync period of this PersistentVolume has passed.
    VolumeResync(Text),
    /// A CSINode was created or changed.
    Node(Text, &'a CsiNode),
    /// The driver is reachable again.
    DriverBack,
}

/// Something to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The VolumeAttachment is gone and left this orphan.
    Orphaned(Orphan),
    /// The VolumeAttachment is gone, and its orphan cannot be determined.
    Undetachable(Box<Attachment>, Failure),
    /// The VolumeAttachment disappeared although that should be impossible: the watch missed
    /// something.
    Unexplained(Box<Attachment>),
    /// The VolumeAttachment of this name belongs to another driver.
    OfAnother(Text),
    /// The failure could not be recorded on the VolumeAttachment of this name.
    Unrecorded(Text, ApiError),
    /// The VolumeAttachment of this name cannot be compared with the driver's list.
    Incomparable(Text, Failure),
    /// The driver's list contradicts this attachment.
    Contradicted(Expected),
}

/// Why an attempt will be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The VolumeAttachment and its volume; `None` if the attempt had another kind of key or could
    /// not read them.
    pub about: Option<(Arc<Attachment>, Option<Arc<Volume>>)>,
    /// What went wrong.
    pub failure: Failure,
}

pub(super) type Informed<'a> = &'a (dyn Informers + 'static);
type Wakes = Due<Key, Notice>;

/// The attacher.
#[derive(Clone, Debug, Default)]
pub struct Attacher {
    pub(crate) in_flight: InFlightState,
    /// Mean durations of calls, by direction.
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
                // This also retries keys in back-off, without lengthening their delay.
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
                    let triggered = self.in_flight.volume_came(&name);
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
        let start = match key {
            Key::Attachment(name) => self.in_flight.begin(name),
            Key::Orphan(_) | Key::Volume(_) => Start::default(),
        };
        Attempt::new(key, start)
    }

    fn decide(
        &mut self,
        attempt: &mut Attempt,
        informers: Informed<'_>,
        now: Now,
    ) -> Option<Request> {
        if attempt.over.is_none() {
            match script::next(self.script(attempt, informers)) {
                Ok(request) if self.in_flight.may_send(&request, &attempt.key) => {
                    return Some(request);
                }
                Ok(_) => self.over(attempt, End::Waits),
                Err(end) => self.over(attempt, end),
            }
        }
        attempt.record(&informers.driver(), now.timestamp)
    }

    fn answered(&mut self, attempt: &mut Attempt, reply: Reply, informers: Informed<'_>) -> Wakes {
        let mut due = Wakes::default();
        let waiting = self.in_flight.answered(&reply);
        self.learn(attempt, &reply, informers, &mut due);
        if let Some(end) = attempt.ended_by(&reply) {
            self.over(attempt, end);
        }
        attempt.log.push(reply);
        self.wake_all(waiting, informers, &mut due);
        due
    }

    fn end(
        &mut self,
        mut attempt: Attempt,
        informers: Informed<'_>,
        _now: Now,
    ) -> (Verdict<Failed>, Wakes) {
        let mut due = Wakes::default();
        match attempt.key.clone() {
            Key::Attachment(name) => self.end_attachment(&name, &mut attempt, informers, &mut due),
            Key::Orphan(target) if attempt.over == Some(End::Done) => {
                self.in_flight.settled(&target);
            }
            Key::Orphan(_) | Key::Volume(_) => {}
        }
        (end::verdict(attempt, informers), due)
    }

    fn subject(&self, key: &Key, informers: Informed<'_>) -> Option<Subject> {
        // No user waits for finalizers of volumes or for orphans, so they are not traced.
        let Key::Attachment(name) = key else {
            return None;
        };
        let driver = informers.driver();
        let attachment = informers.attachment(name)?;
        if *attachment.attacher != *driver.name {
            return None;
        }
        let volume = attachment.volume.as_deref().unwrap_or_default();
        let subject = |work, goal| Subject::new(attachment.uid.clone(), work, goal);
        let subject = if attachment.deleting {
            subject("VolumeAttachment detach", Goal::Again("".into()))
        } else {
            subject("VolumeAttachment attach", Goal::Root)
        };
        let since = i64::from(attachment.since);
        let since = { Timestamp::from_second(since).ok() }.filter(|_| since != 0);
        let (claim, volume_record) = (claim_of(volume), informers.volume(volume));
        let subject = if is_first(&attachment, volume_record.as_deref()) {
            subject.shown_in(claim)
        } else {
            subject.linked(claim)
        };
        let subject = subject.since(since).with(&[
            ("csi.driver.name", &driver.name),
            ("k8s.persistentvolume.name", volume),
            ("k8s.node.name", &attachment.node),
        ]);
        Some(Subject {
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

/// Whether the attachment was created so soon after its volume that it belongs to the trace of the claim's
/// provisioning. The cache keeps every older volume of this driver: one that it lacks is new, or gone if its attachment is
/// deleted.
fn is_first(attachment: &Attachment, volume: Option<&Volume>) -> bool {
    volume.map_or(!attachment.deleting, |volume| {
        attachment.created.saturating_sub(volume.created) <= FIRST
    })
}

impl Attacher {
    /// Records the orphan of a deleted attachment, or reports that it cannot be determined.
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

    /// Queues `key` if there is work for it.
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

    /// Ends the attempt and registers its requeue trigger in the same turn.
    fn over(&mut self, attempt: &mut Attempt, end: End) {
        if let End::Failed(failure) = &end {
            self.in_flight.failed(&attempt.key, failure);
        }
        attempt.over = Some(end);
    }

    /// Records a reply's news: a newer attachment, the duration of a call, a notice to log.
    fn learn(
        &mut self,
        attempt: &mut Attempt,
        reply: &Reply,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        match (reply, &mut attempt.work) {
            (Reply::Call(Called::Publish(_, Ok(_)), took), _) => {
                self.observe_pace(Direction::Attach, *took);
            }
            (Reply::Call(Called::Unpublish(_, Ok(_)), took), work) => {
                self.observe_pace(Direction::Detach, *took);
                if let Some(work) = work {
                    let driver = informers.driver();
                    self.in_flight.unpublished(&work.current, &driver);
                }
            }
            (Reply::Write(_, Ok(Some(written))), Some(work)) => {
                let is_newer = work.written(written);
                if is_newer {
                    let volume = written.volume.as_ref();
                    self.in_flight.works_on(&written.name, volume);
                }
            }
            (Reply::Write(write, Err(error)), Some(work)) if write.purpose == Purpose::Record => {
                let name = work.current.name.clone();
                due.notices.push(Notice::Unrecorded(name, error.clone()));
            }
            _ => {}
        }
    }

    fn observe_pace(&mut self, direction: Direction, took: Duration) {
        if let Some(pace) = self.paces.get_mut(fairness::index(direction)) {
            pace.observe(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pv, va};

    #[test]
    fn o_15_o_16_an_attachment_is_in_its_claims_trace_for_ten_minutes() {
        let volume = Volume {
            created: 1000,
            ..pv()
        };
        for (created, first) in [(999, true), (1000, true), (1600, true), (1601, false)] {
            let attachment = Attachment { created, ..va() };
            assert_eq!(is_first(&attachment, Some(&volume)), first, "{created}");
        }
        for (deleting, first) in [(false, true), (true, false)] {
            let attachment = Attachment { deleting, ..va() };
            assert_eq!(is_first(&attachment, None), first);
        }
    }
}
