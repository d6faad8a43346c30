//! The model API server of the tests: which kinds it has, and how its refusals read here.

use sidecar_testkit::sim::server as model;

use crate::plan::step::{ApiError, ErrorKind};

pub(crate) use model::{Part, finalizers};

pub(crate) type Server = model::Server<Kind>;
pub(crate) type Event = model::Event<Kind>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Snapshot,
    Content,
    Class,
    Claim,
    Volume,
    Node,
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
        }
    }
}

pub(crate) fn error(kind: ErrorKind, message: impl Into<String>) -> ApiError {
    ApiError {
        message: message.into(),
        kind,
    }
}

/// A refusal as the controller is told of it.
pub(crate) fn refused(refusal: model::Refused) -> ApiError {
    let kind = match refusal.why {
        model::Why::NotFound => ErrorKind::NotFound,
        model::Why::Conflict => ErrorKind::Conflict,
        model::Why::Exists => ErrorKind::Exists,
        model::Why::Invalid => ErrorKind::Refused,
    };
    error(kind, refusal.message)
}
