//! One attempt of either kind: what was learnt and done so far that the API objects do not show.
//!
//! Expansion and modification end, fail and stumble over conflicts in the same way: a failure is
//! recorded on the claim, told in an event, then left to the back-off; an object that has changed,
//! or of which nobody knows what the last write did, is read again without a word.

mod reading;
mod reply;

use sidecar::controller::request::{Body, Patch};

use super::expand::Expansion;
use super::fairness::{Kind, Task};
use super::in_flight::{Doubts, Start};
use super::modify::Modification;
use super::outcome::{ApiError, Cause, Failure, RequeueTrigger};
use super::request::{self, About, Announcement, ClaimWrite, Object, Request, VolumeWrite};
use super::view::{Informers, View};
use super::{Driver, Settings, expand, modify, patch};
use crate::model::{Claim, Text, Uid};

/// How often in one attempt an object may have changed under its patch.
const CONFLICTS: u8 = 8;

/// An attempt on one task. A crash loses it, and nothing with it.
pub struct Attempt {
    task: Task,
    about: About,
    /// The claim's volume when this began, if it had one.
    bound: Option<Text>,
    annotated: Option<Text>,
    /// What must be read before anything else.
    doubts: Doubts,
    /// What must be read before the next attempt.
    stale: Doubts,
    /// The claim is known from its volume alone.
    unread: bool,
    /// Why the object in doubt could not be read.
    unreadable: Option<ApiError>,
    conflicts: u8,
    /// The API server knows the claim no longer.
    gone: bool,
    failing: Option<Failing>,
    /// The event that was sent last.
    told: Option<Announcement>,
    work: Work,
}

enum Work {
    Expand(Expansion),
    Modify(Modification),
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

/// The attempt is about to end with a failure.
struct Failing {
    problem: Problem,
    recorded: bool,
    /// Why it could not be recorded.
    unrecorded: Option<ApiError>,
}

enum Problem {
    /// Of an expansion, whose failures name volume and driver.
    Cause(Cause),
    Failure(Failure),
}

impl From<Problem> for Failing {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            recorded: false,
            unrecorded: None,
        }
    }
}

impl Attempt {
    /// A new attempt on the claim as the cache knows it, which goes on where an earlier one ended.
    #[must_use]
    pub fn new(task: &Task, claim: &Claim, start: Start) -> Self {
        let about = About {
            claim: task.claim.clone(),
            uid: claim.uid().clone(),
        };
        Self {
            task: task.clone(),
            bound: claim
                .detail()
                .map(|claim| claim.volume.clone())
                .filter(|name| !name.is_empty()),
            doubts: start.doubts,
            stale: Doubts::default(),
            unread: start.unread,
            unreadable: None,
            conflicts: 0,
            gone: false,
            failing: None,
            told: None,
            work: match task.kind {
                Kind::Expand => Work::Expand(Expansion::new(&about, &start)),
                Kind::Modify => Work::Modify(Modification::new(&about, &start)),
            },
            about,
            annotated: start.annotated,
        }
    }

