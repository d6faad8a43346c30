//! VolumeAttachments of a driver that cannot publish volumes: they are reported attached at once.
//!
//! The ordinary path does not apply: the attacher adds no finalizer, makes no call, and ignores the
//! volume and the deletion timestamp.

use serde_json::{Value, json};

use crate::model::Attachment;

/// Patch of the status; `None` if the object is already attached.
#[must_use]
pub fn decide(attachment: &Attachment) -> Option<Value> {
    match (attachment.attached, &attachment.attach_error) {
        (true, _) => None,
        (false, None) => Some(json!({ "status": { "attached": true } })),
        (false, Some(_)) => Some(json!({ "status": { "attached": true, "attachError": null } })),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{attached, deleted, va};

    #[test]
    fn rows_30_and_33_whatever_is_not_attached_gets_attached() {
        let deleting = Attachment {
            attached: false,
            ..deleted()
        };
        for attachment in [va(), deleting] {
            assert_eq!(
                decide(&attachment),
                Some(json!({ "status": { "attached": true } }))
            );
        }
        assert_eq!(decide(&attached()), None);
        let failed = Attachment {
            attach_error: Some(Arc::default()),
            ..va()
        };
        assert_eq!(
            decide(&failed),
            Some(json!({ "status": { "attached": true, "attachError": null } }))
        );
    }
}
