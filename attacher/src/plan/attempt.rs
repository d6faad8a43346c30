//! One attempt: the script of its key, and the replies received so far.
//!
//! A failed write or call ends the attempt in the turn in which its reply arrives, whatever the
//! objects show by then. Scripts therefore only look for successes, and no event can arrive between
//! a failure and the registration of its requeue trigger.

use std::sync::Arc;

use jiff::Timestamp;
use sidecar::controller::script::{self, Leave};
use sidecar::controller::{CallError, Calls as _};
use tonic::Code;

use super::attachment::{self, Ask};
use super::in_flight::{Key, Start};
use super::outcome::{Direction, Failure};
use super::reactor::Informed;
use super::request::{self, Call, Object, Purpose, Reply, Request, Secrets, Write};
use super::{Attacher, Driver, orphan, volume};
use crate::model::{Attachment, SecretRef, Text};

/// The requests of an attempt with their replies.
pub(super) type Log = script::Log<Attacher>;
/// A value, or the reason why the script stops here.
pub(super) type Flow<T> = script::Flow<T, Attacher, End>;

/// An attempt on a key. A crash discards it without consequences.
pub struct Attempt {
    pub(super) key: Key,
    pub(super) start: Start,
    /// Set for an attempt on a VolumeAttachment, once the cache shows one that belongs to this
    /// driver.
    pub(super) work: Option<Work>,
    pub(super) log: Log,
    pub(super) over: Option<End>,
}

/// The VolumeAttachment that an attempt is about.
pub(super) struct Work {
    direction: Direction,
    /// The newest reading: from the cache, or from the reply to this attempt's last write.
    pub(super) current: Arc<Attachment>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do.
    Done,
    /// The VolumeAttachment belongs to another driver.
    OfAnother,
    /// The direction changed or another object took the name; starts over at once.
    Again,
    /// Another request is in the way; its end requeues the key.
    Waits,
    /// The attempt failed and will be retried.
    Failed(Failure),
}

impl From<Failure> for Leave<Attacher, End> {
    fn from(failure: Failure) -> Self {
        Self::End(End::Failed(failure))
    }
}

impl Work {
    fn new(current: Arc<Attachment>) -> Self {
        Self {
            direction: Direction::of(&current),
            current,
        }
    }

    /// Whether the direction changed since the attempt began.
    pub(super) fn is_turned(&self) -> bool {
        Direction::of(&self.current) != self.direction
    }

    /// Adopts the cached object if it is newer; the cache may lag behind this attempt's own writes.
    ///
    /// # Errors
    /// Ends the attempt if the object is gone or was replaced.
    fn refresh(&mut self, cached: Option<Arc<Attachment>>) -> Result<(), End> {
        match cached {
            // A detach still sends its remaining writes.
            None if self.direction == Direction::Detach => {}
            None => return Err(End::Done),
            Some(cached) if cached.version != 0 && cached.version <= self.current.version => {}
            // Another object took the name.
            Some(cached) if cached.uid != self.current.uid => return Err(End::Again),
            Some(cached) => self.current = cached,
        }
        Ok(())
    }

    /// Adopts the object in the reply to a write. Returns whether it is newer than the current
    /// reading.
    pub(super) fn written(&mut self, written: &Arc<Attachment>) -> bool {
        let newer = written.version == 0 || written.version >= self.current.version;
        if newer {
            self.current = Arc::clone(written);
        }
        newer
    }
}

impl Attempt {
    /// A new attempt.
    #[must_use]
    pub fn new(key: &Key, start: Start) -> Self {
        Self {
            key: key.clone(),
            start,
            work: None,
            log: Log::default(),
            over: None,
        }
    }

    /// The request that records the failure on the object. It is sent once per attempt; its own
    /// result does not affect the retry.
    pub(super) fn record(&self, driver: &Driver, now: Timestamp) -> Option<Request> {
        let (Some(End::Failed(failure)), Some(work)) = (&self.over, &self.work) else {
            return None;
        };
        if self.log.tried(&Purpose::Record) {
            return None;
        }
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let body = failure.status_patch(&work.current, work.direction, driver, &time)?;
        let write = request::patch(&work.current, Purpose::Record, body);
        Some(Request::Write(write))
    }

