//! Node deployment: several provisioners compete for a claim that no node was selected for.

use super::claim::State;
use super::process::Running;
use super::run::{Fate, World};
use super::scene::zone;
use super::server::selected;
use super::watch::key as key_of;
use crate::plan::claim::{Answer, Attempt, Step};
use crate::plan::memory::Start;
use crate::plan::ownership::{Pace, RoomCheck, Selection, Turn, fits};

const PACE: Pace = Pace {
    base: std::time::Duration::from_secs(20),
    max: std::time::Duration::from_secs(60),
};

impl World {
    /// Nobody's claim: waits, asks for room, and takes it.
    pub(super) fn contend(&mut self, index: usize) {
        let process = &self.process;
        let running = &process.running[index];
        let class = process.classes.get(running.current.class_name());
        let Some(((own, _), class)) = process.node.as_ref().zip(class) else {
            self.process.running.remove(index);
            return;
        };
        let (places, settings) = (Some(&process.places), &process.settings);
        if !fits(&running.current, class, own, settings, places) {
            let Running { key, .. } = self.process.running.remove(index);
            self.process.contests.end(&key);
            return;
        }
        if self.waits(index) {
            return;
        }
        match self.has_room(index) {
            true => {
                let running = &mut self.process.running[index];
                running.state = State::Taking;
                let key = key_of(&running.key.name);
                self.process.claims.slots.begin_write(&key);
            }
            false => {
                self.process.running.remove(index);
            }
        }
    }

    /// Whether it is not this process's turn yet; then the attempt is over.
    fn waits(&mut self, index: usize) -> bool {
        let key = self.process.running[index].key.clone();
        let random = f64::from(u32::try_from(self.dice.below(1 << 16)).unwrap()) / 65_536.0;
        let turn = { &mut self.process.contests }.look(&key, PACE, self.clock, random);
        let waits = matches!(turn, Turn::Wait(_));
        if waits {
            self.process.running.remove(index);
            self.process.later.insert(key);
        }
        waits
    }

    /// Goes through an attempt as if the claim were this node's, without leaving a trace.
    fn has_room(&self, index: usize) -> bool {
        let Some((own, _)) = &self.process.node else {
            return false;
        };
        let claim = selected(&self.process.running[index].current, &own.name);
        let start = Start {
            doubt: None,
            unsaved: None,
        };
        let mut attempt = Attempt::new(start, true);
        loop {
            let step = self.decide(&attempt, &claim, false);
            let answer = match &step {
                Step::Create(_, request) => {
                    let check = RoomCheck::new(request).unwrap();
                    let full = self.driver.full.contains(&zone(&own.name));
                    return check.enough(if full { 0 } else { 1 << 40 });
                }
                Step::Done(_) => return false,
                Step::Fail(_)
                | Step::Unselect(..)
                | Step::Save(_)
                | Step::LoadNamesake(..)
                | Step::LoadOwner(..)
                | Step::Discard(..) => {
                    return true;
                }
                Step::Announce(_) | Step::Intend(_) => Answer::Done,
                Step::LoadSecret(_) => Answer::Secret(Default::default()),
                Step::ProtectSource(_)
                | Step::ReleaseSource(_)
                | Step::LoadSnapshot(..)
                | Step::LoadContent(_)
                | Step::LoadSourceClaim(..)
                | Step::LoadSourceVolume(_)
                | Step::LoadAttributesClass(_) => unreachable!("no data source"),
            };
            if attempt.fold(&step, answer).is_err() {
                return true;
            }
        }
    }

    /// The node is written on the claim, unless another one is there.
    pub(super) fn take_claim(&mut self, index: usize) {
        let Running { key, current, .. } = &self.process.running[index];
        let (key, uid) = (key.clone(), current.uid.clone());
        let own = { self.process.node.as_ref() }.map(|(own, _)| own.name.clone());
        let own = own.unwrap_or_default();
        let force = self.mutant.takes_everything();
        let taken = match self.fate() {
            Fate::Applied => Some(self.server.select(&key.name, &uid, &own, force)),
            Fate::Unheard => {
                self.server.select(&key.name, &uid, &own, force);
                None
            }
            Fate::Lost | Fate::Refused => None,
        };
        let (selection, written) = taken.unzip();
        let written = written.flatten();
        let process = &mut self.process;
        process.running.remove(index);
        process.absorb_written_claim(&key.name, written);
        match selection {
            Some(Selection::Selected | Selection::Already) => {
                process.contests.end(&key);
                process.ready.insert(key);
            }
            Some(Selection::Lost | Selection::Gone) => process.contests.end(&key),
            None => {
                process.later.insert(key);
            }
        }
    }
}
