//! Resolves the ownerReference of storage capacity objects: the pod of this process, or one of its controllers.
//!
//! It is resolved once, before anything else, by reading objects along controller references; the caller reads them.

use serde_json::Value;

use super::object::reference;
use crate::model::{OwnerReference, StorageCapacity, Text};

/// The owner of the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `apiVersion`
    pub api_version: Text,
    /// `kind`
    pub kind: Text,
    /// `name`
    pub name: Text,
    /// `uid`
    pub uid: Text,
}

impl Owner {
    /// Whether it is among the object's owners already.
    #[must_use]
    pub fn owns(&self, object: &StorageCapacity) -> bool {
        object.owners.iter().any(|owner| owner.uid == self.uid)
    }

    /// An entry of `metadata.ownerReferences`.
    pub(super) fn reference(&self, controller: bool) -> Value {
        reference(&OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: controller.then_some(true),
            block_deletion: None,
        })
    }
}

/// An object to read, in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// `apiVersion`
    pub api_version: Text,
    /// `kind`
    pub kind: Text,
    /// `metadata.name`
    pub name: Text,
}

/// The fields of an object that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// `metadata.uid`
    pub uid: Text,
    /// `metadata.ownerReferences`
    pub owners: Vec<OwnerReference>,
}

/// The next step after an object was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read another object.
    Read(Walk),
    /// This is the owner.
    Found(Owner),
}

/// An object below the requested level has no controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--capacity-ownerref-level={level}: {kind} {name:?} has no controller; give the number of \
     controllers above the pod, or -1 for objects without owner"
)]
pub struct NoController {
    level: u32,
    kind: Text,
    name: Text,
}

/// The walk from a pod to the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    level: u32,
    /// Number of levels above the object that is read next.
    left: u32,
    wanted: Wanted,
}

impl Walk {
    /// The walk from this pod, `--capacity-ownerref-level` levels up.
    #[must_use]
    pub fn begin(level: u32, pod: &str) -> Self {
        let wanted = Wanted {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: pod.into(),
        };
        Self {
            level,
            left: level,
            wanted,
        }
    }

    /// The object to read.
    #[must_use]
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Continues from the object that was read. The last object is not read: the reference to it has all fields, and
    /// the process may lack the permission to read its kind.
    ///
    /// # Errors
    /// The object has no controller.
    pub fn next(self, met: &Met) -> Result<Next, NoController> {
        let Wanted {
            api_version,
            kind,
            name,
        } = self.wanted;
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(Next::Found(Owner {
                api_version,
                kind,
                name,
                uid: met.uid.clone(),
            }));
        };
        let mut owners = met.owners.iter();
        let Some(owner) = owners.find(|owner| owner.controller == Some(true)) else {
            return Err(NoController {
                level: self.level,
                kind,
                name,
            });
        };
        let OwnerReference {
            api_version,
            kind,
            name,
            uid,
            ..
        } = owner.clone();
        if left == 0 {
            return Ok(Next::Found(Owner {
                api_version,
                kind,
                name,
                uid,
            }));
        }
        let wanted = Wanted {
            api_version,
            kind,
            name,
        };
        Ok(Next::Read(Self {
            level: self.level,
            left,
            wanted,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: &str, name: &str, controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: "apps/v1".into(),
            kind: kind.into(),
            name: name.into(),
            uid: format!("uid-{name}").into(),
            controller: Some(controller),
            block_deletion: None,
        }
    }

    /// Walks up from a Deployment's pod; returns the objects that were read, and the owner.
    fn walk(level: u32) -> Result<(Vec<String>, String), NoController> {
        let mut read = Vec::new();
        let mut walk = Walk::begin(level, "pod");
        loop {
            let kind = walk.wanted().kind.to_string();
            let owners = match &*kind {
                "Pod" => vec![
                    reference("Node", "n", false),
                    reference("ReplicaSet", "rs", true),
                ],
                "ReplicaSet" => vec![reference("Deployment", "dep", true)],
                _ => Vec::new(),
            };
            read.push(kind);
            let uid = "uid-read".into();
            match walk.next(&Met { uid, owners })? {
                Next::Read(on) => walk = on,
                Next::Found(owner) => {
                    let owner = format!("{} {} {}", owner.kind, owner.name, owner.uid);
                    return Ok((read, owner));
                }
            }
        }
    }

    #[test]
    fn row_261_owners_of_a_deployment_s_pod() {
        for (level, read, owner) in [
            (0, &["Pod"][..], "Pod pod uid-read"),
            (1, &["Pod"], "ReplicaSet rs uid-rs"),
            (2, &["Pod", "ReplicaSet"], "Deployment dep uid-dep"),
        ] {
            let (was_read, found) = walk(level).unwrap();
            assert_eq!(was_read, read, "level {level}");
            assert_eq!(found, owner, "level {level}");
        }
    }

    #[test]
    fn row_262_nothing_controls() {
        let walk_from_pod = |level| Walk::begin(level, "pod").next(&Met::default());
        let error = walk_from_pod(1).unwrap_err().to_string();
        assert!(error.contains("level=1: Pod \"pod\" has no"), "{error}");
        let error = walk(3).unwrap_err().to_string();
        assert!(error.contains("level=3: Deployment \"dep\""), "{error}");
        let uncontrolled = Met {
            owners: vec![reference("Node", "n", false)],
            ..Met::default()
        };
        assert!(Walk::begin(1, "pod").next(&uncontrolled).is_err());
    }
}
