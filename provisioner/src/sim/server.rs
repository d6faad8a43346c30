//! The model API server: objects, resource versions, finalizers, and the log that watches replay.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use sidecar::kube::edit::Edit;
use sidecar_testkit::sim::watch::Versioned;

use super::step::name_of;
use super::wire::{read_volume, texts};
use crate::keys::SELECTED_NODE;
use crate::model::{Attachment, Claim, Class, List, Pairs, Snapshot, Text, VolumeDetail};
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::topology::Entry;

/// A change; `None` once the object is gone.
#[derive(Clone)]
pub(super) enum Event {
    Claim(Text, Option<Claim>),
    Volume(Text, Option<VolumeDetail>),
    Attachment(Text, Option<Attachment>),
    Class(Text, Option<Class>),
    Node(Text, Option<NodeInfo>),
}

/// A Node and its CSINode in one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeInfo {
    /// Labels of the Node, if there is one.
    pub(super) labels: Option<Pairs>,
    /// The driver's entry in the CSINode.
    pub(super) driver: Entry,
}

/// Kubernetes' own finalizer on volumes in use.
pub(super) const PV_PROTECTION: &str = "kubernetes.io/pv-protection";

#[derive(Default)]
pub(super) struct Server {
    pub(super) version: u64,
    /// The server's clock.
    pub(super) seconds: i64,
    pub(super) claims: BTreeMap<Text, Versioned<Claim>>,
    /// Nodes that were selected until their provisioner removed them, by UID of the claim.
    pub(super) unselected: BTreeMap<Text, BTreeSet<Text>>,
    pub(super) volumes: BTreeMap<Text, Versioned<VolumeDetail>>,
    pub(super) attachments: BTreeMap<Text, Versioned<Attachment>>,
    pub(super) classes: BTreeMap<Text, Versioned<Class>>,
    pub(super) nodes: BTreeMap<Text, Versioned<NodeInfo>>,
    /// Annotations by name.
    pub(super) leases: BTreeMap<String, Versioned<BTreeMap<String, String>>>,
    /// Number of times that the Lease of this name was created.
    pub(super) made: BTreeMap<String, u64>,
    /// A quota or a webhook rejects all writes of Leases.
    pub(super) refuses_leases: bool,
    /// Snapshots, which no process watches in this simulation.
    pub(super) snapshots: BTreeMap<Text, Snapshot>,
    /// Whether the Secret exists.
    pub(super) secret: bool,
    /// Every change with its resource version, oldest first.
    pub(super) log: Vec<Versioned<Event>>,
}

pub(super) fn refusal(refusal: Refusal) -> ApiError {
    ApiError {
        message: "simulated".into(),
        refusal,
    }
}

/// The finalizers after an edit.
fn changed(before: &List, deleting: bool, edit: &Edit) -> Result<List, ApiError> {
    let kept = before
        .iter()
        .filter(|held| edit.remove_finalizer != Some(&***held));
    let mut after: Vec<Text> = kept.cloned().collect();
    if let Some(added) = edit.add_finalizer
        && !after.iter().any(|held| **held == *added)
    {
        if deleting {
            return Err(refusal(Refusal::Other));
        }
        after.push(added.into());
    }
    Ok(after.into())
}

/// The claim with `node` selected.
pub(super) fn selected(claim: &Claim, node: &str) -> Claim {
    let others = claim
        .annotations
        .iter()
        .filter(|(key, _)| *key != SELECTED_NODE);
    Claim {
        annotations: others.chain([(SELECTED_NODE, node)]).collect(),
        ..claim.clone()
    }
}

fn publish(log: &mut Vec<Versioned<Event>>, version: &mut u64, event: Event) -> u64 {
    *version += 1;
    log.push((*version, event));
    *version
}

impl Server {
    /// Length of the log, and its version.
    pub(super) fn now(&self) -> (usize, u64) {
        (self.log.len(), self.version)
    }

