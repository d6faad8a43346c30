//! One provisioner process: the shipped controller, caches with late events, queues that are sets, and attempts that
//! advance step by step.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::controller::reactor::Verdict;
use sidecar_testkit::sim::attempts::{self, Attempts, Simulated};
use sidecar_testkit::sim::watch::Versioned;

use super::deliver::KINDS;
use super::informers::Informers;
use super::mutant::Mutant;
use super::run::{Case, Faults};
use super::scene::segment;
use super::server::Server;
use crate::model::{Claim, Pairs, VolumeDetail};
use crate::plan::in_flight::{ClaimKey, InFlightState};
use crate::plan::journal::{Journal, Owner, Request, Ticket};
use crate::plan::ownership::Pace;
use crate::plan::reactor::{Change, Failed, Key, Reply, Setup, Step};
use crate::plan::request::PinnedRequest;
use crate::plan::settings::{NodeDeployment, Protection};
use crate::plan::topology::TopologyIndex;
use crate::plan::{Provisioner, event};

/// Wakes and notices of the controller.
pub(super) type Due = sidecar::controller::reactor::DueOf<Provisioner>;

pub(super) type Running = attempts::Running<Process>;
pub(super) type State = attempts::State<Process>;

/// Events that a step waits for, besides answers of the API server and of the driver.
pub(super) enum Waiting {
    /// The claim was read in this version; its update is not applied yet.
    Update(u64),
    /// The journal has to commit this change.
    Journal(Ticket),
}

impl Simulated for Process {
    type Reactor = Provisioner;
    type Object = Written;
    type Waiting = Waiting;
    type Note = ();
}

/// The object that a write returned.
pub(super) enum Written {
    Claim(Versioned<Claim>),
    Volume(Versioned<VolumeDetail>),
}

pub(super) struct Process {
    /// Index among several.
    pub(super) site: usize,
    pub(super) attempts: Attempts<Self>,
    pub(super) informers: Informers,
    pub(super) mutant: Mutant,
    /// Node deployment: this process's node.
    pub(super) node: Option<NodeDeployment>,
    /// Kinds of objects that are not listed yet.
    pub(super) filling: Vec<usize>,
    /// A volume has to be looked at again after a pause, because of the reply to an own write.
    pub(super) follows: bool,
    protection: Protection,
    /// The journal's request under way, and its send time.
    pub(super) asking: Option<(Request, Instant)>,
    /// The header that the journal wrote last.
    pub(super) header: Option<String>,
    /// The process found the journal without its first object.
    pub(super) headless: bool,
    /// The process found out that another process leads.
    pub(super) fenced: bool,
    /// The calls of earlier processes were taken over.
    pub(super) recovered: bool,
    /// Claims whose calls were taken over from another process.
    pub(super) resumed: BTreeSet<ClaimKey>,
}

/// Time for which an infeasible request is not repeated.
pub(super) const RETENTION: Duration = Duration::from_secs(300);

const PACE: Pace = Pace {
    base: Duration::from_secs(20),
    max: Duration::from_secs(60),
};

impl Process {
    /// A process that has just started: it has no lists yet, unless the run has no faults.
    pub(super) fn start(
        server: &Server,
        case: Case,
        mutant: Mutant,
        site: usize,
        (strict, number): (bool, u64),
    ) -> Self {
        let Case {
            scene, protection, ..
        } = case;
        let node = scene.node(site);
        let labels = node.as_ref().map(|node| {
            let labels = segment(&node.name);
            let texts = labels.iter().flat_map(|(key, value)| [key, value]);
            Pairs::new(texts.cloned().collect())
        });
        let mut settings = scene.settings(protection, site, strict);
        mutant.configures(&mut settings);
        let mut driver = scene.driver();
        // Flags and capabilities differ from those of the former process.
        settings.extra_create_metadata = number % 3 == 1;
        driver.abilities.single_node_multi_writer = number % 4 == 2;
        let setup = Setup {
            settings,
            retention: RETENTION,
            topology: match &node {
                Some(node) => TopologyIndex::of_node(&node.name, &segment(&node.name)),
                None => TopologyIndex::default(),
            },
            node: labels.filter(|_| mutant != Mutant::DeletesElsewhere),
            pace: PACE,
            seed: number,
        };
        let journal = Journal::new(Owner {
            lease: "test-driver".into(),
            driver: "test-driver".into(),
            node: { node.as_ref() }
                .map(|node| node.name.to_string())
                .unwrap_or_default(),
            holder: format!("process-{number}"),
            labels: Vec::new(),
        });
        // Intents share an object, or each has its own.
        let journal = if strict { journal.crowded() } else { journal };
        let journal = journal.small();
        let journal = (protection == Protection::Journal).then_some(journal);
        let mut process = Self {
            site,
            // The model API server dates the objects.
            attempts: Attempts::new(Provisioner::new(setup, journal), "1970-01-01T00:00:00Z"),
            informers: Informers::new(driver, mutant),
            mutant,
            node,
            filling: (0..KINDS).collect(),
            follows: false,
            protection,
            asking: None,
            header: None,
            headless: false,
            fenced: false,
            recovered: false,
            resumed: BTreeSet::new(),
        };
        if case.faults == Faults::None {
            process.list(server);
        }
        process
    }

