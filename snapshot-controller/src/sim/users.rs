//! Who else changes objects.

use serde_json::{Value, json};
use sidecar::snapshot::{
    BEING_DELETED, CONTENT_BOUND, GROUP_HANDLE, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND,
};

use super::world::{Faults, World};
use crate::model::Text;
use crate::testing::objects::{
    claim, class, classless, content, default_class, group, handmade, labelled, of_content,
    snapshot,
};
use crate::testing::server::{Kind, finalizers};

pub(super) const NAMES: [&str; 3] = ["s1", "s2", "s3"];

impl World {
    pub(super) fn people(&mut self) {
        match self.dice.below(22) {
            0..=4 => self.someone_creates(),
            5..=6 => self.someone_deletes(Kind::Snapshot),
            7 => self.classes_come_and_go(),
            8 | 9 => self.claims_come_and_go(),
            10 => self.someone_restores(),
            11 => self.someone_keeps(),
            12 | 13 => self.others_hold_and_let_go(),
            14 => self.administrator_makes(),
            15 | 16 => self.someone_groups(),
            17 => self.someone_deletes(Kind::Group),
            18 => self.someone_cuts_loose(),
            19 => self.someone_applies_again(),
            20 => self.someone_restores_elsewhere(),
            _ => self.someone_does_harm(),
        }
    }

    fn someone_creates(&mut self) {
        let name = *self.dice.of(&NAMES);
        if self
            .server
            .get(Kind::Snapshot, &format!("ns/{name}"))
            .is_some()
        {
            return;
        }
        self.uids += 1;
        let uid = format!("U{}", self.uids);
        let mut object = match self.dice.below(8) {
            0 => classless(name, &uid),
            1 => of_content(name, &uid, &format!("pp-{name}")),
            2 => {
                let mut object = snapshot(name, &uid);
                object["spec"]["volumeSnapshotClassName"] = "cx".into();
                object
            }
            3 => {
                let mut object = snapshot(name, &uid);
                object["spec"]["volumeSnapshotClassName"] = "cr".into();
                object
            }
            _ => snapshot(name, &uid),
        };
        if object["spec"]["source"]["persistentVolumeClaimName"].is_string() && self.dice.one_in(3)
        {
            object["spec"]["source"]["persistentVolumeClaimName"] = "p2".into();
        }
        self.server.create(Kind::Snapshot, object).unwrap();
    }

    fn someone_groups(&mut self) {
        let name = *self.dice.of(&["v1", "v2"]);
        let key = format!("ns/{name}");
        if self.server.get(Kind::Group, &key).is_some() {
            return;
        }
        self.uids += 1;
        let mut group = group(name, &format!("V{}", self.uids));
        if self.dice.one_in(4) {
            group["spec"]["volumeGroupSnapshotClassName"] = "gr".into();
        }
        self.add(Kind::Group, group);
    }

    fn any(&mut self, kind: Kind) -> Option<Text> {
        let keys: Vec<Text> = self.server.all(kind).map(|(key, _)| key.clone()).collect();
        (!keys.is_empty()).then(|| self.dice.of(&keys).clone())
    }

    fn someone_deletes(&mut self, kind: Kind) {
        if let Some(key) = self.any(kind) {
            let _ = self.server.delete(kind, &key, None);
        }
    }

    fn classes_come_and_go(&mut self) {
        let name = *self.dice.of(&["cx", "d1", "d2"]);
        let there = self.server.get(Kind::Class, name).is_some();
        match (there, name) {
            (true, _) => {
                let _ = self.server.delete(Kind::Class, name, None);
            }
            (false, "d1" | "d2") => self.add(Kind::Class, default_class(name, "T")),
            (false, _) => self.add(Kind::Class, class(name, "T")),
        }
    }

    pub(super) fn add(&mut self, kind: Kind, object: Value) {
        self.server.create(kind, object).unwrap();
    }

    fn claims_come_and_go(&mut self) {
        let (name, volume) = *self.dice.of(&[("p1", "pv1"), ("p2", "pv2")]);
        let key = format!("ns/{name}");
        let Some(found) = self.server.get(Kind::Claim, &key) else {
            let (mut claim, _) = labelled(name, volume, "");
            if self.dice.one_in(2) {
                claim["status"]["phase"] = "Pending".into();
            }
            return self.add(Kind::Claim, claim);
        };
        if found["status"]["phase"] == "Pending" {
            self.server.edit(Kind::Claim, &key, |claim| {
                claim["status"]["phase"] = "Bound".into()
            });
        } else if self.dice.one_in(3) {
            let _ = self.server.delete(Kind::Claim, &key, None);
            // No pod uses it.
            self.server.edit(Kind::Claim, &key, |claim| {
                let mut left = finalizers(claim);
                left.retain(|one| one != "kubernetes.io/pvc-protection");
                claim["metadata"]["finalizers"] = left.into();
            });
        } else {
            self.server.edit(Kind::Claim, &key, |claim| {
                claim["metadata"]["annotations"] = json!({"x": "y"});
            });
        }
    }

