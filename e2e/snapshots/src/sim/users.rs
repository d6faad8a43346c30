//! Actions of users and administrators.

use serde_json::{Value, json};
use sidecar::snapshot::{BEING_CREATED, BEING_DELETED, CONTENT_BOUND, GROUP_HANDLE};
use sidecar::text::Text;
use sidecar_testkit::sim::server::finalizers;

use super::check::{is_deleting, uid_of};
use super::effect::is_told;
use super::kind::Kind;
use super::objects::{
    BINARY, LISTING, claim, class, content, group_class, of_content, restored, secret, snapshot,
};
use super::world::World;

/// The finalizer and the annotations of a single snapshot's content.
const SINGLE_MARKS: [&str; 4] = [CONTENT_BOUND, BEING_CREATED, BEING_DELETED, GROUP_HANDLE];
pub(super) const NAMES: [&str; 3] = ["s1", "s2", "s3"];
/// Kinds of objects that other programs hold.
const HELD: [Kind; 4] = [
    Kind::Snapshot,
    Kind::Content,
    Kind::Group,
    Kind::GroupContent,
];
pub(super) const HOLDER: &str = "x/y";
/// Most contents made by hand.
const BY_HAND: usize = 3;

impl World {
    pub(super) fn users(&mut self) {
        self.seen.by_hand = true;
        if self.crowded && self.dice.one_in(4) {
            self.others_use_the_cluster();
            self.seen.by_hand = false;
            return;
        }
        if self.grouped && self.dice.one_in(2) {
            self.people_group();
            self.seen.by_hand = false;
            return;
        }
        match self.dice.below(21) {
            0..=4 => self.someone_creates(),
            5..=7 => self.someone_deletes(Kind::Snapshot),
            8 if self.dice.one_in(3) => self.someone_deletes(Kind::Content),
            8 | 9 => self.claims_come_and_go(),
            10 => self.classes_come_and_go(),
            11 => self.someone_restores(),
            12 => self.policies_change(Kind::Content),
            13 | 14 => self.others_hold_and_let_go(),
            15 => self.administrator_makes(),
            16 if self.dice.one_in(2) => self.someone_cuts_loose(),
            17 => self.someone_applies_again(),
            18 => self.someone_restores_elsewhere(),
            19 => self.someone_does_harm(),
            _ => self.surroundings_change(),
        }
        self.seen.by_hand = false;
    }

    pub(super) fn any(&mut self, kind: Kind) -> Option<Text> {
        let keys: Vec<Text> = self.server.all(kind).map(|(key, _)| key.clone()).collect();
        (!keys.is_empty()).then(|| self.dice.of(&keys).clone())
    }

    fn someone_creates(&mut self) {
        let name = *self.dice.of(&NAMES);
        let key = format!("ns/{name}");
        if self.server.get(Kind::Snapshot, &key).is_some() {
            return;
        }
        self.uids += 1;
        let uid = format!("U{}", self.uids);
        let claim = if self.dice.one_in(3) { "p2" } else { "p1" };
        let object = match self.dice.below(8) {
            0 => snapshot(name, &uid, claim, None),
            1 => snapshot(name, &uid, claim, Some("cx")),
            2 => snapshot(name, &uid, claim, Some("cr")),
            3 => snapshot(name, &uid, claim, Some("cs")),
            4 => match self.made_for(name) {
                Some(content) => of_content(name, &uid, &content),
                // An administrator may create the content later.
                None => of_content(name, &uid, &format!("pp-{uid}")),
            },
            _ => snapshot(name, &uid, claim, Some("c1")),
        };
        self.add(Kind::Snapshot, object);
    }

    /// An administrator's content for this VolumeSnapshot.
    fn made_for(&self, name: &str) -> Option<Text> {
        let mut all = self.server.all(Kind::Content);
        let found = all.find(|(_, content)| {
            content["spec"]["source"]["snapshotHandle"].is_string()
                && content["spec"]["volumeSnapshotRef"]["name"] == name
        });
        found.map(|(content, _)| content.clone())
    }

    pub(super) fn someone_deletes(&mut self, kind: Kind) {
        if let Some(key) = self.any(kind) {
            self.seen_by_copies(kind, &key);
            self.delete(kind, &key);
        }
    }

    /// Because of a copied annotation a content says that its VolumeSnapshot is being deleted: a user who deletes it
    /// by hand deletes the snapshot.
    fn seen_by_copies(&mut self, kind: Kind, key: &str) {
        let content = { self.server.get(kind, key) }.filter(|content| is_told(content));
        let Some(content) = content else { return };
        if self.owner(content).is_some_and(|owner| !is_deleting(owner)) {
            self.seen.robbed.insert(uid_of(content).into());
        }
    }

