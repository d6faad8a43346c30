//! Rows 87 to 103 that need requests: order, bodies and budgets of a detach.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::build::{self, Attachment, Object};
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{DRIVER, F, N, Stage, prepare_patch, settle};

const STATUS: &str = "*/volumeattachments/va1/status";
const RELEASE: &str = r#"md {"metadata":{"finalizers":null}}"#;
const DETACHED: &str = r#"st {"status":{"attached":false}}"#;

#[tokio::test]
async fn row_87_requests_of_a_detach_in_order() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    stage.api.delete("volumeattachments", "va1");
    stage.until_gone("va1").await;
    stage.until_written("PATCH", STATUS, 1).await;
    settle().await;
    assert_eq!(stage.trace(), ["unpub h-pv1 NID1", RELEASE, DETACHED]);
    let status = stage.api.writes().last().unwrap().status;
    assert_eq!(status, Some(404));
    assert!(
        !attacher.log().contains("Error processing"),
        "{}",
        attacher.log()
    );
    assert!(stage.driver.published().is_empty());
}

#[tokio::test]
async fn row_88_foreign_finalizers_stay() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    stage.api.edit("volumeattachments", "va1", |object| {
        let list = object["metadata"]["finalizers"].as_array_mut().unwrap();
        list.insert(0, "other/fin".into());
        object["status"]["attachmentMetadata"] = json!({"dev": "sda"});
    });
    let _attacher = stage.start(&[]);
    stage.api.delete("volumeattachments", "va1");
    stage
        .until("va1", |object| object["status"]["attached"] == false)
        .await;
    settle().await;
    assert_eq!(
        stage.trace(),
        [
            "unpub h-pv1 NID1",
            r#"md {"metadata":{"finalizers":["other/fin"]}}"#,
            r#"st {"status":{"attached":false,"attachmentMetadata":null}}"#,
        ]
    );
}

/// The attachment `va-ROW` of the volume ROW, which is being deleted.
fn going(row: &str, node: &str) -> Attachment {
    let attachment = build::attachment(&format!("va-{row}")).by(DRIVER).on(node);
    attachment.of(row).deleting()
}

