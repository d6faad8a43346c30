//! The leases on the API server.

use std::time::{Duration, Instant};

use sidecar::election::decide::{Claim, Record};

/// A controller, identified by its lease.
pub(super) type Controller = usize;

#[derive(Clone, Debug)]
pub(super) enum Write {
    Create(Claim),
    /// Replaces this version.
    Update(Claim, Option<u64>),
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    Get,
    Write(Write),
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Lease(Record, u64),
    NotFound,
    Conflict,
}

#[derive(Debug, Default)]
pub(super) struct Server {
    leases: Vec<Option<(Record, u64)>>,
    /// Writes whose sender no longer waits for them.
    pub(super) late: Vec<(Controller, Write)>,
    pub(super) writes: u64,
    /// Number of times that a lease changed hands without being released.
    pub(super) taken: usize,
    /// Number of times that a lease was requested at once because its holder had lost the head.
    pub(super) inherited: usize,
}

impl Server {
    pub(super) fn new(controllers: usize) -> Self {
        Self {
            leases: vec![None; controllers],
            ..Self::default()
        }
    }

    pub(super) fn carry_out(&mut self, of: Controller, request: &Request) -> Answer {
        match request {
            Request::Get => match &self.leases[of] {
                Some((record, version)) => Answer::Lease(record.clone(), *version),
                None => Answer::NotFound,
            },
            Request::Write(write) => self.write(of, write),
        }
    }

    pub(super) fn write(&mut self, of: Controller, write: &Write) -> Answer {
        let version = self.leases[of].as_ref().map(|(_, version)| *version);
        let (claim, expected) = match write {
            Write::Create(claim) => (claim, None),
            Write::Update(_, _) if version.is_none() => return Answer::NotFound,
            Write::Update(claim, seen) => (claim, *seen),
        };
        if version != expected {
            return Answer::Conflict;
        }
        self.writes += 1;
        let record = Record {
            holder: claim.holder.clone(),
            seconds: Some(claim.seconds),
            transitions: claim.transitions,
            acquired: { claim.acquired.clone() }.unwrap_or_else(|| self.writes.to_string()),
            renewed: self.writes.to_string(),
        };
        if let Some((old, _)) = &self.leases[of] {
            let others = !old.holder.is_empty() && old.holder != record.holder;
            self.taken += usize::from(others && !record.holder.is_empty());
        }
        self.leases[of] = Some((record.clone(), self.writes));
        Answer::Lease(record, self.writes)
    }

    /// Somebody writes another holder into the lease by hand.
    pub(super) fn edit(&mut self, of: Controller, seconds: u64) {
        let seen = self.leases[of].as_ref().map(|(_, version)| *version);
        let claim = Claim {
            holder: "by-hand".to_owned(),
            seconds,
            transitions: 0,
            acquired: None,
        };
        if seen.is_some() {
            self.write(of, &Write::Update(claim, seen));
        }
    }

    pub(super) fn holder(&self, of: Controller) -> &str {
        self.leases[of]
            .as_ref()
            .map_or("", |(record, _)| &record.holder)
    }
}

/// A lease as older versions of client-go evaluate it.
pub(super) fn judged(record: Record, own_duration: Option<u64>) -> Record {
    Record {
        seconds: own_duration.or(record.seconds),
        ..record
    }
}

/// The time on a clock that runs at `speed` thousandths.
pub(super) fn at(start: Instant, passed: Duration, speed: u64) -> Instant {
    let nanos = passed.as_nanos() * u128::from(speed) / 1000;
    start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
