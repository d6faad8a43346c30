//! Which Secrets a class names for a volume.
//!
//! The same rules hold when a volume is made and when it is deleted, and a name read wrongly is a
//! Secret of somebody else.

use std::fmt;

use sidecar::names::{is_label, is_subdomain};
use sidecar::template::{self, UnknownTokens};

use crate::model::{Pairs, SecretRef};

/// What a Secret is for.
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

/// Keys of one part of a Secret's reference: the present one, and the one before CSI 1.0.
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

/// Name and namespace of the Secret for every purpose that has none of its own.
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

    /// As messages call it.
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

/// Whether `key` of a class's parameters is one that names a Secret and begins with the sidecars'
/// prefix, so that the driver does not get it.
#[must_use]
pub fn is_key(key: &str) -> bool {
    let pairs = Purpose::ALL.into_iter().map(Purpose::keys);
    let mut all = pairs.chain([DEFAULT]);
    all.any(|(name, namespace)| name.now == key || namespace.now == key)
}

/// What tokens stand for.
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

/// A class does not say clearly which Secret it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What the Secret is for.
    pub purpose: Purpose,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The same thing under two keys.
    Twice(&'static str, &'static str),
    /// This key without its counterpart.
    Half {
        /// The key that is there, or is meant by the one that is there.
        present: &'static str,
        /// The key that is missing.
        missing: &'static str,
    },
    /// The key is there and its value is empty.
    Empty(&'static str),
    /// The template has unknown tokens.
    Tokens(&'static str, String, UnknownTokens),
    /// What came out is no name of a namespace or Secret.
    Invalid {
        /// The key.
        key: &'static str,
        /// What is written in the class.
        template: String,
        /// What came out.
        resolved: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} secret: ", self.purpose.name())?;
        match &self.problem {
            Problem::Twice(one, other) => write!(
                out,
                "the StorageClass has both {one} and {other}; keep one of them"
            ),
            Problem::Half { present, missing } => {
                write!(out, "the StorageClass has {present} but not {missing}")
            }
            Problem::Empty(key) => write!(out, "{key} of the StorageClass is empty"),
            Problem::Tokens(key, template, tokens) => {
                write!(out, "{key} {template:?} of the StorageClass has {tokens}")
            }
            Problem::Invalid {
                key,
                template,
                resolved,
            } if template == resolved => {
                write!(
                    out,
                    "{key} {template:?} of the StorageClass is not a valid name"
                )
            }
            Problem::Invalid {
                key,
                template,
                resolved,
            } => write!(
                out,
                "{key} {template:?} of the StorageClass resolves to {resolved:?}, which is not a \
                 valid name"
            ),
        }
    }
}

impl std::error::Error for Error {}

/// The Secret that `parameters` of a class name for `purpose`, if they name one.
///
/// # Errors
/// Says what is wrong with the reference.
pub fn reference(
    parameters: &Pairs,
    purpose: Purpose,
    tokens: &Tokens<'_>,
) -> Result<Option<SecretRef>, Error> {
    resolve(parameters, purpose, tokens).map_err(|problem| Error { purpose, problem })
}

fn resolve(
    parameters: &Pairs,
    purpose: Purpose,
    tokens: &Tokens<'_>,
) -> Result<Option<SecretRef>, Problem> {
    let own = templates(parameters, &purpose.keys())?;
    let found = match own {
        Some(found) => Some(found),
        None => templates(parameters, &DEFAULT)?,
    };
    let Some((name, namespace)) = found else {
        return Ok(None);
    };
    let resolved_name = expand(name, is_subdomain, |token| tokens.in_name(token))?;
    let resolved_namespace = expand(namespace, is_label, |token| tokens.in_namespace(token))?;
    Ok(Some(SecretRef {
        namespace: resolved_namespace.into(),
        name: resolved_name.into(),
    }))
}

/// A key and the template under it.
type Found<'a> = (&'static str, &'a str);

/// Templates of name and namespace, if there are any.
fn templates<'a>(
    parameters: &'a Pairs,
    (name_keys, namespace_keys): &(Keys, Keys),
) -> Result<Option<(Found<'a>, Found<'a>)>, Problem> {
    let name = one(parameters, name_keys)?;
    let namespace = one(parameters, namespace_keys)?;
    let (name, namespace) = match (name, namespace) {
        (None, None) => return Ok(None),
        (Some(name), Some(namespace)) => (name, namespace),
        (Some((present, _)), None) => {
            let missing = namespace_keys.now;
            return Err(Problem::Half { present, missing });
        }
        (None, Some((present, _))) => {
            let missing = name_keys.now;
            return Err(Problem::Half { present, missing });
        }
    };
    for (key, template) in [name, namespace] {
        if template.is_empty() {
            return Err(Problem::Empty(key));
        }
    }
    Ok(Some((name, namespace)))
}

fn one<'a>(parameters: &'a Pairs, keys: &Keys) -> Result<Option<Found<'a>>, Problem> {
    let find = |key: &'static str| parameters.get(key).map(|template| (key, template));
    match (find(keys.now), keys.former.and_then(find)) {
        (Some((now, _)), Some((former, _))) => Err(Problem::Twice(now, former)),
        (now, former) => Ok(now.or(former)),
    }
}

fn expand<'v>(
    (key, template): Found<'_>,
    is_valid: fn(&str) -> bool,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Result<String, Problem> {
    let resolved = template::resolve(template, value)
        .map_err(|tokens| Problem::Tokens(key, template.to_owned(), tokens))?;
    if is_valid(&resolved) {
        Ok(resolved)
    } else {
        Err(Problem::Invalid {
            key,
            template: template.to_owned(),
            resolved,
        })
    }
}

#[cfg(test)]
mod tests;
