//! Rows 203 to 228: released volumes.

use serde_json::{Value, json};
use sidecar_testkit::build::{self, Object, Volume};
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::process::within;
use sidecar_testkit::{CallFault, Fault, Gate};
use tonic::Code;

use super::stage::{
    DRIVER, FINALIZER, PATIENCE, PROTECTION, READY, Stage, claim, finalizers, free_address, get,
    released, settle,
};

const DELETE: &str = "DeleteVolume";
const BY: &str = "/metadata/annotations/pv.kubernetes.io~1provisioned-by";

#[tokio::test]
async fn row_203_call_object_and_only_our_finalizer() {
    let stage = Stage::new().await;
    stage.driver.volume("vol-pv1");
    stage.api.insert(released("pv1"));
    let _program = stage.start(&[]);
    stage
        .until("our finalizer goes", |stage| {
            finalizers(&stage.volume("pv1")) == json!([PROTECTION])
        })
        .await;
    assert!(!stage.volume("pv1")["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(stage.calls(DELETE), 1);
    stage.api.remove("persistentvolumes", "pv1");
    settle().await;
    assert_eq!(stage.calls(DELETE), 1);
    assert_eq!(
        stage.writes(),
        ["DELETE persistentvolumes", "PATCH persistentvolumes"]
    );
}

#[tokio::test]
async fn a_late_patch_does_not_reach_the_next_volume_of_the_name() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    let patch = Fault::on("PATCH", "*/persistentvolumes/pv1").times(1);
    stage.api.fault(patch.hold(&gate));
    stage.api.insert(released("pv1"));
    let _program = stage.start(&[]);
    within(PATIENCE, "the patch", async || gate.waiting() == 1).await;
    stage.api.remove("persistentvolumes", "pv1");
    let next = stage.api.insert(released("pv1").uid("next").phase("Bound"));
    gate.open();
    let answer = || {
        let patches = stage.api.requests_to("PATCH", "*/persistentvolumes/pv1");
        patches[0].status
    };
    within(PATIENCE, "its answer", async || answer().is_some()).await;
    assert_eq!(answer(), Some(422));
    settle().await;
    assert_eq!(stage.volume("pv1"), next);
    assert_eq!(stage.calls(DELETE), 1);
}

fn volume() -> Volume {
    build::volume("x")
        .mode("RWO")
        .class("sc1")
        .bound_to("ns1/c1")
}

/// Rows, their volumes, and whether these are deleted.
fn fates() -> Vec<(&'static str, Volume, bool)> {
    let aws = json!({"volumeID": "vol-1"});
    let deleting = |volume: Volume| volume.with("/metadata/deletionTimestamp", build::LONG_AGO);
    let bound = |name: &str| released(name).phase("Bound");
    vec![
        ("r204", released("r204").with(BY, "other"), false),
        (
            "r206",
            released("r206").with("/metadata/annotations", Value::Null),
            true,
        ),
        (
            "r207",
            volume()
                .with("/metadata/name", "r207")
                .with("/spec/awsElasticBlockStore", aws)
                .phase("Released"),
            false,
        ),
        ("r208a", bound("r208a"), false),
        ("r208b", released("r208b").phase("Available"), false),
        ("r208c", released("r208c").phase("Failed"), false),
        ("r209", released("r209").reclaim("Retain"), false),
        (
            "r210",
            bound("r210").with("/metadata/finalizers", json!([PROTECTION])),
            false,
        ),
        (
            "r211",
            released("r211").with("/metadata/finalizers", Value::Null),
            true,
        ),
        (
            "r212",
            deleting(released("r212").with("/metadata/finalizers", json!([PROTECTION]))),
            false,
        ),
        ("r213", deleting(bound("r213")), false),
        (
            "r214",
            deleting(bound("r214").with("/metadata/finalizers", json!([PROTECTION]))),
            false,
        ),
    ]
}

#[tokio::test]
async fn rows_204_to_214_which_volumes_are_deleted() {
    let rows = fates();
    let stage = Stage::new().await;
    for (_, volume, _) in &rows {
        stage.api.insert(volume.clone());
    }
    let program = stage.start(&[]);
    program.logs(READY).await;
    stage.until_calls(DELETE, 2).await;
    stage
        .until("row 209", |stage| {
            finalizers(&stage.volume("r209")) == json!([PROTECTION])
        })
        .await;
    stage
        .until("row 210", |stage| {
            finalizers(&stage.volume("r210")) == json!([PROTECTION, FINALIZER])
        })
        .await;
    settle().await;
    let calls = stage.driver.calls_to(DELETE);
    for (row, _, deleted) in &rows {
        let handle = format!("vol-{row}");
        let called = calls.iter().any(|call| call.volume() == handle);
        assert_eq!(called, *deleted, "row {row}: {}", program.log());
    }
    assert_eq!(
        finalizers(&stage.volume("r214")),
        json!([PROTECTION]),
        "row 214"
    );
    assert_eq!(
        finalizers(&stage.volume("r204")),
        json!([PROTECTION, FINALIZER]),
        "row 204"
    );
    for request in stage.api.requests_to("PATCH", "*/persistentvolumes/r21*") {
        let strategic = "application/strategic-merge-patch+json";
        assert_eq!(request.content_type, strategic, "section 12.2");
    }
    // Deleted before its claim: the volume is deleted with the claim.
    stage.api.edit("persistentvolumes", "r213", |object| {
        object["status"]["phase"] = "Released".into();
    });
    stage.until_calls(DELETE, 3).await;
    stage
        .until("row 213", |stage| {
            finalizers(&stage.volume("r213")) == json!([PROTECTION])
        })
        .await;
    assert!(stage.events("VolumeFailedDelete").is_empty());
}

#[tokio::test]
async fn row_215_a_failed_deletion_is_reported_and_retried() {
    let stage = Stage::new().await;
    let address = free_address();
    stage.api.insert(released("pv1"));
    stage
        .driver
        .fault(CallFault::on(DELETE).fail(Code::NotFound, "what?").times(1));
    let endpoint = format!("--http-endpoint={address}");
    let _program = stage.start(&[&endpoint, "--retry-interval-start=1s"]);
    stage.until_events("VolumeFailedDelete", 1).await;
    assert_eq!(
        finalizers(&stage.volume("pv1")),
        json!([PROTECTION, FINALIZER])
    );
    let (_, text) = get(&address, "/metrics").await;
    let line = r#"controller_persistentvolume_delete_failed_total{class="sc1"} 1"#;
    assert!(text.contains(line), "{text}");
    let event = &stage.api.objects("events")[0];
    assert_eq!(event["metadata"]["namespace"], "default");
    assert!(stage.events("VolumeFailedDelete")[0].contains("code = NotFound desc = what?"));
    stage
        .until("retried", |stage| {
            finalizers(&stage.volume("pv1")) == json!([PROTECTION])
        })
        .await;
    assert_eq!(stage.calls(DELETE), 2);
}

#[tokio::test]
async fn fp_14_deletions_count_under_the_field_of_the_class() {
    let stage = Stage::new().await;
    let address = free_address();
    let beta = "volume.beta.kubernetes.io/storage-class";
    stage.api.insert(released("pv1").annotation(beta, "beta"));
    let program = stage.start(&[&format!("--http-endpoint={address}")]);
    program.logs(READY).await;
    let line = "controller_persistentvolume_delete_total{class=\"sc1\"} 1\n";
    within(PATIENCE, line, async || {
        get(&address, "/metrics").await.1.contains(line)
    })
    .await;
}

#[tokio::test]
async fn row_216_the_object_cannot_be_deleted() {
    let stage = Stage::new().await;
    stage.api.insert(released("pv1"));
    stage.api.fault(
        Fault::on("DELETE", "*/persistentvolumes/pv1")
            .answer(500)
            .times(1),
    );
    let _program = stage.start(&["--retry-interval-start=300ms"]);
    stage
        .until("deleted", |stage| {
            finalizers(&stage.volume("pv1")) == json!([PROTECTION])
        })
        .await;
    assert!(stage.events("VolumeFailedDelete").is_empty(), "row 216");
    assert_eq!(stage.calls(DELETE), 2, "row 216");
}

#[tokio::test]
async fn rows_217_to_219_attached_volumes() {
    let attached =
        |name: &str, volume: &str| build::attachment(name).by(DRIVER).on("node1").of(volume);
    let stage = Stage::new().await;
    stage.can(ControllerRpc::PublishUnpublishVolume);
    stage.api.insert(attached("va1", "pv1"));
    stage.api.insert(attached("va2", "other"));
    stage.api.insert(released("pv1"));
    stage.api.insert(released("pv2"));
    let program = stage.start(&["--retry-interval-start=5m"]);
    stage
        .until("row 218", |stage| {
            finalizers(&stage.volume("pv2")) == json!([PROTECTION])
        })
        .await;
    stage.until_events("VolumeDelete", 1).await;
    let waits = "persistentvolume pv1 is still attached to node node1, waiting for detach";
    assert_eq!(stage.events("VolumeDelete"), [waits], "row 217");
    assert_eq!(stage.calls(DELETE), 1, "row 217");
    stage.api.remove("volumeattachments", "va1");
    stage
        .until("detached", |stage| {
            finalizers(&stage.volume("pv1")) == json!([PROTECTION])
        })
        .await;
    drop(program);

    let stage = Stage::new().await;
    stage.api.insert(attached("va1", "pv1"));
    stage.api.insert(released("pv1"));
    let _program = stage.start(&[]);
    stage.until_calls(DELETE, 1).await;
}

#[tokio::test]
async fn n_8a_8b_and_8c_waiting_for_a_detach_is_no_failure() {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::PublishUnpublishVolume);
    let attachment = build::attachment("va1").by(DRIVER).on("node1");
    stage.api.insert(attachment.of("pv1"));
    stage.api.insert(released("pv1"));
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let program = stage.start(&["--retry-interval-start=100ms", &endpoint]);
    stage
        .until("retries", |stage| {
            let events = stage.api.objects("events");
            let again = |event: &Value| {
                event["type"] == "Normal"
                    && event["reason"] == "VolumeDelete"
                    && event["count"] == 2
            };
            events.iter().any(again)
        })
        .await;
    let (_, text) = get(&address, "/metrics").await;
    let counted = |text: &str, name: &str, count: u32| {
        text.contains(&format!("{name}{{class=\"sc1\"}} {count}\n"))
    };
    let names = ["total", "failed_total", "duration_seconds_count"]
        .map(|name| format!("controller_persistentvolume_delete_{name}"));
    for name in &names {
        assert!(!text.contains(&format!("{name}{{")), "N-8a: {text}");
    }
    assert_eq!(stage.calls(DELETE), 0, "N-8a: {}", program.log());

    stage.api.remove("volumeattachments", "va1");
    within(PATIENCE, "N-8b", async || {
        counted(&get(&address, "/metrics").await.1, &names[0], 1)
    })
    .await;
    assert_eq!(stage.calls(DELETE), 1, "N-8b");
    assert!(stage.events("VolumeFailedDelete").is_empty(), "N-8b");

    let attachment = build::attachment("va2").by(DRIVER).on("node1");
    stage.api.insert(attachment.of("pv3"));
    let no = CallFault::on(DELETE).fail(Code::Internal, "no").times(1);
    stage.driver.fault(no);
    stage.api.insert(released("pv2"));
    stage.until_events("VolumeFailedDelete", 1).await;
    let (_, text) = get(&address, "/metrics").await;
    assert!(counted(&text, &names[1], 1), "N-8c: {text}");
}

