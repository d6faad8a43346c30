//! The model API server: objects, resource versions, and the log that watches replay.

use std::collections::BTreeMap;

use serde_json::Value;
use sidecar::controller::request::SecretError;
use sidecar_testkit::sim::watch::Versioned;

use crate::model::{AttributesClass, ClaimDetail, Pod, Text, Volume};
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::request::Secrets;
use crate::testing::{patch_claim, patch_volume};

/// A change; `None` is the object's deletion.
#[derive(Clone)]
pub(super) enum Event {
    Claim(Text, Option<ClaimDetail>),
    Volume(Text, Option<Volume>),
    Class(Text, Option<AttributesClass>),
    Pod(Text, Option<Pod>),
}

#[derive(Default)]
pub(super) struct Server {
    version: u64,
    pub(super) claims: BTreeMap<Text, Versioned<ClaimDetail>>,
    pub(super) volumes: BTreeMap<Text, Versioned<Volume>>,
    pub(super) classes: BTreeMap<Text, Versioned<AttributesClass>>,
    pub(super) pods: BTreeMap<Text, Versioned<Pod>>,
    /// Secrets by name, and whether their values are text.
    pub(super) secrets: BTreeMap<Text, bool>,
    /// Name of the claim that each volume was created for.
    pub(super) made_for: BTreeMap<Text, Text>,
    /// Every change with its resource version, oldest first.
    pub(super) log: Vec<Versioned<Event>>,
}

pub(super) fn error(refusal: Refusal) -> ApiError {
    ApiError {
        message: "simulated".into(),
        refusal,
    }
}

fn put<T: Clone>(
    objects: &mut BTreeMap<Text, Versioned<T>>,
    name: &Text,
    object: Option<T>,
    version: u64,
) {
    match object {
        Some(object) => objects.insert(name.clone(), (version, object)),
        None => objects.remove(name),
    };
}

impl Server {
    fn publish(&mut self, event: Event) -> u64 {
        self.version += 1;
        self.log.push((self.version, event));
        self.version
    }

    pub(super) fn put_claim(&mut self, name: &Text, mut object: Option<ClaimDetail>) {
        if let Some(object) = &mut object {
            object.version = (self.version + 1).to_string().into();
        }
        let version = self.publish(Event::Claim(name.clone(), object.clone()));
        put(&mut self.claims, name, object, version);
    }

    pub(super) fn put_volume(&mut self, name: &Text, object: Option<Volume>) {
        let version = self.publish(Event::Volume(name.clone(), object.clone()));
        put(&mut self.volumes, name, object, version);
    }

    pub(super) fn put_class(&mut self, name: &Text, object: Option<AttributesClass>) {
        let version = self.publish(Event::Class(name.clone(), object.clone()));
        put(&mut self.classes, name, object, version);
    }

    pub(super) fn put_pod(&mut self, name: &Text, object: Option<Pod>) {
        let version = self.publish(Event::Pod(name.clone(), object.clone()));
        put(&mut self.pods, name, object, version);
    }

    /// Whether a pod uses the claim.
    pub(super) fn is_used(&self, claim: &Text) -> bool {
        let mut pods = self.pods.values();
        pods.any(|(_, pod)| pod.claim_keys().any(|key| key == *claim))
    }

    pub(super) fn secret(&self, name: &Text) -> Result<Secrets, SecretError> {
        match self.secrets.get(name) {
            Some(true) => Ok([("user".to_owned(), name.to_string())].into()),
            Some(false) => Err(SecretError::NotText),
            None => Err(SecretError::Unread(error(Refusal::NotFound))),
        }
    }

    pub(super) fn patch_claim(
        &mut self,
        name: &Text,
        patch: &Value,
    ) -> Result<Versioned<ClaimDetail>, ApiError> {
        let (_, before) = self.claims.get(name).ok_or(error(Refusal::NotFound))?;
        let mut object = before.clone();
        if !patch_claim(&mut object, patch) {
            return Err(error(Refusal::Conflict));
        }
        self.put_claim(name, Some(object));
        Ok(self.claims[name].clone())
    }

    pub(super) fn patch_volume(
        &mut self,
        name: &Text,
        patch: &Value,
    ) -> Result<Versioned<Volume>, ApiError> {
        let (version, before) = self.volumes.get(name).ok_or(error(Refusal::NotFound))?;
        let made_for = patch.pointer("/metadata/resourceVersion");
        let now = serde_json::json!(version.to_string());
        if made_for.is_some_and(|made_for| *made_for != now) {
            return Err(error(Refusal::Conflict));
        }
        let mut object = before.clone();
        patch_volume(&mut object, patch);
        if let (Some(annotated), Some(claim)) = (&mut object.pre_resize, self.made_for.get(name)) {
            annotated.claim = claim.clone();
        }
        self.put_volume(name, Some(object));
        Ok(self.volumes[name].clone())
    }
}