    /// The task.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.task
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
        bound.or(self.annotated.as_ref()).cloned()
    }

    /// Name of the VolumeAttributesClass that [`View::class`] is to show.
    #[must_use]
    pub fn class(&self, claim: Option<&Claim>) -> Option<Text> {
        match &self.work {
            Work::Expand(_) => None,
            Work::Modify(work) => claim
                .and_then(Claim::detail)
                .and_then(|claim| work.class(claim)),
        }
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
        if self.unread && !self.gone {
            return match &self.unreadable {
                Some(error) => Err(End::Failed(Failure::Read(error.clone()))),
                None => Ok(self.about.read()),
            };
        }
        let Some(claim) = view.claim.filter(|claim| self.is_about(claim)) else {
            let over = self.failing.is_some() || self.unreadable.is_some();
            let volume = self.orphan(view).filter(|_| !over);
            // Another claim that has taken the name was put into the queue when it came.
            let another = view.claim.is_some() && !self.gone;
            return volume.ok_or(if another { End::Again } else { End::Done });
        };
        if let Some(error) = &self.unreadable {
            return Err(End::Failed(Failure::Read(error.clone())));
        }
        if self.doubts.claim {
            return Ok(self.about.read());
        }
        if self.doubts.volume
            && let Some(volume) = self.volume(Some(claim))
        {
            return Ok(Request::Get(Object::Volume(volume)));
        }
        if let Some(failing) = &self.failing {
            return self.fail(view, claim, failing);
        }
        let next = match &self.work {
            Work::Expand(work) => work.decide(view, claim),
            Work::Modify(work) => work.decide(view, claim),
        };
        // What is wrong with the objects themselves is told, too.
        if let Err(End::Failed(failure)) = next {
            return self.tell(failure);
        }
        next
    }

    /// Whether this is the claim that the attempt began on.
    fn is_about(&self, claim: &Claim) -> bool {
        !self.gone && *claim.uid() == self.about.uid
    }

    /// The claim went while the driver worked. Its volume may stay, and be used again: it says what
    /// the driver made of it.
    fn orphan(&self, view: &View<'_>) -> Option<Request> {
        let (name, volume) = self.bound.as_ref().zip(view.volume)?;
        let (namespace, _) = self.task.claim.split_once('/')?;
        if !volume.is_served_by(&view.driver.name) {
            return None;
        }
        if !volume.belongs_to(namespace, &self.about.uid) {
            return None;
        }
        let (write, patch) = match &self.work {
            Work::Expand(work) => (VolumeWrite::Grow, work.for_orphan(volume)),
            Work::Modify(work) => (VolumeWrite::SetClass, work.for_orphan(volume)),
        };
        let patch = patch?;
        Some(if self.doubts.volume {
            Request::Get(Object::Volume(name.clone()))
        } else {
            request::patch_volume(name, write, patch)
        })
    }

    /// The failure is recorded, then told.
    fn fail(&self, view: &View<'_>, claim: &Claim, failing: &Failing) -> Result<Request, End> {
        let cause = failing.problem.cause();
        if !failing.recorded
            && let (Some(claim), Some(cause)) = (claim.detail(), cause)
        {
            let (write, patch) = match self.task.kind {
                Kind::Expand => (
                    ClaimWrite::RecordResizeError,
                    Expansion::record_error(view, claim, cause),
                ),
                Kind::Modify => (
                    ClaimWrite::RecordModifyError,
                    Modification::record_error(view, claim, cause),
                ),
            };
            if let Some(patch) = patch {
                return Ok(self.about.patch(write, patch));
            }
        }
        self.tell(match (&failing.problem, &failing.unrecorded) {
            (Problem::Failure(failure), _) => failure.clone(),
            (Problem::Cause(cause), Some(error)) => {
                Failure::Unrecorded(self.task.claim.clone(), cause.clone(), error.clone())
            }
            (Problem::Cause(cause), None) => {
                let volume = self.volume(Some(claim)).unwrap_or_default();
                Failure::Expand(volume, view.driver.name.clone(), cause.clone())
            }
        })
    }

    fn tell(&self, failure: Failure) -> Result<Request, End> {
        match failure.announcement(self.task.kind) {
            Some(announcement) if self.told.as_ref() != Some(&announcement) => {
                Ok(self.about.announce(announcement))
            }
            Some(_) | None => Err(End::Failed(failure)),
        }
    }

    /// What this attempt learnt, for the books.
    pub(super) fn leave(&self, expand: &mut expand::Marks, modify: &mut modify::Marks) {
        match &self.work {
            Work::Expand(work) => expand.clone_from(&work.marks),
            Work::Modify(work) => modify.clone_from(&work.marks),
        }
    }

    /// What the driver called impossible in this attempt; `Some(None)` if it was asked and did not,
    /// `None` if it was not asked.
    pub(super) fn called(&self) -> Option<Option<&str>> {
        let called = match &self.work {
            Work::Expand(work) => &work.called,
            Work::Modify(work) => &work.called,
        };
        called.as_ref().map(Option::as_deref)
    }
}

impl Problem {
    fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Cause(cause) => Some(cause),
            Self::Failure(failure) => failure.cause(),
        }
    }
}
