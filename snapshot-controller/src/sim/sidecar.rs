//! Who takes and deletes snapshots: as much of csi-snapshotter as the controller notices.
//!
//! It is the older of the two that there are: it never adds the finalizer that it removes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sidecar::snapshot::{BEING_CREATED, BEING_DELETED, CONTENT_BOUND, GROUP_HANDLE};

use super::world::World;
use crate::model::Text;
use crate::testing::objects::taken;
use crate::testing::server::{Kind, finalizers};

#[derive(Default)]
pub(super) struct Sidecar {
    /// Contents whose snapshot was taken, with whether it is ready, which is not written yet.
    answers: BTreeMap<Text, bool>,
    /// Snapshots in storage, by UID of their VolumeSnapshot.
    pub(super) storage: BTreeSet<String>,
    /// Those that were to be kept.
    pub(super) kept: BTreeSet<String>,
}

impl Sidecar {
    pub(super) fn crash(&mut self) {
        self.answers.clear();
    }
}

impl World {
    /// The sidecar makes one step on some content. Says whether there was one to make.
    pub(super) fn sidecar_works(&mut self) -> bool {
        let names: Vec<Text> = self
            .server
            .all(Kind::Content)
            .map(|(name, _)| name.clone())
            .collect();
        if names.is_empty() || self.dice.one_in(3) {
            return self.group_sidecar_works() || !names.is_empty() && self.sidecar_of(&names);
        }
        self.sidecar_of(&names) || self.group_sidecar_works()
    }

    fn sidecar_of(&mut self, names: &[Text]) -> bool {
        let first = self.dice.below(names.len());
        let turned = names.iter().cycle().skip(first).take(names.len());
        turned
            .cloned()
            .collect::<Vec<_>>()
            .into_iter()
            .any(|name| self.sidecar_step(&name))
    }

    /// A member's snapshot is the group's: only its status and its finalizer are this one's.
    fn sidecar_of_member(&mut self, name: &Text, content: &Value) -> bool {
        let metadata = &content["metadata"];
        let marked = metadata["annotations"][BEING_DELETED].is_string();
        if !metadata["deletionTimestamp"].is_null() && marked {
            let mut left = finalizers(content);
            let held = left.len();
            left.retain(|one| one != CONTENT_BOUND);
            let changed = left.len() < held;
            if changed {
                self.server.edit(Kind::Content, name, |content| {
                    content["metadata"]["finalizers"] = left.into();
                });
            }
            return changed;
        }
        let waits = content["status"]["readyToUse"] == false;
        if waits {
            self.server.edit(Kind::Content, name, |content| {
                content["status"]["readyToUse"] = true.into();
            });
        }
        waits
    }

    fn sidecar_step(&mut self, name: &Text) -> bool {
        let Some(content) = self.server.get(Kind::Content, name).cloned() else {
            return false;
        };
        let made = content["spec"]["source"]["snapshotHandle"].is_string();
        if content["metadata"]["annotations"][GROUP_HANDLE].is_string() && !made {
            return self.sidecar_of_member(name, &content);
        }
        let annotations = &content["metadata"]["annotations"];
        let (creating, marked) = (
            !annotations[BEING_CREATED].is_null(),
            !annotations[BEING_DELETED].is_null(),
        );
        let deleting = !content["metadata"]["deletionTimestamp"].is_null();
        let unbound = content["spec"]["volumeSnapshotRef"]["uid"]
            .as_str()
            .unwrap_or_default()
            .is_empty();
        if deleting && !creating && (marked || made && unbound) {
            return self.sidecar_deletes(name, &content);
        }
        if made {
            let uid = content["spec"]["volumeSnapshotRef"]["uid"]
                .as_str()
                .unwrap_or_default();
            let known = !content["status"].is_null();
            if known && !unbound && !deleting {
                // There from the start: from now on its VolumeSnapshot's deletion counts.
                self.sidecar.storage.insert(uid.to_owned());
            }
            if !known {
                self.write_status(name, taken(true));
            }
            return !known;
        }
        self.sidecar_creates(name, &content, creating)
    }

    fn sidecar_deletes(&mut self, name: &Text, content: &Value) -> bool {
        let uid = content["spec"]["volumeSnapshotRef"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let delete = content["spec"]["deletionPolicy"] == "Delete";
        if delete && content["status"]["snapshotHandle"].is_string() {
            self.sidecar.storage.remove(&uid);
            self.write_status(name, json!({}));
            return true;
        }
        if !delete {
            self.sidecar.kept.insert(uid);
        }
        let mut left = finalizers(content);
        let held = left.len();
        left.retain(|one| one != CONTENT_BOUND);
        let changed = left.len() < held;
        if changed {
            self.server.edit(Kind::Content, name, |content| {
                content["metadata"]["finalizers"] = left.into();
            });
        }
        changed
    }

    fn sidecar_creates(&mut self, name: &Text, content: &Value, creating: bool) -> bool {
        let uid = content["spec"]["volumeSnapshotRef"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if content["status"]["readyToUse"] == true {
            if creating {
                self.mark(name, false);
            }
            return creating;
        }
        if content["status"]["snapshotHandle"].is_string() && !creating {
            // Polled: it is ready at last.
            self.write_status(name, taken(true));
            return true;
        }
        if !creating {
            self.mark(name, true);
            return true;
        }
        if let Some(ready) = self.sidecar.answers.get(name).copied() {
            self.write_status(name, taken(ready));
            self.sidecar.answers.remove(name);
            self.mark(name, false);
            return true;
        }
        let fails = !self.settling && self.dice.one_in(4);
        if fails {
            // A driver that has taken it does not say for good that it cannot.
            let unknown = self.sidecar.storage.contains(&uid) || self.dice.one_in(2);
            if unknown && self.dice.one_in(2) {
                self.sidecar.storage.insert(uid);
            }
            if !unknown {
                self.mark(name, false);
            }
            let error = json!({"message": "failed", "time": "2026-01-02T03:04:05Z"});
            self.write_status(name, json!({"readyToUse": false, "error": error}));
            return true;
        }
        self.sidecar.storage.insert(uid);
        let ready = self.settling || self.dice.one_in(2);
        self.sidecar.answers.insert(name.clone(), ready);
        true
    }

    fn write_status(&mut self, name: &Text, status: Value) {
        self.server
            .edit(Kind::Content, name, |content| content["status"] = status);
    }

    fn mark(&mut self, name: &Text, on: bool) {
        self.server.edit(Kind::Content, name, |content| {
            let annotations = &mut content["metadata"]["annotations"];
            if annotations.is_null() {
                *annotations = json!({});
            }
            let annotations = annotations.as_object_mut().unwrap();
            if on {
                annotations.insert(BEING_CREATED.to_owned(), "yes".into())
            } else {
                annotations.remove(BEING_CREATED)
            };
        });
    }
}
