//! One health monitor process: the shipped controller, caches fed by late events, sets as queues.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::reactor::{Reactor as _, Verdict};
use sidecar::kube::cache::store;
use sidecar_testkit::sim::attempts::{self, Attempts, Simulated};
use sidecar_testkit::sim::informer::{Informer, parts};
use sidecar_testkit::sim::server::{self, Server};

use super::mutant::Mutant;
use crate::model::{Claim, Text, Volume};
use crate::plan::mode::Mode;
use crate::plan::reactor::Change;
use crate::plan::{Driver, HealthMonitor, Informers, Key, Settings};

pub(super) type State = attempts::State<Process>;

/// The kinds of objects in the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Volume,
    Claim,
}

impl server::Kind for Kind {
    fn plural(self) -> &'static str {
        match self {
            Self::Volume => "persistentvolumes",
            Self::Claim => "persistentvolumeclaims",
        }
    }
}

/// The caches and the driver, as decisions read them.
pub(super) struct Known {
    pub(super) driver: Arc<Driver>,
    pub(super) claims: Informer<Kind, Claim>,
    pub(super) volumes: Informer<Kind, Volume>,
}

impl Informers for Known {
    fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.store.get(name).cloned()
    }

    fn claim(&self, key: &str) -> Option<Arc<Claim>> {
        self.claims.store.get(key).cloned()
    }

    fn unhealthy(&self) -> Vec<(Text, Arc<Claim>)> {
        let all = self
            .claims
            .store
            .iter()
            .filter(|(_, claim)| !claim.stored.is_empty());
        all.map(|(key, claim)| (key.as_str().into(), Arc::clone(claim)))
            .collect()
    }
}

pub(super) struct Process {
    pub(super) attempts: Attempts<Self>,
    pub(super) known: Known,
    mutant: Mutant,
    ready: bool,
}

impl Simulated for Process {
    type Reactor = HealthMonitor;
    type Object = Text;
    type Waiting = Infallible;
    /// Whether the API server stored the last written conditions, until the controller has handled the answer.
    type Note = Option<bool>;
}

pub(super) fn settings() -> Settings {
    Settings {
        interval: Duration::from_secs(60),
        list_interval: Duration::from_secs(300),
        workers: 2,
    }
}

impl Process {
    pub(super) fn start(mode: Mode, mutant: Mutant) -> Self {
        let driver = Driver {
            name: "test.csi.driver".to_owned(),
            mode,
        };
        Self {
            attempts: Attempts::new(HealthMonitor::new(settings()), "2026-01-02T03:04:05Z"),
            known: Known {
                driver: Arc::new(driver),
                claims: Informer::new(Kind::Claim),
                volumes: Informer::new(Kind::Volume),
            },
            mutant,
            ready: false,
        }
    }

    /// Kinds with undelivered events.
    pub(super) fn news(&self, server: &Server<Kind>) -> Vec<Kind> {
        let news = [
            self.known.claims.news(server),
            self.known.volumes.news(server),
        ];
        news.into_iter().flatten().collect()
    }

    /// Delivers the next list or event of a kind.
    pub(super) fn hear(&mut self, kind: Kind, server: &Server<Kind>, breaks: bool) {
        match kind {
            // The next report compares the claim's conditions, so their changes need no reaction.
            Kind::Claim => drop(self.known.claims.next(server, breaks)),
            Kind::Volume => {
                let changes = self.known.volumes.next(server, breaks);
                changes
                    .iter()
                    .for_each(|change| self.volume_changed(change));
            }
        }
        if !self.ready && self.known.claims.listed && self.known.volumes.listed {
            self.ready = true;
            self.changed(Change::Ready);
        }
    }

    fn volume_changed(&mut self, change: &store::Change<Volume>) {
        let (name, old, new, _) = parts(change);
        if self.mutant == Mutant::MissesTheEndOfVolumes && new.is_none() {
            return;
        }
        self.changed(Change::Volume { name, old, new });
    }

    fn changed(&mut self, change: Change<'_>) {
        let due = self.attempts.reactor.observe(change, &self.known);
        self.attempts.take(due);
    }

    /// The driver restarts, perhaps with other calls.
    pub(super) fn driver_is_back(&mut self, mode: Mode) {
        let name = self.known.driver.name.clone();
        self.known.driver = Arc::new(Driver { name, mode });
        self.changed(Change::DriverBack);
    }

    pub(super) fn begin(&mut self, key: &Key) {
        self.attempts.begin(key, &self.known);
    }

    /// Stores the claim in the answer to a write in the cache; `None` if the write failed.
    pub(super) fn absorb(&mut self, claim: &str, json: Option<&str>) {
        let json = json.filter(|_| self.mutant != Mutant::ForgetsOwnWrites);
        drop(self.known.claims.end_write(claim, json));
    }

    /// Ends attempt `index`.
    pub(super) fn finish(&mut self, index: usize) {
        let (key, verdict, mut due) = self.attempts.end(index, &self.known);
        if self.mutant == Mutant::NeverAsks && key == Key::Cycle {
            due.wakes.clear();
        }
        self.attempts.take(due);
        let at_once = Verdict::After {
            delay: Duration::ZERO,
            failure: None,
        };
        let has_failed = matches!(
            verdict,
            Verdict::After {
                failure: Some(_),
                ..
            }
        );
        if has_failed && self.mutant == Mutant::RetriesAtOnce {
            self.attempts.settle(key, &at_once);
            self.attempts.wait(0);
        } else {
            self.attempts.settle(key, &verdict);
        }
    }
}