    pub(super) fn in_flight(&self) -> &InFlightState<PinnedRequest> {
        self.attempts.reactor.in_flight()
    }

    /// The journal. Only called where there is one.
    pub(super) fn journal(&mut self) -> &mut Journal {
        self.attempts.reactor.journal().unwrap()
    }

    /// Whether the driver may be called for claims.
    pub(super) fn is_open(&mut self) -> bool {
        self.protection == Protection::Off || self.journal().is_open()
    }

    /// Whether all lists that decisions need have arrived.
    pub(super) fn may_work(&self) -> bool {
        self.filling.is_empty() || self.mutant == Mutant::StartsEarly
    }

    /// Resyncs all claims.
    pub(super) fn resync(&mut self) {
        let driver = Arc::clone(&self.informers.driver);
        let claims = self.informers.claims.slots.iter();
        let claims: Vec<_> = { claims.map(|(_, claim)| claim) }
            .filter(|claim| event::is_work_for_claim(None, claim, &driver))
            .cloned()
            .collect();
        for claim in &claims {
            self.changed(Change::ClaimResync(claim));
        }
    }

    /// Continues the calls of earlier processes, or takes in others' changes of the journal.
    pub(super) fn recover(&mut self, now: Instant) {
        self.informers.hidden.volumes = self.mutant == Mutant::RecoversEarly;
        let provisioner = &mut self.attempts.reactor;
        let due = if std::mem::replace(&mut self.recovered, true) {
            provisioner.learn(&self.informers, now)
        } else {
            provisioner.recover(&self.informers, now)
        };
        self.informers.hidden.volumes = false;
        let pending_creates = provisioner.in_flight().pending_creates();
        let resumed = pending_creates.filter(|(_, pending)| !pending.sent_earlier.is_empty());
        self.resumed.extend(resumed.map(|(key, _)| key.clone()));
        self.attempts.take(due);
    }

    /// Starts an attempt on a queued key.
    pub(super) fn begin(&mut self, key: &Key, now: Instant) {
        self.attempts.dequeue(key);
        if self.mutant.leaves(key, self) {
            return;
        }
        let attempts = &mut self.attempts;
        attempts.now.instant = now;
        let hidden = self.mutant.hides_pending(key, &mut attempts.reactor);
        attempts.begin(key, &self.informers);
        if let Key::Claim(key) = key {
            attempts.reactor.in_flight_mut().show_pending(key, hidden);
        }
    }

    /// The next step of attempt `index`; `None` once the attempt has ended.
    pub(super) fn decide(&mut self, index: usize, now: Instant) -> Option<Step> {
        self.attempts.now.instant = now;
        let key = self.attempts.running[index].key.clone();
        self.informers.hidden = self.mutant.hides(&key, &self.resumed);
        let step = self.attempts.decide(index, &self.informers);
        self.informers.hidden = Default::default();
        match step {
            Some(step) => Some(self.mutant.decides(step, &key, &self.informers)),
            None => {
                self.end(index);
                None
            }
        }
    }

    fn end(&mut self, index: usize) {
        let (mutant, attempts) = (self.mutant, &mut self.attempts);
        let keeps = mutant == Mutant::KeepsIntents;
        let hidden = keeps.then(|| attempts.reactor.hide_journal());
        let (key, verdict, due) = attempts.end(index, &self.informers);
        if let Some(hidden) = hidden {
            attempts.reactor.show_journal(hidden);
        }
        let due = mutant.ends(&key, &verdict, due, self);
        let attempts = &mut self.attempts;
        match &verdict {
            Verdict::Retry { .. } if mutant == Mutant::ForgetsRetries => {}
            Verdict::Retry { failure, .. } if mutant.spins(failure) => {
                attempts.ready.insert(key);
            }
            Verdict::Done | Verdict::Retry { .. } | Verdict::After { .. } => {
                let follows = |failure: &Failed| matches!(failure, Failed::Follows);
                self.follows |=
                    matches!(&verdict, Verdict::Retry { failure, .. } if follows(failure));
                attempts.settle(key, &verdict);
            }
        }
        attempts.take(due);
    }

    /// Gives the reply to the last step of attempt `index` to the controller.
    pub(super) fn answer(&mut self, index: usize, reply: Reply) {
        let attempts = &mut self.attempts;
        let reply = self.mutant.hears(reply);
        self.mutant.settles(&reply, &mut attempts.reactor);
        let saves = super::mutant::is_save(&reply);
        let due = attempts.answer(index, reply, &self.informers);
        if !(saves && self.mutant == Mutant::LeavesSaved) {
            attempts.take(due);
        }
    }
}

/// The record of a claim that the cache keeps.
pub(super) fn keep(claim: &Claim) -> Option<Claim> {
    claim.is_actionable().then(|| claim.clone())
}
