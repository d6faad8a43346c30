//! One run: chooses the next event; other clients that change objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sidecar_testkit::sim::Dice;
use sidecar_testkit::sim::server::{Part, Server};

use super::driver::Driver;
use super::mutant::Mutant;
use super::process::{Kind, Process};
use crate::plan::Key;
use crate::plan::mode::Mode;

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// All faults.
    All,
    /// The process stops at any point.
    Crashes,
    /// No faults, but events still arrive late.
    None,
}

/// Number of volumes; each has a handle and a claim of the same number.
const VOLUMES: usize = 3;

const STEPS: usize = 200;

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    pub(super) mutant: Mutant,
    pub(super) server: Server<Kind>,
    pub(super) driver: Driver,
    pub(super) mode: Mode,
    pub(super) process: Process,
    /// Whether the API server stores health conditions.
    pub(super) gate: bool,
    /// Whether the driver answers no call.
    pub(super) stuck: bool,
    /// Writes that no process waits for any more: key, UID, body.
    pub(super) late: Vec<(String, Option<String>, Value)>,
    /// The last write to each claim, until somebody else changes it.
    pub(super) written: BTreeMap<String, Value>,
    /// When the running process learnt that the API server drops conditions; `None` if it has stored some since.
    pub(super) dropped: Option<std::time::Instant>,
    /// UIDs of claims with an event about a fault and none about the recovery.
    pub(super) told: BTreeSet<String>,
    pub(super) writes: usize,
    pub(super) violation: Option<String>,
}

/// Runs one interleaving.
pub(super) fn run(seed: u64, faults: Faults, mutant: Mutant) -> Result<(), String> {
    let mut world = World::new(Dice::new(seed), faults, mutant);
    for _ in 0..STEPS {
        world.next();
        if let Some(violation) = world.violation {
            return Err(violation);
        }
    }
    world.rest()
}

pub(super) fn handle(number: usize) -> String {
    format!("h{number}")
}

pub(super) fn claim(number: usize) -> String {
    format!("ns/c{number}")
}

impl World {
    fn new(mut dice: Dice, faults: Faults, mutant: Mutant) -> Self {
        let modes = [
            Mode::ListHealth { get: true },
            Mode::ListHealth { get: false },
            Mode::GetHealth,
            Mode::ListConditions,
            Mode::GetConditions,
        ];
        let mode = *dice.of(&modes);
        let mut world = Self {
            server: Server::default(),
            driver: Driver {
                lists_alone: mode == Mode::ListHealth { get: false },
                ..Driver::default()
            },
            mode,
            process: Process::start(mode, mutant),
            gate: faults != Faults::All || !dice.one_in(3),
            stuck: false,
            late: Vec::new(),
            written: BTreeMap::new(),
            dropped: None,
            told: BTreeSet::new(),
            writes: 0,
            violation: None,
            dice,
            faults,
            mutant,
        };
        for number in 0..VOLUMES {
            world.make(number);
        }
        world
    }

    pub(super) fn handles(&self) -> Vec<String> {
        (0..VOLUMES).map(handle).collect()
    }

    pub(super) fn violated(&mut self, what: impl Into<String>) {
        self.violation.get_or_insert(what.into());
    }

    fn next(&mut self) {
        match self.dice.below(12) {
            0 => self.somebody_acts(),
            1 => {
                let seconds = *self.dice.of(&[1, 20, 60, 300, 700]);
                self.process.attempts.wait(seconds);
            }
            2 if self.faults != Faults::None && self.dice.one_in(6) => self.crash(),
            2 if !self.late.is_empty() => self.arrives(),
            3..=5 => self.hear(),
            6 | 7 => {
                let key = { &self.process.attempts }.choose(&mut self.dice, 4);
                if let Some(key) = key {
                    self.process.begin(&key);
                }
            }
            _ => self.advance_any(),
        }
    }

    pub(super) fn hear(&mut self) {
        let news = self.process.news(&self.server);
        if !news.is_empty() {
            let kind = *self.dice.of(&news);
            let breaks = self.faults != Faults::None && self.dice.one_in(20);
            self.process.hear(kind, &self.server, breaks);
        }
    }

