//! Changes of claims and snapshots: full updates that touch nothing but what they mean.
//!
//! Upstream's permissions allow `get` and `update` but no `patch`: the object is read, changed
//! here, and written back with its version, so that unknown fields survive and a change in between
//! is a conflict.

use serde_json::{Map, Value};

use crate::keys::{CLONE_FINALIZER, SELECTED_NODE, SNAPSHOT_FINALIZER};
use crate::model::{Claim, Snapshot, Text};

/// Kind of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// PersistentVolumeClaim
    Claim,
    /// VolumeSnapshot
    Snapshot,
}

/// A change of one object, to be applied to its present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Kind of the object.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its UID; empty is any. Another object of the name is not touched.
    pub uid: Text,
    /// Finalizers that shall be there.
    pub add_finalizers: Vec<&'static str>,
    /// Finalizers that shall not.
    pub remove_finalizers: Vec<&'static str>,
    /// Annotations that shall not.
    pub unannotate: Vec<&'static str>,
}

/// What an edit made of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is to be written back.
    Changed,
    /// It was so already.
    Unchanged,
    /// It is not the object that was meant, or none at all.
    Another,
}

impl Edit {
    /// Nothing to be changed of the claim yet.
    #[must_use]
    pub fn of_claim(claim: &Claim) -> Self {
        Self {
            kind: Kind::Claim,
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
            add_finalizers: Vec::new(),
            remove_finalizers: Vec::new(),
            unannotate: Vec::new(),
        }
    }

    /// The scheduler is asked to select another node.
    #[must_use]
    pub fn unselect(claim: &Claim) -> Self {
        Self {
            unannotate: vec![SELECTED_NODE],
            ..Self::of_claim(claim)
        }
    }

    /// The claim is being cloned.
    #[must_use]
    pub fn protect_source(claim: &Claim) -> Self {
        Self {
            add_finalizers: vec![CLONE_FINALIZER],
            ..Self::of_claim(claim)
        }
    }

    /// The snapshot is being restored.
    #[must_use]
    pub fn protect_snapshot(snapshot: &Snapshot) -> Self {
        Self {
            kind: Kind::Snapshot,
            namespace: snapshot.namespace.clone(),
            name: snapshot.name.clone(),
            uid: snapshot.uid.clone(),
            add_finalizers: vec![SNAPSHOT_FINALIZER],
            ..Self::of_claim(&Claim::default())
        }
    }

    /// The snapshot is no longer being restored.
    #[must_use]
    pub fn release_snapshot(namespace: &str, name: &str) -> Self {
        Self {
            kind: Kind::Snapshot,
            namespace: namespace.into(),
            name: name.into(),
            uid: Text::default(),
            remove_finalizers: vec![SNAPSHOT_FINALIZER],
            ..Self::of_claim(&Claim::default())
        }
    }

    /// The claim is no longer being cloned.
    #[must_use]
    pub fn release_claim(claim: &Claim) -> Self {
        Self {
            remove_finalizers: vec![CLONE_FINALIZER],
            ..Self::of_claim(claim)
        }
    }

