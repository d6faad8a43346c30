//! The end of a run: faults stop, everything comes to rest, and what is left is checked.

use super::process::RETENTION;
use super::run::{Faults, World};
use crate::keys::DOUBT_FINALIZER;
use crate::model::{Claim, Source, VolumeDetail, VolumePhase};

impl World {
    /// Faults stop. Everything that can move moves until nothing does.
    pub(super) fn settle(&mut self) {
        self.settling = true;
        while let Some(id) = self.driver.running.iter().find(|call| !call.awaited) {
            let id = id.id;
            self.driver.succeed(id);
        }
        self.check_doubles();
        while !self.server.attachments.is_empty() {
            self.detach();
        }
        let (mut quiet, mut class) = (0, 1);
        for round in 0..24 {
            // A record is believed only while the class is the one it was made for.
            if round == 0 || quiet > 0 {
                class = 1 - class;
                self.set_class(class);
            }
            let before = self.server.version;
            self.process.list(&self.server);
            self.clock += RETENTION;
            self.retry();
            self.drain();
            self.control_all();
            quiet = if self.server.version == before {
                quiet + 1
            } else {
                0
            };
            if quiet > 2 || self.has_complaint() {
                break;
            }
        }
    }

    /// Works until no queue has anything; what waits for a retry keeps waiting.
    fn drain(&mut self) {
        for _ in 0..4000 {
            let process = &self.process;
            let idle = process.ready.is_empty()
                && process.ready_volumes.is_empty()
                && process.running.is_empty()
                && process.deleting.is_empty();
            if idle {
                return;
            }
            self.work();
        }
        self.complain("the work does not end".into());
    }

    pub(super) fn check_rest(&self) -> Result<(), String> {
        let claims = || self.server.claims.values().map(|(_, claim)| claim);
        let volumes = || self.server.volumes.values().map(|(_, volume)| volume);
        if let Some(stuck) = claims().find(|claim| claim.deleting) {
            return Err(format!("{} does not go: {stuck:?}", stuck.name));
        }
        if let Some(open) = claims().find(|claim| claim.phase.is_open()) {
            return Err(format!("{} does not get its volume: {open:?}", open.name));
        }
        if let Some(kept) = claims().find(|claim| claim.has_finalizer(DOUBT_FINALIZER)) {
            return Err(format!("the record stays behind on {}", kept.name));
        }
        let due = |volume: &&VolumeDetail| {
            volume.phase == VolumePhase::Released || volume.deleting && !is_bound(volume, claims())
        };
        if let Some(stuck) = volumes().find(due) {
            return Err(format!("{} does not go: {stuck:?}", stuck.name));
        }
        for (name, id) in &self.driver.volumes {
            let of = |volume: &VolumeDetail| matches!(&volume.source, Source::Csi(source) if *source.handle == **id);
            if !volumes().any(of) && !self.excused.contains(name) {
                return Err(format!("the volume {name} is left over"));
            }
        }
        let lost = |volume: &&VolumeDetail| !matches!(&volume.source, Source::Csi(source) if self.driver.has(&source.handle));
        if let Some(lost) = volumes().find(lost) {
            return Err(format!("{} has no volume: {lost:?}", lost.name));
        }
        self.check_calls()
    }

    /// Without faults one call each is enough.
    fn check_calls(&self) -> Result<(), String> {
        if self.faults != Faults::None {
            return Ok(());
        }
        for (name, (creates, deletes)) in &self.driver.calls {
            if *creates > 1 || *deletes > 1 {
                return Err(format!(
                    "{creates} CreateVolume and {deletes} DeleteVolume calls for {name}"
                ));
            }
        }
        Ok(())
    }
}

fn is_bound<'a>(volume: &VolumeDetail, mut claims: impl Iterator<Item = &'a Claim>) -> bool {
    let owner = volume.claim.as_ref();
    claims.any(|claim| owner.is_some_and(|owner| owner.uid == claim.uid))
}
