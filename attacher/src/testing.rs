//! Objects for tests: the fixture of the acceptance tables, and patches applied to it.
//!
//! The decision tables and the crash simulation start from the same objects.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "anything else is a failed test"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::keys::NODE_ID_ANNOTATION;
use crate::model::{
    Attachment, CsiNode, CsiSource, InTree, List, Pairs, SecretRef, Source, Text, Volume,
    VolumeError, VolumeSpec,
};
use crate::plan::Driver;
use crate::plan::driver::Abilities;

/// The fixture's finalizer.
pub(crate) const F: &str = "external-attacher/test-csi-driver";

/// The fixture's driver: can publish volumes, and nothing more.
pub(crate) fn driver() -> Driver {
    Driver {
        name: "test.csi.driver".into(),
        finalizer: F.into(),
        abilities: Abilities {
            publish: true,
            ..Abilities::default()
        },
        default_fs_type: String::new(),
        error_codes: true,
    }
}

/// A list of strings.
pub(crate) fn list(items: &[&str]) -> List {
    items.iter().map(|item| Text::from(*item)).collect()
}

/// `va1`: not attached, as created.
pub(crate) fn va() -> Attachment {
    Attachment {
        name: "va1".into(),
        uid: "uid-va1".into(),
        version: 1,
        deleting: false,
        since: 0,
        created: 0,
        finalizers: list(&[]),
        node_id: None,
        attacher: "test.csi.driver".into(),
        node: "node1".into(),
        volume: Some("pv1".into()),
        inline: None,
        attached: false,
        metadata: Pairs::default(),
        attach_error: None,
        detach_error: None,
    }
}

/// `va1` after an attach.
pub(crate) fn attached() -> Attachment {
    Attachment {
        finalizers: list(&[F]),
        node_id: Some("NID1".into()),
        attached: true,
        ..va()
    }
}

/// `va1` attached and deleted.
pub(crate) fn deleted() -> Attachment {
    Attachment {
        deleting: true,
        ..attached()
    }
}

/// The CSI source of `pv1`.
pub(crate) fn csi() -> CsiSource {
    CsiSource {
        driver: "test.csi.driver".into(),
        handle: "h-pv1".into(),
        read_only: false,
        fs_type: "".into(),
        attributes: Pairs::default(),
        publish_secret: None,
    }
}

/// The source of a volume of an in-tree plugin that `driver` replaced.
pub(crate) fn in_tree(driver: &'static str, csi: Result<CsiSource, Text>) -> Source {
    Source::InTree(Box::new(InTree { driver, csi }))
}

/// A specification with that source.
pub(crate) fn spec(source: Source) -> VolumeSpec {
    VolumeSpec {
        source,
        access_modes: list(&["ReadWriteOnce"]),
        block: false,
        mount_options: list(&[]),
    }
}

/// `pv1`.
pub(crate) fn pv() -> Volume {
    Volume {
        uid: None,
        created: 0,
        deleting: false,
        finalizers: Some(list(&[F])),
        migrated_to: None,
        spec: spec(Source::Csi(csi())),
    }
}

/// A CSINode on which the fixture's driver is registered under this id.
pub(crate) fn csinode(id: &str) -> CsiNode {
    CsiNode {
        drivers: Pairs::new(list(&["other.driver", "x", "test.csi.driver", id])),
    }
}

/// A CSINode without the fixture's driver.
pub(crate) fn foreign_csinode() -> CsiNode {
    CsiNode {
        drivers: Pairs::new(list(&["other.driver", "x"])),
    }
}

/// A reference to the Secret `ns1/sec`.
pub(crate) fn secret_ref() -> Arc<SecretRef> {
    Arc::new(SecretRef {
        namespace: "ns1".into(),
        name: "sec".into(),
    })
}

/// Applies a merge patch as the API server would.
pub(crate) fn merge(attachment: &mut Attachment, patch: &Value) {
    let text = |value: &Value| value.as_str().map(Text::from);
    let metadata = &patch["metadata"];
    match &metadata["annotations"][NODE_ID_ANNOTATION] {
        Value::Null => {}
        id => attachment.node_id = text(id),
    }
    if let Some(finalizers) = metadata.get("finalizers") {
        let items = finalizers.as_array().into_iter().flatten();
        attachment.finalizers = items.filter_map(text).collect();
    }
    let status = &patch["status"];
    if let Some(attached) = status.get("attached") {
        attachment.attached = attached.as_bool().unwrap();
    }
    if let Some(change) = status.get("attachmentMetadata") {
        let mut metadata: BTreeMap<&str, &str> = attachment.metadata.iter().collect();
        match change {
            Value::Object(changes) => {
                for (key, value) in changes {
                    match value.as_str() {
                        Some(value) => metadata.insert(key, value),
                        None => metadata.remove(key.as_str()),
                    };
                }
            }
            _ => metadata.clear(),
        }
        let texts: Vec<&str> = metadata
            .iter()
            .flat_map(|(key, value)| [*key, *value])
            .collect();
        attachment.metadata = Pairs::new(list(&texts));
    }
    merge_error(&mut attachment.attach_error, status.get("attachError"));
    merge_error(&mut attachment.detach_error, status.get("detachError"));
}

fn merge_error(error: &mut Option<Arc<VolumeError>>, change: Option<&Value>) {
    let Some(change) = change else { return };
    if change.is_null() {
        *error = None;
        return;
    }
    let mut new = error.as_deref().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(message) = change.get("message") {
        new.message = text(message);
    }
    if let Some(time) = change.get("time") {
        new.time = text(time);
    }
    if let Some(code) = change.get("errorCode") {
        new.code = code.as_i64().map(|code| i32::try_from(code).unwrap());
    }
    *error = Some(Arc::new(new));
}

/// Applies a JSON patch of the finalizers. Returns whether its tests held; otherwise the API server
/// answers 422.
pub(crate) fn json_patch(volume: &mut Volume, patch: &Value) -> bool {
    let before = volume.finalizers.clone();
    let mut now: Option<Vec<Text>> = before.as_deref().map(<[Text]>::to_vec);
    for operation in patch.as_array().unwrap() {
        let path = operation["path"].as_str().unwrap();
        let value = &operation["value"];
        let held = match (operation["op"].as_str().unwrap(), path) {
            ("test", "/metadata/finalizers") => match value {
                Value::Null => now.is_none(),
                _ => now.as_ref().is_some_and(Vec::is_empty),
            },
            ("add" | "replace", "/metadata/finalizers") => {
                let items = value.as_array().unwrap().iter();
                now = Some(items.map(|item| item.as_str().unwrap().into()).collect());
                true
            }
            ("add", "/metadata/finalizers/-") => match &mut now {
                Some(items) => {
                    items.push(value.as_str().unwrap().into());
                    true
                }
                None => false,
            },
            (operation, path) => {
                let index: usize = path.rsplit('/').next().unwrap().parse().unwrap();
                let items = now.get_or_insert_default();
                match (operation, index < items.len()) {
                    ("test", true) => *items[index] == *value.as_str().unwrap(),
                    ("remove", true) => {
                        items.remove(index);
                        true
                    }
                    _ => false,
                }
            }
        };
        if !held {
            return false;
        }
    }
    // The API server drops an empty list.
    volume.finalizers = now.filter(|items| !items.is_empty()).map(Into::into);
    true
}
