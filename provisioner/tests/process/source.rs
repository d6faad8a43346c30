//! Rows 97, 110, 111, 117 to 119, 132 and 229 to 237: volumes made from snapshots and from other volumes.

use csi_proto::csi;
use csi_proto::csi::volume_content_source::Type;
use serde_json::json;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::process::within;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{
    ANNOTATION, DRIVER, GI, PATIENCE, PV, READY, Stage, claim, finalizers, free_address, get,
    settle, together,
};

const RESTORED: &str = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";
pub(crate) const CLONED: &str = "provisioner.storage.kubernetes.io/cloning-protection";

pub(crate) fn snapshot(stage: &Stage) {
    stage.can(ControllerRpc::CreateDeleteSnapshot);
    stage.driver.configure(|model| {
        let snapshot = csi::Snapshot {
            snapshot_id: "sid".into(),
            size_bytes: GI,
            ready_to_use: true,
            ..csi::Snapshot::default()
        };
        model.snapshots.insert("sid".into(), snapshot);
    });
    let group = "snapshot.storage.k8s.io/v1";
    stage.api.insert(json!({
        "apiVersion": group, "kind": "VolumeSnapshot",
        "metadata": {"namespace": "ns1", "name": "s1", "uid": "uid-s1"},
        "spec": {"source": {"volumeSnapshotContentName": "k1"}},
        "status": {"boundVolumeSnapshotContentName": "k1", "readyToUse": true, "restoreSize": "1Gi"},
    }));
    stage.api.insert(json!({
        "apiVersion": group, "kind": "VolumeSnapshotContent", "metadata": {"name": "k1"},
        "spec": {"driver": DRIVER, "deletionPolicy": "Retain", "source": {"snapshotHandle": "sid"},
            "volumeSnapshotRef": {"namespace": "ns1", "name": "s1", "uid": "uid-s1"}},
        "status": {"snapshotHandle": "sid", "readyToUse": true},
    }));
}

pub(crate) fn restoring() -> build::Claim {
    let source =
        json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s1"});
    claim().with("/spec/dataSource", source)
}

fn snapshot_finalizers(stage: &Stage) -> serde_json::Value {
    finalizers(
        &stage
            .api
            .object("volumesnapshots", "ns1/s1")
            .unwrap_or_default(),
    )
}

#[tokio::test]
async fn row_97_a_snapshot_is_restored_and_protected_meanwhile() {
    let stage = Stage::new().await;
    snapshot(&stage);
    let gate = sidecar_testkit::Gate::new();
    stage
        .driver
        .fault(CallFault::on("CreateVolume").hold(&gate));
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _program = stage.start(&["--snapshot-orphan-sweep-interval=0", &endpoint]);
    stage.api.insert(restoring());
    stage.until_calls("CreateVolume", 1).await;
    assert_eq!(
        snapshot_finalizers(&stage),
        json!([RESTORED]),
        "before the call"
    );
    gate.open();
    stage.until_events("ProvisioningSucceeded", 1).await;
    stage
        .until("and not after", |stage| {
            snapshot_finalizers(stage) == json!([])
        })
        .await;
    let request = &stage.creations()[0];
    let source = request.volume_content_source.as_ref().unwrap();
    let Some(Type::Snapshot(source)) = &source.r#type else {
        panic!("{request:?}")
    };
    assert_eq!(source.snapshot_id, "sid");
    let labels = r#"{class="sc1",source="VolumeSnapshot"} 1"#;
    for metric in ["provision_total", "provision_duration_seconds_count"] {
        let line = format!("controller_persistentvolumeclaim_{metric}{labels}\n");
        within(PATIENCE, &format!("row 289: {line}"), async || {
            get(&address, "/metrics").await.1.contains(&line)
        })
        .await;
    }
}

/// Volumes and snapshots of 1.1Gi, 1181116006.4 bytes, have 1181116007 bytes.
#[tokio::test]
async fn b_1_a_claim_of_a_size_with_a_fraction_is_restored_from_its_own_snapshot() {
    const BYTES: i64 = 1_181_116_007;
    let stage = Stage::new().await;
    snapshot(&stage);
    stage.api.edit("volumesnapshots", "ns1/s1", |object| {
        object["status"]["restoreSize"] = BYTES.to_string().into();
    });
    let _program = stage.start(&[]);
    let size = "/spec/resources/requests/storage";
    stage.api.insert(restoring().with(size, "1.1Gi"));
    stage.until_volume(PV).await;
    let range = stage.creations()[0].capacity_range.unwrap();
    assert_eq!(range.required_bytes, BYTES);
    let capacity = &stage.volume(PV)["spec"]["capacity"]["storage"];
    assert_eq!(*capacity, BYTES.to_string());
}

