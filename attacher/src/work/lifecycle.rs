//! How long attachments take, for figures of service levels: read off VolumeAttachments, and no part of decisions.

use sidecar::lifecycle::{End, Id, Look, Since, Stage, Step, What, seconds};

use super::record::AttachmentWire;

/// What csi-attacher measures.
pub(crate) const STAGES: &[Stage] = &[Stage::Attached, Stage::Detached];

/// How far the VolumeAttachment has come, which the attacher of this name and finalizer works on.
pub(super) fn steps<'w>(
    wire: &'w AttachmentWire<'_>,
    look: Look,
    (attacher, finalizer): (&str, &str),
) -> Vec<Step<'w>> {
    let metadata = &wire.metadata;
    let Some(uid) = metadata.uid.as_deref() else {
        return Vec::new();
    };
    if wire.spec.attacher.as_deref() != Some(attacher) {
        return Vec::new();
    }
    let done = What::Done {
        at: None,
        end: End::Own,
    };
    let open = |time: Option<&str>| What::Open {
        since: Since::At(seconds(time)),
        moves: true,
    };
    let deleting = metadata.deletion_timestamp.as_deref();
    let held = metadata.finalizers.iter().any(|held| **held == *finalizer);
    let attached = match (look, deleting) {
        (Look::Gone, _) | (_, Some(_)) => What::Dropped,
        (_, None) if wire.status.is_attached() => done,
        (Look::First, None) => open(metadata.creation_timestamp.as_deref()),
        // One that is attached once more was created long ago.
        (Look::Again, None) => return Vec::new(),
    };
    let detached = match (look, deleting) {
        (Look::Gone, _) => done,
        (_, Some(time)) if held => open(Some(time)),
        (_, Some(_)) => done,
        (_, None) => What::Dropped,
    };
    let steps = [(Stage::Attached, attached), (Stage::Detached, detached)];
    let steps = steps.map(|(stage, what)| Step::new(stage, Id::of(uid), what));
    steps.to_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const WHOSE: (&str, &str) = ("test.driver", "external-attacher/test-driver");

    fn attachment(metadata: &Value, attached: bool) -> String {
        let mut all = json!({
            "uid": "u1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [WHOSE.1],
        });
        for (key, value) in metadata.as_object().unwrap() {
            all[key] = value.clone();
        }
        let spec = json!({ "attacher": WHOSE.0, "nodeName": "n1" });
        json!({ "metadata": all, "spec": spec, "status": { "attached": attached } }).to_string()
    }

    fn seen(json: &str, look: Look, whose: (&str, &str)) -> Vec<What> {
        let wire = serde_json::from_str(json).unwrap();
        let steps = steps(&wire, look, whose);
        steps.iter().map(|step| step.what).collect()
    }

    #[test]
    fn o_87_an_attachment_begins_with_its_creation_and_ends_without_its_finalizer() {
        let at = |second: u32| What::Open {
            since: Since::At(1_767_225_600 + second),
            moves: true,
        };
        let done = What::Done {
            at: None,
            end: End::Own,
        };
        let none = json!({});
        let deleting = json!({ "deletionTimestamp": "2026-01-01T00:01:00Z" });
        let freed = json!({ "deletionTimestamp": "2026-01-01T00:01:00Z", "finalizers": [] });
        let rows = [
            ("new", &none, false, Look::First, vec![at(0), What::Dropped]),
            ("tried again", &none, false, Look::Again, vec![]),
            (
                "attached",
                &none,
                true,
                Look::Again,
                vec![done, What::Dropped],
            ),
            (
                "found attached",
                &none,
                true,
                Look::First,
                vec![done, What::Dropped],
            ),
            (
                "deleted",
                &deleting,
                true,
                Look::Again,
                vec![What::Dropped, at(60)],
            ),
            (
                "never attached",
                &deleting,
                false,
                Look::First,
                vec![What::Dropped, at(60)],
            ),
            (
                "detached",
                &freed,
                false,
                Look::Again,
                vec![What::Dropped, done],
            ),
            (
                "gone",
                &deleting,
                true,
                Look::Gone,
                vec![What::Dropped, done],
            ),
        ];
        for (row, metadata, attached, look, expected) in rows {
            let json = attachment(metadata, attached);
            assert_eq!(seen(&json, look, WHOSE), expected, "{row}");
            let others = ("another.driver", WHOSE.1);
            assert_eq!(seen(&json, look, others), [], "{row}");
        }
    }
}
