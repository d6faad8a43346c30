//! The kinds of objects that both programs use.

use sidecar_testkit::sim::informer::Informer;
use sidecar_testkit::sim::server;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Snapshot,
    Content,
    Class,
    Claim,
    Volume,
    Secret,
    Group,
    GroupContent,
    GroupClass,
}

pub(super) type Server = server::Server<Kind>;
pub(super) type Watch<R> = Informer<Kind, R>;

impl server::Kind for Kind {
    fn plural(self) -> &'static str {
        match self {
            Self::Snapshot => "volumesnapshots.snapshot.storage.k8s.io",
            Self::Content => "volumesnapshotcontents.snapshot.storage.k8s.io",
            Self::Class => "volumesnapshotclasses.snapshot.storage.k8s.io",
            Self::Claim => "persistentvolumeclaims",
            Self::Volume => "persistentvolumes",
            Self::Secret => "secrets",
            Self::Group => "volumegroupsnapshots.groupsnapshot.storage.k8s.io",
            Self::GroupContent => "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io",
            Self::GroupClass => "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io",
        }
    }
}
