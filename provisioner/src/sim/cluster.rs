//! Kubernetes' own controllers: claims get nodes and are bound to volumes, volumes are released.

use super::run::World;
use super::scene::{CLASS, node_in, zone};
use super::server::{PV_PROTECTION, selected};
use super::users::PVC_PROTECTION;
use crate::model::{BindingMode, Claim, ClaimPhase, Reclaim, Text, VolumeDetail, VolumePhase};

impl World {
    /// One of Kubernetes' controllers works on one object. Returns whether it changed anything.
    pub(super) fn control(&mut self) -> bool {
        let (claims, volumes) = (self.server.claims.len(), self.server.volumes.len());
        if claims + volumes == 0 {
            return false;
        }
        let choice = self.dice.below(claims + volumes);
        if choice < claims {
            self.control_claim(choice)
        } else {
            self.control_volume(choice - claims)
        }
    }

    /// Kubernetes' controllers work until nothing is left to do.
    pub(super) fn control_all(&mut self) {
        for _ in 0..20 {
            let before = self.server.version;
            for index in (0..self.server.claims.len()).rev() {
                self.control_claim(index);
            }
            for index in (0..self.server.volumes.len()).rev() {
                self.control_volume(index);
            }
            if self.server.version == before {
                return;
            }
        }
    }

    fn control_claim(&mut self, index: usize) -> bool {
        let Some((_, claim)) = self.server.claims.values().nth(index) else {
            return false;
        };
        if claim.deleting {
            let protected = claim.has_finalizer(PVC_PROTECTION);
            if protected {
                let kept = claim
                    .finalizers
                    .iter()
                    .filter(|held| ***held != *PVC_PROTECTION);
                let finalizers = kept.cloned().collect();
                let claim = Claim {
                    finalizers,
                    ..claim.clone()
                };
                self.server.put_claim(claim);
            }
            return protected;
        }
        if !claim.volume.is_empty() {
            return false;
        }
        let names = |volume: &VolumeDetail| {
            let owner = volume.claim.as_ref();
            !volume.deleting && owner.is_some_and(|owner| owner.uid == claim.uid)
        };
        let mut volumes = self.server.volumes.values();
        let volume = volumes
            .find(|(_, volume)| names(volume))
            .map(|(_, volume)| volume);
        if let Some(volume) = volume {
            let claim = Claim {
                volume: volume.name.clone(),
                phase: ClaimPhase::Bound,
                ..claim.clone()
            };
            self.server.put_claim(claim);
            return true;
        }
        self.schedule(index)
    }

    /// The scheduler selects a node for a claim that waits for one, or users do if its node is gone.
    fn schedule(&mut self, index: usize) -> bool {
        let Some((_, class)) = self.server.classes.get(CLASS) else {
            return false;
        };
        let waits = class.binding_mode == BindingMode::WaitForFirstConsumer;
        let Some((_, claim)) = self.server.claims.values().nth(index) else {
            return false;
        };
        let node = claim.selected_node();
        let gone = !node.is_empty() && !self.server.nodes.contains_key(node);
        let given_up = gone && (self.settling || self.dice.one_in(4));
        if !waits || !node.is_empty() && !given_up {
            return false;
        }
        let allowed = |zone: &str| {
            let values = class.allowed_topologies.iter().flat_map(|term| term.iter());
            let mut values = values.flat_map(|(_, values)| values.iter()).peekable();
            values.peek().is_none() || values.any(|value| **value == *zone)
        };
        // While everything settles, the scheduler knows which topologies have capacity.
        let full = |zone: &str| self.settling && self.is_full(zone);
        let nodes = self.server.nodes.keys();
        let fit = |node: &&Text| {
            let zone = zone(node);
            allowed(&zone) && !full(&zone)
        };
        let fit: Vec<Text> = nodes.filter(fit).cloned().collect();
        if fit.is_empty() {
            return false;
        }
        let node = &fit[self.dice.below(fit.len())];
        if let Some((_, claim)) = self.server.claims.values().nth(index) {
            let claim = selected(claim, node);
            self.server.put_claim(claim);
        }
        true
    }

    /// Whether the driver of that topology has no capacity left.
    fn is_full(&self, zone: &str) -> bool {
        let nodes = self.case.scene.nodes();
        let serves =
            |site: usize| !self.case.scene.is_node_deployment() || *nodes[site] == *node_in(zone);
        self.drivers()
            .any(|driver| serves(driver.site) && driver.full.contains(zone))
    }

    fn control_volume(&mut self, index: usize) -> bool {
        let Some((_, volume)) = self.server.volumes.values().nth(index) else {
            return false;
        };
        let phase = self.phase_of(volume);
        let protected = volume
            .finalizers
            .iter()
            .any(|held| &**held == PV_PROTECTION);
        if phase != volume.phase {
            let volume = VolumeDetail {
                phase,
                ..volume.clone()
            };
            self.server.put_volume(volume);
            return true;
        }
        if volume.owner.in_tree && volume.owner.migrated_to.is_none() {
            let mut volume = volume.clone();
            volume.owner.migrated_to = Some(self.case.scene.driver_name().into());
            self.server.put_volume(volume);
            return true;
        }
        if volume.deleting && protected && phase != VolumePhase::Bound {
            let kept = volume
                .finalizers
                .iter()
                .filter(|held| ***held != *PV_PROTECTION);
            let finalizers = kept.cloned().collect();
            let volume = VolumeDetail {
                finalizers,
                ..volume.clone()
            };
            self.server.put_volume(volume);
            return true;
        }
        false
    }

    /// The phase that the volume should have.
    fn phase_of(&self, volume: &VolumeDetail) -> VolumePhase {
        let Some(owner) = &volume.claim else {
            return volume.phase;
        };
        let name: Text = format!("{}/{}", owner.namespace, owner.name).into();
        let claim = self.server.claims.get(&name).map(|(_, claim)| claim);
        // A volume that was made for a claim with another volume is not needed.
        let spare = volume.owner.provisioned_by.is_some() && volume.reclaim == Reclaim::Delete;
        match claim.filter(|claim| claim.uid == owner.uid) {
            Some(claim) if claim.volume == volume.name => VolumePhase::Bound,
            Some(claim) if spare && !claim.volume.is_empty() => VolumePhase::Released,
            Some(_) => volume.phase,
            None => VolumePhase::Released,
        }
    }
}
