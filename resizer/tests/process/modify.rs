//! Z-100 to Z-121 and Z-132: VolumeAttributesClasses.

use std::time::Duration;

use serde_json::{Value, json};
use sidecar_testkit::build;
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{EXPAND, MODIFY, NEVER_AGAIN, QUICK, Stage, condition, settle};

const BEGIN: &str = r#"cs(rv) {"status":{"conditions":[{"message":"Modifying volume to \"b\" is in progress.","status":"True","type":"ModifyingVolume"}],"modifyVolumeStatus":{"status":"InProgress","targetVolumeAttributesClassName":"b"}}}"#;
const CLASS: &str = r#"pp {"spec":{"volumeAttributesClassName":"b"}}"#;
const FINISH: &str = r#"cs(rv) {"status":{"conditions":null,"currentVolumeAttributesClassName":"b","modifyVolumeStatus":null}}"#;

/// Writes the status that an earlier process left.
fn modifying(stage: &Stage, status: &str, target: &str) {
    stage.edit_claim(|claim| {
        claim["status"]["modifyVolumeStatus"] =
            json!({"status": status, "targetVolumeAttributesClassName": target});
        claim["status"]["conditions"] = json!([condition("ModifyingVolume", "")]);
    });
}

#[tokio::test]
async fn z_100_and_101_another_class() {
    for (row, before) in [("Z-100, Z-130", Some("a")), ("Z-101", None)] {
        let stage = Stage::modifying().await;
        if before.is_none() {
            stage.reclass(None);
            stage.edit_claim(|claim| {
                claim["status"]["currentVolumeAttributesClassName"] = Value::Null
            });
            stage.edit_volume(|volume| volume["spec"]["volumeAttributesClassName"] = Value::Null);
        }
        let _program = stage.started(&[]).await;
        stage.reclass(Some("b"));
        stage.until_events("VolumeModifySuccessful", 1).await;
        settle().await;
        stage.traced(row, &[BEGIN, "Mod h1 9", CLASS, FINISH]);
        let told = [
            "N VolumeModify external resizer is modifying volume c1 with vac b",
            "N VolumeModifySuccessful external resizer modified volume c1 with vac b successfully",
        ];
        assert_eq!(stage.posted(), told, "{row}");
        let parameters = &stage.modifications()[0].mutable_parameters;
        assert_eq!(parameters.len(), 1, "{row}: {parameters:?}");
    }
}

#[tokio::test]
async fn z_102_who_asks() {
    let stage = Stage::modifying().await;
    let _program = stage.started(&["--extra-modify-metadata"]).await;
    stage.reclass(Some("b"));
    stage.until_class("b").await;
    let parameters = &stage.modifications()[0].mutable_parameters;
    let expected = [
        ("csi.storage.k8s.io/pv/name", "pv1"),
        ("csi.storage.k8s.io/pvc/name", "c1"),
        ("csi.storage.k8s.io/pvc/namespace", "ns"),
        ("iops", "9"),
    ];
    let found: Vec<(&str, &str)> = parameters
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(found, expected);
}

fn secrets(stage: &Stage, namespace: Option<&str>) {
    stage.edit_volume(|volume| {
        volume["spec"]["csi"]["controllerExpandSecretRef"] =
            json!({"name": "es", "namespace": "ns"});
        let annotations = &mut volume["metadata"]["annotations"];
        annotations["volume.kubernetes.io/controller-modify-secret-name"] = "ms".into();
        if let Some(namespace) = namespace {
            annotations["volume.kubernetes.io/controller-modify-secret-namespace"] =
                namespace.into();
        }
    });
}

#[tokio::test]
async fn z_103_and_104_the_secret_for_it() {
    for (row, namespace, name, value) in
        [("Z-103", Some("ns"), "ms", "m"), ("Z-104", None, "es", "e")]
    {
        let stage = Stage::modifying().await;
        secrets(&stage, namespace);
        stage
            .api
            .insert(build::secret("ns/ms").entry("user", "bQ=="));
        stage
            .api
            .insert(build::secret("ns/es").entry("user", "ZQ=="));
        let _program = stage.started(&[]).await;
        stage.reclass(Some("b"));
        stage.until_class("b").await;
        assert_eq!(stage.modifications()[0].secrets["user"], value, "{row}");
        let read = stage.api.requests_to("GET", "*/secrets/*");
        assert_eq!(read.len(), 1, "{row}");
        assert!(read[0].path.ends_with(name), "{row}");
    }
}

