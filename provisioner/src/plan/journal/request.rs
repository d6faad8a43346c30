//! Requests of the journal to the API server, and its results for the process.
//!
//! The executor and the crash simulation use these types only.

use std::sync::Arc;

use serde::Serialize;

use super::annotation::{Annotation, Annotations};
use super::object::{Found, KeptMetadata};
use super::{LIMIT, intent};
use crate::plan::outcome::ApiError;

/// Owner of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the election's lease.
    pub lease: String,
    /// Name of the driver.
    pub driver: String,
    /// Node deployment: the node. Only the provisioner that made a call can find out its outcome.
    pub node: String,
    /// Identity of this process, unlike any other.
    pub holder: String,
    /// `--leader-election-labels`: a cluster's policies may require them on every Lease.
    pub labels: Vec<(String, String)>,
}

impl Owner {
    /// Name of the object of this number.
    #[must_use]
    pub fn object(&self, number: usize) -> String {
        let Self { lease, node, .. } = self;
        let stem = if node.is_empty() {
            format!("{lease}-journal")
        } else {
            format!("{lease}-journal-{node}")
        };
        // Names of objects have at most 253 characters and no capitals; names of drivers and nodes may have more, and
        // capitals.
        let plain = stem.to_ascii_lowercase();
        let end = plain.char_indices().nth(230).map(|(end, _)| end);
        if end.is_none() && plain == stem {
            return format!("{stem}-{number}");
        }
        let hash = intent::fnv1a(&stem);
        let plain = end.and_then(|end| plain.get(..end)).unwrap_or(&plain);
        format!("{plain}-{hash:016x}-{number}")
    }
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// GET of the object of this number.
    Read(usize),
    /// POST or PUT.
    Write(Write),
}

impl Request {
    /// Number of its object.
    #[must_use]
    pub fn number(&self) -> usize {
        match self {
            Self::Read(number) => *number,
            Self::Write(write) => write.number,
        }
    }
}

/// A write of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Number of the object.
    pub number: usize,
    /// Name of the object.
    pub name: String,
    /// The version that is replaced; `None` is a POST.
    pub version: Option<String>,
    /// Number of intents that it makes durable.
    pub intents: usize,
    pub(super) kept: KeptMetadata,
    pub(super) holder: String,
    pub(super) annotations: Vec<Arc<Annotation>>,
    /// The last change that is in it.
    pub(super) change: u64,
}

impl Write {
    /// The body: the Lease.
    #[must_use]
    pub fn body<'a>(&'a self, namespace: &'a str) -> impl Serialize + 'a {
        Lease {
            api_version: "coordination.k8s.io/v1",
            kind: "Lease",
            metadata: Metadata {
                name: &self.name,
                namespace,
                resource_version: self.version.as_deref(),
                kept: &self.kept,
                annotations: Annotations(&self.annotations),
            },
            spec: Spec {
                holder_identity: &self.holder,
            },
        }
    }

    /// All annotations of the Lease.
    #[must_use]
    pub fn annotations(&self) -> &[Arc<Annotation>] {
        &self.annotations
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Lease<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    spec: Spec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
    #[serde(flatten)]
    kept: &'a KeptMetadata,
    annotations: Annotations<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    holder_identity: &'a str,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The object; `None` if it does not exist.
    Found(Option<Found>),
    /// The object was written.
    Written {
        /// `metadata.resourceVersion` after the write.
        version: String,
        /// `metadata.uid` of the object.
        uid: String,
    },
    /// The API server refused, or did not answer.
    Failed(ApiError),
}

/// When the sender may send the next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The sender may send the next request at once.
    Go,
    /// After a pause.
    Later(ApiError),
}

/// Why this process must not write the journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Another process leads.
    #[error("the provisioning journal {0} now belongs to another process: {1}")]
    Fenced(String, String),
    /// The object belongs to another driver's or node's journal.
    #[error(
        "the Lease {0} is the provisioning journal of the driver {1}; rename one of the drivers, or give each a namespace of its own with --leader-election-namespace"
    )]
    Foreign(String, String),
    /// The object has a later version of the format.
    #[error(
        "the provisioning journal {0} has the format {1}, which this version does not know; go back to \
         the version that wrote it"
    )]
    Later(String, u32),
}

/// Why an intent cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// The intent does not fit into any object.
    #[error(
        "the CreateVolume request has {0} bytes, and an object holds {LIMIT}: shorten the \
         parameters of the class, or set --provisioning-protection=off"
    )]
    TooLarge(usize),
    /// This process has not taken the journal yet.
    #[error("it is not open yet, since the API server has not answered")]
    Closed,
    /// There are as many objects as there may be, and all are full.
    #[error(
        "the provisioning journal is full of CreateVolume calls with unknown outcome: look at the driver's errors, or remove settled entries by hand"
    )]
    Full,
    /// The API server refused it, or did not answer.
    #[error("{0}")]
    Refused(ApiError),
}
