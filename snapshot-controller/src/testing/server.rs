//! The model API server of the tests: its kinds, and its refusals as [`ApiError`]s.

use sidecar_testkit::sim::server as model;

use crate::plan::request::{ApiError, Refusal};

pub(crate) use model::finalizers;

pub(crate) type Server = model::Server<Kind>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Snapshot,
    Content,
    Class,
    Claim,
    Volume,
    Node,
    Group,
    GroupContent,
    GroupClass,
}

impl model::Kind for Kind {
    fn plural(self) -> &'static str {
        match self {
            Self::Snapshot => "volumesnapshots.snapshot.storage.k8s.io",
            Self::Content => "volumesnapshotcontents.snapshot.storage.k8s.io",
            Self::Class => "volumesnapshotclasses.snapshot.storage.k8s.io",
            Self::Claim => "persistentvolumeclaims",
            Self::Volume => "persistentvolumes",
            Self::Node => "nodes",
            Self::Group => "volumegroupsnapshots.groupsnapshot.storage.k8s.io",
            Self::GroupContent => "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io",
            Self::GroupClass => "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io",
        }
    }
}

pub(crate) fn error(refusal: Refusal, message: impl Into<String>) -> ApiError {
    ApiError {
        message: message.into(),
        refusal,
    }
}

/// A refusal as the controller's API error.
pub(crate) fn refused(refusal: model::Refused) -> ApiError {
    let kind = match refusal.why {
        model::Why::NotFound => Refusal::NotFound,
        model::Why::Conflict => Refusal::Conflict,
        model::Why::Exists => Refusal::AlreadyExists,
        model::Why::Invalid => Refusal::Other,
    };
    error(kind, refusal.message)
}
