//! One attempt at an expansion or a modification: a script, and the replies that it has so far.
//!
//! Expansion and modification share their ends, their failures and their conflicts: a failure is recorded on
//! the claim and in an event, then the task backs off; an object that has changed, or whose last write has an
//! unknown outcome, is read again without an event.

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

/// The requests of an attempt, with their replies.
pub(super) type Log = script::Log<Resizer>;
/// A value, or why the script stops.
pub(super) type Flow<T> = script::Flow<T, Resizer, End>;

/// An attempt on one task. A crash loses it without harm.
pub struct Attempt {
    task: Task,
    pub(super) about: About,
    /// Name of the claim's volume when the attempt began; `None` if it was unbound.
    bound: Option<Text>,
    pub(super) start: Start,
    pub(super) log: Log,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do, or not now.
    Done,
    /// More is due: requeue at once.
    Again,
    /// The driver recently called it infeasible: requeue when the wait is over.
    Later,
    /// Requeue when this trigger appears.
    Waits(RequeueTrigger),
    /// Another task's call for the same volume is in flight; its end requeues this task. The reactor sets this,
    /// from [`InFlightState::calls`](super::in_flight::InFlightState::calls).
    Parked,
    /// It failed: requeue after a back-off.
    Failed(Failure),
}

impl From<Failure> for Leave<Resizer, End> {
    fn from(failure: Failure) -> Self {
        Self::End(End::Failed(failure))
    }
}

impl Attempt {
    /// A new attempt on the cached claim, which continues where an earlier one ended.
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

    /// UID of its claim.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.about.uid
    }

    /// Name of the PersistentVolume that [`View::volume`] has to show.
    #[must_use]
    pub fn volume(&self, claim: Option<&Claim>) -> Option<Text> {
        let bound = match claim.filter(|claim| self.is_about(claim)) {
            Some(claim) => claim.detail().map(|claim| &claim.volume),
            None => self.bound.as_ref(),
        };
        let bound = bound.filter(|name| !name.is_empty());
        bound.or(self.start.annotated.as_ref()).cloned()
    }

    /// Name of the VolumeAttributesClass that [`View::class`] has to show.
    #[must_use]
    pub fn class(&self, claim: Option<&Claim>) -> Option<Text> {
        let claim = claim.filter(|_| self.task.kind == Kind::Modify)?.detail()?;
        modify::class(claim, &self.start.marks)
    }

    /// The next request, from the caches, all read at the same time.
    ///
    /// # Errors
    /// The outcome, if the attempt has ended.
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
    /// The outcome, if the attempt has ended.
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

    /// Takes in the reply to a request.
    pub fn answered(&mut self, reply: Reply) {
        self.start.marks.learn(&self.task, &self.log, &reply);
        self.log.push(reply);
    }

    /// Whether this is the claim that the attempt began on, and the API server still has it.
    fn is_about(&self, claim: &Claim) -> bool {
        !self.is_gone() && *claim.uid() == self.about.uid
    }

    /// The API server answered NotFound for the claim, or for the volume's read. The watch will report its
    /// deletion.
    fn is_gone(&self) -> bool {
        let unread = self.log.reads().filter_map(|(_, result)| result.err());
        let writes = self.log.writes();
        let writes = writes.filter(|(write, _)| write.object == self.about.object());
        let unwritten = writes.filter_map(|(_, result)| result.err());
        unread.chain(unwritten).any(ApiError::is_not_found)
    }

    /// The first write that was refused, or whose outcome is unknown. Failed records of a failure do not count.
    fn refused(&self) -> Option<Failure> {
        let mut writes = self.log.writes();
        writes.find_map(|(write, result)| Failure::of_write(write, result.err()?))
    }

    /// The claim was deleted while the driver worked. Its volume may remain and be used again: the
    /// PersistentVolume gets the driver's result.
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
        // The watch has already requeued another claim of the same name.
        let another = ask.view.claim.is_some() && !self.is_gone();
        Ok(if another { End::Again } else { End::Done })
    }

    /// Records the failure on the claim, then sends the event.
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

    /// Whether the claim was known only from its volume, and has not been read since.
    pub(super) fn is_unread(&self) -> bool {
        let claim = self.about.object();
        let mut reads = self.log.reads();
        self.start.unread && !reads.any(|(object, result)| *object == claim && result.is_ok())
    }

    /// The objects that the next attempt has to read first.
    pub(super) fn doubts(&self) -> Vec<Object> {
        self.log.in_doubt(&self.start.doubts)
    }

    /// The request that the driver called infeasible in this attempt; `Some(None)` after a call with another
    /// outcome, `None` without a call.
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
