//! Fields that several kinds share.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// What happens to the snapshot in the storage system when its content is deleted.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    Delete,
    Retain,
}

/// The last error. It is removed when the operation succeeds.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Failure {
    /// When the error occurred.
    pub time: Option<Time>,
    /// The error message. Everybody who may read the object can see it.
    pub message: Option<String>,
}

/// Names of labels and the values that they must have.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels with exactly these values.
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Further conditions. All of them must hold.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Option<Vec<Condition>>,
}

/// A condition on the value of one label.
#[derive(Debug, Clone, Serialize, KubeSchema)]
pub struct Condition {
    /// Name of the label.
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    /// For In and NotIn, at least one; none for the others.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Option<Vec<String>>,
}

/// A class of snapshots: driver, parameters and deletion policy.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Class {
    /// Name of the CSI driver.
    pub driver: String,
    /// Parameters of each snapshot for the driver. Keys that begin with csi.storage.k8s.io/ are for the
    /// sidecar, for example the name of a Secret; others are the driver's own.
    pub parameters: Option<BTreeMap<String, String>>,
    /// For contents of this class: Delete removes the snapshot from the storage system with the
    /// content, Retain keeps it.
    pub deletion_policy: DeletionPolicy,
}

/// A point in time, RFC 3339.
#[derive(Debug, Clone, Serialize)]
pub struct Time(pub String);

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// A quantity such as `10Gi`, or a number of bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Quantity(pub String);

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": QUANTITY, "x-kubernetes-int-or-string": true})
    }
}

/// As everywhere in Kubernetes.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
