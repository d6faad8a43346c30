//! Removals of the finalizer of a cloned claim that arrive at any time: provisioners of other drivers, which do not
//! know this one's attempts, remove it as well, and a request may outlive its answer.

use std::collections::BTreeMap;

use super::run::World;
use super::scene::SOURCE;
use super::server::Event;
use super::users::clone_of_source;
use crate::model::{Claim, Text};
use crate::plan::edit;
use crate::plan::protection::{self, Release};
use crate::plan::request::Request;

/// Enough steps for a call to begin.
const MOST_AHEAD: usize = 60;

impl World {
    /// Another driver's provisioner decides on the events that its watch has delivered so far, or its request arrives.
    pub(super) fn others_remove(&mut self) {
        if !self.removals.is_empty() && self.dice.one_in(2) {
            return self.remove_late();
        }
        if self.faulty() && self.dice.one_in(4) {
            self.server.delete_claim(&format!("ns/{SOURCE}").into());
        }
        let late = self.dice.below(8).min(self.server.log.len() - self.looked);
        self.looked = self.server.log.len() - late;
        let claims = self.claims_at(self.looked);
        let Some(source) = claims.get(&*format!("ns/{SOURCE}")) else {
            return;
        };
        if protection::release(source, claims.values(), |_| false, []) == Release::Due {
            if let Request::Write(write) = edit::release_claim(source) {
                self.removals.push(write);
            }
            if self.faulty() {
                self.clone_just_then();
            }
        }
    }

    /// A user creates a clone, which overtakes the request.
    fn clone_just_then(&mut self) {
        self.create_claim_of("late", Some(clone_of_source()));
        self.observe_all(0);
        for _ in 0..self.dice.below(MOST_AHEAD) {
            self.work();
        }
        self.remove_late();
    }

    /// All claims after the first `end` events of the log.
    fn claims_at(&self, end: usize) -> BTreeMap<Text, Claim> {
        let mut claims = BTreeMap::new();
        for (_, event) in &self.server.log[..end] {
            if let Event::Claim(name, claim) = event {
                match claim {
                    Some(claim) => claims.insert(name.clone(), claim.clone()),
                    None => claims.remove(name),
                };
            }
        }
        claims
    }

    /// The API server gets one of the outstanding requests to remove a finalizer.
    fn remove_late(&mut self) {
        let index = self.dice.below(self.removals.len());
        let write = self.removals.swap_remove(index);
        let _ = self.free(&write);
    }

    /// The API server gets all outstanding requests to remove a finalizer.
    pub(super) fn remove_all(&mut self) {
        while !self.removals.is_empty() {
            self.remove_late();
        }
    }
}