#[tokio::test]
async fn row_118_a_snapshot_that_is_written_meanwhile_keeps_no_finalizer() {
    let stage = Stage::new().await;
    snapshot(&stage);
    // The first update adds the finalizer. Deleting the snapshot is a write, too.
    let update = Fault::on("PUT", "*/volumesnapshots/s1").skip(1).times(3);
    stage.api.fault(update.answer(409));
    let _program = stage.start(&["--snapshot-orphan-sweep-interval=0"]);
    stage.api.insert(restoring());
    stage.until_volume(PV).await;
    stage
        .until("released in the fourth round", |stage| {
            snapshot_finalizers(stage) == json!([])
        })
        .await;
    let updates = stage.api.requests_to("PUT", "*/volumesnapshots/s1");
    assert_eq!(updates.len(), 5);
}

#[tokio::test]
async fn rows_110_and_111_the_snapshot_cannot_be_protected() {
    together([("110", 403, 0), ("111", 409, 1)], unprotected).await;
}

async fn unprotected((row, code, failures): (&str, u16, usize)) {
    let stage = Stage::new().await;
    snapshot(&stage);
    let update = Fault::on("PUT", "*/volumesnapshots/s1").times(1);
    stage.api.fault(update.answer(code));
    let _program = stage.start(&["--retry-interval-start=300ms"]);
    stage.api.insert(restoring());
    stage.until_volume(PV).await;
    settle().await;
    let events = stage.events("ProvisioningFailed");
    assert_eq!(events.len(), failures, "row {row}: {events:?}");
    assert_eq!(stage.calls("CreateVolume"), 1, "row {row}");
}

#[tokio::test]
async fn rows_117_and_234_the_sweep_takes_what_nobody_needs() {
    let stage = Stage::new().await;
    snapshot(&stage);
    stage
        .driver
        .fault(CallFault::on("CreateVolume").fail(Code::Internal, "no"));
    let _program = stage.start(&[
        "--snapshot-orphan-sweep-interval=1s",
        "--retry-interval-start=5m",
    ]);
    stage.api.insert(restoring());
    stage.until_events("ProvisioningFailed", 1).await;
    // The finalizer must stay meanwhile.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(
        snapshot_finalizers(&stage),
        json!([RESTORED]),
        "rows 117 and 235"
    );
    stage.api.edit("volumesnapshots", "ns1/s1", |object| {
        let list = object["metadata"]["finalizers"].as_array_mut().unwrap();
        list.push("other.io/bound".into());
    });
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    stage
        .until("swept", |stage| {
            snapshot_finalizers(stage) == json!(["other.io/bound"])
        })
        .await;
}

#[tokio::test]
async fn rows_235_and_236_which_claims_count() {
    let stage = Stage::new().await;
    snapshot(&stage);
    let group = "snapshot.storage.k8s.io";
    for name in ["r235", "r236"] {
        stage.api.insert(json!({
            "apiVersion": format!("{group}/v1"), "kind": "VolumeSnapshot",
            "metadata": {"namespace": "ns1", "name": name, "finalizers": [RESTORED]}, "spec": {},
        }));
    }
    let source = |group: &str, name: &str| json!({"apiGroup": group, "kind": "VolumeSnapshot", "name": name});
    let mut elsewhere = source(group, "r235");
    elsewhere["namespace"] = "ns1".into();
    stage
        .api
        .insert(build::claim("ns2/r235").with("/spec/dataSourceRef", elsewhere));
    let other = build::claim("ns1/r236");
    stage
        .api
        .insert(other.with("/spec/dataSource", source("example.com", "r236")));
    let _program = stage.start(&["--snapshot-orphan-sweep-interval=1s"]);
    let held = |stage: &Stage, name: &str| {
        let snapshot = stage.api.object("volumesnapshots", name);
        finalizers(&snapshot.unwrap_or_default())
    };
    stage
        .until("row 236", |stage| held(stage, "ns1/r236") == json!([]))
        .await;
    // The other finalizer must stay meanwhile.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(held(&stage, "ns1/r235"), json!([RESTORED]), "row 235");
}

