//! A pod waits for volumes that cannot be attached because the node is full.
//!
//! The scheduler placed the pod by an outdated limit. Refreshing it corrects the limit, and failing the pod lets its
//! controller create another one that is placed elsewhere.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::refresh::{Period, decide_task};

/// gRPC code `ResourceExhausted`, as the attacher copies it to `status.attachError.errorCode`.
const RESOURCE_EXHAUSTED: i64 = 8;

/// Reason of a pod that was failed because its volumes cannot be attached here.
pub const REJECTION_REASON: &str = "VolumeAttachmentLimitExceeded";

/// A volume that a pod waits for and that is not attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The CSI driver.
    pub driver: String,
    /// The volume handle.
    pub volume_handle: String,
    /// The period of the driver's CSIDriver object; `None` if it does not exist.
    pub object: Option<Period>,
}

/// Whether the volume's attachment has to be checked: only for drivers with a refresh period.
#[must_use]
pub fn is_checked(volume: &Waiting) -> bool {
    decide_task(true, volume.object).is_some()
}

/// Whether the attachment failed because the node is full.
#[must_use]
pub fn is_exhausted(attachment: &Value) -> bool {
    let code = attachment
        .pointer("/status/attachError/errorCode")
        .and_then(Value::as_i64);
    code == Some(RESOURCE_EXHAUSTED)
}

/// The name of the VolumeAttachment of a volume and a node, as the attach/detach controller makes
/// it.
#[must_use]
pub fn attachment_name(volume_handle: &str, driver: &str, node: &str) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [volume_handle, driver, node] {
        context.update(part.as_bytes());
    }
    let mut name = String::from("csi-");
    for byte in context.finish().as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// The status of a pod that is rejected, for a strategic merge patch.
#[must_use]
pub fn rejection(driver: &str) -> Value {
    let message = format!(
        "Node has insufficient volume attachment capacity for CSI driver {driver}; \
         the pod has to be placed on another node"
    );
    json!({ "phase": "Failed", "reason": REJECTION_REASON, "message": message })
}
