//! Actions of users: claims, classes, nodes, snapshots and attachments come and go.

use super::run::{Faults, World};
use super::scene::{CLASS, SOURCE, Scene};
use super::server::PV_PROTECTION;
use crate::keys::{SNAPSHOT_GROUP, STORAGE_PROVISIONER, VOLUME_FINALIZER};
use crate::model::{
    Attachment, Claim, ClaimPhase, ClaimRef, Csi, DataSource, InTree, List, Owner, Quantity,
    Reclaim, Snapshot, Source, Text, VolumeDetail, VolumePhase,
};
use crate::plan::reactor::Key;

pub(super) const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The only snapshot.
const SNAPSHOT: &str = "snap";

impl World {
    /// A user creates or deletes an object.
    pub(super) fn user(&mut self) {
        let claims = self.case.scene.claims();
        let name = match self.dice.below(8) {
            0..=4 => claims[0],
            _ => claims[1 + self.dice.below(claims.len() - 1)],
        };
        match self.dice.below(20) {
            0..=6 => self.create_claim(name),
            7..=10 => self.server.delete_claim(&format!("ns/{name}").into()),
            11 => self.change_class(),
            12 if self.faulty() && self.dice.one_in(2) => self.attach_and_leave(),
            12 | 13 => self.attach(),
            14 => self.detach(),
            15 => self.delete_volume(),
            16 => self.server.secret = self.dice.one_in(2),
            _ => match self.case.scene {
                Scene::Plain => self.change_volumes_by_hand(),
                Scene::Moved => self.change_policy(),
                Scene::Topology => self.move_house(),
                Scene::Sources => self.take_snapshot(),
                Scene::Nodes | Scene::Apart => self.fill(),
            },
        }
    }

    fn create_claim(&mut self, name: &str) {
        let source = if self.case.scene == Scene::Sources && name != SOURCE {
            self.data_source()
        } else {
            None
        };
        self.create_claim_of(name, source);
    }

    pub(super) fn create_claim_of(&mut self, name: &str, source: Option<DataSource>) {
        if self.server.claims.contains_key(&*format!("ns/{name}")) {
            return;
        }
        self.uids += 1;
        let protection: &[&str] = if self.dice.one_in(3) {
            &[]
        } else {
            &[PVC_PROTECTION]
        };
        self.server.put_claim(Claim {
            namespace: "ns".into(),
            name: name.into(),
            uid: format!("u{}", self.uids).into(),
            created: self.server.time(),
            annotations: { [(STORAGE_PROVISIONER, self.case.scene.driver_name())].into_iter() }
                .collect(),
            finalizers: protection.iter().map(|held| Text::from(*held)).collect(),
            class: Some(CLASS.into()),
            access_modes: List::from([Text::from("ReadWriteOnce")]),
            request: Some(Quantity::from_bytes(1 << 30)),
            phase: ClaimPhase::Pending,
            data_source: source.clone(),
            data_source_ref: source,
            ..Claim::default()
        });
    }

    /// Creates the claim to be cloned, and the snapshot.
    pub(super) fn furnish_source(&mut self) {
        self.create_claim(SOURCE);
        let claim = self.server.claims.values().next();
        let Some((_, claim)) = claim.cloned() else {
            return;
        };
        let name = Text::from(format!("pvc-{}", claim.uid));
        let handle = "vol-0";
        self.driver.volumes.insert(name.to_string(), handle.into());
        self.server.put_volume(VolumeDetail {
            name: name.clone(),
            uid: "pv-0".into(),
            owner: Owner {
                provisioned_by: Some("test-driver".into()),
                csi_driver: Some("test-driver".into()),
                ..Owner::default()
            },
            finalizers: [VOLUME_FINALIZER, PV_PROTECTION].map(Text::from).into(),
            phase: VolumePhase::Bound,
            reclaim: Reclaim::Delete,
            class: CLASS.into(),
            claim: Some(ClaimRef {
                namespace: claim.namespace.clone(),
                name: claim.name.clone(),
                uid: claim.uid.clone(),
            }),
            source: csi("test-driver", handle),
            ..VolumeDetail::default()
        });
        self.server.put_claim(Claim {
            volume: name,
            phase: ClaimPhase::Bound,
            ..claim
        });
        self.take_snapshot();
    }

