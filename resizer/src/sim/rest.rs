//! The end of a run: faults stop, everything comes to rest, and what is left is checked.

use super::run::{Faults, World};
use crate::keys::{MODIFYING_VOLUME, RESIZE_CONDITIONS};
use crate::model::{ClaimDetail, Text};

impl World {
    /// Faults stop. Everything that can move moves until nothing does.
    pub(super) fn settle(&mut self) {
        self.settling = true;
        while let Some(call) = self.driver.running.iter().find(|call| !call.awaited) {
            let id = call.id;
            self.driver.end(id, true, 0);
        }
        self.cure();
        let mut before = usize::MAX;
        for _ in 0..40 {
            self.process.list(&self.server);
            self.retry();
            self.drain();
            self.settle_nodes();
            let now = self.server.log.len();
            if now == before && self.process.later.is_empty() {
                return;
            }
            before = now;
        }
    }

    /// Works until the queue has nothing; what waits for a retry keeps waiting.
    fn drain(&mut self) {
        for _ in 0..4000 {
            if self.process.ready.is_empty() && self.process.running.is_empty() {
                return;
            }
            self.work();
        }
        self.complain("the work does not end".into());
    }

    fn settle_nodes(&mut self) {
        let names: Vec<Text> = self.server.claims.keys().cloned().collect();
        for name in names {
            self.expand_on_node(&name, false);
            self.expand_on_node(&name, false);
        }
    }

    pub(super) fn check_rest(&self) -> Result<(), String> {
        for (key, (_, claim)) in &self.server.claims {
            let wrong = self
                .check_size(claim)
                .or_else(|| self.check_modification(claim));
            if let Some(wrong) = wrong {
                let (_, volume) = &self.server.volumes[&claim.volume];
                return Err(format!("{key} {wrong}: {claim:?} {volume:?}"));
            }
        }
        self.check_orphans()?;
        self.check_calls()
    }

    /// Volumes that have outlived their claims say what became of them, unless the process that
    /// knew it is no more.
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

    /// Without faults one call for each wish is enough.
    fn check_calls(&self) -> Result<(), String> {
        if self.faults != Faults::None {
            return Ok(());
        }
        // Claims that were deleted may have taken their volume away under a call.
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
