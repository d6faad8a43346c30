//! Invariants of each step, about calls, events and objects.

use std::time::Duration;

use serde_json::Value;

use super::attempt::learnt;
use super::driver::Wish;
use super::run::{Faults, World};
use super::server::Event;
use crate::model::{ClaimDetail, ModifyPhase, ResizeStatus, Text};
use crate::plan::request::Announcement;

/// More requests than one attempt needs, or several consecutive ones.
const EFFORT: u32 = 80;

impl World {
    /// Counts a request to the API server, or a call.
    pub(super) fn count_effort(&mut self, index: usize) {
        let uid = learnt(&self.process.attempts.running[index]).uid().clone();
        let truth = self.truth(&uid);
        truth.effort += 1;
        if truth.effort > EFFORT {
            self.complain(format!("{EFFORT} requests at once for {uid}"));
        }
    }

    /// The driver is called only for what the claim records, and for nothing that nobody wants any
    /// more, unless it may be working on it.
    pub(super) fn check_asked(&mut self, index: usize, wish: &Wish) {
        let running = &self.process.attempts.running[index];
        let uid = learnt(running).uid().clone();
        let known = self
            .process
            .informers
            .claims
            .get(&running.key.claim)
            .cloned();
        let known = known.as_ref().and_then(|claim| claim.detail()).cloned();
        let before = self.truth(&uid);
        let (class, left_class) = (before.class.clone(), before.left_class.clone());
        let in_doubt = before.size.is_some() || before.left_size;
        let (told, impossible) = (before.told.clone(), before.impossible);
        self.check_recorded(index, wish);
        let Some(known) = known else {
            return;
        };
        match wish {
            Wish::Class(asked) => {
                if class.as_ref() == Some(asked) || left_class.as_ref() == Some(asked) {
                    return;
                }
                // A claim without a requested class only waits for a modification under way,
                // announced or not.
                if known.class.is_empty() {
                    return;
                }
                if *known.class != **asked {
                    self.complain(format!("{asked} is wanted by nobody: {known:?}"));
                } else if !told.contains(asked) {
                    self.complain(format!("{asked} was not announced: {known:?}"));
                }
            }
            Wish::Size(bytes) => {
                let volume = self.process.informers.volumes.get(&known.volume).cloned();
                let small = volume.is_some_and(|volume| volume.capacity < known.request);
                let new = known.resize == Some(ResizeStatus::ControllerInProgress) && !in_doubt;
                let wanted = known.request.map(|size| size.value());
                if small && new && wanted != Some(*bytes) {
                    self.complain(format!("{bytes} are wanted by nobody: {known:?}"));
                }
                let wait = self.process.settings.infeasible_wait;
                let soon = |(size, since)| {
                    size == *bytes
                        && self.process.attempts.now.instant
                            < since + wait - Duration::from_millis(1)
                };
                if impossible.is_some_and(soon) {
                    self.complain(format!("{bytes} are asked for too soon: {known:?}"));
                }
            }
        }
    }

    /// A call carries the Secret that the volume references.
    pub(super) fn check_secret(&mut self, index: usize, none: bool) {
        let running = &self.process.attempts.running[index];
        let known = self
            .process
            .informers
            .claims
            .get(&running.key.claim)
            .cloned();
        let volume = learnt(running).volume(known.as_deref());
        let volume = volume.and_then(|name| self.process.informers.volumes.get(&name).cloned());
        let Some(volume) = volume else {
            return;
        };
        let source = volume.csi(&self.process.informers.driver.name);
        let named = source.and_then(|source| source.expand_secret.as_ref());
        if named.is_some() && none {
            self.complain(format!("a call without its Secret: {named:?}"));
        }
    }

