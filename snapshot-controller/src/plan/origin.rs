//! The volume that a snapshot is taken of.

use std::sync::Arc;

use sidecar::log::quote;

use super::ask::Ask;
use super::attempt::Flow;
use super::complaint::{Complaint, RequeueTrigger};
use super::request::Object;
use crate::model::{Claim, Csi, Head, Kind, Phase, Text, Uid, Volume};

/// A volume and its name.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) name: Text,
    pub(super) volume: Arc<Volume>,
}

/// Why there is nothing to take a snapshot of.
#[derive(Debug)]
pub(super) struct Problem {
    /// The text for users.
    pub(super) text: String,
    /// The changes that may end it.
    pub(super) triggers: Vec<RequeueTrigger>,
}

impl Problem {
    pub(super) fn new(text: impl Into<String>, until: impl IntoIterator<Item = Object>) -> Self {
        Self {
            text: text.into(),
            triggers: until.into_iter().map(RequeueTrigger::Object).collect(),
        }
    }

    /// The failure that it causes before a content is made.
    pub(super) fn unfit(self, head: &Head<'_>) -> Complaint {
        let (noun, name, error) = (head.kind.noun(), head.name, quote(&self.text));
        let error = format!("failed to get input parameters to create {noun} {name}: {error}");
        Complaint::uncreated(head.kind, &error).until_all(self.triggers)
    }
}

impl Origin {
    /// The volume of the claim with this key.
    pub(super) fn of(
        ask: Ask<'_>,
        kind: Kind,
        (key, claim): (&Text, &Claim),
    ) -> Flow<Result<Self, Problem>> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        if claim.phase != Phase::Bound || claim.volume.is_empty() {
            let noun = kind.noun();
            let text = format!(
                "the PVC {name} is not yet bound to a PV, will not attempt to take a {noun}"
            );
            return Ok(Err(Problem::new(text, [Object::Claim(key.clone())])));
        }
        let volume_name = claim.volume.clone();
        let of_volume = [Object::Volume(volume_name.clone())];
        let volume = match ask.volume(&volume_name)? {
            Ok(volume) => volume,
            Err(error) => {
                let error = quote(&error);
                let text =
                    format!("failed to retrieve PV {volume_name} from the API server: {error}");
                return Ok(Err(Problem::new(text, of_volume)));
            }
        };
        let points_back = volume.claim.as_ref().is_some_and(|back| {
            let same = |uid: Uid| uid == claim.uid;
            *back.namespace == *namespace && *back.name == *name && back.uid.is_none_or(same)
        });
        if !points_back {
            let text = "claim in dataSource not bound or invalid";
            return Ok(Err(Problem::new(text, of_volume)));
        }
        let name = volume_name;
        Ok(Ok(Self { name, volume }))
    }

    /// The volume's CSI source, for the choice of a class.
    pub(super) fn csi(
        &self,
        head: &Head<'_>,
        until: impl IntoIterator<Item = Object>,
    ) -> Result<&Csi, Problem> {
        self.volume.csi.as_ref().ok_or_else(|| {
            let (noun, key) = (head.kind.noun(), head.key());
            let text = format!("snapshotting non-CSI volumes is not supported, {noun}:{key}");
            Problem::new(text, until)
        })
    }
}
