//! The rules in the CustomResourceDefinitions of group snapshots that controllers may violate.

use serde_json::Value;

use super::kind::Kind;

/// A field that is immutable once set; and whether it may be removed.
type Fixed = (&'static str, bool);

const CONTENT: &[Fixed] = &[
    ("/spec/driver", false),
    ("/spec/source/volumeHandles", false),
    ("/spec/source/groupSnapshotHandles", false),
    ("/spec/volumeGroupSnapshotClassName", true),
    ("/spec/volumeGroupSnapshotRef/name", false),
    ("/spec/volumeGroupSnapshotRef/namespace", false),
    ("/spec/volumeGroupSnapshotRef/uid", false),
    ("/status/volumeGroupSnapshotHandle", true),
];
const SNAPSHOT: &[Fixed] = &[
    ("/spec/source/selector", false),
    ("/spec/source/volumeGroupSnapshotContentName", false),
    ("/status/boundVolumeGroupSnapshotContentName", true),
];
const CLASS: &[Fixed] = &[
    ("/driver", false),
    ("/deletionPolicy", false),
    ("/parameters", true),
];

/// The violations in `new`, roughly in the server's words.
pub(super) fn problems(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    let (fixed, sources) = match kind.kind.as_str() {
        "VolumeGroupSnapshotContent" => (CONTENT, &["volumeHandles", "groupSnapshotHandles"][..]),
        "VolumeGroupSnapshot" => (
            SNAPSHOT,
            &["selector", "volumeGroupSnapshotContentName"][..],
        ),
        "VolumeGroupSnapshotClass" => (CLASS, &[][..]),
        _ => return Vec::new(),
    };
    let at = |object: &Value, path: &str| object.pointer(path).cloned().unwrap_or_default();
    let set = |source: &&&str| !new["spec"]["source"][**source].is_null();
    let mut problems = Vec::new();
    if !sources.is_empty() && sources.iter().filter(set).count() != 1 {
        let text = format!("exactly one of {} must be set", sources.join(" and "));
        problems.push(format!("spec.source: Invalid value: {text}"));
    }
    if kind.kind == "VolumeGroupSnapshotContent" {
        let of = &new["spec"]["volumeGroupSnapshotRef"];
        if of["name"].is_null() || of["namespace"].is_null() {
            let text =
                "both volumeGroupSnapshotRef.name and volumeGroupSnapshotRef.namespace must be set";
            problems.push(format!(
                "spec.volumeGroupSnapshotRef: Invalid value: {text}"
            ));
        }
    }
    for (path, may_go) in fixed.iter().filter(|_| old.is_some()) {
        let before = old.map(|old| at(old, path)).unwrap_or_default();
        let after = at(new, path);
        let goes = *may_go && after.is_null();
        if !before.is_null() && before != after && !goes {
            let field = path.trim_start_matches('/').replace('/', ".");
            problems.push(format!(
                "{field}: Invalid value: {field} is immutable once set"
            ));
        }
    }
    problems
}
