//! Metadata, conditions, events and leases: fields that many kinds share.

use jiff::Timestamp;
use serde::Deserialize;

use super::{Many, Pairs, Text, Time};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: Text,
    pub namespace: Text,
    pub uid: Text,
    pub creation_timestamp: Time,
    pub deletion_timestamp: Time,
    pub labels: Pairs<true>,
    pub annotations: Pairs<false>,
    pub finalizers: Many<Text>,
    pub owner_references: Many<Owner>,
}

impl Meta {
    /// Whether it is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.deletion_timestamp.0.is_some()
    }

    /// Whether it has this finalizer.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|one| *one == name)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Owner {
    pub kind: Text,
    pub name: Text,
}

/// A ConfigMap; only its existence matters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    pub metadata: Meta,
}

/// A Secret; only its existence matters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Secret {
    pub metadata: Meta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: Text,
    pub status: Text,
    pub reason: Text,
    pub message: Text,
    pub last_transition_time: Time,
}

/// Conditions that a driver reports of a volume, or of its storage as seen from a node (KEP-1432,
/// alpha in 1.37).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Healths {
    /// In a pod: name of the volume. On a node: name of the driver. In a claim: empty.
    pub name: Text,
    pub health_conditions: Many<Health>,
    pub last_transition_time: Time,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Health {
    pub status: Text,
    pub reason: Text,
    pub message: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    pub api_group: Text,
    pub kind: Text,
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    pub metadata: Meta,
    pub involved_object: ObjectRef,
    pub reason: Text,
    pub message: Text,
    #[serde(rename = "type")]
    pub kind: Text,
    pub first_timestamp: Time,
    pub last_timestamp: Time,
    pub event_time: Time,
    pub count: Option<u64>,
    pub series: Option<Series>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Series {
    pub last_observed_time: Time,
    pub count: Option<u64>,
}

impl Event {
    /// Time of the last occurrence.
    pub fn last(&self) -> Option<Timestamp> {
        let series = self.series.as_ref();
        let series = series.and_then(|series| series.last_observed_time.0);
        let times = [
            series,
            self.last_timestamp.0,
            self.event_time.0,
            self.first_timestamp.0,
            self.metadata.creation_timestamp.0,
        ];
        times.into_iter().flatten().max()
    }

    /// Number of occurrences.
    pub fn times(&self) -> u64 {
        let series = self.series.as_ref().and_then(|series| series.count);
        series.or(self.count).unwrap_or(1)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Lease {
    pub metadata: Meta,
    pub spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    pub holder_identity: Text,
    pub renew_time: Time,
    pub lease_duration_seconds: Option<i64>,
}

impl Lease {
    /// Whether this Lease belongs to the provisioner's journal and is no election.
    pub fn is_journal(&self) -> bool {
        self.journal().is_some()
    }

    /// The journal's header, which names its driver.
    pub fn journal(&self) -> Option<&str> {
        self.metadata.annotations.get("csi-sidecars.io/journal")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Quota {
    pub metadata: Meta,
    pub status: QuotaStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct QuotaStatus {
    pub hard: Pairs<true>,
    pub used: Pairs<true>,
}
