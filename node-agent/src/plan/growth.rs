//! Progress of a volume's expansion on the nodes, in its claim's status.

use serde_json::{Value, json};

use crate::model::volume::ClaimUse;

/// Progress of a node's expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The node is about to call the driver.
    Begun,
    /// The file system has this size in bytes.
    Done(i64),
    /// The driver failed; the node will retry. The text is for people.
    Failed(String),
    /// The expansion is infeasible with this driver. The text is for people.
    Infeasible(String),
}

/// Conditions of a claim that are removed when its expansion ends.
const CONDITIONS: [&str; 4] = [
    "FileSystemResizePending",
    "Resizing",
    "ControllerResizeError",
    "NodeResizeError",
];

impl Growth {
    /// The strategic merge patch for the claim's status; the API server refuses it if the claim has
    /// changed since it was read. `now` is the time as the API formats it.
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