#[tokio::test]
async fn fs_19_nothing_is_deleted_while_attachments_are_not_watched() {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::PublishUnpublishVolume);
    for name in ["pv1", "pv2"] {
        stage.api.insert(released(name).phase("Bound"));
    }
    let program = stage.start(&["--retry-interval-start=5m"]);
    program.logs(READY).await;
    // Only the watch of attachments breaks: volumes are listed again at once.
    let gate = Gate::new();
    let attachments = Fault::on("GET", "*/volumeattachments");
    stage.api.fault(attachments.hold(&gate));
    stage.api.break_watches();
    stage
        .api
        .insert(build::attachment("va1").by(DRIVER).on("node1").of("pv1"));
    for name in ["pv1", "pv2"] {
        stage.api.edit("persistentvolumes", name, |object| {
            object["status"]["phase"] = "Released".into();
        });
    }
    program
        .logs("the watch of VolumeAttachments is interrupted")
        .await;
    settle().await;
    assert_eq!(stage.calls(DELETE), 0);
    assert!(stage.events("VolumeFailedDelete").is_empty());
    gate.open();
    stage
        .until("what is not attached goes at once", |stage| {
            finalizers(&stage.volume("pv2")) == json!([PROTECTION])
        })
        .await;
    stage.until_events("VolumeDelete", 1).await;
    assert_eq!(stage.calls(DELETE), 1);
    stage.api.remove("volumeattachments", "va1");
    stage
        .until("and what is, when it is no longer", |stage| {
            finalizers(&stage.volume("pv1")) == json!([PROTECTION])
        })
        .await;
}