/// Row, attachment, and the requests.
fn detached() -> [(&'static str, Attachment, Vec<String>); 5] {
    let unpub = |row: &str| format!("unpub h-{row} NID1");
    let kept = r#"md {"metadata":{"finalizers":["other/fin"]}}"#;
    let ours = |row: &str, id: &str| going(row, "node1").finalizer(F).annotation(N, id);
    let failed = json!({"message": "old", "time": build::LONG_AGO});
    let failed = going("101", "node1").with("/status/attachError", failed);
    [
        (
            "89",
            going("89", "node1").finalizer("other/fin").attached(),
            vec![],
        ),
        (
            "90",
            ours("90", "NID1"),
            vec![unpub("90"), RELEASE.into(), "st {}".into()],
        ),
        (
            "96",
            ours("96", "OLD").attached(),
            vec![unpub("96"), RELEASE.into(), DETACHED.into()],
        ),
        (
            "99",
            ours("99", "NID1").attached(),
            vec![unpub("99"), RELEASE.into(), DETACHED.into()],
        ),
        (
            "101",
            failed.finalizer("other/fin").finalizer(F).attached(),
            vec![unpub("101"), kept.into(), DETACHED.into()],
        ),
    ]
}

#[tokio::test]
async fn rows_89_90_96_99_and_101_what_a_deleted_attachment_carries() {
    let stage = Stage::new().await;
    stage
        .api
        .insert(build::secret("ns1/sec").entry("user", "YWRtaW4="));
    let rows = detached();
    for (row, attachment, _) in &rows {
        stage.volume(row, Some(json!([F])));
        stage
            .driver
            .configure(|model| model.publish(&format!("h-{row}"), "NID1"));
        stage.api.insert(attachment.clone());
    }
    stage.api.edit("persistentvolumes", "99", |volume| {
        volume["spec"]["csi"]["controllerPublishSecretRef"] =
            json!({"namespace": "ns1", "name": "sec"});
    });
    let _attacher = stage.start(&[]);
    for (row, _, expected) in rows {
        if !expected.is_empty() {
            let status = format!("*/volumeattachments/va-{row}/status");
            stage.until_written("PATCH", &status, 1).await;
        }
        assert_eq!(stage.trace_for(row), expected, "row {row}");
    }
    let calls = stage.driver.calls_to("ControllerUnpublishVolume");
    let call = calls.iter().find(|call| call.volume() == "h-99").unwrap();
    let request: &csi_proto::csi::ControllerUnpublishVolumeRequest = call.request().unwrap();
    assert_eq!(request.secrets["user"], "admin", "row 99");
    let status = stage.attachment("va-101")["status"].clone();
    assert_eq!(status["attachError"]["message"], "old", "row 101");
    settle().await;
    assert!(stage.trace_for("89").is_empty(), "row 89");
}

#[tokio::test]
async fn rows_95_and_99_what_keeps_an_attachment_from_being_detached() {
    let stage = Stage::new().await;
    stage.api.insert(build::csinode("bare"));
    let rows = [
        (
            "95",
            "bare",
            format!("CSINode bare does not contain driver {DRIVER}"),
        ),
        (
            "95-gone",
            "gone",
            "csinode.storage.k8s.io \"gone\" not found".into(),
        ),
        (
            "99",
            "node1",
            "failed to load secret \"ns1/missing\": secrets \"missing\" not found".into(),
        ),
    ];
    for (row, node, _) in &rows {
        let volume = build::volume(row).finalizer(F);
        stage.api.insert(match *row {
            "99" => volume.csi(DRIVER, "h-99").publish_secret("ns1/missing"),
            _ => volume.csi(DRIVER, &format!("h-{row}")),
        });
        stage.api.insert(going(row, node).finalizer(F).attached());
    }
    let _attacher = stage.start(&["--retry-interval-start=5m"]);
    for (row, _, text) in rows {
        let name = format!("va-{row}");
        let error = stage.error(&name, "detachError").await;
        assert_eq!(error["message"], text, "row {row}");
        let recorded = json!({"status": {"detachError": {"message": text, "time": error["time"]}}});
        assert_eq!(
            stage.trace_for(row),
            [format!("st {recorded}")],
            "row {row}"
        );
        let finalizers = stage.attachment(&name)["metadata"]["finalizers"].clone();
        assert_eq!(finalizers, json!([F]), "row {row}");
    }
    assert!(
        stage
            .driver
            .calls_to("ControllerUnpublishVolume")
            .is_empty()
    );
}

#[tokio::test]
async fn rows_91_and_92_only_ok_is_detached() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    let unpublish = || CallFault::on("ControllerUnpublishVolume");
    stage
        .driver
        .fault(unpublish().fail(Code::NotFound, "gone").times(1));
    stage.driver.fault(unpublish().hang().times(1));
    let _attacher = stage.start(&["--timeout=3s", "--retry-interval-start=300ms"]);
    stage.api.delete("volumeattachments", "va1");
    stage.until_error("va1", "detachError").await;
    let error = stage.attachment("va1")["status"]["detachError"].clone();
    assert_eq!(error["message"], "rpc error: code = NotFound desc = gone");
    assert!(error["errorCode"].is_null(), "row 91");
    stage.until_gone("va1").await;
    let trace = stage.trace();
    let calls = trace
        .iter()
        .filter(|line| line.starts_with("unpub"))
        .count();
    assert_eq!(calls, 3, "row 92: {trace:#?}");
    let cleared = r#"st {"status":{"attached":false,"detachError":null}}"#;
    stage.until_written("PATCH", STATUS, 3).await;
    assert_eq!(stage.trace().last().unwrap(), cleared, "row 92");
}

#[tokio::test]
async fn rows_93_and_94_a_node_that_is_gone() {
    for row in ["93", "94"] {
        let stage = Stage::new().await;
        stage.attached("va1", "pv1");
        stage.api.remove("csinodes", "node1");
        if row == "94" {
            stage.api.insert(build::csinode("node1"));
        }
        let _attacher = stage.start(&[]);
        stage.api.delete("volumeattachments", "va1");
        stage.until_gone("va1").await;
        assert_eq!(stage.trace()[0], "unpub h-pv1 NID1", "row {row}");
    }
}

#[tokio::test]
async fn row_97_a_missing_volume_is_waited_for() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    stage.api.remove("persistentvolumes", "pv1");
    let attacher = stage.start(&["--retry-interval-start=200ms", "--retry-interval-max=200ms"]);
    attacher.logs("Starting CSI attacher").await;
    stage.api.delete("volumeattachments", "va1");
    stage.until_error("va1", "detachError").await;
    let message = stage.attachment("va1")["status"]["detachError"]["message"].clone();
    assert_eq!(message, "persistentvolume \"pv1\" not found");
    stage.late_volume("pv1", None);
    stage.until_gone("va1").await;
}

