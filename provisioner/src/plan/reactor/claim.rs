//! Attempts for claims.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event::look_at_volume;
use super::ownership::OwnershipRace;
use super::{Informed, Notice, Provisioner, Reply, Step, Wakes};
use crate::model::{Claim, Grant};
use crate::plan::claim::{self, ClaimReply, ClaimStep, End, Failure};
use crate::plan::edit;
use crate::plan::in_flight::{ClaimKey, Unsaved};
use crate::plan::journal::Unwritable;
use crate::plan::protection;
use crate::plan::request::{self, Call, Object, Purpose, Request};
use crate::plan::view::View;

mod end;

/// An attempt on a claim.
pub enum Run {
    /// The claim is gone or needs no volume.
    Nothing(ClaimKey),
    /// The driver called the claim's request infeasible; the claim waits this long.
    Slow(ClaimKey, Duration),
    /// The claim needs a volume, and the requests of earlier processes for it are not known yet. Carries the failure of
    /// the attempt; `None` if another node's process may take the claim.
    Unrecovered(ClaimKey, Arc<Claim>, Option<Box<Failure>>),
    /// The attempt works on the claim.
    Open(Box<Open>),
}

/// An open attempt with the newest state of its claim.
pub struct Open {
    pub(super) key: ClaimKey,
    pub(super) attempt: claim::Attempt,
    pub(super) claim: Arc<Claim>,
    /// The claim no longer existed when the attempt began.
    pub(super) gone: bool,
    started: Instant,
    /// Progress in the race for a claim that no process has taken; `None` in any other attempt.
    pub(super) race: Option<OwnershipRace>,
    over: Option<Result<End, Failure>>,
}

impl Provisioner {
    pub(super) fn begin_claim(
        &mut self,
        key: &ClaimKey,
        informers: Informed<'_>,
        now: Instant,
    ) -> Run {
        let Some((claim, gone)) = self.look_up(key, informers) else {
            return Run::Nothing(key.clone());
        };
        if let Some(reason) = self.unrecovered() {
            return self.begin_unrecovered(key, claim, informers, reason);
        }
        let class = informers.class(claim.class_name());
        let class = class.as_ref().map(|class| &*class.uid);
        let wait = self.in_flight.slow(key, class, now);
        if !wait.is_zero() {
            return Run::Slow(key.clone(), wait);
        }
        let start = self.in_flight.begin(key);
        let mut attempt = claim::Attempt::new(start, !gone && claim.volume.is_empty());
        attempt.leave(&claim, &self.topology);
        Run::Open(Box::new(Open {
            key: key.clone(),
            attempt,
            claim,
            gone,
            started: now,
            race: None,
            over: None,
        }))
    }

    /// Does nothing for the claim, not even remove its selected node: a call of an earlier process that is not known
    /// yet may have made its volume.
    fn begin_unrecovered(
        &self,
        key: &ClaimKey,
        claim: Arc<Claim>,
        informers: Informed<'_>,
        reason: Unwritable,
    ) -> Run {
        let needed = claim.volume.is_empty();
        let attempt = claim::Attempt::new(self.in_flight.known(key), needed);
        let look = |view: &View<'_>| attempt.decide(view);
        let step = self.look(&attempt, (&claim, false), informers, look);
        let failure = if let claim::Step::Done(end) = step {
            if end != End::Contend {
                return Run::Nothing(key.clone());
            }
            None
        } else if let claim::Step::Fail(failure) = step {
            Some(failure)
        } else {
            Some(Failure::Intend(reason))
        };
        Run::Unrecovered(key.clone(), claim, failure.map(Box::new))
    }

    /// The claim, and whether it is gone and only worked on because of a call with unknown outcome.
    fn look_up(&self, key: &ClaimKey, informers: Informed<'_>) -> Option<(Arc<Claim>, bool)> {
        if let Some(claim) = cached(key, informers) {
            return Some((claim, false));
        }
        let claim = self.in_flight.pending_claim(key).map(Arc::clone)?;
        Some((claim, true))
    }

    pub(super) fn decide_claim(
        &mut self,
        run: &mut Run,
        informers: Informed<'_>,
        now: Instant,
    ) -> Option<Step> {
        let open = match run {
            Run::Nothing(_) | Run::Slow(..) | Run::Unrecovered(..) => return None,
            Run::Open(open) => open,
        };
        if open.over.is_some() {
            return None;
        }
        if open.race.is_none() {
            match self.next(open, informers) {
                Ok(step) => return step,
                Err(Contends) => open.race = Some(self.start_race(open, informers, now)),
            }
        }
        self.decide_race(open, informers)
    }

