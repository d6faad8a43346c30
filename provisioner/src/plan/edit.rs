//! Changes of claims and snapshots, by full updates: upstream's RBAC rules do not grant `patch`.

use std::time::Duration;

use sidecar::controller::request::{Body, Edit};

use super::claim::Failure;
use super::request::{Object, Purpose, Request, Write};
use crate::keys::{CLONE_FINALIZER, SELECTED_NODE, SNAPSHOT_FINALIZER};
use crate::model::{Claim, Snapshot, Text};

/// Pauses before the second to fourth round of an update of a claim that met a conflict. The scheduler and
/// kube-controller-manager write pending claims all the time, and as long as the node stays selected the driver gets
/// CreateVolume calls for that node.
const UNSELECT_PAUSES: &[Duration] = &[
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];

fn edit(purpose: Purpose, object: Object, uid: Option<&Text>, edit: Edit) -> Request {
    Request::Write(Write {
        purpose,
        object,
        uid: uid.cloned(),
        body: Body::Edit(Box::new(edit)),
    })
}

fn edit_claim(purpose: Purpose, claim: &Claim, change: Edit) -> Request {
    edit(
        purpose,
        Object::Claim(claim.key()),
        Some(&claim.uid),
        change,
    )
}

/// Removes the selected node, so that the scheduler selects another one; `failure` is the reason.
#[must_use]
pub fn unselect(claim: &Claim, failure: &Failure) -> Request {
    let edit = Edit {
        unannotate: Some(SELECTED_NODE),
        pauses: UNSELECT_PAUSES,
        ..Edit::default()
    };
    edit_claim(Purpose::Unselect(failure.clone()), claim, edit)
}

/// Selects `node`, unless another node is selected.
#[must_use]
pub fn take(claim: &Claim, node: &Text) -> Request {
    let edit = Edit {
        annotate: Some((SELECTED_NODE, node.clone())),
        ..Edit::default()
    };
    edit_claim(Purpose::Take, claim, edit)
}

/// Adds the finalizer to a claim that is about to be cloned.
#[must_use]
pub fn protect_claim(claim: &Claim) -> Request {
    let edit = Edit {
        add_finalizer: Some(CLONE_FINALIZER),
        ..Edit::default()
    };
    edit_claim(Purpose::ProtectSource, claim, edit)
}

/// Removes the finalizer from a claim that is no longer being cloned.
#[must_use]
pub fn release_claim(claim: &Claim) -> Request {
    let edit = Edit {
        remove_finalizer: Some(CLONE_FINALIZER),
        ..Edit::default()
    };
    edit_claim(Purpose::ReleaseSource, claim, edit)
}

/// Adds the finalizer to a snapshot that is about to be restored.
#[must_use]
pub fn protect_snapshot(snapshot: &Snapshot) -> Request {
    let change = Edit {
        add_finalizer: Some(SNAPSHOT_FINALIZER),
        ..Edit::default()
    };
    let object = Object::snapshot(&snapshot.namespace, &snapshot.name);
    edit(Purpose::ProtectSource, object, Some(&snapshot.uid), change)
}

/// Removes the finalizer from the snapshot of this name, whatever its UID. Whoever repeats it after a conflict first has to
/// ask again whether another claim needs the snapshot by now.
#[must_use]
pub fn release_snapshot(namespace: &str, name: &str) -> Request {
    let change = Edit {
        remove_finalizer: Some(SNAPSHOT_FINALIZER),
        ..Edit::default()
    };
    let object = Object::snapshot(namespace, name);
    edit(Purpose::ReleaseSource, object, None, change)
}

