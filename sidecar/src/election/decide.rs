//! Leader election as a pure decision, with client-go's semantics.
//!
//! Whether a lease is free is judged by how long this process has seen it unchanged on its own
//! monotonic clock; the times written in it are never compared with a clock. Each call of
//! [`Election::next`] names the one next step; the shell takes it and reports the answer.
//!
//! Differs from client-go in three things. Someone else's name in the lease ends leadership at once,
//! not after the renew deadline. Leadership ends before the lease can be seen as expired by anybody,
//! which client-go's default timing does not guarantee. And a leader whose renewal failed tries again
//! sooner, so that it outlives longer outages of the API server all the same.

use std::time::{Duration, Instant};

pub use super::timing::{Timing, TimingError};

/// client-go's `JitterFactor`: standbys wait between 1 and 2.2 retry periods.
const JITTER: f64 = 1.2;

/// What a lease says. Times are kept as texts: they are only ever compared for equality.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// `spec.holderIdentity`; empty if nobody holds it
    pub holder: String,
    /// `spec.leaseDurationSeconds`
    pub seconds: Option<u64>,
    /// `spec.leaseTransitions`
    pub transitions: i64,
    /// `spec.acquireTime`
    pub acquired: String,
    /// `spec.renewTime`
    pub renewed: String,
}

/// What to write into the lease; the renew time is always now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// `spec.holderIdentity`
    pub holder: String,
    /// `spec.leaseDurationSeconds`
    pub seconds: u64,
    /// `spec.leaseTransitions`
    pub transitions: i64,
    /// `spec.acquireTime`: as it is, or now if `None`
    pub acquired: Option<String>,
}

/// Why leadership ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No renewal succeeded in time.
    #[error("the lease could not be renewed for {}s", .0.as_secs_f32())]
    NotRenewed(Duration),
    /// The lease names somebody else.
    #[error("the lease is held by {0:?}")]
    TakenBy(String),
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Read the lease, then report [`Election::found`], `not_found` or `failed`.
    Get,
    /// Create the lease, then report `written`, `conflict` or `failed`.
    Create(Claim),
    /// Write to the lease as it was last seen, then report `written`, `conflict` or `failed`.
    Update(Claim),
    /// Nothing to do before this time.
    Wait(Instant),
    /// Leadership is over.
    StepDown(Lost),
}

#[derive(Debug)]
struct Observed {
    record: Record,
    since: Instant,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Until the next attempt.
    Rest(Instant),
    Read,
    Create,
    Write,
    Over(Lost),
}

/// One process' part in the election.
#[derive(Debug)]
pub struct Election {
    identity: String,
    /// Holders whose names end like this have lost the right to work.
    succeeds: Option<String>,
    timing: Timing,
    observed: Option<Observed>,
    phase: Phase,
    /// Start of the request that last wrote our name; none while we do not lead.
    renewed: Option<Instant>,
    attempt: Instant,
}

impl Election {
    /// A standby that will ask at once.
    pub fn new(identity: impl Into<String>, timing: Timing, now: Instant) -> Self {
        let (identity, phase) = (identity.into(), Phase::Rest(now));
        Self {
            identity,
            succeeds: None,
            timing,
            observed: None,
            phase,
            renewed: None,
            attempt: now,
        }
    }

    /// As a standby takes the lease at once from a holder whose name ends with `mark`: such holders
    /// work under another lease as well, which this process holds now.
    #[must_use]
    pub fn succeeding(mut self, mark: impl Into<String>) -> Self {
        self.succeeds = Some(mark.into());
        self
    }

    /// Start of the last successful renewal, if this process leads.
    pub fn leading_since_renewal(&self) -> Option<Instant> {
        self.renewed
    }

    /// Who holds the lease as last seen.
    pub fn holder(&self) -> Option<&str> {
        self.observed
            .as_ref()
            .map(|observed| observed.record.holder.as_str())
    }

    /// When leadership ends unless it is renewed before.
    pub fn deadline(&self) -> Option<Instant> {
        self.renewed
            .and_then(|renewed| renewed.checked_add(self.timing.hold()))
    }

