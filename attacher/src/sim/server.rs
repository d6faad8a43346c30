//! The model API server: objects, resource versions, finalizers, and the log that watches replay.

use std::collections::BTreeMap;

use serde_json::Value;
use sidecar_testkit::sim::watch::Versioned;

use crate::model::{Attachment, CsiNode, Text, Volume};
use crate::plan::outcome::{ApiError, Refusal};
use crate::testing::{json_patch, merge};

/// A change; `None` means that the object is gone.
#[derive(Clone)]
pub(super) enum Event {
    Attachment(Text, Option<Attachment>),
    Volume(Text, Option<Volume>),
    Node(Text, Option<CsiNode>),
}

#[derive(Default)]
pub(super) struct Server {
    version: u64,
    pub(super) attachments: BTreeMap<Text, Versioned<Attachment>>,
    pub(super) volumes: BTreeMap<Text, Versioned<Volume>>,
    pub(super) nodes: BTreeMap<Text, Versioned<CsiNode>>,
    /// Every change with its resource version, oldest first.
    pub(super) log: Vec<Versioned<Event>>,
}

pub(super) fn not_found() -> ApiError {
    ApiError {
        message: "not found".into(),
        refusal: Refusal::NotFound,
    }
}

fn invalid() -> ApiError {
    ApiError {
        message: "invalid".into(),
        refusal: Refusal::Other,
    }
}

impl Server {
    fn publish(&mut self, event: Event) -> u64 {
        self.version += 1;
        self.log.push((self.version, event));
        self.version
    }

    /// Saves an attachment; removes it if it is being deleted and has no finalizer left.
    pub(super) fn put_attachment(&mut self, mut object: Attachment) -> Versioned<Attachment> {
        let name = object.name.clone();
        if object.deleting && object.finalizers.is_empty() {
            // Like the real server, answers with the new content and the old version.
            self.publish(Event::Attachment(name.clone(), None));
            self.attachments.remove(&name);
            return (object.version, object);
        }
        object.version = self.version + 1;
        let version = self.publish(Event::Attachment(name.clone(), Some(object.clone())));
        self.attachments.insert(name, (version, object.clone()));
        (version, object)
    }

    pub(super) fn put_volume(&mut self, name: &Text, object: Volume) -> Versioned<Volume> {
        if object.deleting && object.finalizers.is_none() {
            let before = self.volumes.remove(name).map_or(0, |(version, _)| version);
            self.publish(Event::Volume(name.clone(), None));
            return (before, object);
        }
        let version = self.publish(Event::Volume(name.clone(), Some(object.clone())));
        self.volumes.insert(name.clone(), (version, object.clone()));
        (version, object)
    }

    pub(super) fn put_node(&mut self, name: &Text, object: Option<CsiNode>) {
        let version = self.publish(Event::Node(name.clone(), object.clone()));
        match object {
            Some(object) => self.nodes.insert(name.clone(), (version, object)),
            None => self.nodes.remove(name),
        };
    }

    pub(super) fn delete_attachment(&mut self, name: &Text) {
        if let Some((_, object)) = self.attachments.get(name) {
            self.put_attachment(Attachment {
                deleting: true,
                ..object.clone()
            });
        }
    }

    pub(super) fn delete_volume(&mut self, name: &Text) {
        if let Some((_, object)) = self.volumes.get(name) {
            let object = Volume {
                deleting: true,
                ..object.clone()
            };
            self.put_volume(name, object);
        }
    }

    pub(super) fn patch_attachment(
        &mut self,
        name: &Text,
        uid: Option<&Text>,
        patch: &Value,
    ) -> Result<Versioned<Attachment>, ApiError> {
        let (version, before) = self.attachments.get(name).ok_or_else(not_found)?;
        // A patch carries the UID, so it cannot reach another object of the same name.
        if uid.is_some_and(|uid| before.uid != *uid) {
            return Err(invalid());
        }
        let mut object = before.clone();
        merge(&mut object, patch);
        let adds = |held: &Text| !before.finalizers.contains(held);
        if before.deleting && object.finalizers.iter().any(adds) {
            return Err(invalid());
        }
        if object == *before {
            return Ok((*version, object));
        }
        Ok(self.put_attachment(object))
    }

    pub(super) fn patch_volume(
        &mut self,
        name: &Text,
        patch: &Value,
    ) -> Result<Versioned<Volume>, ApiError> {
        let (_, before) = self.volumes.get(name).ok_or_else(not_found)?;
        let mut object = before.clone();
        if !json_patch(&mut object, patch) {
            return Err(invalid());
        }
        let count = |volume: &Volume| volume.finalizers.as_deref().map_or(0, <[Text]>::len);
        if before.deleting && count(&object) > count(before) {
            return Err(invalid());
        }
        Ok(self.put_volume(name, object))
    }
}