#[tokio::test]
async fn rows_231_to_233_sources_that_nobody_needs() {
    together(
        [("231 and 232", true, true), ("233", false, false)],
        sources,
    )
    .await;
}

async fn sources((row, clones, freed): (&str, bool, bool)) {
    let stage = Stage::new().await;
    if clones {
        stage.can(ControllerRpc::CloneVolume);
    }
    let source = |name: &str| build::claim(name).bound_to("pvs").finalizer(CLONED);
    stage.api.insert(source("ns1/src").deleting());
    stage.api.insert(source("ns1/kept"));
    let of = json!({"kind": "PersistentVolumeClaim", "name": "src"});
    stage
        .api
        .insert(build::claim("ns2/clone").with("/spec/dataSource", of));
    let program = stage.start(&[]);
    program.logs(READY).await;
    if freed {
        stage
            .until("row 231", |stage| stage.claim("ns1/src").is_null())
            .await;
    }
    settle().await;
    assert_eq!(stage.claim("ns1/src").is_null(), freed, "row {row}");
    let kept = finalizers(&stage.claim("ns1/kept"));
    assert_eq!(kept, json!([CLONED]), "row 232");
}

pub(crate) fn source(stage: &Stage) {
    stage.can(ControllerRpc::CloneVolume);
    stage.driver.volume("vol-src");
    let source = build::claim("ns1/src")
        .class("sc1")
        .mode("RWO")
        .uid("uid-src");
    stage
        .api
        .insert(source.bound_to("pvs").annotation(ANNOTATION, DRIVER));
    let volume = build::volume("pvs")
        .csi(DRIVER, "vol-src")
        .class("sc1")
        .bound_to("ns1/src");
    stage
        .api
        .insert(volume.with("/spec/claimRef/uid", "uid-src"));
}

pub(crate) fn cloning() -> build::Claim {
    claim().with(
        "/spec/dataSource",
        json!({"kind": "PersistentVolumeClaim", "name": "src"}),
    )
}

#[tokio::test]
async fn rows_119_and_230_a_claim_is_cloned() {
    let stage = Stage::new().await;
    source(&stage);
    let gate = sidecar_testkit::Gate::new();
    stage
        .driver
        .fault(CallFault::on("CreateVolume").hold(&gate));
    let program = stage.start(&["--retry-interval-start=300ms"]);
    stage.api.insert(cloning());
    stage.until_calls("CreateVolume", 1).await;
    assert_eq!(
        finalizers(&stage.claim("ns1/src")),
        json!([CLONED]),
        "row 119: before the call"
    );
    stage.api.delete("persistentvolumeclaims", "ns1/src");
    settle().await;
    assert_eq!(
        finalizers(&stage.claim("ns1/src")),
        json!([CLONED]),
        "row 230"
    );
    gate.open();
    stage.until_events("ProvisioningSucceeded", 1).await;
    let request = &stage.creations()[0];
    let source = request.volume_content_source.as_ref().unwrap();
    let Some(Type::Volume(source)) = &source.r#type else {
        panic!("{request:?}")
    };
    assert_eq!(source.volume_id, "vol-src", "row 119");
    stage.bind("ns1/c1", PV);
    stage
        .until("row 229", |stage| stage.claim("ns1/src").is_null())
        .await;
    program.logs("Removed the finalizer").await;
}

/// The finalizer is added to a bound claim, which the cache does not keep: the reply is newer than events of other
/// claims that the watch has yet to deliver.
#[tokio::test]
async fn fs_18_claims_that_the_watch_brings_after_an_own_write_are_provisioned() {
    let stage = Stage::new().await;
    source(&stage);
    let other = |name: &str, uid: &str| {
        let other = build::claim(name).class("sc1").mode("RWO");
        other.uid(uid).annotation(ANNOTATION, DRIVER)
    };
    let gate = sidecar_testkit::Gate::new();
    let protect = Fault::on("PUT", "*/persistentvolumeclaims/src").times(1);
    stage.api.fault(protect.hold(&gate));
    let _program = stage.start(&[]);
    stage.api.insert(cloning());
    stage
        .until("the finalizer is on its way", |_| gate.waiting() == 1)
        .await;
    stage.api.hold_watches("persistentvolumeclaims");
    stage.api.insert(other("ns1/c2", "uid-c2"));
    gate.open();
    stage.until_volume(PV).await;
    stage.api.release_watches("persistentvolumeclaims");
    stage.until_volume("pvc-uid-c2").await;
}