    /// The next step. An attempt begins with the first step after a wait.
    pub fn next(&mut self, now: Instant) -> Step {
        if let (Some(deadline), Some(renewed)) = (self.deadline(), self.renewed)
            && now >= deadline
        {
            return self.step_down(Lost::NotRenewed(now.saturating_duration_since(renewed)));
        }
        if let Phase::Rest(until) = self.phase {
            if now < until {
                return Step::Wait(
                    self.deadline()
                        .map_or(until, |deadline| until.min(deadline)),
                );
            }
            self.attempt = now;
            self.phase = if self.renewed.is_some() {
                Phase::Write
            } else {
                Phase::Read
            };
        }
        match &self.phase {
            Phase::Rest(until) => Step::Wait(*until),
            Phase::Read => Step::Get,
            Phase::Create => Step::Create(self.claim(None)),
            Phase::Write => {
                Step::Update(self.claim(self.observed.as_ref().map(|seen| &seen.record)))
            }
            Phase::Over(lost) => Step::StepDown(lost.clone()),
        }
    }

    /// The lease was read.
    pub fn found(&mut self, record: Record, now: Instant, unit_random: f64) {
        self.observe(record, now);
        let holder = self.holder().unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            self.phase = Phase::Write;
        } else if self.renewed.is_some() {
            let lost = Lost::TakenBy(holder.to_owned());
            self.step_down(lost);
        } else if self.is_predecessor(holder) || self.is_expired(now) {
            self.phase = Phase::Write;
        } else {
            self.rest(now, unit_random);
        }
    }

    /// There is no lease.
    pub fn not_found(&mut self) {
        self.phase = Phase::Create;
    }

    /// The lease was created or written by the request that began at `started`. Whether this made
    /// this process the leader.
    pub fn written(&mut self, record: Record, started: Instant, now: Instant) -> bool {
        self.observe(record, now);
        let new = self.renewed.replace(started).is_none();
        // client-go renews once right after it acquired.
        let rest = if new {
            Duration::ZERO
        } else {
            self.timing.renewal_period()
        };
        self.phase = Phase::Rest(started.checked_add(rest).unwrap_or(started));
        new
    }

    /// The lease changed between reading and writing, or is there or gone unexpectedly. Whether this
    /// is a leader that must now take the slow path of reading again.
    pub fn conflict(&mut self, now: Instant, unit_random: f64) -> bool {
        if self.renewed.is_some() {
            self.phase = Phase::Read;
            return true;
        }
        self.rest(now, unit_random);
        false
    }

    /// The request failed or its outcome is unknown.
    pub fn failed(&mut self, now: Instant, unit_random: f64) {
        self.rest(now, unit_random);
    }

    /// What to write so that somebody else can take over at once; `None` if the lease is not ours.
    pub fn release(&self) -> Option<Claim> {
        let Observed { record, .. } = self.observed.as_ref()?;
        (record.holder == self.identity).then(|| Claim {
            holder: String::new(),
            seconds: 1,
            transitions: record.transitions,
            acquired: None,
        })
    }

    /// Takes note of what the lease says without deciding anything.
    pub fn observe(&mut self, record: Record, now: Instant) {
        if self
            .observed
            .as_ref()
            .is_none_or(|observed| observed.record != record)
        {
            self.observed = Some(Observed { record, since: now });
        }
    }

    fn claim(&self, old: Option<&Record>) -> Claim {
        let ours = old.filter(|record| record.holder == self.identity);
        Claim {
            holder: self.identity.clone(),
            seconds: self.timing.lease_seconds(),
            transitions: match (ours, old) {
                (Some(record), _) => record.transitions,
                (None, Some(record)) => record.transitions.saturating_add(1),
                (None, None) => 0,
            },
            acquired: ours
                .map(|record| record.acquired.clone())
                .filter(|time| !time.is_empty()),
        }
    }

    fn is_predecessor(&self, holder: &str) -> bool {
        let mark = self.succeeds.as_deref();
        mark.is_some_and(|mark| holder.ends_with(mark))
    }

    /// By the duration in the lease itself; by ours if it has none, which only a lease written by
    /// hand has.
    fn is_expired(&self, now: Instant) -> bool {
        self.observed
            .as_ref()
            .is_none_or(|Observed { record, since }| {
                let valid = record
                    .seconds
                    .map_or(self.timing.lease(), Duration::from_secs);
                since.checked_add(valid).is_some_and(|end| now >= end)
            })
    }

    /// A leader tries again soon, a standby some time later.
    fn rest(&mut self, now: Instant, unit_random: f64) {
        let until = if self.renewed.is_some() {
            let next = self.attempt.checked_add(self.timing.hurry());
            next.map(|until| until.max(now))
        } else {
            let factor = 1.0 + JITTER * unit_random.clamp(0.0, 1.0);
            now.checked_add(self.timing.retry_period().mul_f64(factor))
        };
        self.phase = Phase::Rest(until.unwrap_or(now));
    }

    fn step_down(&mut self, lost: Lost) -> Step {
        self.renewed = None;
        self.phase = Phase::Over(lost.clone());
        Step::StepDown(lost)
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
