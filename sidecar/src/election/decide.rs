//! Leader election as a pure decision, with client-go's semantics.
//!
//! A lease is free once this process has seen it unchanged for long enough on its own monotonic
//! clock; the times written in it are never compared with a clock. Each call of [`Election::next`]
//! returns the next step; the shell executes it and reports the result.
//!
//! Three differences from client-go: another holder in the lease ends leadership at once, not after
//! the renew deadline. Leadership ends before anybody can see the lease as expired, which client-go's
//! default timing does not guarantee. A leader whose renewal failed retries sooner, so that it
//! survives longer outages of the API server all the same.

use std::time::{Duration, Instant};

pub use super::timing::{Timing, TimingError};

/// client-go's `JitterFactor`: standbys wait between 1 and 2.2 retry periods.
const JITTER: f64 = 1.2;

/// A Lease's spec. Times are kept as texts: they are only compared for equality.
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

/// The spec to write into the Lease; the renew time is always now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// `spec.holderIdentity`
    pub holder: String,
    /// `spec.leaseDurationSeconds`
    pub seconds: u64,
    /// `spec.leaseTransitions`
    pub transitions: i64,
    /// `spec.acquireTime`: keep this value, or now if `None`
    pub acquired: Option<String>,
}

/// Why leadership ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No renewal succeeded within this time.
    #[error("the lease could not be renewed for {}s", .0.as_secs_f32())]
    NotRenewed(Duration),
    /// The lease names this other holder.
    #[error("the lease is held by {0:?}")]
    TakenBy(String),
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// GET the lease, then report [`Election::found`], `not_found` or `failed`.
    Get,
    /// Create the lease, then report `written`, `conflict` or `failed`.
    Create(Claim),
    /// Update the lease version that was seen last, then report `written`, `conflict` or `failed`.
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
    /// Waits until the next attempt.
    Rest(Instant),
    Read,
    Create,
    Write,
    Over(Lost),
}

/// One process's state in the election.
#[derive(Debug)]
pub struct Election {
    identity: String,
    /// Holders whose names end with this have lost the right to work.
    succeeds: Option<String>,
    timing: Timing,
    observed: Option<Observed>,
    phase: Phase,
    /// Start of the request that last wrote our name; `None` while we do not lead.
    renewed: Option<Instant>,
    attempt: Instant,
}

impl Election {
    /// A standby that reads the lease at once.
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

    /// Makes a standby take the lease at once from a holder whose name ends with `mark`: such holders
    /// also work under another lease, which this process now holds.
    #[must_use]
    pub fn succeeding(mut self, mark: impl Into<String>) -> Self {
        self.succeeds = Some(mark.into());
        self
    }

    /// Start of the last successful renewal, if this process leads.
    pub fn leading_since_renewal(&self) -> Option<Instant> {
        self.renewed
    }

    /// The holder of the lease as last seen.
    pub fn holder(&self) -> Option<&str> {
        self.observed
            .as_ref()
            .map(|observed| observed.record.holder.as_str())
    }

    /// The time at which leadership ends unless the lease is renewed.
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

    /// Reports that the lease was read.
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

    /// Reports that the lease does not exist.
    pub fn not_found(&mut self) {
        self.phase = Phase::Create;
    }

    /// Reports that the request that began at `started` created or updated the lease. Returns whether
    /// this made this process the leader.
    pub fn written(&mut self, record: Record, started: Instant, now: Instant) -> bool {
        self.observe(record, now);
        let new = self.renewed.replace(started).is_none();
        // client-go renews once right after acquiring.
        let rest = if new {
            Duration::ZERO
        } else {
            self.timing.renewal_period()
        };
        self.phase = Phase::Rest(started.checked_add(rest).unwrap_or(started));
        new
    }

    /// Reports that the lease changed between reading and writing, or unexpectedly exists or is gone.
    /// Returns whether this process leads and must take the slow path of reading again.
    pub fn conflict(&mut self, now: Instant, unit_random: f64) -> bool {
        if self.renewed.is_some() {
            self.phase = Phase::Read;
            return true;
        }
        self.rest(now, unit_random);
        false
    }

    /// Reports that the request failed or its outcome is unknown.
    pub fn failed(&mut self, now: Instant, unit_random: f64) {
        self.rest(now, unit_random);
    }

    /// The spec to write so that another process can take over at once; `None` if the lease is not
    /// ours.
    pub fn release(&self) -> Option<Claim> {
        let Observed { record, .. } = self.observed.as_ref()?;
        (record.holder == self.identity).then(|| Claim {
            holder: String::new(),
            seconds: 1,
            transitions: record.transitions,
            acquired: None,
        })
    }

    /// Records the observed lease without deciding anything.
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

    /// Uses the duration in the lease, or ours if it has none; only a lease written by hand has none.
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

    /// Schedules the next attempt: soon for a leader, some time later for a standby.
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
