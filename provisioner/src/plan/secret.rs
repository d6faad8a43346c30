//! The Secrets that a class names for a volume.
//!
//! The same rules hold when a volume is made and when it is deleted; a wrong reading would use somebody else's Secret.

use sidecar::secret::{self, Part, Template, Unclear};

use crate::model::{Pairs, SecretRef};

/// The calls that a Secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// CreateVolume and DeleteVolume.
    Provisioner,
    /// ControllerPublishVolume.
    ControllerPublish,
    /// NodeStageVolume.
    NodeStage,
    /// NodePublishVolume.
    NodePublish,
    /// ControllerExpandVolume.
    ControllerExpand,
    /// NodeExpandVolume.
    NodeExpand,
    /// ControllerModifyVolume.
    ControllerModify,
}

/// Keys of one part of a Secret's reference: the present one, and the one from before CSI 1.0.
struct Keys {
    now: &'static str,
    former: Option<&'static str>,
}

const fn keys(now: &'static str, former: &'static str) -> Keys {
    let former = if former.is_empty() {
        None
    } else {
        Some(former)
    };
    Keys { now, former }
}

/// Keys of the Secret for every purpose that has none of its own.
const DEFAULT: (Keys, Keys) = (
    keys("csi.storage.k8s.io/secret-name", ""),
    keys("csi.storage.k8s.io/secret-namespace", ""),
);

impl Purpose {
    /// All purposes, in the order in which their references are read.
    pub const ALL: [Self; 7] = [
        Self::Provisioner,
        Self::ControllerPublish,
        Self::NodeStage,
        Self::NodePublish,
        Self::ControllerExpand,
        Self::NodeExpand,
        Self::ControllerModify,
    ];

    /// The name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Provisioner => "provisioner",
            Self::ControllerPublish => "controller publish",
            Self::NodeStage => "node stage",
            Self::NodePublish => "node publish",
            Self::ControllerExpand => "controller expand",
            Self::NodeExpand => "node expand",
            Self::ControllerModify => "controller modify",
        }
    }

    /// Keys of name and namespace.
    fn keys(self) -> (Keys, Keys) {
        match self {
            Self::Provisioner => (
                keys(
                    "csi.storage.k8s.io/provisioner-secret-name",
                    "csiProvisionerSecretName",
                ),
                keys(
                    "csi.storage.k8s.io/provisioner-secret-namespace",
                    "csiProvisionerSecretNamespace",
                ),
            ),
            Self::ControllerPublish => (
                keys(
                    "csi.storage.k8s.io/controller-publish-secret-name",
                    "csiControllerPublishSecretName",
                ),
                keys(
                    "csi.storage.k8s.io/controller-publish-secret-namespace",
                    "csiControllerPublishSecretNamespace",
                ),
            ),
            Self::NodeStage => (
                keys(
                    "csi.storage.k8s.io/node-stage-secret-name",
                    "csiNodeStageSecretName",
                ),
                keys(
                    "csi.storage.k8s.io/node-stage-secret-namespace",
                    "csiNodeStageSecretNamespace",
                ),
            ),
            Self::NodePublish => (
                keys(
                    "csi.storage.k8s.io/node-publish-secret-name",
                    "csiNodePublishSecretName",
                ),
                keys(
                    "csi.storage.k8s.io/node-publish-secret-namespace",
                    "csiNodePublishSecretNamespace",
                ),
            ),
            Self::ControllerExpand => (
                keys("csi.storage.k8s.io/controller-expand-secret-name", ""),
                keys("csi.storage.k8s.io/controller-expand-secret-namespace", ""),
            ),
            Self::NodeExpand => (
                keys("csi.storage.k8s.io/node-expand-secret-name", ""),
                keys("csi.storage.k8s.io/node-expand-secret-namespace", ""),
            ),
            Self::ControllerModify => (
                keys("csi.storage.k8s.io/controller-modify-secret-name", ""),
                keys("csi.storage.k8s.io/controller-modify-secret-namespace", ""),
            ),
        }
    }
}

/// Whether `key` of a class's parameters names a Secret and has the sidecars' prefix, so that the driver does not get
/// it.
#[must_use]
pub fn is_key(key: &str) -> bool {
    let pairs = Purpose::ALL.into_iter().map(Purpose::keys);
    let mut all = pairs.chain([DEFAULT]);
    all.any(|(name, namespace)| name.now == key || namespace.now == key)
}

/// Values of the tokens in a reference.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// `${pv.name}`
    pub volume: &'a str,
    /// `${pvc.namespace}`
    pub namespace: &'a str,
    /// `${pvc.name}`
    pub name: &'a str,
    /// `${pvc.annotations['KEY']}`; `None` when a volume is deleted, because the claim is gone.
    pub annotations: Option<&'a Pairs>,
}

impl<'a> Tokens<'a> {
    fn in_namespace(&self, token: &str) -> Option<&'a str> {
        match token {
            "pv.name" => Some(self.volume),
            "pvc.namespace" => Some(self.namespace),
            _ => None,
        }
    }

    fn in_name(&self, token: &str) -> Option<&'a str> {
        if token == "pvc.name" {
            return Some(self.name);
        }
        let annotation = token
            .strip_prefix("pvc.annotations['")
            .and_then(|rest| rest.strip_suffix("']"));
        match annotation {
            Some(key) => self.annotations?.get(key),
            None => self.in_namespace(token),
        }
    }
}

/// The class names no valid Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} secret: {problem}", purpose.name())]
pub struct Error {
    /// Purpose of the Secret.
    pub purpose: Purpose,
    /// Error of the reference.
    pub problem: Problem,
}

/// Error of a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Both the present key and the former one are set.
    #[error("the StorageClass has both {0} and {1}; keep one of them")]
    Twice(&'static str, &'static str),
    /// The two parameters do not name a Secret.
    #[error(transparent)]
    Unclear(#[from] Unclear),
}

/// The Secret that the `parameters` of a class name for `purpose`, if they name one.
///
/// # Errors
/// Why the reference is invalid.
pub fn reference(
    parameters: &Pairs,
    purpose: Purpose,
    tokens: &Tokens<'_>,
) -> Result<Option<SecretRef>, Error> {
    let own = resolve(parameters, &purpose.keys(), tokens);
    let found = match own {
        Ok(None) => resolve(parameters, &DEFAULT, tokens),
        own => own,
    };
    found.map_err(|problem| Error { purpose, problem })
}

fn resolve(
    parameters: &Pairs,
    (name, namespace): &(Keys, Keys),
    tokens: &Tokens<'_>,
) -> Result<Option<SecretRef>, Problem> {
    let (name, namespace) = (one(parameters, name)?, one(parameters, namespace)?);
    Ok(secret::resolve(
        name,
        namespace,
        |part, token| match part {
            Part::Name => tokens.in_name(token),
            Part::Namespace => tokens.in_namespace(token),
        },
    )?)
}

/// The parameter that is set, with its key; with the present key if none is set.
fn one<'a>(parameters: &'a Pairs, keys: &Keys) -> Result<Template<'a>, Problem> {
    let find = |key: &'static str| Template {
        key,
        text: parameters.get(key),
    };
    let now = find(keys.now);
    match keys.former.map(find).filter(|former| former.text.is_some()) {
        Some(former) if now.text.is_some() => Err(Problem::Twice(now.key, former.key)),
        Some(former) => Ok(former),
        None => Ok(now),
    }
}

#[cfg(test)]
mod tests;