const SECRET_NAME: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";
const SECRET_NAMESPACE: &str = "volume.kubernetes.io/provisioner-deletion-secret-namespace";

fn class_with_secret(name: &str) -> build::Class {
    build::class("sc1")
        .of(DRIVER)
        .parameter("csi.storage.k8s.io/provisioner-secret-name", name)
        .parameter("csi.storage.k8s.io/provisioner-secret-namespace", "ns9")
}

#[tokio::test]
async fn rows_220_to_225_secrets() {
    let annotated = |volume: Volume, name: &str, namespace: &str| {
        volume
            .annotation(SECRET_NAME, name)
            .annotation(SECRET_NAMESPACE, namespace)
    };
    let rows = [
        ("r220", annotated(released("r220"), "", ""), None),
        (
            "r221",
            annotated(released("r221").class("gone"), "own", "ns9"),
            Some("own"),
        ),
        ("r222", annotated(released("r222"), "missing", "ns9"), None),
        (
            "r223",
            released("r223").annotation(SECRET_NAME, "own"),
            Some("sec"),
        ),
        ("r224", released("r224"), Some("sec")),
        ("r225a", released("r225a").class("gone"), None),
        (
            "r225b",
            released("r225b").with("/spec/claimRef", Value::Null),
            None,
        ),
    ];
    let stage = Stage::new().await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class_with_secret("sec"));
    stage
        .api
        .insert(build::secret("ns9/sec").entry("k", "c2Vj"));
    stage
        .api
        .insert(build::secret("ns9/own").entry("k", "b3du"));
    for (_, volume, _) in &rows {
        stage.api.insert(volume.clone());
    }
    let _program = stage.start(&[]);
    stage.until_calls(DELETE, rows.len()).await;
    for (row, _, secret) in &rows {
        let calls = stage.driver.calls_to(DELETE);
        let handle = format!("vol-{row}");
        let call = calls.iter().find(|call| call.volume() == handle);
        let request: &csi_proto::csi::DeleteVolumeRequest = call.unwrap().request().unwrap();
        let value = request.secrets.get("k").map(String::as_str);
        assert_eq!(value, *secret, "row {row}");
    }
}