    /// The time that the server writes into objects.
    pub(super) fn time(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.seconds).ok()
    }

    fn publish(&mut self, event: Event) -> u64 {
        publish(&mut self.log, &mut self.version, event)
    }

    /// Saves a claim; removes it if it is being deleted and has no finalizer left.
    pub(super) fn put_claim(&mut self, mut object: Claim) -> Versioned<Claim> {
        let name = object.key();
        if object.deleting && object.finalizers.is_empty() {
            self.publish(Event::Claim(name.clone(), None));
            self.claims.remove(&name);
            // The real server returns the new content with the old version.
            return (object.version, object);
        }
        object.version = self.version + 1;
        let version = self.publish(Event::Claim(name.clone(), Some(object.clone())));
        self.claims.insert(name, (version, object.clone()));
        (version, object)
    }

    pub(super) fn put_volume(&mut self, mut object: VolumeDetail) -> Versioned<VolumeDetail> {
        let name = object.name.clone();
        if object.deleting && object.finalizers.is_empty() {
            self.publish(Event::Volume(name.clone(), None));
            self.volumes.remove(&name);
            return (object.version, object);
        }
        object.version = self.version + 1;
        let version = self.publish(Event::Volume(name.clone(), Some(object.clone())));
        self.volumes.insert(name, (version, object.clone()));
        (version, object)
    }

    pub(super) fn put_attachment(&mut self, name: &Text, object: Option<Attachment>) {
        let version = self.publish(Event::Attachment(name.clone(), object.clone()));
        match object {
            Some(object) => self.attachments.insert(name.clone(), (version, object)),
            None => self.attachments.remove(name),
        };
    }

    pub(super) fn put_class(&mut self, name: &Text, object: Option<Class>) {
        let version = self.publish(Event::Class(name.clone(), object.clone()));
        match object {
            Some(object) => self.classes.insert(name.clone(), (version, object)),
            None => self.classes.remove(name),
        };
    }

    pub(super) fn put_node(&mut self, name: &Text, object: Option<NodeInfo>) {
        let version = self.publish(Event::Node(name.clone(), object.clone()));
        match object {
            Some(object) => self.nodes.insert(name.clone(), (version, object)),
            None => self.nodes.remove(name),
        };
    }

    /// Saves a snapshot; removes it if it is being deleted and has no finalizer left.
    pub(super) fn put_snapshot(&mut self, object: Snapshot) {
        let name = object.name.clone();
        self.version += 1;
        if object.deleting && object.finalizers.is_empty() {
            self.snapshots.remove(&name)
        } else {
            self.snapshots.insert(name, object)
        };
    }

    pub(super) fn delete_claim(&mut self, name: &Text) {
        if let Some((_, object)) = self.claims.get(name)
            && !object.deleting
        {
            let object = Claim {
                deleting: true,
                deleted: self.time(),
                ..object.clone()
            };
            self.put_claim(object);
        }
    }

    /// DELETE of a volume; `uid` is its precondition.
    pub(super) fn delete_volume(
        &mut self,
        name: &Text,
        uid: Option<&Text>,
    ) -> Result<Versioned<VolumeDetail>, ApiError> {
        let (version, object) = self
            .volumes
            .get(name)
            .ok_or_else(|| refusal(Refusal::NotFound))?;
        if uid.is_some_and(|uid| *uid != object.uid) {
            return Err(refusal(Refusal::Conflict));
        }
        if object.deleting {
            return Ok((*version, object.clone()));
        }
        let object = VolumeDetail {
            deleting: true,
            ..object.clone()
        };
        Ok(self.put_volume(object))
    }

    /// GET, change and PUT of a claim.
    pub(super) fn edit_claim(
        &mut self,
        name: &Text,
        uid: Option<&Text>,
        edit: &Edit,
    ) -> Result<Versioned<Claim>, ApiError> {
        let (version, before) = { self.claims.get(name) }
            .filter(|(_, before)| uid.is_none_or(|uid| *uid == before.uid))
            .ok_or_else(|| refusal(Refusal::NotFound))?;
        let finalizers = changed(&before.finalizers, before.deleting, edit)?;
        let annotations = before.annotations.iter();
        let mut object = Claim {
            finalizers,
            annotations: { annotations.filter(|(key, _)| edit.unannotate != Some(key)) }.collect(),
            ..before.clone()
        };
        if let Some((_, node)) = &edit.annotate
            && object.selected_node().is_empty()
        {
            object = selected(&object, node);
        }
        if object == *before {
            return Ok((*version, object));
        }
        let node = before.selected_node();
        if edit.unannotate.is_some() && object.selected_node() != node {
            let nodes = self.unselected.entry(object.uid.clone()).or_default();
            nodes.insert(node.into());
        }
        Ok(self.put_claim(object))
    }

    /// Sets the selected node, whichever is set.
    pub(super) fn take(
        &mut self,
        name: &Text,
        uid: Option<&Text>,
        edit: &Edit,
    ) -> Result<Versioned<Claim>, ApiError> {
        let held = self.claims.get(name).map(|(_, claim)| claim);
        match (held, &edit.annotate) {
            (Some(claim), Some((_, node))) if uid == Some(&claim.uid) => {
                let claim = selected(claim, node);
                Ok(self.put_claim(claim))
            }
            (_, _) => Err(refusal(Refusal::NotFound)),
        }
    }

    /// GET, change and PUT of a snapshot.
    pub(super) fn edit_snapshot(
        &mut self,
        key: &str,
        uid: Option<&Text>,
        edit: &Edit,
    ) -> Result<(), ApiError> {
        let before = { self.snapshots.get(name_of(key)) }
            .filter(|before| uid.is_none_or(|uid| *uid == before.uid))
            .ok_or_else(|| refusal(Refusal::NotFound))?;
        let finalizers = changed(&before.finalizers, before.deleting, edit)?;
        let before = before.clone();
        if finalizers != before.finalizers {
            self.put_snapshot(Snapshot {
                finalizers,
                ..before
            });
        }
        Ok(())
    }

    /// POST of a volume.
    pub(super) fn create_volume(
        &mut self,
        object: &Value,
    ) -> Result<Versioned<VolumeDetail>, ApiError> {
        let mut volume = read_volume(object);
        if self.volumes.contains_key(&volume.name) {
            return Err(refusal(Refusal::AlreadyExists));
        }
        let protected = volume
            .finalizers
            .iter()
            .cloned()
            .chain([PV_PROTECTION.into()]);
        volume.finalizers = protected.collect();
        volume.uid = format!("pv-{}", self.version).into();
        Ok(self.put_volume(volume))
    }

    /// Strategic merge patch of a volume's finalizers; `uid` is its precondition.
    pub(super) fn patch_volume(
        &mut self,
        name: &Text,
        uid: Option<&Text>,
        patch: &Value,
    ) -> Result<Versioned<VolumeDetail>, ApiError> {
        let (version, before) = self
            .volumes
            .get(name)
            .ok_or_else(|| refusal(Refusal::NotFound))?;
        // The real server answers 422: the field is immutable.
        if uid.is_some_and(|uid| *uid != before.uid) {
            return Err(refusal(Refusal::Other));
        }
        let listed = |field: &str| texts(&patch["metadata"][field]);
        let removed = listed("$deleteFromPrimitiveList/finalizers");
        let kept = before
            .finalizers
            .iter()
            .filter(|held| !removed.contains(held));
        let mut finalizers: Vec<Text> = kept.cloned().collect();
        for added in listed("finalizers").iter() {
            if !finalizers.contains(added) {
                if before.deleting {
                    return Err(refusal(Refusal::Other));
                }
                finalizers.push(added.clone());
            }
        }
        let object = VolumeDetail {
            finalizers: finalizers.into(),
            ..before.clone()
        };
        if object == *before {
            return Ok((*version, object));
        }
        Ok(self.put_volume(object))
    }
}