    fn classes_come_and_go(&mut self) {
        let (kind, name, object) = match self.dice.below(5) {
            0 => (Kind::Class, "cx", class("cx")),
            1 => (Kind::Class, "d1", class("d1")),
            2 => (Kind::Class, "d2", class("d2")),
            3 => (Kind::GroupClass, "gx", group_class("gx")),
            _ => (Kind::GroupClass, "gd", group_class("gd")),
        };
        if self.server.get(kind, name).is_some() {
            self.delete(kind, name)
        } else {
            self.add(kind, object)
        }
    }

    fn claims_come_and_go(&mut self) {
        let (name, volume) = *self.dice.of(&[("p1", "pv1"), ("p2", "pv2")]);
        let key = format!("ns/{name}");
        let Some(found) = self.server.get(Kind::Claim, &key) else {
            let mut claim = claim(name, volume);
            if self.dice.one_in(2) {
                claim["status"]["phase"] = "Pending".into();
            }
            return self.add(Kind::Claim, claim);
        };
        if found["status"]["phase"] == "Pending" {
            self.edit(Kind::Claim, &key, |claim| {
                claim["status"]["phase"] = "Bound".into()
            });
        } else if self.dice.one_in(3) {
            self.delete(Kind::Claim, &key);
            // No pod uses the claim.
            self.edit(Kind::Claim, &key, |claim| {
                let mut left = finalizers(claim);
                left.retain(|one| one != "kubernetes.io/pvc-protection");
                claim["metadata"]["finalizers"] = left.into();
            });
        } else {
            self.edit(Kind::Claim, &key, |claim| {
                claim["metadata"]["annotations"] = json!({"x": "y"});
            });
        }
    }

    fn someone_restores(&mut self) {
        let name = match self.any(Kind::Snapshot) {
            Some(key) if self.dice.one_in(2) => key.trim_start_matches("ns/").to_owned(),
            Some(_) | None => (*self.dice.of(&NAMES)).to_owned(),
        };
        let key = format!("ns/r-{name}");
        if self.server.get(Kind::Claim, &key).is_some() {
            let bind = |claim: &mut Value| claim["status"]["phase"] = "Bound".into();
            return self.edit(Kind::Claim, &key, bind);
        }
        self.add(Kind::Claim, restored(&name));
    }

    pub(super) fn policies_change(&mut self, kind: Kind) {
        if let Some(name) = self.any(kind) {
            let content = self.server.get(kind, &name).unwrap();
            if self.owner(content).is_none_or(is_deleting) {
                // Only the user who made this decision will delete it now.
                self.seen.reconsidered.insert(name.clone());
            }
            self.edit(kind, &name, |content| {
                let policy = &mut content["spec"]["deletionPolicy"];
                *policy = if policy == "Delete" {
                    "Retain"
                } else {
                    "Delete"
                }
                .into();
            });
        }
    }

    /// Other programs add and remove their finalizers.
    fn others_hold_and_let_go(&mut self) {
        let kind = *self.dice.of(&HELD);
        let Some(key) = self.any(kind) else { return };
        let object = self.server.get(kind, &key).unwrap();
        let mut held = finalizers(object);
        let before = held.len();
        held.retain(|one| one != HOLDER);
        if held.len() == before && !is_deleting(object) {
            held.insert(0, HOLDER.to_owned());
        }
        self.edit(kind, &key, |object| {
            object["metadata"]["finalizers"] = held.into()
        });
    }

    pub(super) fn administrator_makes(&mut self) {
        let there = self
            .server
            .all(Kind::Content)
            .filter(|(_, content)| content["spec"]["source"]["snapshotHandle"].is_string());
        if there.count() >= BY_HAND {
            return;
        }
        self.uids += 1;
        let (size, unready) = self.taken();
        let handle = self.storage.furnish(size, unready);
        let awaited = self.awaited_content();
        let (name, of) = match awaited {
            Some(awaited) if self.dice.one_in(2) => awaited,
            Some(_) | None => {
                let of = *self.dice.of(&NAMES);
                (format!("pp{}", self.uids), of.to_owned())
            }
        };
        let policy = if self.dice.one_in(3) {
            "Retain"
        } else {
            "Delete"
        };
        let mut made = content(&name, &of, &handle, policy);
        if self.crowded && self.dice.one_in(2) {
            made["spec"]["volumeSnapshotClassName"] = "cl".into();
        }
        self.copy_of_an_older_life(&mut made, SINGLE_MARKS);
        self.add(Kind::Content, made);
    }

    /// A content that a VolumeSnapshot names and nobody has created yet, and the name of that VolumeSnapshot.
    fn awaited_content(&self) -> Option<(String, String)> {
        self.server.all(Kind::Snapshot).find_map(|(_, snapshot)| {
            let name = snapshot["spec"]["source"]["volumeSnapshotContentName"].as_str()?;
            let new = !self.seen.contents.contains_key(name);
            let of = snapshot["metadata"]["name"].as_str()?;
            new.then(|| (name.to_owned(), of.to_owned()))
        })
    }