/// If a value of the Secret is not text, neither call is made: not without the value, nor with another one in its
/// place.
#[tokio::test]
async fn fp_16_a_secret_that_is_no_text_is_refused_by_name() {
    let stage = Stage::new().await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class_with_secret("bytes"));
    stage
        .api
        .insert(build::secret("ns9/bytes").entry("k", "/w=="));
    stage.api.insert(released("r222"));
    stage.api.insert(claim());
    let program = stage.start(&["--retry-interval-start=5m"]);
    for reason in ["VolumeFailedDelete", "ProvisioningFailed"] {
        stage.until_events(reason, 1).await;
        let events = stage.events(reason);
        let named = events
            .iter()
            .all(|it| it.contains("bytes") && it.contains("UTF-8"));
        assert!(named, "{events:?}");
    }
    assert_eq!(stage.calls(DELETE), 0, "{}", program.log());
    assert_eq!(stage.calls("CreateVolume"), 0, "{}", program.log());
}

#[tokio::test]
async fn rows_226_to_228_deletions_that_cannot_be_made() {
    let stage = Stage::new().await;
    stage.api.remove("storageclasses", "sc1");
    stage
        .api
        .insert(class_with_secret("${pvc.annotations['a']}"));
    let half = build::class("half").of(DRIVER);
    stage
        .api
        .insert(half.parameter("csi.storage.k8s.io/provisioner-secret-name", "sec"));
    stage.api.insert(released("r226"));
    stage.api.insert(released("r227").class("half"));
    stage
        .api
        .insert(released("r228").with("/spec/csi", Value::Null));
    let _program = stage.start(&["--retry-interval-start=5m"]);
    stage.until_events("VolumeFailedDelete", 3).await;
    settle().await;
    assert_eq!(stage.calls(DELETE), 0);
}