    /// Somebody writes a field of a claim that does not matter here.
    pub(super) fn touch_claim(&mut self, name: &str) {
        if let Some((_, claim)) = self.server.claims.get(name) {
            let claim = claim.clone();
            self.server.put_claim(claim);
        }
    }

    /// A volume comes into use and is released at once.
    pub(super) fn attach_and_leave(&mut self) {
        self.attach();
        let claims: Vec<Text> = self.server.claims.keys().cloned().collect();
        for name in &claims {
            self.server.delete_claim(name);
        }
        self.control_all();
    }

    /// A user deletes the source claim, and the process gets the event.
    pub(super) fn give_up_source(&mut self) {
        self.server.delete_claim(&format!("ns/{SOURCE}").into());
        self.control_all();
        self.asked.clear();
        self.observe_all(0);
    }

    fn data_source(&mut self) -> Option<DataSource> {
        match self.dice.below(5) {
            0 => None,
            1 | 2 => Some(DataSource {
                group: Some(SNAPSHOT_GROUP.into()),
                kind: "VolumeSnapshot".into(),
                name: SNAPSHOT.into(),
                namespace: None,
            }),
            _ => Some(clone_of_source()),
        }
    }

    /// The class goes, or comes back as another one: then new requests differ.
    fn change_class(&mut self) {
        if self.case.faults == Faults::None {
            return;
        }
        if self.server.classes.contains_key(CLASS) {
            self.server.put_class(&CLASS.into(), None)
        } else {
            let number = self.dice.below(self.case.scene.classes());
            self.put_class(number);
        }
    }

    /// Replaces the class by the one of this number.
    pub(super) fn set_class(&mut self, number: usize) {
        self.server.put_class(&CLASS.into(), None);
        self.put_class(number);
    }

    pub(super) fn put_class(&mut self, number: usize) {
        let class = self.case.scene.class(number);
        self.server.put_class(&CLASS.into(), Some(class));
    }

    /// Names of the volumes that satisfy `holds`.
    fn volumes(&self, holds: impl Fn(&VolumeDetail) -> bool) -> Vec<Text> {
        let volumes = self.server.volumes.values();
        let found = volumes.filter(|(_, volume)| holds(volume));
        found.map(|(_, volume)| volume.name.clone()).collect()
    }

