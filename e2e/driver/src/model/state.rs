//! The driver's whole state, and its changes.
//!
//! The state is the fold of a list of changes. The journal keeps that list, so that several driver
//! processes with one state folder see the same state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::snapshot::{Group, Snapshot};
use super::topology::Segments;
use super::volume::Volume;

/// A node where a driver with the node role was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Node ID in NodeGetInfo.
    pub id: String,
    /// Its topology segments; empty without topology.
    pub topology: Segments,
    /// Attachments that the controller allows at most, 0 for no limit.
    pub attach_limit: i64,
}

/// The driver's whole state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Highest assigned sequence number.
    pub sequence: u64,
    /// By volume handle.
    pub volumes: BTreeMap<String, Volume>,
    /// By snapshot handle.
    pub snapshots: BTreeMap<String, Snapshot>,
    /// By group handle.
    pub groups: BTreeMap<String, Group>,
    /// By node id.
    pub nodes: BTreeMap<String, Node>,
    /// Volume handle by CreateVolume name; derived.
    #[serde(skip)]
    names: BTreeMap<String, String>,
}

/// One change of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Adds or replaces a volume.
    PutVolume(Box<Volume>),
    /// Forgets a volume.
    DropVolume(String),
    /// Adds or replaces a snapshot.
    PutSnapshot(Snapshot),
    /// Forgets a snapshot.
    DropSnapshot(String),
    /// Adds or replaces a group.
    PutGroup(Group),
    /// Forgets a group, but not its snapshots.
    DropGroup(String),
    /// Adds or replaces a node.
    PutNode(Node),
    /// Forgets a node.
    DropNode(String),
    /// Prevents numbers from being assigned twice after the journal is rewritten.
    Sequence(u64),
}

impl State {
    /// Applies a change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::PutVolume(volume) => {
                self.sequence = self.sequence.max(volume.sequence);
                if !volume.name.is_empty() {
                    self.names.insert(volume.name.clone(), volume.id.clone());
                }
                self.volumes.insert(volume.id.clone(), *volume);
            }
            Change::DropVolume(id) => {
                if let Some(volume) = self.volumes.remove(&id) {
                    self.names.remove(&volume.name);
                }
            }
            Change::PutSnapshot(snapshot) => {
                self.sequence = self.sequence.max(snapshot.sequence);
                self.snapshots.insert(snapshot.id.clone(), snapshot);
            }
            Change::DropSnapshot(id) => drop(self.snapshots.remove(&id)),
            Change::PutGroup(group) => drop(self.groups.insert(group.id.clone(), group)),
            Change::DropGroup(id) => drop(self.groups.remove(&id)),
            Change::PutNode(node) => drop(self.nodes.insert(node.id.clone(), node)),
            Change::DropNode(id) => drop(self.nodes.remove(&id)),
            Change::Sequence(number) => self.sequence = self.sequence.max(number),
        }
    }

    /// The shortest list of changes from the empty state to this one.
    pub fn changes(&self) -> Vec<Change> {
        let mut all = vec![Change::Sequence(self.sequence)];
        all.extend(self.nodes.values().cloned().map(Change::PutNode));
        all.extend(
            self.volumes
                .values()
                .cloned()
                .map(Box::new)
                .map(Change::PutVolume),
        );
        all.extend(self.snapshots.values().cloned().map(Change::PutSnapshot));
        all.extend(self.groups.values().cloned().map(Change::PutGroup));
        all
    }

    /// The volume that a CreateVolume call of that name created.
    pub fn volume_named(&self, name: &str) -> Option<&Volume> {
        self.names.get(name).and_then(|id| self.volumes.get(id))
    }

    /// The snapshot that a CreateSnapshot call of that name created.
    pub fn snapshot_named(&self, name: &str) -> Option<&Snapshot> {
        self.snapshots
            .values()
            .find(|snapshot| snapshot.name == name)
    }

    /// Volumes attached to a node.
    pub fn attached_to(&self, node: &str) -> usize {
        self.volumes
            .values()
            .filter(|volume| volume.attachments.contains_key(node))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::volume;

    #[test]
    fn replaying_the_changes_gives_the_same_state() {
        let mut state = State::default();
        state.apply(Change::PutVolume(Box::new(volume("v1", 1))));
        state.apply(Change::PutVolume(Box::new(volume("v2", 2))));
        state.apply(Change::DropVolume("v2".to_owned()));
        let mut again = State::default();
        for change in state.changes() {
            let text = serde_json::to_string(&change).unwrap();
            again.apply(serde_json::from_str(&text).unwrap());
        }
        assert_eq!(again, state);
        assert_eq!(
            again.sequence, 2,
            "numbers of deleted volumes are not given out again"
        );
        assert_eq!(again.volume_named("name-v1").unwrap().id, "v1");
        assert!(again.volume_named("name-v2").is_none());
    }
}
