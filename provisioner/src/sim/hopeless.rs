//! What comes to no end by itself, and what people do about it.

use super::driver::is_same;
use super::run::World;
use super::volume::handle;
use crate::model::{Claim, Reclaim, Text, VolumeDetail};
use crate::plan::in_flight::ClaimKey;

impl World {
    /// PersistentVolumes in use beside which the driver names their volume by another id, or has another volume
    /// of the name: as long as they are there, what was asked for their claims stays in the journal.
    pub(super) fn contradicted(&self) -> impl Iterator<Item = &VolumeDetail> {
        let volumes = self.server.volumes.values().map(|(_, volume)| volume);
        volumes.filter(|volume| {
            let other = |id: &String| !handle(volume).is_some_and(|held| is_same(held, id));
            let mut drivers = self.drivers();
            let contradicts =
                drivers.any(|driver| driver.spells || driver.named(&volume.name).any(other));
            let uid = volume.claim.as_ref().map(|claim| &claim.uid);
            let owes = |uid: &Text| {
                let mut processes = self.processes();
                processes.any(|process| process.in_flight().owes(uid))
            };
            contradicts && self.is_ours(volume) && uid.is_some_and(owes)
        })
    }

    /// Whether what is owed for the claim of this UID contradicts its PersistentVolume.
    pub(super) fn is_held(&self, uid: &str) -> bool {
        let of = |volume: &VolumeDetail| {
            let claim = volume.claim.as_ref();
            claim.is_some_and(|claim| *claim.uid == *uid)
        };
        self.contradicted().any(of)
    }

    /// Claims whose PersistentVolumes contradict what is owed for them are given up, with all that belongs to
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

    /// Whoever asked for a copy of what is gone, and got no answer yet, gives up. What a call was made for
    /// must have come to an end without that, and so must a copy of what is going: it may hold its source.
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

    /// Whether what the claim is to be filled from is gone.
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