    fn someone_restores(&mut self) {
        let name = *self.dice.of(&NAMES);
        let claim_name = format!("r-{name}");
        let key = format!("ns/{claim_name}");
        let bind = |claim: &mut Value| claim["status"]["phase"] = "Bound".into();
        if self.server.get(Kind::Claim, &key).is_some() {
            return self.server.edit(Kind::Claim, &key, bind);
        }
        let mut claim = claim(&claim_name, "");
        claim["status"]["phase"] = "Pending".into();
        claim["metadata"]["finalizers"] = json!([]);
        claim["spec"]["dataSource"] =
            json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name});
        self.add(Kind::Claim, claim);
    }

    /// A backup tool applies a VolumeSnapshot and its content again, under names of its own, with what
    /// held the two and what the status says of them.
    fn someone_applies_again(&mut self) {
        let name = *self.dice.of(&NAMES);
        if { self.server.get(Kind::Snapshot, &format!("ns/{name}")) }.is_some() {
            return;
        }
        self.uids += 1;
        let uid = format!("U{}", self.uids);
        let (mut content, mut again) = (content(name, &uid), snapshot(name, &uid));
        let kept = format!("kept-{uid}");
        content["metadata"]["name"] = kept.as_str().into();
        again["metadata"]["finalizers"] = json!([SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND]);
        again["status"] = json!({"boundVolumeSnapshotContentName": kept, "readyToUse": false});
        self.add(Kind::Content, content);
        self.add(Kind::Snapshot, again);
    }

    /// A claim of another namespace wants to be restored, without a grant.
    fn someone_restores_elsewhere(&mut self) {
        let name = *self.dice.of(&NAMES);
        let mut claim = claim(&format!("r-{name}"), "");
        if { self.server.get(Kind::Claim, &format!("away/r-{name}")) }.is_some() {
            return;
        }
        claim["metadata"]["namespace"] = "away".into();
        claim["metadata"]["finalizers"] = json!([]);
        claim["status"]["phase"] = "Pending".into();
        claim["spec"]["dataSourceRef"] = json!({
            "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name,
            "namespace": "ns",
        });
        self.add(Kind::Claim, claim);
    }

    /// An administrator decides to keep what was to be deleted.
    fn someone_keeps(&mut self) {
        let kind = *self.dice.of(&[Kind::Content, Kind::GroupContent]);
        if let Some(name) = self.any(kind)
            && self.dice.one_in(2)
        {
            self.server.edit(kind, &name, |content| {
                content["spec"]["deletionPolicy"] = "Retain".into();
            });
        }
    }

    /// Finalizers of other programs.
    fn others_hold_and_let_go(&mut self) {
        let kind = *self.dice.of(&[
            Kind::Snapshot,
            Kind::Content,
            Kind::Group,
            Kind::GroupContent,
        ]);
        let Some(key) = self.any(kind) else { return };
        let object = self.server.get(kind, &key).unwrap();
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        let mut held = finalizers(object);
        let before = held.len();
        held.retain(|one| one != "x/y");
        if held.len() == before && !deleting {
            held.insert(0, "x/y".to_owned());
        }
        self.server.edit(kind, &key, |object| {
            object["metadata"]["finalizers"] = held.into()
        });
    }

    fn administrator_makes(&mut self) {
        let name = *self.dice.of(&NAMES);
        let content = format!("pp-{name}");
        if self.server.get(Kind::Content, &content).is_some() {
            return;
        }
        let mut made = handmade(&content, name);
        // Copied from an older life.
        for annotation in [BEING_DELETED, GROUP_HANDLE] {
            if self.dice.one_in(3) {
                made["metadata"]["annotations"][annotation] = "yes".into();
            }
        }
        self.add(Kind::Content, made);
    }

    fn someone_does_harm(&mut self) {
        match self.faults {
            Faults::None | Faults::Crashes => {}
            Faults::All => {
                if let Some(name) = self.any(Kind::Content) {
                    let content = self.server.get(Kind::Content, &name).unwrap();
                    let uid = content["spec"]["volumeSnapshotRef"]["uid"].as_str();
                    let uid = uid.map(str::to_owned);
                    if !finalizers(content).iter().any(|one| one == CONTENT_BOUND) {
                        // Nothing holds it yet: whoever deletes it now keeps the snapshot.
                        self.sidecar.kept.extend(uid.clone());
                    }
                    self.robbed.extend(uid.clone());
                    if self.dice.one_in(2) {
                        // With its finalizers taken: the snapshot is theirs from now on.
                        self.sidecar.kept.extend(uid);
                        return self.server.strip(Kind::Content, &name);
                    }
                    let _ = self.server.delete(Kind::Content, &name, None);
                }
            }
            Faults::Strips => {
                if let Some(key) = self.any(Kind::Snapshot) {
                    let snapshot = self.server.get(Kind::Snapshot, &key).unwrap();
                    let uid = snapshot["metadata"]["uid"].as_str();
                    self.stripped.extend(uid.map(str::to_owned));
                    self.server.strip(Kind::Snapshot, &key);
                }
            }
        }
    }
}