    /// Whether there is anything to change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.add_finalizers.is_empty()
            && self.remove_finalizers.is_empty()
            && self.unannotate.is_empty()
    }

    /// Changes `object`, as the API server sent it.
    pub fn apply(&self, object: &mut Value) -> Applied {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Applied::Another;
        };
        let uid = metadata
            .get("uid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !self.uid.is_empty() && *uid != *self.uid {
            return Applied::Another;
        }
        let finalizers = self.apply_finalizers(metadata);
        let annotations = self.apply_annotations(metadata);
        if finalizers || annotations {
            Applied::Changed
        } else {
            Applied::Unchanged
        }
    }

    fn apply_finalizers(&self, metadata: &mut Map<String, Value>) -> bool {
        let before = metadata.get("finalizers").and_then(Value::as_array);
        let before = before.cloned().unwrap_or_default();
        let removed = |held: &Value| self.remove_finalizers.iter().any(|gone| held == gone);
        let mut after: Vec<Value> = before
            .iter()
            .filter(|held| !removed(held))
            .cloned()
            .collect();
        for added in &self.add_finalizers {
            if !after.iter().any(|held| held == added) {
                after.push((*added).into());
            }
        }
        if after == before {
            return false;
        }
        if after.is_empty() {
            metadata.remove("finalizers")
        } else {
            metadata.insert("finalizers".to_owned(), after.into())
        };
        true
    }

    fn apply_annotations(&self, metadata: &mut Map<String, Value>) -> bool {
        let before = metadata.get("annotations").and_then(Value::as_object);
        let before = before.cloned().unwrap_or_default();
        let mut after = before.clone();
        for key in &self.unannotate {
            after.remove(*key);
        }
        if after == before {
            return false;
        }
        if after.is_empty() {
            metadata.remove("annotations")
        } else {
            metadata.insert("annotations".to_owned(), after.into())
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim() -> Claim {
        Claim {
            namespace: "ns1".into(),
            name: "c1".into(),
            uid: "u".into(),
            ..Claim::default()
        }
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
        let unselect = Edit::unselect(&claim());
        assert_eq!(unselect.apply(&mut object), Applied::Changed);
        assert_eq!(object, expected, "row 184: and nothing else changes");
        assert_eq!(unselect.apply(&mut object), Applied::Unchanged);
    }

    #[test]
    fn what_is_empty_goes_altogether() {
        let mut object = json!({"metadata": {"uid": "u", "finalizers": [CLONE_FINALIZER],
            "annotations": {SELECTED_NODE: ""}}});
        let edits = [Edit::release_claim(&claim()), Edit::unselect(&claim())];
        for edit in edits {
            assert_eq!(edit.apply(&mut object), Applied::Changed);
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
        ] {
            let before = object.clone();
            let edit = Edit::protect_source(&claim());
            assert_eq!(edit.apply(&mut object), Applied::Another, "{object}");
            assert_eq!(object, before);
        }
    }

    #[test]
    fn row_234_the_others_finalizers_stay() {
        let rest = json!({"unknown": [1, 2]});
        let object = |finalizers: &[&str]| json!({"metadata": {"uid": "u", "finalizers": finalizers}, "spec": rest});
        for (release, ours) in [
            (Edit::release_claim(&claim()), CLONE_FINALIZER),
            (Edit::release_snapshot("ns1", "s1"), SNAPSHOT_FINALIZER),
        ] {
            let mut held = object(&["a/b", ours, "c/d"]);
            assert_eq!(release.apply(&mut held), Applied::Changed);
            assert_eq!(held, object(&["a/b", "c/d"]));
            assert_eq!(release.apply(&mut held), Applied::Unchanged);
            assert_eq!(release.apply(&mut json!([])), Applied::Another);
        }
    }

    #[test]
    fn rows_97_119_132_finalizers_of_sources() {
        let mut source = json!({"metadata": {"uid": "u", "finalizers": null, "annotations": null}});
        let edit = Edit::protect_source(&claim());
        assert_eq!(edit.apply(&mut source), Applied::Changed, "119");
        assert_eq!(source["metadata"]["finalizers"], json!([CLONE_FINALIZER]));
        assert_eq!(edit.apply(&mut source), Applied::Unchanged, "132");
        let snapshot = Snapshot {
            uid: "u".into(),
            ..Snapshot::default()
        };
        let mut object = json!({"metadata": {"uid": "u", "finalizers": ["x"]}});
        assert_eq!(
            Edit::protect_snapshot(&snapshot).apply(&mut object),
            Applied::Changed,
            "97"
        );
        assert_eq!(
            object["metadata"]["finalizers"],
            json!(["x", SNAPSHOT_FINALIZER])
        );
        let release = Edit::release_snapshot("ns1", "s1");
        assert_eq!(release.apply(&mut object), Applied::Changed, "97: any UID");
        assert_eq!(object["metadata"]["finalizers"], json!(["x"]));
    }
}
