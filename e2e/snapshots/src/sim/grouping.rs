//! Actions of users and administrators with groups, and the cluster's garbage collector.

use serde_json::json;
use sidecar::snapshot::{
    GROUP_BEING_CREATED, GROUP_BEING_DELETED, GROUP_CONTENT_BOUND, GROUP_HANDLE,
};
use sidecar::text::Text;

use super::kind::Kind;
use super::objects::{content, group, group_content, group_of_content, of_content};
use super::world::World;

/// The finalizer and the annotations of a group's content.
const GROUP_MARKS: [&str; 4] = [
    GROUP_CONTENT_BOUND,
    GROUP_BEING_CREATED,
    GROUP_BEING_DELETED,
    GROUP_HANDLE,
];
/// Names of groups of claims.
const TAKEN: [&str; 2] = ["v1", "v2"];
/// Names of groups of contents that administrators made.
const FOUND: [&str; 2] = ["w1", "w2"];
/// Most contents made by hand.
const BY_HAND: usize = 2;

impl World {
    pub(super) fn people_group(&mut self) {
        match self.dice.below(15) {
            0..=2 => self.someone_groups(),
            3 | 4 => self.someone_deletes(Kind::Group),
            5 if self.dice.one_in(3) => self.someone_deletes(Kind::GroupContent),
            5 => self.someone_deletes(Kind::Snapshot),
            6 => self.policies_change(Kind::GroupContent),
            7 => self.administrator_groups(),
            8 => self.someone_names_what_was_found(),
            9 => self.labels_change(),
            10 => self.someone_deletes_a_member(),
            11..=13 => self.someone_frees_a_member(),
            _ => self.someone_groups(),
        }
    }

    fn someone_groups(&mut self) {
        let name = *self.dice.of(&TAKEN);
        if self
            .server
            .get(Kind::Group, &format!("ns/{name}"))
            .is_some()
        {
            return;
        }
        self.uids += 1;
        let uid = format!("V{}", self.uids);
        let class = match self.dice.below(8) {
            0 => None,
            1 => Some("gx"),
            2 => Some("gr"),
            3 => Some("gs"),
            _ => Some("g"),
        };
        let mut object = group(name, &uid, class);
        if self.dice.one_in(4) {
            object["spec"]["source"]["selector"] =
                json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
        }
        self.add(Kind::Group, object);
    }

    fn someone_names_what_was_found(&mut self) {
        let name = *self.dice.of(&FOUND);
        if self
            .server
            .get(Kind::Group, &format!("ns/{name}"))
            .is_some()
        {
            return;
        }
        let found = { self.server.all(Kind::GroupContent) }.find_map(|(content, made)| {
            let found = made["spec"]["source"]["groupSnapshotHandles"].is_object();
            let names = made["spec"]["volumeGroupSnapshotRef"]["name"] == name;
            (found && names).then(|| content.clone())
        });
        let Some(found) = found else { return };
        self.uids += 1;
        let uid = format!("V{}", self.uids);
        self.add(Kind::Group, group_of_content(name, &uid, &found));
    }

    fn administrator_groups(&mut self) {
        let there = { self.server.all(Kind::GroupContent) }
            .filter(|(_, content)| content["spec"]["source"]["groupSnapshotHandles"].is_object());
        if there.count() >= BY_HAND {
            return;
        }
        self.uids += 1;
        let name = format!("gpp{}", self.uids);
        let (group, members) = self.furnish_group();
        let of = *self.dice.of(&FOUND);
        let policy = if self.dice.one_in(3) {
            "Retain"
        } else {
            "Delete"
        };
        let mut made = group_content(&name, of, (&group, &members), policy);
        if self.crowded && self.dice.one_in(2) {
            made["spec"]["volumeGroupSnapshotClassName"] = "gl".into();
        }
        self.copy_of_an_older_life(&mut made, GROUP_MARKS);
        self.add(Kind::GroupContent, made);
        if self.dice.one_in(2) {
            return;
        }
        // Each member, as users import it.
        for handle in members {
            self.uids += 1;
            let (name, content_name) = (format!("m{}", self.uids), format!("ppm{}", self.uids));
            let uid = format!("U{}", self.uids);
            let pair = [
                (
                    Kind::Content,
                    content(&content_name, &name, &handle, policy),
                ),
                (Kind::Snapshot, of_content(&name, &uid, &content_name)),
            ];
            for (kind, object) in pair {
                self.add(kind, object);
            }
        }
    }

    fn someone_deletes_a_member(&mut self) {
        let members = { self.server.all(Kind::Snapshot) }
            .filter(|(_, snapshot)| snapshot["metadata"]["ownerReferences"].is_array());
        let members: Vec<Text> = members.map(|(key, _)| key.clone()).collect();
        if !members.is_empty() {
            let key = self.dice.of(&members).clone();
            self.delete(Kind::Snapshot, &key);
        }
    }

    fn labels_change(&mut self) {
        let key = *self.dice.of(&["ns/p1", "ns/p2"]);
        self.edit(Kind::Claim, key, |claim| {
            let labels = &mut claim["metadata"]["labels"];
            *labels = if labels["app"].is_null() {
                json!({"app": "x"})
            } else {
                json!({})
            };
        });
    }

    /// Adds the labels again, so that all claims have them.
    pub(super) fn label_claims(&mut self) {
        for key in ["ns/p1", "ns/p2"] {
            let labels = json!({"app": "x"});
            self.edit(Kind::Claim, key, |claim| {
                claim["metadata"]["labels"] = labels
            });
        }
    }

    /// Deletes objects whose owners are gone. Returns whether there were any.
    pub(super) fn collect_garbage(&mut self) -> bool {
        let groups = self.server.all(Kind::Group);
        let there: Vec<&str> = { groups }
            .filter_map(|(_, group)| group["metadata"]["uid"].as_str())
            .collect();
        let garbage = { self.server.all(Kind::Snapshot) }.find(|(_, snapshot)| {
            let owners = snapshot["metadata"]["ownerReferences"].as_array();
            let lives = |owner: &serde_json::Value| {
                owner["uid"]
                    .as_str()
                    .is_some_and(|uid| there.contains(&uid))
            };
            snapshot["metadata"]["deletionTimestamp"].is_null()
                && owners.is_some_and(|owners| !owners.is_empty() && !owners.iter().any(lives))
        });
        let Some(key) = garbage.map(|(key, _)| key.clone()) else {
            return false;
        };
        self.delete(Kind::Snapshot, &key);
        true
    }
}
