//! The API kinds that the snapshotter requests.
//!
//! It writes by PATCH only, and GETs Secrets and contents with an unknown last write.

use sidecar::kube::reflect::Resource;
use sidecar::snapshot::{
    API_VERSION, CLASS, CONTENT, GROUP_API_VERSION, GROUP_CLASS, GROUP_CONTENT, VERSION,
};

use crate::model::Kind;

pub use sidecar::kube::api::key;

/// The resources of a snapshotter for contents of one kind.
#[derive(Clone, Debug)]
pub struct Resources {
    /// Its contents.
    pub contents: Resource,
    /// The classes that they name.
    pub classes: Resource,
    /// API version of contents, for events about them.
    pub api_version: &'static str,
    /// Kind of contents, for events about them.
    pub kind: &'static str,
    /// Name of its queue in metrics.
    pub queue: &'static str,
}

impl Resources {
    /// The resources of this kind.
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