#[tokio::test]
async fn row_229_a_clone_in_doubt_may_finish_although_its_source_is_deleted() {
    let stage = Stage::new().await;
    source(&stage);
    stage.driver.fault(
        CallFault::on("CreateVolume")
            .fail(Code::DeadlineExceeded, "late")
            .times(2),
    );
    let program = stage.start(&["--retry-interval-start=1s"]);
    stage.api.insert(cloning());
    stage.until_calls("CreateVolume", 1).await;
    stage.api.delete("persistentvolumeclaims", "ns1/src");
    stage.until_volume(PV).await;
    assert_eq!(stage.calls("CreateVolume"), 3, "{}", program.log());
}

#[tokio::test]
async fn fp_14_a_source_that_appears_is_cloned_at_once() {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::CloneVolume);
    let program = stage.start(&["--retry-interval-start=5m"]);
    program.logs(READY).await;
    stage.api.insert(cloning());
    stage.until_events("ProvisioningFailed", 1).await;
    // The source claim is not provisioned yet.
    let unbound = build::claim("ns1/src").class("sc1").mode("RWO");
    stage.api.insert(unbound.uid("uid-src"));
    stage.until_events("ProvisioningFailed", 2).await;
    source(&stage);
    stage.until_volume(PV).await;
}

#[tokio::test]
async fn row_132_a_source_with_the_finalizer_is_not_written() {
    for protected in [true, false] {
        let stage = Stage::new().await;
        source(&stage);
        if protected {
            stage
                .api
                .edit("persistentvolumeclaims", "ns1/src", |object| {
                    object["metadata"]["finalizers"] = json!([CLONED]);
                });
        }
        let _program = stage.start(&[]);
        stage.api.insert(cloning());
        stage.until_volume(PV).await;
        settle().await;
        let written = stage.api.requests_to("PUT", "*/persistentvolumeclaims/src");
        assert_eq!(written.is_empty(), protected, "{written:?}");
        assert_eq!(finalizers(&stage.claim("ns1/src")), json!([CLONED]));
    }
}

#[tokio::test]
async fn fp_5_two_restores_at_once_do_not_leave_the_finalizer_to_each_other() {
    let stage = Stage::new().await;
    snapshot(&stage);
    let gate = sidecar_testkit::Gate::new();
    let saving = Fault::on("POST", "*/persistentvolumes");
    stage.api.fault(saving.hold(&gate));
    let _program = stage.start(&["--snapshot-orphan-sweep-interval=0"]);
    stage.api.insert(restoring());
    let other = restoring().with("/metadata/name", "c2").uid("uid-c2");
    stage.api.insert(other);
    stage.until_calls("CreateVolume", 2).await;
    stage.until("both are made", |_| gate.waiting() == 2).await;
    assert_eq!(snapshot_finalizers(&stage), json!([RESTORED]));
    gate.open();
    stage.until_events("ProvisioningSucceeded", 2).await;
    // The claims stay unbound.
    stage
        .until("it goes", |stage| snapshot_finalizers(stage) == json!([]))
        .await;
}

#[tokio::test]
async fn fp_2_no_snapshot_is_freed_before_the_claims_are_known() {
    let stage = Stage::new().await;
    snapshot(&stage);
    stage.api.edit("volumesnapshots", "ns1/s1", |object| {
        object["metadata"]["finalizers"] = json!([RESTORED]);
    });
    // A claim of another driver.
    let restoring = restoring().class("other").annotation(ANNOTATION, "other");
    stage.api.insert(restoring);
    let gate = sidecar_testkit::Gate::new();
    let claims = Fault::on("GET", "*/persistentvolumeclaims");
    stage.api.fault(claims.hold(&gate));
    let program = stage.start(&["--snapshot-orphan-sweep-interval=300ms"]);
    let watched = |stage: &Stage| {
        let asked = stage.api.requests_to("GET", "*/volumesnapshots");
        asked
            .iter()
            .any(|request| request.query.contains_key("resourceVersion"))
    };
    stage.until("the snapshots are known", watched).await;
    settle().await;
    settle().await;
    gate.open();
    program.logs(READY).await;
    settle().await;
    assert_eq!(snapshot_finalizers(&stage), json!([RESTORED]));
    let written = stage.api.requests_to("PUT", "*/volumesnapshots/*");
    assert!(written.is_empty(), "{written:?}");
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    stage
        .until("it is swept", |stage| {
            snapshot_finalizers(stage) == json!([])
        })
        .await;
}

