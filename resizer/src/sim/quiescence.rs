//! The end of a run: faults stop, everything comes to rest, and the final state is checked.

use sidecar_testkit::sim::rest;

use super::run::{Faults, World};
use crate::keys::{MODIFYING_VOLUME, RESIZE_CONDITIONS};
use crate::model::{ClaimDetail, Text, Volume};
use crate::plan::in_flight::InFlightState;
use crate::plan::{Driver, Settings};

impl World {
    /// Stops the faults, then lets everything advance until nothing changes.
    pub(super) fn settle(&mut self, found: (Driver, Settings)) {
        self.thaw();
        self.settling = true;
        if self.next != found {
            self.stop();
            self.next = found;
            self.restart();
        }
        while !self.late.is_empty() {
            self.arrive_late();
        }
        while let Some(call) = self.driver.running.iter().find(|call| !call.awaited) {
            let id = call.id;
            self.driver.end(id, true, 0);
        }
        if self.faults != Faults::Lasting {
            self.cure();
        }
        let (mut before, mut quiet) = (usize::MAX, 0);
        for _ in 0..40 {
            self.process.list(&self.server);
            self.retry();
            for truth in self.truths.values_mut() {
                truth.effort = 0;
            }
            self.drain();
            self.settle_nodes();
            let now = self.server.log.len();
            quiet = if now == before { quiet + 1 } else { 0 };
            // Retries that go on for ever change nothing.
            let lasting = self.faults == Faults::Lasting && quiet >= 3;
            let over = self.process.attempts.later.is_empty() || lasting;
            if quiet > 0 && over {
                return;
            }
            before = now;
        }
    }

    /// Deletes everything, and lets the caches learn of it.
    pub(super) fn leave(&mut self) {
        for key in self.server.claims.keys().cloned().collect::<Vec<_>>() {
            self.server.put_claim(&key, None);
        }
        for name in self.server.volumes.keys().cloned().collect::<Vec<_>>() {
            self.server.put_volume(&name, None);
        }
        for name in self.server.pods.keys().cloned().collect::<Vec<_>>() {
            self.server.put_pod(&name, None);
        }
        self.process.list(&self.server);
        self.retry();
        self.drain();
    }