#[tokio::test]
async fn z_105_without_its_secret() {
    let stage = Stage::modifying().await;
    secrets(&stage, Some("ns"));
    let _program = stage.started(&["--retry-interval-start=1s"]).await;
    stage.reclass(Some("b"));
    stage.until_events("VolumeModifyFailed", 1).await;
    let message = &stage.events("VolumeModifyFailed")[0];
    assert!(
        message.contains("error getting secret ms in namespace ns"),
        "Q13: {message}"
    );
    assert_eq!(
        (stage.calls(MODIFY), stage.modification()),
        (0, "InProgress/b".to_owned())
    );
    stage.api.insert(build::secret("ns/ms"));
    stage.until_class("b").await;
}

#[tokio::test]
async fn z_106_and_107_a_class_that_comes_later() {
    let stage = Stage::modifying().await;
    stage.api.remove("volumeattributesclasses", "b");
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.reclass(Some("b"));
    stage.until_events("VolumeModifyFailed", 1).await;
    settle().await;
    assert_eq!(
        stage.events("VolumeModifyFailed"),
        [r#"VAC "b" does not exist."#],
        "Z-106"
    );
    stage.traced(
        "Z-106",
        &[r#"cs(rv) {"status":{"modifyVolumeStatus":{"status":"Pending"}}}"#],
    );
    stage.class("b", super::stage::DRIVER, "9");
    stage.until_class("b").await;
    assert_eq!(stage.iops(), ["9"], "Z-107, Q2");
}

#[tokio::test]
async fn z_108_to_110_impossible_parameters() {
    let stage = Stage::modifying().await;
    let refused = stage
        .driver
        .fault(CallFault::on(MODIFY).fail(Code::InvalidArgument, "no such iops"));
    let _program = stage.started(&["--retry-interval-max=3s", QUICK]).await;
    stage.reclass(Some("b"));
    stage.until_events("VolumeModifyFailed", 1).await;
    stage
        .until("Z-108", |stage| stage.modification() == "Infeasible/b")
        .await;
    let text = r#"Modifying volume to "b" failed. Waiting for retry."#;
    assert_eq!(stage.condition("ModifyingVolume")["message"], text, "Z-108");
    let error = stage.condition("ModifyVolumeError");
    assert_eq!(
        (&error["reason"], &error["message"]),
        (&json!("InvalidArgument"), &json!("no such iops")),
        "Z-108"
    );
    stage.until_calls(MODIFY, 3).await;
    let calls = stage.driver.calls_to(MODIFY);
    for pair in calls.windows(2) {
        let gap = (pair[1].started - pair[0].started).as_secs_f64();
        assert!(gap >= 2.9, "Z-109, Q14: {gap}");
    }
    stage
        .until("settled", |stage| stage.modification() == "Infeasible/b")
        .await;
    refused.remove();
    let before = stage.iops().len();
    stage.reclass(Some("a"));
    stage.until_class("a").await;
    assert_eq!(stage.iops()[before..], ["5"], "Z-110");
    assert_eq!(stage.conditions(), [""; 0], "Z-110");
}

#[tokio::test]
async fn z_111_and_132_the_wish_is_taken_back() {
    let stage = Stage::modifying().await;
    stage.reclass(None);
    stage.edit_claim(|claim| claim["status"]["currentVolumeAttributesClassName"] = Value::Null);
    stage
        .driver
        .fault(CallFault::on(MODIFY).fail(Code::InvalidArgument, "no"));
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.reclass(Some("b"));
    stage
        .until("infeasible", |stage| stage.modification() == "Infeasible/b")
        .await;
    stage.reclass(None);
    stage.until_events("VolumeModifyCanceled", 1).await;
    stage
        .until("Z-111", |stage| {
            stage.condition("ModifyingVolume").is_null()
        })
        .await;
    assert_eq!(
        stage.events("VolumeModifyCanceled"),
        ["Cancelled modify."],
        "Z-111"
    );
    assert_eq!(stage.conditions(), ["ModifyVolumeError"], "Z-111");
    assert_eq!(
        (stage.modification().as_str(), stage.calls(MODIFY)),
        ("Infeasible/b", 1),
        "Z-111"
    );

    let stage = Stage::modifying().await;
    stage.reclass(None);
    modifying(&stage, "Infeasible", "b");
    let _program = stage.started(&[]).await;
    stage.until_events("VolumeModifyCanceled", 1).await;
    stage
        .until("Z-132", |stage| stage.conditions().is_empty())
        .await;
    assert_eq!(
        (stage.modification().as_str(), stage.calls(MODIFY)),
        ("Infeasible/b", 0),
        "Z-132"
    );
}

#[tokio::test]
async fn z_112_an_error_that_passes() {
    let stage = Stage::modifying().await;
    stage
        .driver
        .fault(CallFault::on(MODIFY).fail(Code::Internal, "boom").times(2));
    let _program = stage.started(&["--retry-interval-start=1s"]).await;
    stage.reclass(Some("b"));
    stage
        .until("error", |stage| {
            !stage.condition("ModifyVolumeError").is_null()
        })
        .await;
    assert_eq!(stage.modification(), "InProgress/b");
    let error = stage.condition("ModifyVolumeError");
    assert_eq!(
        (&error["reason"], &error["message"]),
        (&json!("Internal"), &json!("boom"))
    );
    stage.until_class("b").await;
    assert_eq!((stage.calls(MODIFY), stage.conditions().len()), (3, 0));
    let calls = stage.driver.calls_to(MODIFY);
    let gap = |at: usize| (calls[at + 1].started - calls[at].started).as_secs_f64();
    assert!(gap(0) > 0.9 && gap(1) > 1.9, "{} {}", gap(0), gap(1));
}

#[tokio::test]
async fn z_113_and_114_the_wish_changes_after_an_error() {
    for (row, code, text, expected) in [
        ("Z-113", Code::Internal, "", &["9", "11"][..]),
        (
            "Z-114",
            Code::ResourceExhausted,
            ". Still modifying to VAC b",
            &["9", "9", "11"],
        ),
    ] {
        let stage = Stage::modifying().await;
        stage
            .driver
            .fault(CallFault::on(MODIFY).fail(code, "busy").times(1));
        let _program = stage.started(&["--retry-interval-start=2s"]).await;
        stage.reclass(Some("b"));
        stage.until_events("VolumeModifyFailed", 1).await;
        if row == "Z-114" {
            let text = r#"Modifying volume to "b" is still in progress."#;
            assert_eq!(stage.condition("ModifyingVolume")["message"], text, "{row}");
        }
        let message = &stage.events("VolumeModifyFailed")[0];
        assert!(
            message.ends_with(&format!("desc = busy{text}")),
            "{row}: {message}"
        );
        stage.reclass(Some("c"));
        stage.until_class("c").await;
        assert_eq!(stage.iops(), expected, "{row}");
    }
}

#[tokio::test]
async fn z_115_and_116_what_a_new_process_finishes() {
    let stage = Stage::modifying().await;
    stage.reclass(Some("c"));
    modifying(&stage, "InProgress", "b");
    let _program = stage.started(&[]).await;
    stage.until_class("c").await;
    stage.until_events("VolumeModifySuccessful", 2).await;
    assert_eq!(stage.iops(), ["9", "11"], "Z-115");
    let begun = stage.events("VolumeModify");
    assert_eq!(
        begun,
        ["external resizer is modifying volume c1 with vac c"],
        "Z-115"
    );

    let stage = Stage::modifying().await;
    stage.reclass(None);
    modifying(&stage, "InProgress", "b");
    let _program = stage.started(&[]).await;
    stage.until_class("b").await;
    stage.until_events("VolumeModifySuccessful", 1).await;
    assert_eq!(
        (stage.iops(), stage.events_of("VolumeModify")),
        (vec!["9".to_owned()], 0),
        "Z-116"
    );
    assert_eq!(
        stage.volume()["spec"]["volumeAttributesClassName"],
        "b",
        "Z-116"
    );
}

#[tokio::test]
async fn z_117_a_class_of_another_driver() {
    let stage = Stage::modifying().await;
    stage.class("x", "other.driver", "1");
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.reclass(Some("x"));
    stage.until_events("VolumeModifyFailed", 1).await;
    settle().await;
    assert_eq!(stage.calls(MODIFY), 0, "Q15");
    let message = &stage.events("VolumeModifyFailed")[0];
    assert!(message.contains("other.driver"), "Q15: {message}");
}

#[tokio::test]
async fn z_118_and_121_what_is_left_alone() {
    let stage = Stage::modifying().await;
    stage.edit_volume(|volume| volume["spec"]["csi"]["driver"] = "other".into());
    let _program = stage.started(&[]).await;
    stage.reclass(Some("b"));
    settle().await;
    stage.traced("Z-118", &[]);

    let stage = Stage::modifying().await;
    stage
        .driver
        .configure(|model| model.controller = vec![ControllerRpc::ExpandVolume]);
    let _program = stage.started(&[]).await;
    stage.reclass(Some("b"));
    settle().await;
    stage.traced("Z-121", &[]);
}

#[tokio::test]
async fn z_119_the_volume_cannot_be_written() {
    let stage = Stage::modifying().await;
    stage.api.fault(
        Fault::on("PATCH", "*/persistentvolumes/pv1")
            .answer(500)
            .times(1),
    );
    let _program = stage.started(&[QUICK]).await;
    stage.reclass(Some("b"));
    stage.until_class("b").await;
    assert_eq!(stage.volume()["spec"]["volumeAttributesClassName"], "b");
    assert!(stage.iops().iter().all(|iops| iops == "9"));
    stage.until_events("VolumeModifySuccessful", 1).await;
    settle().await;
    let told = stage.events_of("VolumeModify");
    assert_eq!(told, 1, "FR-16: {:?}", stage.posted());
}

const STATUS: &str = "*/persistentvolumeclaims/c1/status";

#[tokio::test]
async fn fr_18_a_class_that_was_never_asked_for_is_not_in_doubt() {
    for wanted in ["b", "c"] {
        let stage = Stage::modifying().await;
        let lost = stage
            .api
            .fault(Fault::on("PATCH", STATUS).times(1).lose_reply());
        let _program = stage.started(&["--retry-interval-start=2s"]).await;
        stage.reclass(Some("b"));
        stage.until("lost", |_| lost.hits() > 0).await;
        stage.reclass(Some(wanted));
        stage.until_class(wanted).await;
        stage.until_events("VolumeModifySuccessful", 1).await;
        let asked = if wanted == "b" { "9" } else { "11" };
        assert_eq!(stage.iops(), [asked]);
        let told = format!("external resizer is modifying volume c1 with vac {wanted}");
        assert_eq!(stage.events("VolumeModify"), [told]);
    }
}

#[tokio::test]
async fn fr_19_the_last_event_of_a_modification_says_how_it_ended() {
    let stage = Stage::modifying().await;
    stage
        .api
        .fault(Fault::on("PATCH", STATUS).skip(1).times(1).lose_reply());
    let _program = stage.started(&[QUICK]).await;
    stage.reclass(Some("b"));
    stage.until_events("VolumeModifySuccessful", 1).await;
    settle().await;
    assert_eq!(stage.events_of("VolumeModifyFailed"), 0);
    assert_eq!(
        (stage.calls(MODIFY), stage.modification()),
        (1, String::new())
    );
}

#[tokio::test]
async fn n_20b_20c_and_20e_each_call_has_its_time() {
    let both = ["--resize-timeout=300s", "--modify-timeout=1800s"];
    for (row, flags, resize, modify) in [
        ("N-20b", &both[..], 300, 1800),
        ("N-20c", &[both[0], both[1], "--timeout=120s"], 120, 120),
        ("N-20e", &both[1..], 10, 1800),
    ] {
        let stage = Stage::modifying().await;
        let _program = stage.started(flags).await;
        stage.grow("2Gi");
        stage.until_capacity("2Gi").await;
        stage.reclass(Some("b"));
        stage.until_class("b").await;
        for (method, timeout) in [(EXPAND, resize), (MODIFY, modify)] {
            let given = stage.driver.calls_to(method)[0].deadline.unwrap();
            let limit = Duration::from_secs(timeout);
            let fits = given <= limit && given > limit.saturating_sub(Duration::from_secs(5));
            assert!(fits, "{row} {method}: {given:?}");
        }
        let asked = stage.driver.calls_to("Probe")[0].deadline.unwrap();
        let limit = if row == "N-20c" { 120 } else { 10 };
        assert!(asked <= Duration::from_secs(limit), "{row}: {asked:?}");
    }
}
