//! The objects that questions are about.

use serde_json::{Value, json};

use crate::redact::plain;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// PersistentVolumeClaim
    Claim,
    /// PersistentVolume
    Volume,
    /// VolumeAttachment
    Attachment,
    /// VolumeSnapshot
    Snapshot,
    /// VolumeSnapshotContent
    Content,
    /// VolumeGroupSnapshot
    GroupSnapshot,
    /// VolumeGroupSnapshotContent
    GroupContent,
    /// StorageClass
    Class,
    /// VolumeAttributesClass
    AttributesClass,
    /// VolumeSnapshotClass; without a name, any
    SnapshotClass,
    /// VolumeGroupSnapshotClass; without a name, any
    GroupSnapshotClass,
    /// Node; without a name, any
    Node,
    /// CSINode
    CsiNode,
    /// ReferenceGrant; its name is unknown
    Grant,
    /// The driver, which is no object of the API
    Driver,
    /// Work that is about no object, such as the list of all volumes
    Nothing,
}

/// Kinds with a path of their own, and the first part of it.
const PATHS: [(&str, Kind); 7] = [
    ("claims", Kind::Claim),
    ("volumes", Kind::Volume),
    ("attachments", Kind::Attachment),
    ("snapshots", Kind::Snapshot),
    ("snapshotcontents", Kind::Content),
    ("groupsnapshots", Kind::GroupSnapshot),
    ("groupsnapshotcontents", Kind::GroupContent),
];

impl Kind {
    /// Its name in answers: Kubernetes' own.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claim => "PersistentVolumeClaim",
            Self::Volume => "PersistentVolume",
            Self::Attachment => "VolumeAttachment",
            Self::Snapshot => "VolumeSnapshot",
            Self::Content => "VolumeSnapshotContent",
            Self::GroupSnapshot => "VolumeGroupSnapshot",
            Self::GroupContent => "VolumeGroupSnapshotContent",
            Self::Class => "StorageClass",
            Self::AttributesClass => "VolumeAttributesClass",
            Self::SnapshotClass => "VolumeSnapshotClass",
            Self::GroupSnapshotClass => "VolumeGroupSnapshotClass",
            Self::Node => "Node",
            Self::CsiNode => "CSINode",
            Self::Grant => "ReferenceGrant",
            Self::Driver => "driver",
            Self::Nothing => "",
        }
    }

    /// Whether its objects have a namespace, among those with a path.
    #[must_use]
    pub fn is_namespaced(self) -> bool {
        matches!(self, Self::Claim | Self::Snapshot | Self::GroupSnapshot)
    }
}

/// An object, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Empty for a kind without namespaces.
    pub namespace: String,
    /// Empty for any object of the kind.
    pub name: String,
}

impl Object {
    /// The object with this key: `name` or `namespace/name`.
    pub fn of(kind: Kind, key: &str) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Any object of this kind.
    #[must_use]
    pub fn any(kind: Kind) -> Self {
        Self::of(kind, "")
    }

    /// The object that the rest of a path below `/why/` names: `claims/NAMESPACE/NAME`, `volumes/NAME`.
    #[must_use]
    pub fn of_path(rest: &str) -> Option<Self> {
        let (first, key) = rest.split_once('/')?;
        let (_, kind) = PATHS.iter().find(|(path, _)| *path == first)?;
        let parts: Vec<&str> = key.split('/').collect();
        let is_name = |part: &&str| crate::names::is_subdomain(part);
        let fits = parts.len() == 1 + usize::from(kind.is_namespaced());
        (fits && parts.iter().all(is_name)).then(|| Self::of(*kind, key))
    }

    /// The rest of the path below `/why/` of the object of this kind, which is Kubernetes' name of it, and this key;
    /// `None` for kinds that no controller answers for.
    #[must_use]
    pub fn path(kind: &str, key: &str) -> Option<String> {
        let (path, _) = PATHS.iter().find(|(_, one)| one.name() == kind)?;
        Some(format!("{path}/{key}"))
    }

    /// `namespace/name`, or the name alone.
    #[must_use]
    pub fn key(&self) -> String {
        match &*self.namespace {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// The fields that identify it in answers.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut json = json!({"kind": self.kind.name()});
        for (field, text) in [("namespace", &self.namespace), ("name", &self.name)] {
            if !text.is_empty()
                && let Some(fields) = json.as_object_mut()
            {
                fields.insert(field.to_owned(), plain(text).into());
            }
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_9_paths_name_objects_and_nothing_else() {
        for (path, object) in [
            ("claims/shop/data-0", Some((Kind::Claim, "shop", "data-0"))),
            ("volumes/pvc-1", Some((Kind::Volume, "", "pvc-1"))),
            ("attachments/csi-1", Some((Kind::Attachment, "", "csi-1"))),
            ("snapshots/a/b", Some((Kind::Snapshot, "a", "b"))),
            ("snapshotcontents/b", Some((Kind::Content, "", "b"))),
            ("groupsnapshots/a/b", Some((Kind::GroupSnapshot, "a", "b"))),
            (
                "groupsnapshotcontents/b",
                Some((Kind::GroupContent, "", "b")),
            ),
            ("claims/data-0", None),
            ("claims/shop/data-0/more", None),
            ("claims/shop/", None),
            ("claims//data", None),
            ("volumes/a/b", None),
            ("volumes/", None),
            ("volumes/A", None),
            ("volumes/%61", None),
            ("secrets/a/b", None),
            ("nodes/a", None),
            ("", None),
        ] {
            let expected = object.map(|(kind, namespace, name)| Object {
                kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
            assert_eq!(Object::of_path(path), expected, "{path}");
        }
    }

    #[test]
    fn names_in_answers_repaint_no_terminal() {
        let object = Object::of(Kind::Claim, "shop/a\u{1b}[2J");
        let expected = json!({
            "kind": "PersistentVolumeClaim",
            "namespace": "shop",
            "name": "a\\x1b[2J",
        });
        assert_eq!(object.json(), expected);
        let any = Object::any(Kind::Node).json();
        assert_eq!(any, json!({"kind": "Node"}));
    }
}