    /// The end that this reply causes; `None` if the script continues.
    pub(super) fn ended_by(&self, reply: &Reply) -> Option<End> {
        match reply {
            Reply::Write(Write { purpose, .. }, Err(error)) => {
                let is_last = matches!(
                    purpose,
                    Purpose::Release | Purpose::MarkDetached | Purpose::MarkTrivial
                );
                // Somebody else removed the finalizer, so the object is gone: nothing is left to
                // do.
                if is_last && error.is_not_found() {
                    return Some(End::Done);
                }
                Failure::of_write(*purpose, error.clone()).map(End::Failed)
            }
            Reply::Call(called, _) => Some(match (Call::outcome(called).1?, &self.key) {
                // No object is left on which anybody could act, and nothing is left to unpublish.
                (CallError::Failed(error), Key::Orphan(_)) if error.code == Code::NotFound => {
                    End::Done
                }
                (error, _) => End::Failed(error.clone().into()),
            }),
            Reply::Get(..) | Reply::Write(_, Ok(_)) | Reply::Secret(..) | Reply::Event(_) => None,
        }
    }
}

/// The values of the Secret, or none if no Secret is referenced.
pub(super) fn secret<'a>(log: &'a Log, named: Option<&SecretRef>) -> Flow<&'a Secrets> {
    let values = log.secret(named.cloned())?;
    Ok(values.map_err(|(secret, error)| Failure::secret(secret, error))?)
}

impl Attacher {
    /// The script for the attempt's key.
    pub(super) fn script(&mut self, attempt: &mut Attempt, informers: Informed<'_>) -> Flow<End> {
        let Attempt {
            key,
            start,
            work,
            log,
            over: _,
        } = attempt;
        let (start, log) = (*start, &*log);
        let name = match key {
            Key::Attachment(name) => &*name,
            Key::Orphan(target) => {
                let orphan = self.in_flight.orphan(target).ok_or(End::Done)?;
                return orphan::unpublish(log, orphan, informers);
            }
            Key::Volume(name) => {
                let used = self.in_flight.uses(name);
                return volume::release_unused(name, used, informers);
            }
        };
        if start.doubtful {
            reread(log, name)?;
        }
        let work = match work {
            Some(work) => work,
            none => none.insert(self.take_up(name, informers)?),
        };
        if !informers.driver().abilities.publish {
            return attachment::nothing_to_publish(log, &work.current);
        }
        work.refresh(informers.attachment(name))?;
        let (direction, current) = (work.direction, &work.current);
        self.read_volume(key, log, current, informers)?;
        let forced = start.forced;
        informers.with_view(current, |view| {
            attachment::reach_goal(Ask { log, view, forced }, direction)
        })
    }

    /// Looks up the VolumeAttachment; ends the attempt if there is none or it belongs to another
    /// driver.
    fn take_up(&mut self, name: &Text, informers: Informed<'_>) -> Result<Work, End> {
        let current = informers.attachment(name).ok_or(End::Done)?;
        if *current.attacher != *informers.driver().name {
            return Err(End::OfAnother);
        }
        self.in_flight.works_on(name, current.volume.as_ref());
        Ok(Work::new(current))
    }

    /// Reads the referenced volume from the API server if the cache lacks it: it may belong to
    /// another driver, which does not matter here. If it is still missing afterwards, it does not
    /// exist.
    fn read_volume(
        &self,
        key: &Key,
        log: &Log,
        attachment: &Attachment,
        informers: Informed<'_>,
    ) -> Flow<()> {
        let named = attachment.volume.as_ref();
        let unknown =
            |name: &&Text| attachment.inline.is_none() && informers.volume(name).is_none();
        let Some(name) = named.filter(unknown) else {
            return Ok(());
        };
        let object = Object::Volume(name.clone());
        // The watch may have delivered the volume before this reply arrived.
        let read = log.got(&object);
        match read.filter(|_| self.in_flight.has_asked(key, name)) {
            None => script::ask(Request::Get(object)),
            Some(Err(error)) if !error.is_not_found() => {
                Err(Failure::ReadVolume(name.clone(), error.clone()).into())
            }
            Some(_) => Ok(()),
        }
    }
}

/// Reads the attachment before anything else: the last write may or may not have been applied.
fn reread(log: &Log, name: &Text) -> Flow<()> {
    let object = Object::Attachment(name.clone());
    match log.got(&object) {
        None => script::ask(Request::Get(object)),
        Some(Ok(())) => Ok(()),
        // The watch will deliver the deletion.
        Some(Err(error)) if error.is_not_found() => Err(End::Done.into()),
        Some(Err(error)) => Err(Failure::Reread(error.clone()).into()),
    }
}