/// Key of the snapshot that the request releases; `None` for any other request.
#[must_use]
pub fn released_snapshot(request: &Request) -> Option<&Text> {
    match request {
        Request::Write(Write {
            purpose: Purpose::ReleaseSource,
            object: Object::Snapshot(key),
            ..
        }) => Some(key),
        Request::Write(_)
        | Request::Get(_)
        | Request::Secret(_)
        | Request::Call(_)
        | Request::Event(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sidecar::controller::request::Applied;

    use super::*;

    fn claim() -> Claim {
        Claim {
            namespace: "ns1".into(),
            name: "c1".into(),
            uid: "u".into(),
            ..Claim::default()
        }
    }

    fn unselect() -> Request {
        super::unselect(&claim(), &Failure::Selector)
    }

    /// Applies the edit of a request to an object.
    fn apply(request: &Request, object: &mut Value) -> Applied {
        let Request::Write(Write {
            uid,
            body: Body::Edit(edit),
            ..
        }) = request
        else {
            unreachable!("no edit")
        };
        edit.apply(uid.as_deref(), object)
    }

    #[test]
    fn an_edit_leaves_everything_else_as_it_was() {
        let mut object = json!({
            "kind": "PersistentVolumeClaim", "future": {"x": [1, null]},
            "metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["kubernetes.io/pvc-protection"],
                "annotations": {"a": "b", SELECTED_NODE: "n1"}, "managedFields": [{}]},
            "spec": {"unknown": true}
        });
        let mut expected = object.clone();
        expected["metadata"]["annotations"] = json!({"a": "b"});
        assert_eq!(apply(&unselect(), &mut object), Applied::Changed);
        assert_eq!(object, expected, "row 184: and nothing else changes");
        assert_eq!(apply(&unselect(), &mut object), Applied::Unchanged);
    }

    #[test]
    fn what_is_empty_goes_altogether() {
        let mut object = json!({"metadata": {"uid": "u", "finalizers": [CLONE_FINALIZER],
            "annotations": {SELECTED_NODE: ""}}});
        for request in [release_claim(&claim()), unselect()] {
            assert_eq!(apply(&request, &mut object), Applied::Changed);
        }
        assert_eq!(object, json!({"metadata": {"uid": "u"}}));
    }

    #[test]
    fn another_object_is_not_touched() {
        for mut object in [
            json!({"metadata": {"uid": "other"}}),
            json!({"metadata": {}}),
            json!({"metadata": null}),
            json!([]),
            json!(null),
        ] {
            let before = object.clone();
            for (row, request) in [
                ("", protect_claim(&claim())),
                ("row 277", take(&claim(), &"foo".into())),
            ] {
                let applied = apply(&request, &mut object);
                assert_eq!(applied, Applied::Another, "{row} {object}");
                assert_eq!(object, before);
            }
        }
    }

    #[test]
    fn row_234_the_others_finalizers_stay() {
        let rest = json!({"unknown": [1, 2]});
        let object = |finalizers: &[&str]| json!({"metadata": {"uid": "u", "finalizers": finalizers}, "spec": rest});
        for (release, ours) in [
            (release_claim(&claim()), CLONE_FINALIZER),
            (release_snapshot("ns1", "s1"), SNAPSHOT_FINALIZER),
        ] {
            let mut held = object(&["a/b", ours, "c/d"]);
            assert_eq!(apply(&release, &mut held), Applied::Changed);
            assert_eq!(held, object(&["a/b", "c/d"]));
            assert_eq!(apply(&release, &mut held), Applied::Unchanged);
            assert_eq!(apply(&release, &mut json!([])), Applied::Another);
        }
    }

    #[test]
    fn rows_97_119_132_finalizers_of_sources() {
        let mut source = json!({"metadata": {"uid": "u", "finalizers": null, "annotations": null}});
        let protect = protect_claim(&claim());
        assert_eq!(apply(&protect, &mut source), Applied::Changed, "119");
        assert_eq!(source["metadata"]["finalizers"], json!([CLONE_FINALIZER]));
        assert_eq!(apply(&protect, &mut source), Applied::Unchanged, "132");
        let snapshot = Snapshot {
            uid: "u".into(),
            ..Snapshot::default()
        };
        let mut object = json!({"metadata": {"uid": "u", "finalizers": ["x"]}});
        assert_eq!(
            apply(&protect_snapshot(&snapshot), &mut object),
            Applied::Changed,
            "97"
        );
        assert_eq!(
            object["metadata"]["finalizers"],
            json!(["x", SNAPSHOT_FINALIZER])
        );
        let release = release_snapshot("ns1", "s1");
        assert_eq!(
            apply(&release, &mut object),
            Applied::Changed,
            "97: any UID"
        );
        assert_eq!(object["metadata"]["finalizers"], json!(["x"]));
    }

    #[test]
    fn rows_270_275_277_the_node_is_written_unless_another_is() {
        use Applied::{Changed, Unchanged};
        let claimed = |annotations: Value| json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": annotations}, "spec": {"x": 1}});
        let selected = json!({"a": "b", SELECTED_NODE: "foo"});
        let other = json!({SELECTED_NODE: "bar"});
        for (row, before, applied, after) in [
            (270, json!({"a": "b"}), Changed, &selected),
            (
                270,
                json!({"a": "b", SELECTED_NODE: ""}),
                Changed,
                &selected,
            ),
            (270, Value::Null, Changed, &json!({SELECTED_NODE: "foo"})),
            (267, selected.clone(), Unchanged, &selected),
            (275, other.clone(), Unchanged, &other),
        ] {
            let mut object = claimed(before);
            let take = take(&claim(), &"foo".into());
            assert_eq!(apply(&take, &mut object), applied, "row {row}");
            assert_eq!(object, claimed(after.clone()), "row {row}");
        }
    }
}
