//! One attempt: the script of its key, and the replies that it has got so far.
//!
//! A write or call that fails ends the attempt in the turn in which the reply comes, whatever the objects say by then.
//! So scripts look for successes alone, and no event passes between a failure and the note of what it waits for.

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

/// The requests of an attempt, and what came of them.
pub(super) type Log = script::Log<Attacher>;
/// A value, or why the script does not go on.
pub(super) type Flow<T> = script::Flow<T, Attacher, End>;

/// An attempt on a key. A crash loses it, and nothing with it.
pub struct Attempt {
    pub(super) key: Key,
    pub(super) start: Start,
    /// Of an attempt on a VolumeAttachment, once it is known that there is one, of this driver.
    pub(super) work: Option<Work>,
    pub(super) log: Log,
    pub(super) over: Option<End>,
}

/// The VolumeAttachment that an attempt is about.
pub(super) struct Work {
    direction: Direction,
    /// The newest reading: the cache's, or that of this attempt's last write.
    pub(super) current: Arc<Attachment>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do.
    Done,
    /// The VolumeAttachment is another driver's.
    OfAnother,
    /// The goal changed: at once again.
    Again,
    /// Somebody else's end brings it back.
    Waits,
    /// It failed, and is tried again.
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

    /// Whether the object is to go the other way by now.
    pub(super) fn is_turned(&self) -> bool {
        Direction::of(&self.current) != self.direction
    }

    /// Takes the cache's reading if it is newer: the cache may be behind what this attempt has written.
    ///
    /// # Errors
    /// There is nothing to go on with.
    fn refresh(&mut self, cached: Option<Arc<Attachment>>) -> Result<(), End> {
        match cached {
            // What is still to be written after a detach is tried all the same.
            None if self.direction == Direction::Detach => {}
            None => return Err(End::Done),
            Some(cached) if cached.version != 0 && cached.version <= self.current.version => {}
            // Another object has taken the name.
            Some(cached) if cached.uid != self.current.uid => return Err(End::Again),
            Some(cached) => self.current = cached,
        }
        Ok(())
    }

    /// Takes the answer to a write. Whether it is newer than what was known.
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

    /// The failure is recorded on the object, once, as far as that is possible; the failure itself decides about the
    /// retry.
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

    /// How this reply ends the attempt; `None` if the script decides what is next.
    pub(super) fn ended_by(&self, reply: &Reply) -> Option<End> {
        match reply {
            Reply::Write(Write { purpose, .. }, Err(error)) => {
                let is_last = matches!(
                    purpose,
                    Purpose::Release | Purpose::MarkDetached | Purpose::MarkTrivial
                );
                // Somebody else removed the finalizer, and with it the object: nothing is left to do.
                if is_last && error.is_not_found() {
                    return Some(End::Done);
                }
                Failure::of_write(*purpose, error.clone()).map(End::Failed)
            }
            Reply::Call(called, _) => Some(match (Call::outcome(called).1?, &self.key) {
                // There is nobody who could look after it, and nothing to look after.
                (CallError::Failed(error), Key::Orphan(_)) if error.code == Code::NotFound => {
                    End::Done
                }
                (error, _) => End::Failed(error.clone().into()),
            }),
            Reply::Get(..) | Reply::Write(_, Ok(_)) | Reply::Secret(..) | Reply::Event(_) => None,
        }
    }
}

/// The values of the Secret, if one is named.
pub(super) fn secret<'a>(log: &'a Log, named: Option<&SecretRef>) -> Flow<&'a Secrets> {
    let values = log.secret(named.cloned())?;
    Ok(values.map_err(|(secret, error)| Failure::secret(secret, error))?)
}

impl Attacher {
    /// The script of the attempt's key.
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

    /// The VolumeAttachment, if there is one, of this driver.
    fn take_up(&mut self, name: &Text, informers: Informed<'_>) -> Result<Work, End> {
        let current = informers.attachment(name).ok_or(End::Done)?;
        if *current.attacher != *informers.driver().name {
            return Err(End::OfAnother);
        }
        self.in_flight.works_on(name, current.volume.as_ref());
        Ok(Work::new(current))
    }

    /// Reads the volume that the attachment names if the caches say nothing of it: it may be another driver's, and is
    /// used all the same. If they do not show it then, there is none.
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
        // Its watch may have been faster than the answer.
        let read = log.got(&object);
        match read.filter(|_| self.in_flight.has_asked(key, name)) {
            None => Err(Leave::Ask(Request::Get(object))),
            Some(Err(error)) if !error.is_not_found() => {
                Err(Failure::ReadVolume(name.clone(), error.clone()).into())
            }
            Some(_) => Ok(()),
        }
    }
}

/// Reads the attachment first: the last write may or may not have been applied.
fn reread(log: &Log, name: &Text) -> Flow<()> {
    let object = Object::Attachment(name.clone());
    match log.got(&object) {
        None => Err(Leave::Ask(Request::Get(object))),
        Some(Ok(())) => Ok(()),
        // The deletion is on its way as an event.
        Some(Err(error)) if error.is_not_found() => Err(End::Done.into()),
        Some(Err(error)) => Err(Failure::Reread(error.clone()).into()),
    }
}