    /// Copies leftovers of an older life, as backup tools do when they re-create objects.
    pub(super) fn copy_of_an_older_life(&mut self, made: &mut Value, marks: [&str; 4]) {
        let [finalizer, marks @ ..] = marks;
        for mark in marks {
            if self.dice.one_in(4) {
                made["metadata"]["annotations"][mark] = "yes".into();
            }
        }
        if self.dice.one_in(4) {
            made["metadata"]["finalizers"] = json!([finalizer]);
        }
    }

    fn surroundings_change(&mut self) {
        if self.dice.one_in(3) {
            self.storage.picky = !self.storage.picky;
            return;
        }
        if !self.is_faulty() {
            return;
        }
        match self.dice.below(2) {
            0 => self.goes_or_comes(),
            _ => self.a_secret_changes(),
        }
    }

    /// A Secret goes or comes, or gets values that are no text.
    fn a_secret_changes(&mut self) {
        let listing = self.crowded && self.dice.one_in(2);
        let name = if listing { LISTING } else { "sec" };
        let key = format!("ns/{name}");
        match self.server.get(Kind::Secret, &key) {
            None => self.add(Kind::Secret, secret(name)),
            Some(_) if self.dice.one_in(3) => {
                self.edit(Kind::Secret, &key, |secret| secret[BINARY] = true.into());
            }
            Some(_) => self.delete(Kind::Secret, &key),
        }
    }

    /// Creates the Secrets again.
    fn provide_secrets(&mut self) {
        let listing = self.crowded.then_some(LISTING);
        for name in listing.into_iter().chain(["sec"]) {
            self.delete(Kind::Secret, &format!("ns/{name}"));
            self.add(Kind::Secret, secret(name));
        }
    }

    fn goes_or_comes(&mut self) {
        self.away = !self.away;
        if !self.away {
            self.snapshotter.driver_is_back();
        }
    }

    /// People finally provide everything that was missing and remove all obstacles.
    pub(super) fn mend(&mut self) {
        self.seen.by_hand = true;
        self.storage.picky = false;
        if self.away {
            self.goes_or_comes();
        }
        self.classes_are_ours();
        for kind in HELD {
            let all: Vec<Text> = self.server.all(kind).map(|(key, _)| key.clone()).collect();
            for key in all {
                let object = self.server.get(kind, &key).unwrap();
                let mut left = finalizers(object);
                left.retain(|one| one != HOLDER);
                if left.len() < finalizers(object).len() {
                    self.edit(kind, &key, |object| {
                        object["metadata"]["finalizers"] = left.into()
                    });
                }
            }
        }
        self.seen.by_hand = false;
        self.restore_what_is_ready();
        // With two defaults the choice is open. A default that is in use stays as a class; a process that has not
        // noticed may still choose it.
        self.delete(Kind::Class, "d2");
        let mut usual = class("c1");
        usual["metadata"]["name"] = "d2".into();
        self.add(Kind::Class, usual);
        for (kind, name, object) in [
            (Kind::Class, "cx", class("cx")),
            (Kind::Class, "d1", class("d1")),
            (Kind::GroupClass, "gx", group_class("gx")),
            (Kind::GroupClass, "gd", group_class("gd")),
        ] {
            if self.server.get(kind, name).is_none() {
                self.add(kind, object);
            }
        }
        self.label_claims();
        self.provide_secrets();
    }

    /// Binds claims, except those that restore from a VolumeSnapshot that is not ready.
    pub(super) fn restore_what_is_ready(&mut self) {
        let is_ready = |claim: &Value| {
            let Some(name) = claim["spec"]["dataSource"]["name"].as_str() else {
                return true;
            };
            let snapshot = self.server.get(Kind::Snapshot, &format!("ns/{name}"));
            snapshot.is_some_and(|snapshot| snapshot["status"]["readyToUse"] == true)
        };
        // Nobody ever permits a restore across namespaces.
        let claims = { self.server.all(Kind::Claim) }
            .filter(|(key, claim)| key.starts_with("ns/") && is_ready(claim));
        for key in claims.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.edit(Kind::Claim, &key, |claim| {
                claim["status"]["phase"] = "Bound".into()
            });
        }
    }

    /// Creates deleted claims again if something waits for them.
    pub(super) fn claims_that_are_wanted(&mut self) {
        for (name, volume) in [("p1", "pv1"), ("p2", "pv2")] {
            let key = format!("ns/{name}");
            if self.server.get(Kind::Claim, &key).is_none() {
                self.add(Kind::Claim, claim(name, volume));
            }
        }
    }
}