    pub(super) fn advance_any(&mut self) {
        let running = self.process.attempts.running.len();
        if running > 0 {
            let index = self.dice.below(running);
            self.advance(index);
        }
    }

    /// Stops the process and starts another one. Requests in flight may arrive later.
    fn crash(&mut self) {
        self.abandon();
        self.process = Process::start(self.mode, self.mutant);
        self.driver.forget();
        self.dropped = None;
    }

    /// Delivers or drops a write that no process waits for any more.
    pub(super) fn arrives(&mut self) {
        let index = self.dice.below(self.late.len());
        let (key, uid, body) = self.late.remove(index);
        if self.dice.one_in(2) {
            let mut body = body;
            if let Some(uid) = uid {
                body["metadata"]["uid"] = uid.into();
            }
            // No process learns whether the server refused it.
            let _ = self.server.patch(Kind::Claim, &key, Part::Status, &body);
            self.written.remove(&key);
        }
    }

    fn somebody_acts(&mut self) {
        let number = self.dice.below(VOLUMES);
        match self.dice.below(10) {
            0..=4 => self.turns(number),
            5 => {
                self.destroy(number);
                self.make(number);
            }
            6 => self.somebody_writes(number),
            7 => self.gate = true,
            8 if self.faults == Faults::All => self.comes_back(),
            _ => {}
        }
    }

    /// Changes the health of a volume.
    fn turns(&mut self, number: usize) {
        let count = self.dice.below(3);
        let mut conditions: Vec<(i32, char)> = (0..count)
            .map(|_| (*self.dice.of(&[1, 2, 3]), *self.dice.of(&['A', 'B'])))
            .collect();
        conditions.sort_unstable();
        conditions.dedup();
        match conditions.is_empty() {
            true => self.driver.health.remove(&handle(number)),
            false => self.driver.health.insert(handle(number), conditions),
        };
    }

    /// Somebody else changes a claim's health conditions.
    fn somebody_writes(&mut self, number: usize) {
        let health = match self.dice.one_in(2) {
            true => Value::Null,
            false => {
                json!({"healthConditions": [{"status": "Degraded", "reason": "B", "message": "x"}]})
            }
        };
        { &mut self.server }.edit(Kind::Claim, &claim(number), |claim| {
            claim["status"]["healthStatus"] = health;
        });
        self.written.remove(&claim(number));
    }

    fn comes_back(&mut self) {
        let modes = [
            Mode::Nothing,
            Mode::ListHealth { get: true },
            Mode::ListHealth { get: false },
            Mode::GetHealth,
            Mode::ListConditions,
            Mode::GetConditions,
            self.mode,
        ];
        self.mode = *self.dice.of(&modes);
        self.driver.lists_alone = self.mode == Mode::ListHealth { get: false };
        self.process.driver_is_back(self.mode);
    }

    /// Creates a claim and a volume bound to each other. Names repeat, UIDs do not.
    fn make(&mut self, number: usize) {
        let created = self.server.create(
            Kind::Claim,
            json!({
                "metadata": {"namespace": "ns", "name": format!("c{number}"), "finalizers": ["a/b"]},
                "spec": {"volumeName": format!("pv{number}")},
                "status": {"phase": "Bound"},
            }),
        );
        let Ok(created) = created else { return };
        let created: Value = serde_json::from_str(&created).unwrap();
        let volume = json!({
            "metadata": {"name": format!("pv{number}")},
            "spec": {
                "csi": {"driver": "test.csi.driver", "volumeHandle": handle(number)},
                "claimRef": {
                    "namespace": "ns", "name": format!("c{number}"), "uid": created["metadata"]["uid"],
                },
            },
            "status": {"phase": "Bound"},
        });
        { &mut self.server }.create(Kind::Volume, volume).unwrap();
    }

    /// Deletes both, the claim first, so that the volume briefly refers to a deleted claim.
    pub(super) fn destroy(&mut self, number: usize) {
        self.server.strip(Kind::Claim, &claim(number));
        self.server.strip(Kind::Volume, &format!("pv{number}"));
        self.written.remove(&claim(number));
    }

    /// The keys that are due, for a run that must come to rest.
    pub(super) fn due(&self) -> Vec<Key> {
        self.process.attempts.startable()
    }
}
