//! Objects as backup tools re-create them, CRDs and drivers of other versions: rows S-121 to S-125.

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{CreateSnapshotResponse, ListSnapshotsResponse, Snapshot};
use serde_json::Value;
use sidecar::snapshot::GROUP_HANDLE;
use sidecar_testkit::{CallFault, Gate};

use super::stage::{
    CONTENTS, CREATE, DELETED, FINALIZER, LIST, MARK, NAME, QUICK, Stage, content, pre_provisioned,
    settle, taken,
};

/// A pre-provisioned content with marks of an earlier life: one bit for each annotation, one for the
/// finalizer, one for the policy.
fn copied(number: usize) -> Value {
    let has = |place: usize| number & (1 << place) != 0;
    let mut content = pre_provisioned();
    content["metadata"]["name"] = name(number).into();
    for (place, mark) in [MARK, DELETED, GROUP_HANDLE].into_iter().enumerate() {
        if has(place) {
            content["metadata"]["annotations"][mark] = "yes".into();
        }
    }
    if has(3) {
        content["metadata"]["finalizers"] = [FINALIZER].into();
    }
    if has(4) {
        content["spec"]["deletionPolicy"] = "Retain".into();
    }
    content["spec"]["source"]["snapshotHandle"] = handle(number).into();
    content
}

fn name(number: usize) -> String {
    format!("pp-{number}")
}

fn handle(number: usize) -> String {
    format!("old-{number}")
}

const ALL: std::ops::Range<usize> = 0..32;

fn have(stage: &Stage, id: &str) {
    stage.driver.configure(|model| {
        let found = Snapshot {
            snapshot_id: id.to_owned(),
            ..taken(true)
        };
        model.snapshots.insert(id.to_owned(), found);
    });
}

fn listed(id: &str) -> ListSnapshotsResponse {
    let snapshot = Snapshot {
        snapshot_id: id.to_owned(),
        ..taken(true)
    };
    ListSnapshotsResponse {
        entries: vec![Entry {
            snapshot: Some(snapshot),
        }],
        next_token: String::new(),
    }
}

#[tokio::test]
async fn s_121_what_is_copied_is_looked_up_and_goes() {
    let stage = Stage::new().await;
    for number in ALL {
        have(&stage, &handle(number));
        stage.api.insert(copied(number));
    }
    let _program = stage.started(&[]).await;
    let ready = |stage: &Stage| ALL.clone().all(|number| stage.is_ready(&name(number)));
    stage.until("all are ready", ready).await;
    // Each content gets its VolumeSnapshot, which is then deleted.
    for number in ALL {
        stage.api.edit(CONTENTS, &name(number), |content| {
            content["spec"]["volumeSnapshotRef"]["uid"] = "u9".into();
            content["metadata"]["finalizers"] = [FINALIZER].into();
            content["metadata"]["annotations"][DELETED] = "yes".into();
        });
        stage.api.delete(CONTENTS, &name(number));
    }
    let gone = |stage: &Stage| stage.api.objects(CONTENTS).is_empty();
    stage.until("all are gone", gone).await;
    let mut retained: Vec<String> = ALL.filter(|number| number & 16 != 0).map(handle).collect();
    retained.sort();
    stage.driver.configure(|model| {
        let left: Vec<String> = model.snapshots.keys().cloned().collect();
        assert_eq!(left, retained);
    });
}

#[tokio::test]
async fn s_122_created_and_deleted_while_the_driver_looks_for_it() {
    let stage = Stage::new().await;
    have(&stage, "snap-9");
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(LIST).hold(&gate));
    let mut content = pre_provisioned();
    content["metadata"]["finalizers"] = [FINALIZER].into();
    stage.api.insert(content);
    let _program = stage.started(&[QUICK]).await;
    stage.until("looks", |_| gate.waiting() > 0).await;
    stage.api.delete(CONTENTS, "pp");
    gate.open();
    let gone = |stage: &Stage| stage.content_named("pp").is_null();
    stage.until("gone", gone).await;
    stage
        .driver
        .configure(|model| assert!(model.snapshots.is_empty()));
}

#[tokio::test]
async fn s_123_definitions_without_group_snapshots() {
    let stage = Stage::new().await;
    stage
        .api
        .forget_field(CONTENTS, "/status/volumeGroupSnapshotHandle");
    let mut grouped = listed("snap-9");
    for entry in &mut grouped.entries {
        if let Some(snapshot) = &mut entry.snapshot {
            snapshot.group_snapshot_id = "g1".into();
        }
    }
    stage.driver.fault(CallFault::on(LIST).answer(grouped));
    stage.api.insert(pre_provisioned());
    let _program = stage.started(&[QUICK]).await;
    stage.until_ready("pp").await;
    settle().await;
    let trace = stage.trace();
    assert_eq!(trace.len(), 2, "{trace:#?}");
    assert_eq!(trace[0], "List snap-9");
}

#[tokio::test]
async fn s_124_a_driver_that_spells_the_handle_in_another_way() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(LIST).answer(listed("/pool/snap-9")));
    stage.api.insert(pre_provisioned());
    let program = stage.started(&[QUICK]).await;
    stage.until_ready("pp").await;
    let status = &stage.content_named("pp")["status"];
    assert_eq!(status["snapshotHandle"], "/pool/snap-9");
    program
        .logs("returned the snapshot handle in another spelling")
        .await;
}

#[tokio::test]
async fn s_125_a_driver_that_forgets_what_it_took() {
    let stage = Stage::new().await;
    let answer = |id: &str, ready| CreateSnapshotResponse {
        snapshot: Some(Snapshot {
            snapshot_id: id.to_owned(),
            ..taken(ready)
        }),
    };
    let first = CallFault::on(CREATE).times(1);
    stage.driver.fault(first.answer(answer("snap-1", false)));
    stage
        .driver
        .fault(CallFault::on(CREATE).answer(answer("snap-2", true)));
    stage.api.insert(content("u1"));
    let _program = stage.started(&[QUICK]).await;
    stage
        .until_events("SnapshotContentCheckandUpdateFailed", 1)
        .await;
    let event = &stage.events("SnapshotContentCheckandUpdateFailed")[0];
    let message = event["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("snap-2, and with snap-1 before"),
        "{message}"
    );
    let status = &stage.content_named(NAME)["status"];
    assert_eq!(status["snapshotHandle"], "snap-1");
    assert_eq!(status["readyToUse"], false);
    assert_eq!(status["error"]["message"], event["message"]);
}