    fn attach(&mut self) {
        let names = self.volumes(|volume| volume.phase == VolumePhase::Bound);
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

    /// A user deletes a PersistentVolume. A volume with policy Retain, or not protected yet, stays in the storage
    /// system without any record.
    fn delete_volume(&mut self) {
        let names = self.volumes(|volume| volume.phase != VolumePhase::Pending);
        if names.is_empty() {
            return;
        }
        let name = &names[self.dice.below(names.len())];
        if let Some((_, volume)) = self.server.volumes.get(name)
            && (volume.reclaim != Reclaim::Delete || !volume.is_protected())
        {
            self.excuse(name.to_string());
        }
        let name = name.clone();
        self.server.delete_volume(&name, None).ok();
    }

    /// A volume that was made by hand appears, or the policy of one is changed.
    fn change_volumes_by_hand(&mut self) {
        if self.dice.one_in(2) {
            return self.change_policy();
        }
        if self.server.volumes.len() > 3 {
            return;
        }
        self.uids += 1;
        let name = format!("static-{}", self.uids);
        let owner = |driver: &str| Owner {
            csi_driver: Some(driver.into()),
            ..Owner::default()
        };
        let (owner, source) = match self.dice.below(6) {
            0..=2 => (owner("test-driver"), csi("test-driver", &name)),
            3 => (owner("other-driver"), csi("other-driver", &name)),
            // kube-controller-manager will annotate the driver that it was migrated to.
            _ => (
                Owner {
                    provisioned_by: Some("plugin".into()),
                    in_tree: true,
                    ..owner("test-driver")
                },
                in_tree(&name),
            ),
        };
        let claims = self.server.claims.values().map(|(_, claim)| claim);
        let open = claims.filter(|claim| claim.volume.is_empty() && !claim.deleting);
        let claim = { open }.next().map(|claim| ClaimRef {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
        });
        let reclaim = [Reclaim::Delete, Reclaim::Retain][self.dice.below(3) / 2];
        self.driver.volumes.insert(name.clone(), name.clone());
        self.server.put_volume(VolumeDetail {
            name: name.as_str().into(),
            uid: format!("pv-{}", self.server.version).into(),
            owner,
            finalizers: List::from([Text::from(PV_PROTECTION)]),
            phase: VolumePhase::Available,
            reclaim,
            class: CLASS.into(),
            claim,
            source,
            ..VolumeDetail::default()
        });
    }

    /// The policy of a volume in use changes between Retain and Delete.
    fn change_policy(&mut self) {
        let busy = |name: &Text| {
            let attempts = self.processes().map(|process| &process.attempts);
            let mut running = attempts.flat_map(|attempts| &attempts.running);
            running.any(|running| matches!(&running.key, Key::Volume(busy) if busy == name))
        };
        let names = self.volumes(|volume| {
            let may = match volume.reclaim {
                Reclaim::Delete => volume.phase == VolumePhase::Bound,
                Reclaim::Retain | Reclaim::Recycle | Reclaim::Other => !volume.is_protected(),
            };
            may && !volume.deleting && !busy(&volume.name)
        });
        if names.is_empty() {
            return;
        }
        let name = &names[self.dice.below(names.len())];
        if let Some((_, volume)) = self.server.volumes.get(name) {
            let reclaim = match volume.reclaim {
                Reclaim::Delete => Reclaim::Retain,
                Reclaim::Retain | Reclaim::Recycle | Reclaim::Other => Reclaim::Delete,
            };
            let volume = VolumeDetail {
                reclaim,
                ..volume.clone()
            };
            self.server.put_volume(volume);
        }
    }

    /// A user creates or deletes a snapshot.
    fn take_snapshot(&mut self) {
        match self.server.snapshots.get(SNAPSHOT) {
            None => {
                self.uids += 1;
                self.server.put_snapshot(Snapshot {
                    namespace: "ns".into(),
                    name: SNAPSHOT.into(),
                    uid: format!("u{}", self.uids).into(),
                    content: Some(format!("content-u{}", self.uids).into()),
                    ready: true,
                    ..Snapshot::default()
                });
            }
            Some(_) if self.dice.one_in(2) => self.delete_snapshots(),
            Some(_) => {}
        }
    }

    pub(super) fn delete_snapshots(&mut self) {
        let all: Vec<Snapshot> = self.server.snapshots.values().cloned().collect();
        for snapshot in all {
            let deleting = true;
            self.server.put_snapshot(Snapshot {
                deleting,
                ..snapshot
            });
        }
    }
}

pub(super) fn clone_of_source() -> DataSource {
    DataSource {
        group: None,
        kind: "PersistentVolumeClaim".into(),
        name: SOURCE.into(),
        namespace: None,
    }
}

fn csi(driver: &str, handle: &str) -> Source {
    Source::Csi(Csi {
        driver: driver.into(),
        handle: handle.into(),
    })
}

/// The source of a plugin that the driver has replaced.
fn in_tree(handle: &str) -> Source {
    Source::InTree(Box::new(InTree {
        driver: "test-driver",
        csi: Ok(Csi {
            driver: "test-driver".into(),
            handle: handle.into(),
        }),
    }))
}
