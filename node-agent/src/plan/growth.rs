//! What a claim's status says of growing its volume on nodes.

use serde_json::{Value, json};

use crate::model::volume::ClaimUse;

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It asks the driver now.
    Begun,
    /// The file system has so many bytes.
    Done(i64),
    /// The driver refused; it is asked again. The text is for people.
    Failed(String),
    /// The driver refused for good. The text is for people.
    Infeasible(String),
}

/// Conditions of a claim that end with its growing.
const CONDITIONS: [&str; 4] = [
    "FileSystemResizePending",
    "Resizing",
    "ControllerResizeError",
    "NodeResizeError",
];

impl Growth {
    /// The strategic merge patch of the claim's status, which the API server refuses if the claim is
    /// not any more as it was read. `now` is the time as the API writes it.
    #[must_use]
    pub fn patch(&self, claim: &ClaimUse, now: &str) -> Value {
        let failed = |message: &str| {
            json!([{
                "type": "NodeResizeError",
                "status": "True",
                "lastTransitionTime": now,
                "message": message,
            }])
        };
        let status = match self {
            Self::Begun => json!({
                "allocatedResourceStatuses": { "storage": "NodeResizeInProgress" },
            }),
            Self::Done(size) => {
                let delete = |kind| json!({ "$patch": "delete", "type": kind });
                let size = sidecar::quantity::Quantity::from_bytes(*size);
                json!({
                    "capacity": { "storage": size.to_string() },
                    "allocatedResourceStatuses": { "storage": null },
                    "conditions": CONDITIONS.map(delete),
                })
            }
            Self::Failed(message) => json!({ "conditions": failed(message) }),
            Self::Infeasible(message) => json!({
                "allocatedResourceStatuses": { "storage": "NodeResizeInfeasible" },
                "conditions": failed(message),
            }),
        };
        let metadata = json!({ "uid": claim.uid, "resourceVersion": claim.version });
        json!({ "metadata": metadata, "status": status })
    }
}