    /// The next step for a claim that is this process's alone, unless the attempt finds that nodes compete for it.
    fn next(&mut self, open: &mut Open, informers: Informed<'_>) -> Result<Option<Step>, Contends> {
        loop {
            refresh(open, informers);
            let step = self.look(&open.attempt, (&open.claim, open.gone), informers, |view| {
                open.attempt.decide(view)
            });
            let needless = match &step {
                claim::Step::Done(End::Contend) => return Err(Contends),
                claim::Step::Done(end) => {
                    open.over = Some(Ok(*end));
                    return Ok(None);
                }
                claim::Step::Fail(failure) => {
                    open.over = Some(Err(failure.clone()));
                    return Ok(None);
                }
                claim::Step::Claim(ClaimStep::Intend(..)) => self.journal.is_none(),
                // From here on the source must stay; or the call may be running, whatever becomes of this process.
                claim::Step::Ask(
                    Request::Get(Object::SourceClaim(_)) | Request::Call(Call::Create(_)),
                ) => {
                    self.in_flight.calling(&open.claim);
                    false
                }
                claim::Step::Ask(request) => {
                    // The last of the claims releases it, or a sweep does.
                    edit::released_snapshot(request)
                        .is_some_and(|key| self.is_shared(key, &open.claim, informers))
                }
                claim::Step::Claim(ClaimStep::LoadExistingPv(..)) => false,
            };
            match step {
                claim::Step::Ask(request) if !needless => return Ok(Some(Step::Ask(request))),
                claim::Step::Claim(step) if !needless => return Ok(Some(Step::Claim(step))),
                step @ (claim::Step::Ask(_)
                | claim::Step::Claim(_)
                | claim::Step::Done(_)
                | claim::Step::Fail(_)) => {
                    if let Err(failure) = open.attempt.skip(step) {
                        open.over = Some(Err(failure));
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Calls `look` with the view of the claim.
    pub(super) fn look<T>(
        &self,
        attempt: &claim::Attempt,
        (claim, gone): (&Claim, bool),
        informers: Informed<'_>,
        look: impl FnOnce(&View<'_>) -> T,
    ) -> T {
        let driver = informers.driver();
        let class = informers.class(claim.class_name());
        let name = attempt.volume_name(claim, &self.settings);
        let volume = name.ok().and_then(|name| informers.volume(&name));
        let mut grants: Vec<Arc<Grant>> = Vec::new();
        if self.settings.gates.cross_namespace {
            informers.for_each_grant(&mut |grant| grants.push(Arc::clone(grant)));
        }
        look(&View {
            driver: &driver,
            settings: &self.settings,
            claim,
            gone,
            class: class.as_deref(),
            volume_exists: volume.is_some(),
            volume_leaves: volume.is_some_and(|volume| volume.is_leaving()),
            grants: &grants,
            topology: &self.topology,
        })
    }

    /// Whether another claim is being restored from the same snapshot as `claim`.
    fn is_shared(&self, snapshot: &str, claim: &Claim, informers: Informed<'_>) -> bool {
        let mut claims = Vec::new();
        informers.for_each_claim(&mut |claim| claims.push(Arc::clone(claim)));
        let known = claims.iter().map(|claim| &**claim);
        let known = known.chain(self.in_flight.busy_claims());
        let key = snapshot.split_once('/').unwrap_or_default();
        protection::is_shared(key, claim, known, |claim| self.has_volume(claim, informers))
    }

    /// Whether the PersistentVolume of the claim exists, bound or not.
    pub(super) fn has_volume(&self, claim: &Claim, informers: Informed<'_>) -> bool {
        let name = protection::volume_of(claim, &informers.driver(), &self.settings);
        name.is_some_and(|name| informers.volume(&name).is_some())
    }

    pub(super) fn claim_answered(
        &mut self,
        run: &mut Run,
        reply: Reply,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let Run::Open(open) = run else { return };
        if let Some(race) = &mut open.race {
            return race.answered(&open.key, reply, informers, due);
        }
        // The cache gets the object from this reply, which requeues nothing: its finalizer may be due.
        match &reply {
            Reply::Ask(request::Reply::Write(write, result)) => match (&write.purpose, result) {
                (Purpose::Save(Unsaved { name, .. }), Ok(_)) => {
                    look_at_volume(name, informers, due)
                }
                (Purpose::ProtectSource | Purpose::ReleaseSource, Err(error)) => {
                    let notice = Notice::SourceUnchanged(write.object.clone(), error.clone());
                    due.notices.push(notice);
                }
                (_, _) => {}
            },
            Reply::Claim(ClaimReply::ExistingPv(name, Ok(_))) => {
                look_at_volume(name, informers, due);
            }
            Reply::Ask(_) | Reply::Claim(_) => {}
        }
        let applied = match reply {
            Reply::Ask(reply) => open.attempt.answered(reply),
            Reply::Claim(reply) => open.attempt.step_answered(reply),
        };
        if let Err(failure) = applied {
            open.over = Some(Err(failure));
        }
    }
}

/// No process has taken the claim yet.
struct Contends;

/// Takes the claim from the cache, if that is newer. A claim that leaves the cache during an attempt has its volume by
/// now, or is gone; the attempt ends as it would have.
fn refresh(open: &mut Open, informers: Informed<'_>) {
    if let Some(claim) = cached(&open.key, informers)
        && (claim.version == 0 || claim.version > open.claim.version)
    {
        open.claim = claim;
    }
}

fn cached(key: &ClaimKey, informers: Informed<'_>) -> Option<Arc<Claim>> {
    let claim = informers.claim(&key.name)?;
    (claim.uid == key.uid).then_some(claim)
}

#[cfg(test)]
impl Run {
    /// The attempt, if the claim is worked on.
    pub(crate) fn attempt(&self) -> Option<&claim::Attempt> {
        match self {
            Self::Open(open) => Some(&open.attempt),
            Self::Nothing(_) | Self::Slow(..) | Self::Unrecovered(..) => None,
        }
    }

    /// The claim, if it is worked on.
    pub(crate) fn claim(&self) -> Option<&Arc<Claim>> {
        match self {
            Self::Open(open) => Some(&open.claim),
            Self::Nothing(_) | Self::Slow(..) | Self::Unrecovered(..) => None,
        }
    }

    /// Whether the claim was gone when the attempt began.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Open(open) if open.gone)
    }
}