    /// Events are true.
    pub(super) fn check_told(&mut self, index: usize, told: &Announcement) {
        let running = &self.process.attempts.running[index];
        let uid = learnt(running).uid().clone();
        let known = self
            .process
            .informers
            .claims
            .get(&running.key.claim)
            .cloned();
        let wanted = known.as_ref().and_then(|claim| claim.detail());
        let wanted = wanted.map_or_else(Text::default, |claim| claim.class.clone());
        let log = &self.server.log;
        let new = |name: &str| {
            let events = log.iter().skip(self.process.began);
            { events }.any(|(_, event)| matches!(event, Event::Class(of, _) if **of == *name))
        };
        let missing = told.message.strip_prefix("VAC \"");
        let missing = missing.and_then(|text| text.strip_suffix("\" does not exist."));
        let there = missing.filter(|name| self.server.classes.contains_key(*name) && !new(name));
        if let Some(name) = there {
            self.complain(format!("{name} is said to be missing"));
        }
        let truth = self.truth(&uid);
        if told.reason.starts_with("VolumeModify") {
            (truth.last.1, truth.last.2) = (told.reason, wanted)
        } else {
            truth.last.0 = told.reason
        }
        if told.reason == "VolumeModify" {
            let class = told.message.rsplit(' ').next().unwrap_or_default();
            truth.told.insert(class.to_owned());
        }
    }

    /// No modification begins with a class that the process knows to be another driver's.
    pub(super) fn check_own_class(&mut self, patch: &Value) {
        let target = patch.pointer("/status/modifyVolumeStatus/targetVolumeAttributesClassName");
        let class = target
            .and_then(Value::as_str)
            .and_then(|name| self.process.informers.classes.get(name));
        if class.is_some_and(|class| *class.driver != *self.process.informers.driver.name) {
            self.complain(format!("a class of another driver: {patch}"));
        }
    }

    /// The request to the driver must be on the claim; its outcome is unknown from now on.
    pub(super) fn check_recorded(&mut self, index: usize, wish: &Wish) {
        use ResizeStatus::ControllerInfeasible;
        let running = &self.process.attempts.running[index];
        let uid = learnt(running).uid().clone();
        let claim = self.server.claims.get(&running.key.claim);
        let claim = claim
            .map(|(_, claim)| claim)
            .filter(|claim| claim.uid == uid);
        let recorded = claim.is_none_or(|claim| match wish {
            Wish::Size(bytes) => {
                let begun = !matches!(claim.resize, None | Some(ControllerInfeasible));
                begun && claim.allocated.is_some_and(|size| size.value() >= *bytes)
            }
            Wish::Class(class) => claim.is_changing() && targets(claim, class),
        });
        if !recorded {
            self.complain(format!("not recorded before the call: {wish:?}, {claim:?}"));
        }
        let truth = self.truth(&uid);
        match wish {
            Wish::Size(bytes) => {
                truth.calls.0 += 1;
                truth.size = truth.size.max(Some(*bytes));
            }
            Wish::Class(class) => {
                truth.calls.1 += 1;
                truth.class = Some(class.clone());
            }
        }
    }

    /// The claim reports no more than the driver has confirmed.
    pub(super) fn check_capacity(&mut self, claim: &ClaimDetail) {
        let Some(disk) = self.disk(&claim.volume) else {
            return;
        };
        let (capacity, confirmed) = (claim.capacity.unwrap().value(), disk.confirmed);
        if capacity > confirmed {
            self.complain(format!(
                "capacity {capacity} above the confirmed {confirmed}"
            ));
        }
    }

    pub(super) fn check_class(&mut self, claim: &ClaimDetail, class: &Text) {
        let applied = self.disk(&claim.volume).map(|disk| disk.class.clone());
        if self.faults != Faults::Aliases && applied.is_some_and(|applied| applied != **class) {
            self.complain(format!("class {class} reported, but not the driver's"));
        }
    }

    pub(super) fn disk(&self, volume: &Text) -> Option<&super::driver::Disk> {
        let (_, volume) = self.server.volumes.get(volume)?;
        volume.csi("test.csi.driver")?;
        let handle = &volume.handle;
        self.driver.disks.get(&**handle)
    }
}

pub(super) fn targets(claim: &ClaimDetail, class: &str) -> bool {
    let modify = claim.modify.as_ref();
    modify.is_some_and(|modify| modify.phase == ModifyPhase::InProgress && *modify.target == *class)
}
