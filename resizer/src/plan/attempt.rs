//! One attempt of either kind: a script, and the replies that it has got so far.
//!
//! Expansion and modification end, fail and stumble over conflicts in the same way: a failure is
//! recorded on the claim, told in an event, then left to the back-off; an object that has changed,
//! or of which nobody knows what the last write did, is read again without a word.

use sidecar::controller::request::{Body, Patch};
use sidecar::controller::script::{self, Leave};
use sidecar::controller::{CallError, Calls as _};

use super::ask::Ask;
use super::expand::{self, expand};
use super::fairness::{Kind, Task};
use super::in_flight::Start;
use super::modify::{self, modify};
use super::outcome::{ApiError, Failure, Finality, RequeueTrigger, classify};
use super::request::{About, Call, ClaimWrite, Object, Purpose, Reply, Request, VolumeWrite};
use super::view::{Informers, View};
use super::{Driver, Resizer, Settings, patch};
use crate::model::{Claim, Text, Uid};

/// The requests of an attempt, and what came of them.
pub(super) type Log = script::Log<Resizer>;
/// A value, or why the script does not go on.
pub(super) type Flow<T> = script::Flow<T, Resizer, End>;

/// An attempt on one task. A crash loses it, and nothing with it.
pub struct Attempt {
    task: Task,
    pub(super) about: About,
    /// The claim's volume when this began, if it had one.
    bound: Option<Text>,
    pub(super) start: Start,
    pub(super) log: Log,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do, or not now.
    Done,
    /// There is more to do: at once again.
    Again,
    /// The driver called it impossible a while ago: it is tried again when that was long enough ago.
    Later,
    /// It goes on when this appears.
    Waits(RequeueTrigger),
    /// Somebody else's call for the same volume is in flight, whose end brings this task back. The reactor says
    /// so, out of [`InFlightState::calls`](super::in_flight::InFlightState::calls).
    Parked,
    /// It failed, and is tried again.
    Failed(Failure),
}

impl From<Failure> for Leave<Resizer, End> {
    fn from(failure: Failure) -> Self {
        Self::End(End::Failed(failure))
    }
}

impl Attempt {
    /// A new attempt on the claim as the cache knows it, which goes on where an earlier one ended.
    #[must_use]
    pub fn new(task: &Task, claim: &Claim, mut start: Start) -> Self {
        let about = About {
            claim: task.claim.clone(),
            uid: claim.uid().clone(),
        };
        if start.unread {
            start.doubts.insert(0, about.object());
        }
        let bound = claim.detail().map(|claim| claim.volume.clone());
        Self {
            task: task.clone(),
            about,
            bound: bound.filter(|name| !name.is_empty()),
            start,
            log: Log::default(),
        }
    }