/// The claim is gone, but its call is not: until the journal is read the process does not know that the snapshot is
/// needed.
#[tokio::test]
async fn j_5_no_snapshot_is_freed_before_the_journal_is_read() {
    let stage = Stage::new().await;
    snapshot(&stage);
    stage.driver.fault(
        CallFault::on("CreateVolume")
            .fail(Code::DeadlineExceeded, "late")
            .times(1),
    );
    let program = stage.start(&["--retry-interval-start=60s"]);
    stage.api.insert(restoring());
    stage.until_events("ProvisioningFailed", 1).await;
    program.kill().await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    let gate = sidecar_testkit::Gate::new();
    let journal = Fault::on("GET", "*/leases/test-driver-journal-0");
    stage.api.fault(journal.hold(&gate));
    let _successor = stage.start(&["--snapshot-orphan-sweep-interval=300ms"]);
    let listed = |stage: &Stage| !stage.api.requests_to("GET", "*/volumesnapshots").is_empty();
    stage.until("the snapshots are listed", listed).await;
    settle().await;
    settle().await;
    assert_eq!(snapshot_finalizers(&stage), json!([RESTORED]));
    gate.open();
    stage.until_volume(PV).await;
    stage
        .until("it is swept", |stage| {
            snapshot_finalizers(stage) == json!([])
        })
        .await;
}

#[tokio::test]
async fn row_237_where_nothing_is_swept() {
    let rows = [
        ("as it is", true, true, "300ms"),
        ("interval 0", true, true, "0"),
        ("no CRD", true, false, "300ms"),
        ("no CREATE_DELETE_SNAPSHOT", false, true, "300ms"),
    ];
    together(rows, without_sweep).await;
}

async fn without_sweep((row, can, kind, interval): (&'static str, bool, bool, &'static str)) {
    let stage = Stage::new().await;
    if can {
        snapshot(&stage)
    } else {
        stage.api.insert(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"namespace": "ns1", "name": "s1"}, "spec": {},
        }));
    }
    stage.api.edit("volumesnapshots", "ns1/s1", |object| {
        object["metadata"]["finalizers"] = json!([RESTORED]);
    });
    if !kind {
        stage.api.forget_kind("volumesnapshots");
    }
    let interval = format!("--snapshot-orphan-sweep-interval={interval}");
    let mut program = stage.start(&[&interval]);
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    if row == "as it is" {
        let swept = |stage: &Stage| snapshot_finalizers(stage) == json!([]);
        return stage.until("swept", swept).await;
    }
    settle().await;
    let asked = stage.api.requests_to("*", "*/volumesnapshots*");
    assert!(asked.is_empty(), "{row}: {asked:?}");
    assert!(program.is_running(), "{row}");
    let log = program.log();
    assert!(!log.contains("snapshots"), "{row}: {log}");
}

#[tokio::test]
async fn row_237_without_permission_there_is_no_sweep() {
    let stage = Stage::new().await;
    snapshot(&stage);
    use sidecar_testkit::api::access::Allow;
    stage.api.allow_only([
        Allow::new(
            "",
            "persistentvolumes",
            "get,list,watch,create,patch,delete",
        ),
        Allow::new("", "persistentvolumeclaims", "list,watch,get,update"),
        Allow::new("storage.k8s.io", "storageclasses", "list,watch"),
        Allow::new("", "events", "create,patch"),
    ]);
    let mut program = stage.start(&["--snapshot-orphan-sweep-interval=1s"]);
    program.logs("their stale finalizers are not removed").await;
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    settle().await;
    let asked = stage.api.requests_to("*", "*/volumesnapshots*");
    assert!(asked.is_empty(), "{asked:?}");
    assert!(program.is_running());
}
