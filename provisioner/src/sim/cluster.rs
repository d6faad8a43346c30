//! What people do, and Kubernetes' own controllers: claims and classes come and go, claims are bound
//! to volumes, volumes are attached and released.

use super::run::{Faults, World};
use super::server::PV_PROTECTION;
use crate::keys::STORAGE_PROVISIONER;
use crate::model::{
    Attachment, Claim, ClaimPhase, Class, List, Quantity, Text, VolumeDetail, VolumePhase,
};

const CLAIMS: [&str; 2] = ["c0", "c1"];
const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";

impl World {
    /// Somebody creates or deletes something.
    pub(super) fn user(&mut self) {
        let name = CLAIMS[self.dice.below(8) / 5];
        match self.dice.below(16) {
            0..=6 => self.create_claim(name),
            7..=10 => self.server.delete_claim(&format!("ns/{name}").into()),
            11 => self.change_class(),
            12 | 13 => self.attach(),
            14 => self.detach(),
            _ => {
                let bound = |volume: &VolumeDetail| volume.phase != VolumePhase::Pending;
                let volumes = self
                    .server
                    .volumes
                    .values()
                    .filter(|(_, volume)| bound(volume));
                let volumes: Vec<Text> = volumes.map(|(_, volume)| volume.name.clone()).collect();
                if !volumes.is_empty() {
                    let name = &volumes[self.dice.below(volumes.len())];
                    self.server.delete_volume(name, None).ok();
                }
            }
        }
    }

    fn create_claim(&mut self, name: &str) {
        if self.server.claims.contains_key(&*format!("ns/{name}")) {
            return;
        }
        self.uids += 1;
        let protection: &[&str] = match self.dice.one_in(3) {
            true => &[],
            false => &[PVC_PROTECTION],
        };
        self.server.put_claim(Claim {
            namespace: "ns".into(),
            name: name.into(),
            uid: format!("u{}", self.uids).into(),
            annotations: [(STORAGE_PROVISIONER, "test-driver")].into_iter().collect(),
            finalizers: protection.iter().map(|held| Text::from(*held)).collect(),
            class: Some("sc".into()),
            access_modes: List::from([Text::from("ReadWriteOnce")]),
            request: Some(Quantity::from_bytes(1 << 30)),
            phase: ClaimPhase::Pending,
            ..Claim::default()
        });
    }

    /// The class goes, or comes back as another one: then new requests look different.
    fn change_class(&mut self) {
        if self.faults == Faults::None {
            return;
        }
        match self.server.classes.contains_key("sc") {
            true => self.server.put_class(&"sc".into(), None),
            false => {
                let number = self.dice.below(2);
                self.put_class(number);
            }
        }
    }

    /// There is the class of this number, and no other.
    pub(super) fn set_class(&mut self, number: usize) {
        self.server.put_class(&"sc".into(), None);
        self.put_class(number);
    }

    pub(super) fn put_class(&mut self, number: usize) {
        let name = Text::from("sc");
        let class = Class {
            name: name.clone(),
            uid: format!("class-{number}").into(),
            provisioner: "test-driver".into(),
            parameters: [("number", &*number.to_string())].into_iter().collect(),
            reclaim_policy: Some("Delete".into()),
            ..Class::default()
        };
        self.server.put_class(&name, Some(class));
    }

    fn attach(&mut self) {
        let bound = |volume: &VolumeDetail| volume.phase == VolumePhase::Bound;
        let volumes = self
            .server
            .volumes
            .values()
            .filter(|(_, volume)| bound(volume));
        let names: Vec<Text> = volumes.map(|(_, volume)| volume.name.clone()).collect();
        if names.is_empty() {
            return;
        }
        let volume = names[self.dice.below(names.len())].clone();
        let name = Text::from(format!("va-{volume}"));
        if !self.server.attachments.contains_key(&name) {
            let node = "n1".into();
            self.server
                .put_attachment(&name, Some(Attachment { volume, node }));
        }
    }

    pub(super) fn detach(&mut self) {
        let names: Vec<Text> = self.server.attachments.keys().cloned().collect();
        if !names.is_empty() {
            let name = names[self.dice.below(names.len())].clone();
            self.server.put_attachment(&name, None);
        }
    }

    /// One of Kubernetes' controllers looks at one object. Whether it changed anything.
    pub(super) fn control(&mut self) -> bool {
        let (claims, volumes) = (self.server.claims.len(), self.server.volumes.len());
        if claims + volumes == 0 {
            return false;
        }
        let choice = self.dice.below(claims + volumes);
        match choice < claims {
            true => self.control_claim(choice),
            false => self.control_volume(choice - claims),
        }
    }

    /// Everything that Kubernetes' controllers have to do is done.
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
        let names = |volume: &VolumeDetail| {
            let owner = volume.claim.as_ref();
            !volume.deleting && owner.is_some_and(|owner| owner.uid == claim.uid)
        };
        let mut volumes = self.server.volumes.values();
        let volume = volumes
            .find(|(_, volume)| names(volume))
            .map(|(_, volume)| volume);
        match volume {
            Some(volume) if claim.volume.is_empty() => {
                let claim = Claim {
                    volume: volume.name.clone(),
                    phase: ClaimPhase::Bound,
                    ..claim.clone()
                };
                self.server.put_claim(claim);
                true
            }
            Some(_) | None => false,
        }
    }

    fn control_volume(&mut self, index: usize) -> bool {
        let Some((_, volume)) = self.server.volumes.values().nth(index) else {
            return false;
        };
        let owner = volume.claim.as_ref().unwrap();
        let name: Text = format!("{}/{}", owner.namespace, owner.name).into();
        let claim = self.server.claims.get(&name).map(|(_, claim)| claim);
        let claim = claim.filter(|claim| claim.uid == owner.uid);
        let phase = match claim {
            Some(claim) if claim.volume == volume.name => VolumePhase::Bound,
            Some(_) => volume.phase,
            None => VolumePhase::Released,
        };
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
}
