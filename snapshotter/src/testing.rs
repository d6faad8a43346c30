//! Shared by the tests of this crate: the objects of the specification's fixtures, a model API
//! server for them, and a bench that runs the reactor.

mod bench;
mod server;

pub(crate) use bench::{
    Answer, Bench, GROUP, created, fails, got, group, group_created, group_got, listed, snapshot,
};
pub(crate) use server::{Event, Server, refused};

use sidecar::snapshot::{CONTENT_BOUND, GROUP_CONTENT_BOUND};

use crate::model::{
    Class, Content, GroupHandles, Members, Pairs, Policy, SnapshotRef, Source, Status,
};
use crate::plan::Driver;
use crate::plan::driver::Abilities;

/// The driver's name.
pub(crate) const DRIVER: &str = "test.csi.driver";
/// The time of all tests.
pub(crate) const NOW: &str = "2026-02-03T04:05:06Z";

/// The driver `T`, which lists snapshots.
pub(crate) fn driver() -> Driver {
    Driver {
        name: DRIVER.to_owned(),
        abilities: Abilities {
            list: true,
            get: false,
            group: true,
            topology: true,
        },
    }
}

/// The class `c1`.
pub(crate) fn class() -> Class {
    Class {
        driver: DRIVER.into(),
        parameters: pairs(&[("a", "b")]),
    }
}

pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().copied().collect()
}

/// `snapcontent-U1`: requests a snapshot of `vol-1` for `ns/s1`.
pub(crate) fn content() -> Content {
    Content {
        uid: "C1".into(),
        finalizers: [CONTENT_BOUND.into()].into(),
        snapshot: SnapshotRef {
            namespace: "ns".into(),
            name: "s1".into(),
            uid: "U1".into(),
        },
        source: Some(Source::Volume("vol-1".into())),
        driver: DRIVER.into(),
        class: Some("c1".into()),
        policy: Policy::Delete,
        ..Content::default()
    }
}

/// `pp`: the pre-provisioned `snap-9` for `ns/s9`, still unbound.
pub(crate) fn pre_provisioned() -> Content {
    Content {
        uid: "C9".into(),
        snapshot: SnapshotRef {
            namespace: "ns".into(),
            name: "s9".into(),
            uid: "".into(),
        },
        source: Some(Source::Snapshot("snap-9".into())),
        driver: DRIVER.into(),
        policy: Policy::Delete,
        ..Content::default()
    }
}

/// `groupsnapcontent-V1`: requests a group snapshot of `vol-1` and `vol-2` for `ns/v1`.
pub(crate) fn group_content() -> Content {
    Content {
        uid: "CV1".into(),
        finalizers: [GROUP_CONTENT_BOUND.into()].into(),
        snapshot: SnapshotRef {
            namespace: "ns".into(),
            name: "v1".into(),
            uid: "V1".into(),
        },
        source: Some(Source::Volumes(["vol-1".into(), "vol-2".into()].into())),
        driver: DRIVER.into(),
        class: Some("g".into()),
        policy: Policy::Delete,
        ..Content::default()
    }
}

/// The pre-provisioned `grp-9` with `snap-8` and `snap-9` for `ns/v9`, still unbound.
pub(crate) fn pre_provisioned_group() -> Content {
    Content {
        uid: "CV9".into(),
        source: Some(Source::Group(Box::new(GroupHandles {
            group: "grp-9".into(),
            snapshots: ["snap-8".into(), "snap-9".into()].into(),
        }))),
        ..pre_provisioned()
    }
}

/// The status after a successful call.
pub(crate) fn status(ready: bool) -> Status {
    Status {
        handle: Some("snap-1".into()),
        created: Some(1_767_323_045_000_000_000),
        ready: Some(ready),
        size: Some(1 << 30),
        group: None,
        members: Members::default(),
        error: None,
    }
}
