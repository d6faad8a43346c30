//! The calls to a driver, from its own record.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use anyhow::{Result, bail};
use csi_test_driver::instrument::record::{self, Call};
use csi_test_driver::invariants::{self, Invariant, Options};

/// Calls in the order of their arrival, including those without a response.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    calls: Vec<Call>,
}

impl Calls {
    /// Reads a record; a missing file counts as empty.
    pub fn read(record: &Path) -> Result<Self> {
        let calls = if record.exists() {
            record::read(record)?
        } else {
            Vec::new()
        };
        Ok(Self { calls })
    }

    fn only(&self, chosen: impl Fn(&Call) -> bool) -> Self {
        let calls = self.calls.iter().filter(|call| chosen(call));
        Self {
            calls: calls.cloned().collect(),
        }
    }

    /// Calls of a method (`ControllerPublishVolume`, …).
    pub fn of(&self, method: &str) -> Self {
        self.only(|call| call.method == method)
    }

    /// Calls about a volume handle.
    pub fn about(&self, volume: &str) -> Self {
        self.only(|call| call.volume == volume)
    }

    /// Calls that succeeded while their caller was still waiting.
    pub fn answered(&self) -> Self {
        self.only(|call| call.code.as_deref() == Some("OK") && !call.caller_gone)
    }

    /// Their volume handles.
    pub fn handles(&self) -> Vec<String> {
        let handles = self.calls.iter().map(|call| call.volume.clone());
        handles.collect()
    }

    /// Number of calls.
    pub fn count(&self) -> usize {
        self.calls.len()
    }

    /// All calls.
    pub fn iter(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    /// Fails if the calls break a rule for every container orchestrator.
    pub fn check(&self, options: &Options) -> Result<()> {
        self.check_but_overlaps_of(&BTreeSet::new(), options)
    }

    /// Like [`check`](Self::check), but calls of these processes may overlap each other: another
    /// project's controllers, which call without regard for one another.
    pub fn check_but_overlaps_of(&self, callers: &BTreeSet<u32>, options: &Options) -> Result<()> {
        let is_theirs = |call: &&Call| call.caller.is_some_and(|it| callers.contains(&it));
        let theirs = self.calls.iter().filter(is_theirs);
        let theirs: HashSet<_> = theirs.map(invariants::name_of).collect();
        let mut violations = invariants::check(&self.calls, options);
        violations.retain(|violation| {
            let overlap = violation.invariant == Invariant::Overlap;
            !(overlap && violation.calls.iter().all(|call| theirs.contains(call)))
        });
        if violations.is_empty() {
            return Ok(());
        }
        let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
        bail!(
            "the driver's record breaks rules:\n    {}",
            lines.join("\n    ")
        )
    }
}
