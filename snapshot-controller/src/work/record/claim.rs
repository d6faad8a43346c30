//! PersistentVolumeClaims on the wire.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::value::RawValue;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, Meta, Object, nullable, own};
use sidecar::snapshot::{CLAIM_AS_SOURCE, GROUP, SNAPSHOT};

use crate::model::{Claim, Phase, Text, Uid, key};

/// A claim on the wire, and its JSON text.
#[derive(Debug)]
pub struct ClaimWire<'a> {
    json: &'a RawValue,
    parts: lean::Parts<'a, SpecWire<'a>, StatusWire<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for ClaimWire<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        let parts = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        Ok(Self { json, parts })
    }
}

impl Object for ClaimWire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.parts.metadata
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecWire<'a> {
    #[serde(borrow)]
    volume_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    data_source: Option<SourceWire<'a>>,
    #[serde(borrow)]
    data_source_ref: Option<SourceWire<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SourceWire<'a> {
    #[serde(borrow)]
    api_group: Option<lean::Text<'a>>,
    #[serde(borrow)]
    kind: Option<lean::Text<'a>>,
    #[serde(borrow)]
    namespace: Option<lean::Text<'a>>,
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct StatusWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    phase: Option<lean::Text<'a>>,
}

impl Record for Claim {
    type Wire<'a> = ClaimWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, _strings: &Interner) -> Option<Self> {
        let ClaimWire { json, parts } = wire;
        let (metadata, spec) = (parts.metadata, parts.spec);
        let phase = Phase::new(parts.status.phase.as_deref().unwrap_or_default());
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let sources = [&spec.data_source_ref, &spec.data_source];
        let restores = sources
            .into_iter()
            .flatten()
            .find_map(|source| source.snapshot(namespace));
        let ours = metadata
            .finalizers
            .iter()
            .any(|held| **held == *CLAIM_AS_SOURCE);
        Some(Self {
            uid: Uid::new(metadata.uid.as_deref().unwrap_or_default()),
            deleting: metadata.deletion_timestamp.is_some(),
            phase,
            volume: own(&spec.volume_name),
            restores: restores.filter(|_| phase == Phase::Pending),
            protected: ours.then(|| Text::from(json.get())),
        })
    }
}

impl SourceWire<'_> {
    /// The key of the VolumeSnapshot that this data source names.
    fn snapshot(&self, of: &str) -> Option<Text> {
        let is =
            self.api_group.as_deref() == Some(GROUP) && self.kind.as_deref() == Some(SNAPSHOT.kind);
        let namespace = self.namespace.as_deref().filter(|text| !text.is_empty());
        let name = self.name.as_deref().filter(|_| is)?;
        Some(key(namespace.unwrap_or(of), name))
    }
}
