//! The kinds of objects that are asked for.
//!
//! Only PATCH writes, and GET for Secrets and for contents in doubt.

use sidecar::kube::reflect::Resource;
use sidecar::snapshot::{
    API_VERSION, CLASS, CONTENT, GROUP_API_VERSION, GROUP_CLASS, GROUP_CONTENT, VERSION,
};

use crate::model::Kind;

pub use sidecar::kube::api::key;

/// What a snapshotter for contents of one kind asks for.
#[derive(Clone, Debug)]
pub struct Resources {
    /// Its contents.
    pub contents: Resource,
    /// The classes that they name.
    pub classes: Resource,
    /// Of contents, for events about them.
    pub api_version: &'static str,
    /// As `api_version`.
    pub kind: &'static str,
    /// Name of its queue in metrics.
    pub queue: &'static str,
}

impl Resources {
    /// Those of this kind.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        let (content, class) = match kind {
            Kind::Single => (CONTENT, CLASS),
            Kind::Group => (GROUP_CONTENT, GROUP_CLASS),
        };
        let (api_version, queue) = match kind {
            Kind::Single => (API_VERSION, "csi-snapshotter-content"),
            Kind::Group => (GROUP_API_VERSION, "csi-snapshotter-groupsnapshotcontent"),
        };
        Self {
            contents: Resource::new(content.group, VERSION, content.plural),
            classes: Resource::new(class.group, VERSION, class.plural),
            api_version,
            kind: content.kind,
            queue,
        }
    }
}
