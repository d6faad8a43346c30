//! The two controllers of csi-snapshotter in one process.

use sidecar::controller::reactor::Reactor;
use sidecar::text::Text;
use sidecar_testkit::sim::rest::remembered;
use snapshotter::plan::reactor::Change;

use super::super::kind::Server;
use super::super::mutant::Mutant;
use super::super::process::{Process, Program};
use super::{Grouped, Single, Snapshotter};

/// One process of the program.
pub(in super::super) struct Both {
    pub(in super::super) single: Process<Snapshotter<Single>>,
    pub(in super::super) grouped: Process<Snapshotter<Grouped>>,
}

impl Both {
    /// A process whose two controllers are these mutants.
    pub(in super::super) fn start(single: Mutant, grouped: Mutant) -> Self {
        Self {
            single: Process::start(single),
            grouped: Process::start(grouped),
        }
    }

    pub(in super::super) fn is_busy(&self) -> bool {
        self.single.is_busy() || self.grouped.is_busy()
    }

    pub(in super::super) fn is_current(&self, server: &Server) -> bool {
        let Self { single, grouped } = self;
        single.known.news(server).is_empty() && grouped.known.news(server).is_empty()
    }

    pub(in super::super) fn wait(&mut self, seconds: u64) {
        self.single.attempts.wait(seconds);
        self.grouped.attempts.wait(seconds);
    }

    /// Keys that wait for a retry.
    pub(in super::super) fn later(&self) -> Vec<&Text> {
        let all = self.single.attempts.later.keys();
        all.chain(self.grouped.attempts.later.keys()).collect()
    }

    /// Everything that it still remembers, in words.
    pub(in super::super) fn not_empty(&self) -> Vec<String> {
        let single = self.single.attempts.reactor.in_flight();
        let mut left = remembered(single, &Default::default(), &[]);
        let grouped = self.grouped.attempts.reactor.in_flight();
        left.extend(remembered(grouped, &Default::default(), &[]));
        left
    }

    pub(in super::super) fn driver_is_back(&mut self) {
        let Self { single, grouped } = self;
        let reactor = &mut single.attempts.reactor;
        let due = reactor.observe(Change::DriverBack, &single.known);
        single.take(due);
        let reactor = &mut grouped.attempts.reactor;
        let due = reactor.observe(Change::DriverBack, &grouped.known);
        grouped.take(due);
    }
}