    /// UID of the claim it is about.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.about.uid
    }

    /// Name of the PersistentVolume that [`View::volume`] is to show.
    #[must_use]
    pub fn volume(&self, claim: Option<&Claim>) -> Option<Text> {
        let bound = match claim.filter(|claim| self.is_about(claim)) {
            Some(claim) => claim.detail().map(|claim| &claim.volume),
            None => self.bound.as_ref(),
        };
        let bound = bound.filter(|name| !name.is_empty());
        bound.or(self.start.annotated.as_ref()).cloned()
    }

    /// Name of the VolumeAttributesClass that [`View::class`] is to show.
    #[must_use]
    pub fn class(&self, claim: Option<&Claim>) -> Option<Text> {
        let claim = claim.filter(|_| self.task.kind == Kind::Modify)?.detail()?;
        modify::class(claim, &self.start.marks)
    }

    /// The next request, of what the caches say. They are looked at in one go.
    ///
    /// # Errors
    /// The attempt is over: says how.
    pub fn look(
        &self,
        informers: &dyn Informers,
        in_use: bool,
        (driver, settings): (&Driver, &Settings),
        now: &str,
    ) -> Result<Request, End> {
        let claim = informers.claim(&self.task.claim);
        let claim = claim.as_deref();
        let volume = self.volume(claim).and_then(|name| informers.volume(&name));
        let class = self.class(claim).and_then(|name| informers.class(&name));
        let (volume, version) = volume.unzip();
        let mut next = self.decide(&View {
            driver,
            settings,
            claim,
            volume: volume.as_deref(),
            class: class.as_deref(),
            in_use,
            now,
        });
        if let (Ok(Request::Write(write)), Some(version)) = (&mut next, version)
            && let (Object::Volume(_), Body::Patch(_, Patch::Strategic(patch))) =
                (&write.object, &mut write.body)
        {
            patch::bind_to_version(patch, version);
        }
        next
    }

    /// The next request under `view`.
    ///
    /// # Errors
    /// The attempt is over: says how.
    pub fn decide(&self, view: &View<'_>) -> Result<Request, End> {
        script::next(self.script(Ask {
            attempt: self,
            view,
        }))
    }

    fn script(&self, ask: Ask<'_>) -> Flow<End> {
        if let Err(error) = self.log.read(&self.start.doubts)?
            && !error.is_not_found()
        {
            return Ok(End::Failed(Failure::Read(error.clone())));
        }
        let Some(claim) = ask.view.claim.filter(|claim| self.is_about(claim)) else {
            return self.orphan(ask);
        };
        let worked = match (self.refused(), self.task.kind) {
            (Some(failure), _) => Err(failure.into()),
            (None, Kind::Expand) => expand(ask, claim),
            (None, Kind::Modify) => modify(ask, claim),
        };
        match worked {
            Err(Leave::End(End::Failed(failure))) => self.fail(ask, claim, failure),
            other => other,
        }
    }

    /// Takes in what came of a request.
    pub fn answered(&mut self, reply: Reply) {
        self.start.marks.learn(&self.task, &self.log, &reply);
        self.log.push(reply);
    }

    /// Whether this is the claim that the attempt began on, and the API server knows it still.
    fn is_about(&self, claim: &Claim) -> bool {
        !self.is_gone() && *claim.uid() == self.about.uid
    }

    /// The API server knows the claim no longer, or what was to be read of its volume. Its end is on
    /// the way as an event.
    fn is_gone(&self) -> bool {
        let unread = self.log.reads().filter_map(|(_, result)| result.err());
        let writes = self.log.writes();
        let writes = writes.filter(|(write, _)| write.object == self.about.object());
        let unwritten = writes.filter_map(|(_, result)| result.err());
        unread.chain(unwritten).any(ApiError::is_not_found)
    }

    /// A write was refused, or nobody knows. Records of a failure are another matter.
    fn refused(&self) -> Option<Failure> {
        let mut writes = self.log.writes();
        writes.find_map(|(write, result)| Failure::of_write(write, result.err()?))
    }

    /// The claim went while the driver worked. Its volume may stay, and be used again: it says what
    /// the driver made of it.
    fn orphan(&self, ask: Ask<'_>) -> Flow<End> {
        let View { volume, driver, .. } = ask.view;
        let namespace = self.task.namespace();
        let ours = volume.filter(|volume| {
            volume.is_served_by(&driver.name) && volume.belongs_to(namespace, &self.about.uid)
        });
        if let (Some(name), Some(volume), None) = (&self.bound, ours, self.refused()) {
            let (write, patch) = match self.task.kind {
                Kind::Expand => (VolumeWrite::Grow, expand::of_orphan(&self.log, volume)),
                Kind::Modify => (VolumeWrite::SetClass, modify::of_orphan(&self.log, volume)),
            };
            ask.volume_once(name, write, patch)?;
        }
        // Another claim that has taken the name was put into the queue when it came.
        let another = ask.view.claim.is_some() && !self.is_gone();
        Ok(if another { End::Again } else { End::Done })
    }

    /// The failure is recorded, then told.
    fn fail(&self, ask: Ask<'_>, claim: &Claim, failure: Failure) -> Flow<End> {
        let of = claim.detail().zip(failure.cause());
        let (record, patch) = match self.task.kind {
            Kind::Expand => {
                let patch = of.and_then(|of| expand::record_error(ask.view, of));
                (ClaimWrite::RecordResizeError, patch)
            }
            Kind::Modify => {
                let patch = of.and_then(|of| modify::record_error(ask.view, of));
                (ClaimWrite::RecordModifyError, patch)
            }
        };
        let recorded = self.log.written(&Purpose::Claim(record));
        ask.patch(record, patch.filter(|_| recorded.is_none()))?;
        let failure = match (failure, recorded) {
            (Failure::Expand(_, _, cause), Some(Err(error))) => {
                Failure::Unrecorded(self.task.claim.clone(), cause, error.clone())
            }
            (failure, _) => failure,
        };
        if let Some(announcement) = failure.announcement(self.task.kind) {
            ask.tell(announcement)?;
        }
        Ok(End::Failed(failure))
    }

    /// Whether the claim is known from its volume alone, to the end.
    pub(super) fn is_unread(&self) -> bool {
        let claim = self.about.object();
        let mut reads = self.log.reads();
        self.start.unread && !reads.any(|(object, result)| *object == claim && result.is_ok())
    }

    /// What the next attempt must read first.
    pub(super) fn doubts(&self) -> Vec<Object> {
        self.log.in_doubt(&self.start.doubts)
    }

    /// What the driver called impossible in this attempt; `Some(None)` if it was asked and did not,
    /// `None` if it was not asked.
    pub(super) fn called(&self) -> Option<Option<String>> {
        let called = self.log.calls().next()?;
        let infeasible = match Call::outcome(called).1 {
            None => false,
            Some(CallError::Failed(error)) => {
                classify(self.task.kind, error.code) == Finality::Infeasible
            }
            Some(CallError::Unreachable(_)) => return None,
        };
        Some(infeasible.then(|| called.wish()))
    }
}