#[tokio::test]
async fn row_100_the_finalizer_cannot_be_removed() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    stage.api.fault(
        Fault::on("PATCH", "*/volumeattachments/va1")
            .answer_saying(403, "no")
            .times(1),
    );
    let _attacher = stage.start(&["--retry-interval-start=300ms"]);
    stage.api.delete("volumeattachments", "va1");
    stage.until_gone("va1").await;
    let trace = stage.trace();
    assert!(
        trace[2].contains("could not mark as detached: "),
        "{trace:#?}"
    );
    assert_eq!(
        trace
            .iter()
            .filter(|line| line.starts_with("unpub"))
            .count(),
        2
    );
}

#[tokio::test]
async fn row_102_inline_volumes() {
    let stage = Stage::new().await;
    stage.driver.volume("inl");
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": DRIVER, "volumeHandle": "inl"},
    });
    let attachment = build::attachment("va1").by(DRIVER).on("node1");
    stage.api.insert(attachment.inline(spec));
    let _attacher = stage.start(&[]);
    stage.until_attached("va1").await;
    assert_eq!(
        stage.trace()[..2],
        [prepare_patch(), "pub inl NID1".into()],
        "row 67"
    );
    stage.api.delete("volumeattachments", "va1");
    stage.until_gone("va1").await;
    assert!(stage.trace().contains(&"unpub inl NID1".to_owned()));
    assert!(!stage.trace().iter().any(|line| line.starts_with("pvp")));
}

#[tokio::test]
async fn row_103_a_detach_comes_after_the_running_attach() {
    let stage = Stage::new().await;
    let slow = Duration::from_millis(800);
    stage
        .driver
        .fault(CallFault::on("ControllerPublishVolume").delay(slow));
    let _attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    stage.until_calls("ControllerPublishVolume", 1).await;
    stage.api.delete("volumeattachments", "va1");
    stage.until_gone("va1").await;
    assert!(
        stage.driver.overlaps().is_empty(),
        "{:?}",
        stage.driver.overlaps()
    );
    let calls = stage.driver.calls();
    let methods: Vec<_> = calls.iter().map(|call| call.method).collect();
    assert!(methods.ends_with(&["ControllerPublishVolume", "ControllerUnpublishVolume"]));
    assert!(stage.driver.published().is_empty());
}

#[tokio::test]
async fn two_attachments_of_one_volume_and_node_take_turns() {
    let stage = Stage::new().await;
    let slow = Duration::from_millis(300);
    stage
        .driver
        .fault(CallFault::on("ControllerPublishVolume").delay(slow));
    let _attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    stage.attach("va2", "pv1");
    stage.until_attached("va1").await;
    stage.until_attached("va2").await;
    assert!(
        stage.driver.overlaps().is_empty(),
        "{:?}",
        stage.driver.overlaps()
    );
    assert_eq!(stage.driver.peak("ControllerPublishVolume"), 1);
}

#[tokio::test]
async fn patches_of_a_detach_have_a_time_limit_of_their_own() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    // Each call takes less than the timeout, together they take longer.
    let call = Duration::from_secs(11);
    stage
        .driver
        .fault(CallFault::on("ControllerUnpublishVolume").delay(call));
    let patch = Duration::from_secs(11);
    stage
        .api
        .fault(Fault::on("PATCH", "*/volumeattachments/va1*").delay(patch));
    let _attacher = stage.start(&["--timeout=20s"]);
    stage.api.delete("volumeattachments", "va1");
    stage.until_gone("va1").await;
    assert_eq!(stage.driver.calls_to("ControllerUnpublishVolume").len(), 1);
}

/// Row 138: upstream fails here; patches have time limits of their own, and just wait for the rate.
#[tokio::test]
async fn row_138_a_slow_rate_does_not_fail_a_detach() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    let attacher = stage.start(&["--kube-api-qps=0.1", "--kube-api-burst=1", "--timeout=8s"]);
    attacher.logs("Starting CSI attacher").await;
    stage.api.delete("volumeattachments", "va1");
    stage.until_gone("va1").await;
    assert_eq!(stage.driver.calls_to("ControllerUnpublishVolume").len(), 1);
    assert!(
        !stage
            .trace()
            .iter()
            .any(|line| line.contains("detachError\":{"))
    );
}