    /// No state is left of deleted objects, whatever obstacle they had.
    pub(super) fn check_left(&self) -> Result<(), String> {
        let in_flight = &self.process.attempts.reactor.in_flight;
        let empty = InFlightState::new(&Settings::default());
        let mut left = rest::remembered(in_flight, &empty, &["retention", "recover", "usage"]);
        if !self.process.attempts.later.is_empty() {
            left.push(format!("retries: {:?}", self.process.attempts.later));
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("left behind: {left:?}"))
        }
    }

    /// Works until the queue is empty; tasks in a back-off keep waiting.
    fn drain(&mut self) {
        let is_idle = |world: &mut Self| world.process.attempts.is_idle();
        if let Err(violation) = rest::drain(self, is_idle, Self::work) {
            self.complain(violation);
        }
    }

    fn settle_nodes(&mut self) {
        let names: Vec<Text> = self.server.claims.keys().cloned().collect();
        for name in names {
            for _ in 0..2 {
                let write = self.expand_on_node(&name, false);
                self.write_node(write);
            }
        }
    }

    pub(super) fn check_rest(&self) -> Result<(), String> {
        let later = &self.process.attempts.later;
        if self.faults != Faults::Lasting && !later.is_empty() {
            return Err(format!("tried for ever: {later:?}"));
        }
        for (key, (_, claim)) in &self.server.claims {
            let (_, volume) = &self.server.volumes[&claim.volume];
            if !volume.is_served_by(&self.process.informers.driver.name) {
                continue;
            }
            let size = self.check_size(claim).filter(|_| !self.is_large(claim));
            let class = self
                .check_modification(claim)
                .filter(|_| !self.is_hopeless(claim));
            let wrong = size.or(class).or_else(|| self.check_last_word(claim));
            if let Some(wrong) = wrong {
                let (_, volume) = &self.server.volumes[&claim.volume];
                return Err(format!("{key} {wrong}: {claim:?} {volume:?}"));
            }
        }
        self.check_orphans()?;
        self.check_calls()
    }

    /// Volumes that have outlived their claims have the driver's result, unless the process that
    /// knew it has ended.
    fn check_orphans(&self) -> Result<(), String> {
        if self.faults != Faults::None {
            return Ok(());
        }
        for (name, (_, volume)) in &self.server.volumes {
            let disk = &self.driver.disks[&*volume.handle];
            let class = volume.kind.class.as_deref().unwrap_or_default();
            let size = volume.capacity.map(|size| size.value());
            if size != Some(disk.confirmed) || class != disk.class {
                return Err(format!(
                    "{name} does not say what it is: {volume:?} {:?}",
                    (disk.confirmed, &disk.class)
                ));
            }
        }
        Ok(())
    }

    /// Whether the size that the claim requests, or that is in progress, stays infeasible.
    fn is_large(&self, claim: &ClaimDetail) -> bool {
        let (_, volume) = &self.server.volumes[&claim.volume];
        let disk = &self.driver.disks[&*volume.handle];
        let request = claim.request.map_or(0, |size| size.value());
        let asked = claim
            .allocated
            .map_or(request, |size| size.value().max(request));
        match self.faults {
            Faults::NodeOnly => request > disk.node_limit,
            Faults::Lasting => {
                let used = self.driver.offline && self.server.is_used(&claim.key());
                asked > disk.limit || self.driver.away || used || !self.has_secret(volume)
            }
            Faults::None | Faults::Crashes | Faults::All | Faults::Aliases => false,
        }
    }

    /// Whether the class that the claim requests, or that is in progress, stays missing or
    /// infeasible.
    fn is_hopeless(&self, claim: &ClaimDetail) -> bool {
        let (_, volume) = &self.server.volumes[&claim.volume];
        let target = claim.modify.as_ref().map(|modify| &modify.target);
        let mut classes = target.into_iter().chain([&claim.class]);
        let good = |name: &Text| match self.server.classes.get(name) {
            Some((_, class)) if *class.driver == *self.process.informers.driver.name => {
                **name != *"c" || !self.driver.picky
            }
            Some(_) => false,
            None => name.is_empty(),
        };
        let good = classes.all(good) && self.has_secret(volume) && !self.driver.away;
        self.faults == Faults::Lasting && !good
    }

    fn has_secret(&self, volume: &Volume) -> bool {
        let source = volume.csi("test.csi.driver");
        let named = source.and_then(|source| source.expand_secret.as_ref());
        named.is_none_or(|named| self.server.secrets.get(&named.name) == Some(&true))
    }

    /// The last event of a satisfied claim is not a failure.
    fn check_last_word(&self, claim: &ClaimDetail) -> Option<&'static str> {
        let truth = &self.truths[&claim.uid.to_string()];
        let (size, class, wanted) = &truth.last;
        let grown = claim.request <= claim.capacity
            && claim.node_expansion_not_required.as_deref() == Some("true");
        let modified = claim.modify.is_none()
            && claim.class == claim.current_class
            && claim.class == *wanted
            && !wanted.is_empty();
        let failed = (grown && *size == "VolumeResizeFailed")
            || (modified && *class == "VolumeModifyFailed");
        failed.then_some("was told that it failed")
    }

    fn check_size(&self, claim: &ClaimDetail) -> Option<&'static str> {
        let (_, volume) = &self.server.volumes[&claim.volume];
        let has = |kind: &&str| claim.has_condition(kind);
        if claim.request > claim.capacity {
            return Some("does not grow");
        }
        if claim.resize.is_some() || RESIZE_CONDITIONS.iter().any(has) {
            return Some("keeps traces of an expansion");
        }
        if volume.pre_resize.is_some() {
            return Some("keeps the annotation on its volume");
        }
        if volume.capacity < claim.capacity {
            return Some("is larger than its volume");
        }
        volume.csi("test.csi.driver")?;
        let handle = &volume.handle;
        let size = self.driver.disks[&**handle].size;
        (claim.capacity?.value() > size).then_some("is larger than its disk")
    }

    fn check_modification(&self, claim: &ClaimDetail) -> Option<&'static str> {
        let (_, volume) = &self.server.volumes[&claim.volume];
        if claim.has_condition(MODIFYING_VOLUME) || claim.is_changing() {
            return Some("keeps being modified");
        }
        if claim.class.is_empty() {
            return None;
        }
        if claim.modify.is_some() || claim.current_class != claim.class {
            return Some("is not modified");
        }
        if volume.kind.class.as_ref() != Some(&claim.class) {
            return Some("has another class than its volume");
        }
        volume.csi("test.csi.driver")?;
        let handle = &volume.handle;
        let differs = self.driver.disks[&**handle].class != *claim.class;
        (differs && self.faults != Faults::Aliases).then_some("has another class than its disk")
    }

    /// Without faults there is at most one call for each user request.
    fn check_calls(&self) -> Result<(), String> {
        if self.faults != Faults::None {
            return Ok(());
        }
        // Deleted claims are left out: their volume may have gone during a call.
        for (_, claim) in self.server.claims.values() {
            let uid = claim.uid.to_string();
            let truth = &self.truths[&uid];
            let (wishes, calls) = (truth.wishes, truth.calls);
            if calls.0 > wishes.0 || calls.1 > wishes.1 {
                return Err(format!("{calls:?} calls for {wishes:?} wishes of {uid}"));
            }
        }
        Ok(())
    }
}
