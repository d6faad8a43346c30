//! States that do not end by themselves, and what users do about them.

use super::driver::is_same;
use super::run::World;
use super::volume::handle;
use crate::model::{Claim, Reclaim, Text, VolumeDetail};
use crate::plan::in_flight::ClaimKey;

impl World {
    /// PersistentVolumes in use for which the driver reports another handle, or has another volume of the name: as long
    /// as they exist, the requests of their claims stay in the journal.
    pub(super) fn contradicted(&self) -> impl Iterator<Item = &VolumeDetail> {
        let volumes = self.server.volumes.values().map(|(_, volume)| volume);
        volumes.filter(|volume| {
            let other = |id: &String| !handle(volume).is_some_and(|held| is_same(held, id));
            let mut drivers = self.drivers();
            let contradicts =
                drivers.any(|driver| driver.spells || driver.named(&volume.name).any(other));
            let uid = volume.claim.as_ref().map(|claim| &claim.uid);
            let has_unknown_outcome = |uid: &Text| {
                let mut processes = self.processes();
                processes.any(|process| process.in_flight().has_unknown_outcome(uid))
            };
            contradicts && self.is_ours(volume) && uid.is_some_and(has_unknown_outcome)
        })
    }

    /// Whether an unsettled request of the claim of this UID contradicts its PersistentVolume.
    pub(super) fn is_held(&self, uid: &str) -> bool {
        let of = |volume: &VolumeDetail| {
            let claim = volume.claim.as_ref();
            claim.is_some_and(|claim| *claim.uid == *uid)
        };
        self.contradicted().any(of)
    }

    /// Gives up claims whose PersistentVolumes contradict their unsettled requests, with everything that belongs to
    /// them.
    pub(super) fn give_up_contradicted(&mut self) -> bool {
        let volumes: Vec<VolumeDetail> = self.contradicted().cloned().collect();
        for volume in &volumes {
            if let Some(claim) = &volume.claim {
                let name = format!("{}/{}", claim.namespace, claim.name);
                self.server.delete_claim(&name.into());
            }
            if volume.reclaim != Reclaim::Delete {
                self.excuse(volume.name.to_string());
                self.server.delete_volume(&volume.name, None).ok();
            }
        }
        !volumes.is_empty()
    }

    /// Gives up claims for a copy of a deleted source whose request had no answer yet. Claims with a call must have
    /// ended without that, and so must copies of a source that is being deleted: such a claim may hold its source.
    pub(super) fn give_up_hopeless(&mut self) -> bool {
        let is_hopeless = |claim: &Claim| {
            let key = ClaimKey::of(claim);
            let mut processes = self.processes();
            let asked = processes.any(|process| process.in_flight().is_pinned(&key));
            let open = claim.phase.is_open() && claim.volume.is_empty();
            open && !asked && self.lacks_source(claim)
        };
        let claims = self.server.claims.values().map(|(_, claim)| claim);
        let hopeless: Vec<Text> = { claims.filter(|claim| is_hopeless(claim)) }
            .map(Claim::key)
            .collect();
        for name in &hopeless {
            self.server.delete_claim(name);
        }
        !hopeless.is_empty()
    }

    /// Whether the data source of the claim is gone.
    fn lacks_source(&self, claim: &Claim) -> bool {
        let Some(source) = &claim.data_source else {
            return false;
        };
        match &*source.kind {
            "VolumeSnapshot" => !self.server.snapshots.contains_key(&source.name),
            _ => {
                let name = format!("{}/{}", claim.namespace, source.name);
                !self.server.claims.contains_key(&*name)
            }
        }
    }
}
