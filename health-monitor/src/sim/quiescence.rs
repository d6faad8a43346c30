//! The end of a run: faults stop, and the system comes to rest.

use sidecar_testkit::sim::rest::{drain, remembered};

use super::driver::Pairs;
use super::process::{Kind, settings};
use super::world::{Faults, World, claim, handle};
use crate::plan::HealthMonitor;
use crate::plan::mode::Mode;

/// Enough for the longest back-off and for the pause after the API server dropped conditions.
const ROUNDS: usize = 40;

/// Fields that may be non-empty although no volume is left.
const OF_NO_VOLUME: [&str; 13] = [
    "ready",
    "mode",
    "generation",
    "began",
    "last",
    "was_fresh",
    "slow",
    "field",
    "named",
    "next",
    "incomplete",
    "earlier",
    "refuses",
];

impl World {
    pub(super) fn rest(mut self) -> Result<(), String> {
        while !self.late.is_empty() {
            self.arrives();
        }
        if self.faults == Faults::All {
            // The driver answers no call, so that failed keys enter their back-off.
            self.stuck = true;
            self.work()?;
            self.stuck = false;
        }
        self.faults = Faults::None;
        // From here on, writes whose result the controller never learnt may be repeated.
        self.written.clear();
        self.gate = true;
        if self.mode == Mode::Nothing {
            self.mode = Mode::GetHealth;
            self.process.driver_is_back(self.mode);
        }
        for _ in 0..ROUNDS {
            self.work()?;
            self.process.attempts.wait(60);
        }
        self.work()?;
        self.is_right()?;
        let writes = self.writes;
        for _ in 0..10 {
            self.process.attempts.wait(60);
            self.work()?;
        }
        if self.writes != writes {
            return Err(format!("{} writes at rest", self.writes - writes));
        }
        for number in 0..self.handles().len() {
            self.destroy(number);
        }
        self.work()?;
        // The pace drops deleted volumes only when their turn comes.
        self.process.attempts.wait(60);
        self.work()?;
        let empty = HealthMonitor::new(settings());
        let left = remembered(&self.process.attempts.reactor, &empty, &OF_NO_VOLUME);
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("it remembers {left:?}")),
        }
    }

    /// Works until nothing is left to do without time passing.
    fn work(&mut self) -> Result<(), String> {
        let is_idle = |world: &mut Self| {
            world.process.news(&world.server).is_empty() && world.process.attempts.is_idle()
        };
        let work = |world: &mut Self| {
            if !world.process.news(&world.server).is_empty() {
                return world.hear();
            }
            match world.due().into_iter().next() {
                Some(key) if world.process.attempts.running.is_empty() => world.process.begin(&key),
                Some(_) | None => world.advance_any(),
            }
        };
        drain(self, is_idle, work)?;
        match self.violation.take() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    fn is_right(&self) -> Result<(), String> {
        for number in 0..self.handles().len() {
            let object = self.server.get(Kind::Claim, &claim(number));
            let object = object.ok_or("no claim")?;
            let (handle, claim) = (handle(number), claim(number));
            if self.mode.is_older() {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                let (told, abnormal) = (
                    self.told.contains(uid),
                    self.driver.health.contains_key(&handle),
                );
                if abnormal && !told {
                    return Err(format!("users were not told of {handle}"));
                }
                continue;
            }
            let list = object["status"]["healthStatus"]["healthConditions"]
                .as_array()
                .cloned();
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let list = list.unwrap_or_default();
            let has: Pairs = { list.iter() }
                .map(|one| (text(&one["status"]), text(&one["reason"])))
                .collect();
            if has != self.driver.pairs(&handle) {
                return Err(format!(
                    "at rest {claim} has {has:?} instead of {:?}",
                    self.driver.pairs(&handle)
                ));
            }
        }
        Ok(())
    }
}
