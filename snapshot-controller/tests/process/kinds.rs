//! The wait for the kinds of the snapshot API, and the lists and watches.

use std::time::Duration;

use sidecar_testkit::Fault;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::api::kind::{Kind, Status};
use tokio::time::sleep;

use super::stage::{PATIENCE, Stage, free_address, get};

const KINDS: [&str; 3] = [
    "volumesnapshots",
    "volumesnapshotclasses",
    "volumesnapshotcontents",
];

async fn without_kinds() -> Stage {
    let stage = Stage::new().await;
    KINDS.iter().for_each(|kind| stage.api.forget_kind(kind));
    stage
}

#[tokio::test]
async fn c_4_c_5_without_kinds_it_ends() {
    for (row, limit, least) in [("C-4", "3s", 3), ("C-5", "100ms", 1)] {
        let stage = without_kinds().await;
        let flag = format!("--retry-crd-interval-max={limit}");
        let mut process = stage.start(&[&flag]);
        let end = process.ended_within(PATIENCE).await;
        let last = end.with_code(1);
        let text = "Exiting due to failure to ensure CRDs exist during startup: ";
        assert!(last.contains(text), "{row}: {last}");
        assert!(process.elapsed() >= Duration::from_secs(least), "{row}");
        let lists = stage
            .api
            .requests_to("GET", "/apis/snapshot.storage.k8s.io/*");
        // In the second of C-5 a busy machine may have time for one only.
        assert!(lists.len() > usize::from(row == "C-4"), "{row}");
        assert!(lists.iter().all(|list| list.query["limit"] == "1"), "{row}");
        // The pauses grow, so that a server without the kinds gets few requests.
        assert!(lists.len() < 14, "{row}: {}", lists.len());
    }
}

#[tokio::test]
async fn c_6_kinds_that_come_later_are_waited_for() {
    let stage = without_kinds().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let process = stage.start(&[&endpoint]);
    process
        .says("Cannot list a kind of the snapshot API yet")
        .await;
    // The HTTP server answers meanwhile.
    assert_eq!(get(&address, "/metrics").await.0, 200);
    sleep(Duration::from_secs(2)).await;
    let kind = |resource, name| {
        Kind::new("snapshot.storage.k8s.io", "v1", resource, name).status(Status::WithMetadata)
    };
    stage.api.serve_kind(
        kind("volumesnapshots", "VolumeSnapshot")
            .custom()
            .namespaced(),
    );
    stage
        .api
        .serve_kind(kind("volumesnapshotcontents", "VolumeSnapshotContent").custom());
    let class = Kind::new(
        "snapshot.storage.k8s.io",
        "v1",
        "volumesnapshotclasses",
        "VolumeSnapshotClass",
    );
    stage.api.serve_kind(class.custom());
    process.says("Starting snapshot controller").await;
}

#[tokio::test]
async fn c_7_what_may_not_be_listed_is_named_at_once() {
    let stage = Stage::new().await;
    let group = "snapshot.storage.k8s.io";
    stage.api.allow_only([
        Allow::new("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
        Allow::new(
            group,
            "volumesnapshots,volumesnapshotclasses",
            "get,list,watch",
        ),
    ]);
    let mut process = stage.start(&[]);
    let end = process.ended_within(PATIENCE).await;
    end.failed_naming(&["list", "volumesnapshotcontents.snapshot.storage.k8s.io"]);
}

#[tokio::test]
async fn c_8_c_9_without_group_kinds_nothing_waits() {
    const GROUPS: &str = "/apis/groupsnapshot.storage.k8s.io/*";
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let process = stage.working(&[&endpoint]).await;
    process.says("continuing without group snapshots").await;
    assert_eq!(stage.api.requests_to("GET", GROUPS).len(), 1, "C-8");
    assert_eq!(get(&address, "/metrics").await.0, 200);
    stage.snapshot("s1");
    stage
        .until_snapshot("s1", |snapshot| snapshot["status"]["readyToUse"] == false)
        .await;
    drop(process);
    stage.api.clear_requests();
    let process = stage
        .working(&["--feature-gates=CSIVolumeGroupSnapshot=false"])
        .await;
    process.says("Setting GA feature gate").await;
    assert!(stage.api.requests_to("GET", GROUPS).is_empty(), "C-9");
}

#[tokio::test]
async fn c_11_what_is_watched() {
    let common = [
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses",
        "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents",
        "/apis/snapshot.storage.k8s.io/v1/volumesnapshots",
    ];
    for (arguments, nodes) in [
        (&[][..], None),
        (
            &["--enable-distributed-snapshotting"],
            Some("/api/v1/nodes"),
        ),
    ] {
        let stage = Stage::new().await;
        let process = stage.working(arguments).await;
        let expected: Vec<&str> = nodes.into_iter().chain(common).collect();
        stage
            .until("the watches", |api| {
                let requests = api
                    .requests()
                    .into_iter()
                    .filter(|request| request.is_watch());
                let mut paths: Vec<String> = requests.map(|request| request.path).collect();
                paths.sort();
                paths.dedup();
                let mut expected = expected.clone();
                expected.sort_unstable();
                paths == expected
            })
            .await;
        drop(process);
    }
}

#[tokio::test]
async fn c_13_an_address_in_use_ends_it() {
    let stage = Stage::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("--http-endpoint={}", taken.local_addr().unwrap());
    let mut process = stage.start(&[&endpoint]);
    let end = process.ended_within(PATIENCE).await;
    end.failed_naming(&["--http-endpoint"]);
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named() {
    let stage = Stage::new().await;
    let group = "snapshot.storage.k8s.io";
    stage.api.allow_only([
        Allow::new("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
        Allow::new(
            group,
            "volumesnapshots,volumesnapshotclasses,volumesnapshotcontents",
            "get,list",
        ),
        Allow::new(
            "",
            "persistentvolumes,persistentvolumeclaims",
            "get,list,watch",
        ),
    ]);
    stage.api.fault(Fault::on("GET", "/nothing").answer(500));
    let process = stage.start(&[]);
    process.says("volumesnapshots").await;
    process.says("watch").await;
}
