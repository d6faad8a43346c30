//! Rows 36 to 73 and 140 that need requests: order, bodies and budgets of an attach.

use serde_json::json;
use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::process::until;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{
    ATTACHED, DRIVER, F, N, Stage, free_address, prepare_patch, settle, until_metrics,
};

#[tokio::test]
async fn rows_36_to_38_requests_of_an_attach_in_order() {
    let rows = [
        (
            "36",
            None,
            vec![format!(
                r#"pvp [{{"op":"test","path":"/metadata/finalizers","value":null}},{{"op":"add","path":"/metadata/finalizers","value":["{F}"]}}]"#
            )],
        ),
        (
            "37",
            Some(json!(["kubernetes.io/pv-protection"])),
            vec![format!(
                r#"pvp [{{"op":"add","path":"/metadata/finalizers/-","value":"{F}"}}]"#
            )],
        ),
        ("38", Some(json!([F])), vec![]),
    ];
    for (row, finalizers, mut expected) in rows {
        let stage = Stage::new().await;
        stage.volume("pv2", finalizers);
        let _attacher = stage.start(&[]);
        stage.attach("va1", "pv2");
        stage.until_attached("va1").await;
        settle().await;
        expected.extend([prepare_patch(), "pub h-pv2 NID1".into(), ATTACHED.into()]);
        assert_eq!(stage.trace(), expected, "row {row}");
        for request in stage.api.writes() {
            assert_eq!(request.method, "PATCH", "row {row}: {request:?}");
            let json_patch = request.path.contains("persistentvolumes");
            let expected = if json_patch {
                "application/json-patch+json"
            } else {
                "application/merge-patch+json"
            };
            assert_eq!(request.content_type, expected, "row {row}");
        }
    }
}

#[tokio::test]
async fn rows_39_to_41_what_an_attachment_carries_already() {
    let on = |row: &str| {
        build::attachment(&format!("va-{row}"))
            .by(DRIVER)
            .on("node1")
            .of(row)
    };
    let saved = json!({ N: "NID1" });
    let rows = [
        (
            "39",
            on("39").finalizer("other/fin"),
            Some(json!({"annotations": saved, "finalizers": ["other/fin", F]})),
        ),
        ("40", on("40").finalizer(F).annotation(N, "NID1"), None),
        (
            "41",
            on("41").annotation(N, "X"),
            Some(json!({"annotations": saved, "finalizers": [F]})),
        ),
        (
            "41-prepared",
            on("41-prepared").finalizer(F).annotation(N, "X"),
            Some(json!({"annotations": saved})),
        ),
    ];
    let stage = Stage::new().await;
    for (row, attachment, _) in &rows {
        stage.volume(row, Some(json!([F])));
        stage.api.insert(attachment.clone());
    }
    let _attacher = stage.start(&[]);
    for (row, _, metadata) in rows {
        stage.until_attached(&format!("va-{row}")).await;
        let mut expected = Vec::new();
        expected.extend(metadata.map(|metadata| format!("md {}", json!({"metadata": metadata}))));
        expected.extend([format!("pub h-{row} NID1"), ATTACHED.to_owned()]);
        assert_eq!(stage.trace_for(row), expected, "row {row}");
    }
}

#[tokio::test]
async fn row_42_the_publish_context_is_saved_and_tls_is_spoken() {
    let stage = Stage::over_tls().await;
    stage.driver.configure(|model| {
        model.publish_context = [("dev".to_owned(), "sda".to_owned())].into();
    });
    let _attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    assert_eq!(
        stage.attachment("va1")["status"]["attachmentMetadata"],
        json!({"dev": "sda"})
    );
}

#[tokio::test]
async fn rows_43_and_44_what_is_attached_is_left_alone_and_row_45_is_attached_again() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    stage.api.edit("volumeattachments", "va1", |object| {
        object["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"] = "tampered".into();
    });
    settle().await;
    assert_eq!(stage.trace(), Vec::<String>::new());
    stage.api.edit("volumeattachments", "va1", |object| {
        object["status"]["attached"] = false.into();
    });
    stage.until_attached("va1").await;
    stage.until_calls("ControllerPublishVolume", 1).await;
}

#[tokio::test]
async fn rows_59_61_and_62_secrets() {
    let stage = Stage::new().await;
    let volume = |name: &str, secret: &str| {
        stage.driver.volume(&format!("h-{name}"));
        let volume = build::volume(name)
            .csi(DRIVER, &format!("h-{name}"))
            .mode("RWO");
        stage.api.insert(volume.publish_secret(secret).finalizer(F));
    };
    stage
        .api
        .insert(build::secret("ns1/sec").entry("user", "YWRtaW4="));
    stage
        .api
        .insert(build::secret("ns1/bad").entry("user", "/w=="));
    volume("pv2", "ns1/sec");
    volume("pv3", "ns1/missing");
    volume("pv4", "ns1/bad");
    let attacher = stage.start(&["-v=5"]);
    stage.attach("va2", "pv2");
    stage.until_attached("va2").await;
    assert_eq!(
        stage.trace(),
        [
            "secret".to_owned(),
            prepare_patch(),
            "pub h-pv2 NID1".into(),
            ATTACHED.into()
        ],
        "row 59"
    );
    let calls = stage.driver.calls_to("ControllerPublishVolume");
    let request: &csi_proto::csi::ControllerPublishVolumeRequest = calls[0].request().unwrap();
    assert_eq!(request.secrets["user"], "admin", "row 59");
    attacher.logs("***stripped***").await;
    attacher
        .logs("/csi.v1.Controller/ControllerPublishVolume")
        .await;

    stage.attach("va3", "pv3");
    stage.until_error("va3", "attachError").await;
    let error = stage.attachment("va3")["status"]["attachError"].clone();
    let text = "failed to load secret \"ns1/missing\": secrets \"missing\" not found";
    assert_eq!(error["message"], text, "row 61");
    assert!(
        error["errorCode"].is_null() && stage.attachment("va3")["metadata"]["finalizers"].is_null()
    );

    stage.attach("va4", "pv4");
    stage.until_error("va4", "attachError").await;
    assert_eq!(
        stage.attachment("va4")["status"]["attachError"]["errorCode"],
        13,
        "row 62"
    );
    assert_eq!(
        stage.driver.calls_to("ControllerPublishVolume").len(),
        1,
        "row 62"
    );
    let log = attacher.log();
    assert!(!log.contains("admin"), "row 135: {log}");
    assert!(
        !log.contains("YWRtaW4") && !log.contains("/w=="),
        "row 135: {log}"
    );
}

#[tokio::test]
async fn row_63_and_65_and_68_sources_that_cannot_be_attached() {
    let stage = Stage::new().await;
    stage
        .api
        .insert(build::volume("nfs").nfs("server", "/").finalizer("a/b"));
    let _attacher = stage.start(&[]);
    let inline = build::attachment("inline").by(DRIVER).on("node1");
    stage
        .api
        .insert(inline.inline(json!({"nfs": {"server": "s", "path": "/"}})));
    let rows = [
        ("missing", "persistentvolume \"missing\" not found"),
        (
            "nfs",
            "pv spec contained non-csi source that was not migrated",
        ),
        ("inline", "inline volume spec contains nil CSI source"),
    ];
    for (name, text) in rows {
        if name != "inline" {
            stage.attach(name, name);
        }
        stage.until_error(name, "attachError").await;
        let error = stage.attachment(name)["status"]["attachError"].clone();
        assert_eq!(error["message"], text);
    }
    let nfs = stage.api.object("persistentvolumes", "nfs").unwrap();
    assert_eq!(nfs["metadata"]["finalizers"], json!(["a/b", F]), "row 65");
    let read = stage
        .api
        .requests_to("GET", "/api/v1/persistentvolumes/nfs");
    assert_eq!(read.len(), 1, "it is kept once it was asked for");
    assert!(stage.driver.calls_to("ControllerPublishVolume").is_empty());
}

#[tokio::test]
async fn a_volume_of_another_driver_is_read_once_and_attached_like_any_other() {
    let stage = Stage::new().await;
    stage.volume("pv2", None);
    stage.driver.volume("h-x");
    let foreign = build::volume("foreign").csi("another.driver", "h-x");
    stage.api.insert(foreign.mode("RWO"));
    let path = "/api/v1/persistentvolumes/foreign";
    let fails = stage.api.fault(Fault::on("GET", path).times(1).answer(500));
    let attacher = stage.start(&["--retry-interval-start=100ms"]);
    attacher.logs("Starting CSI attacher").await;
    stage.attach("va2", "pv2");
    stage.attach("foreign", "foreign");
    stage.until_attached("va2").await;
    stage.until_attached("foreign").await;
    assert_eq!(fails.hits(), 1);
    let reads = |path| stage.api.requests_to("GET", path).len();
    assert_eq!(
        (reads(path), reads("/api/v1/persistentvolumes/pv2")),
        (2, 0)
    );
    stage.api.delete("volumeattachments", "foreign");
    stage.until_gone("foreign").await;
    assert_eq!(reads(path), 2, "it stays known");
}

#[tokio::test]
async fn rows_69_to_71_nodes_that_are_not_known_yet() {
    let stage = Stage::new().await;
    stage.api.remove("csinodes", "node1");
    stage.api.insert(build::csinode("bare"));
    stage.volume("pv2", Some(json!([F])));
    let attacher = stage.start(&["--retry-interval-start=5m"]);
    attacher.logs("Starting CSI attacher").await;
    let rows = [
        (
            "va1",
            "node1",
            "pv1",
            "csinode.storage.k8s.io \"node1\" not found",
        ),
        (
            "va2",
            "bare",
            "pv2",
            "CSINode bare does not contain driver test.csi.driver",
        ),
    ];
    for (name, node, volume, text) in rows {
        // The node id saved in the annotation is used for a detach only.
        let attachment = build::attachment(name).by(DRIVER).on(node).of(volume);
        stage.api.insert(attachment.annotation(N, "ANN"));
        let error = stage.error(name, "attachError").await;
        assert_eq!(error["message"], text);
    }
    stage.api.insert(build::csinode("node1"));
    settle().await;
    assert!(stage.driver.calls_to("ControllerPublishVolume").is_empty());
    // Row 71 has the next attempt after the next back-off, which would be five minutes; here the
    // CSINode requeues the attachments that wait for it.
    for (name, node, ..) in rows {
        stage.api.edit("csinodes", node, |object| {
            object["spec"]["drivers"] =
                json!([{"name": DRIVER, "nodeID": "NID1", "topologyKeys": null}]);
        });
        stage.until_attached(name).await;
        assert!(stage.attachment(name)["status"]["attachError"].is_null());
    }
    let calls = stage.driver.calls_to("ControllerPublishVolume");
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.node() == "NID1"), "row 69");
}

#[tokio::test]
async fn a_volume_that_appears_wakes_what_waits_for_it() {
    let stage = Stage::new().await;
    let _attacher = stage.start(&["--retry-interval-start=5m"]);
    stage.attach("va2", "pv2");
    stage.until_error("va2", "attachError").await;
    stage.late_volume("pv2", None);
    stage.until_attached("va2").await;
}

#[tokio::test]
async fn a_volume_of_another_driver_that_appears_wakes_what_waits_for_it() {
    let stage = Stage::new().await;
    let _attacher = stage.start(&["--retry-interval-start=5m"]);
    stage.attach("foreign", "foreign");
    stage.until_error("foreign", "attachError").await;
    stage.driver.volume("h-x");
    let foreign = build::volume("foreign").csi("another.driver", "h-x");
    stage.api.insert(foreign.mode("RWO"));
    stage.until_attached("foreign").await;
}

#[tokio::test]
async fn a_volume_that_appears_while_its_absence_is_recorded_is_seen() {
    let stage = Stage::new().await;
    let slow = std::time::Duration::from_secs(2);
    let status = "*/volumeattachments/va2/status";
    stage
        .api
        .fault(Fault::on("PATCH", status).delay(slow).times(1));
    let _attacher = stage.start(&["--retry-interval-start=5m"]);
    stage.attach("va2", "pv2");
    stage
        .until_api(|api| !api.requests_to("PATCH", status).is_empty())
        .await;
    stage.late_volume("pv2", None);
    stage.until_attached("va2").await;
}

#[tokio::test]
async fn rows_72_and_73_refused_patches() {
    let stage = Stage::new().await;
    stage.volume("pv2", None);
    stage.api.fault(
        Fault::on("PATCH", "*/persistentvolumes/pv2")
            .answer_saying(403, "no")
            .times(1),
    );
    stage.api.fault(
        Fault::on("PATCH", "*/volumeattachments/va1")
            .answer_saying(403, "no")
            .times(1),
    );
    let _attacher = stage.start(&["--retry-interval-start=500ms"]);
    stage.attach("va1", "pv1");
    stage.attach("va2", "pv2");
    stage.until_attached("va1").await;
    stage.until_attached("va2").await;
    let trace = stage.trace();
    for text in [
        "could not add PersistentVolume finalizer: ",
        "could not save VolumeAttachment: ",
    ] {
        assert_eq!(
            trace.iter().filter(|line| line.contains(text)).count(),
            1,
            "{trace:#?}"
        );
    }
    let cleared = r#"st {"status":{"attachError":null,"attached":true}}"#;
    assert_eq!(
        trace.iter().filter(|line| *line == cleared).count(),
        2,
        "{trace:#?}"
    );
    assert_eq!(stage.driver.calls_to("ControllerPublishVolume").len(), 2);
}

#[tokio::test]
async fn row_84_the_drivers_name_in_the_volume_does_not_count_and_row_85_the_attacher_does() {
    let stage = Stage::new().await;
    stage.driver.volume("h-other");
    let volume = build::volume("other")
        .csi("other.driver", "h-other")
        .mode("RWO");
    stage.api.insert(volume.finalizer(F));
    let _attacher = stage.start(&[]);
    stage.api.insert(
        build::attachment("foreign")
            .by("other")
            .on("node1")
            .of("pv1"),
    );
    stage.attach("va1", "other");
    stage.until_attached("va1").await;
    settle().await;
    assert_eq!(stage.trace().len(), 3, "{:?}", stage.trace());
    assert_eq!(stage.driver.calls_to("ControllerPublishVolume").len(), 1);
}

#[tokio::test]
async fn row_86_what_is_deleted_while_it_waits_is_forgotten() {
    let stage = Stage::new().await;
    stage.volume("pv2", None);
    let gate = Gate::new();
    stage
        .driver
        .fault(CallFault::on("ControllerPublishVolume").hold(&gate));
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let attacher = stage.start(&["--worker-threads=1", "--timeout=5m", &endpoint]);
    stage.attach("va1", "pv1");
    stage.until_calls("ControllerPublishVolume", 1).await;
    stage.attach("va2", "pv2");
    let depth = r#"csi_sidecar_workqueue_lane_depth{lane="attach",name="csi-attacher-va"}"#;
    until_metrics(&address, &format!("{depth} 1")).await;
    stage.api.delete("volumeattachments", "va2");
    settle().await;
    gate.open();
    stage.until_attached("va1").await;
    until_metrics(&address, &format!("{depth} 0")).await;
    settle().await;
    assert_eq!(
        stage.trace(),
        [prepare_patch(), "pub h-pv1 NID1".into(), ATTACHED.into()]
    );
    assert!(
        !attacher.log().contains("Error processing"),
        "{}",
        attacher.log()
    );
}

#[tokio::test]
async fn row_140_two_first_attaches_of_one_volume_do_not_collide() {
    let stage = Stage::new().await;
    stage
        .driver
        .configure(|model| model.node_id = String::new());
    stage
        .api
        .insert(build::csinode("node2").driver(DRIVER, "NID2"));
    stage.driver.volume("h-pv2");
    stage
        .api
        .insert(build::volume("pv2").csi(DRIVER, "h-pv2").mode("RWX"));
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    // Slow enough that both calls run at the same time.
    let slow = std::time::Duration::from_millis(300);
    stage
        .api
        .fault(Fault::on("PATCH", "*/persistentvolumes/pv2").delay(slow));
    stage.attach("va1", "pv2");
    stage
        .api
        .insert(build::attachment("va2").by(DRIVER).on("node2").of("pv2"));
    stage.until_attached("va1").await;
    stage.until_attached("va2").await;
    let trace = stage.trace();
    assert_eq!(
        trace.iter().filter(|line| line.starts_with("pvp")).count(),
        1,
        "{trace:#?}"
    );
    assert!(
        !trace.iter().any(|line| line.contains("attachError")),
        "{trace:#?}"
    );
}

#[tokio::test]
async fn messages_are_cut_so_that_the_api_server_takes_them() {
    let stage = Stage::new().await;
    // Two bytes each, so that a cut at any odd byte would be in the middle of a character.
    let long = "é".repeat(3000);
    stage
        .driver
        .fault(CallFault::on("ControllerPublishVolume").fail(Code::Internal, &long));
    let _attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    stage.until_error("va1", "attachError").await;
    let error = stage.attachment("va1")["status"]["attachError"].clone();
    let message = error["message"].as_str().unwrap();
    assert!((1023..=1024).contains(&message.len()), "{}", message.len());
    let text = message.strip_prefix("rpc error: code = Internal desc = ");
    assert!(text.unwrap().chars().all(|letter| letter == 'é'));
    assert_eq!(error["errorCode"], 13);
}

#[tokio::test]
async fn no_second_publish_while_the_watch_is_behind() {
    let stage = Stage::new().await;
    stage.volume("pv2", None);
    let attacher = stage.start(&["--resync=1s"]);
    attacher.logs("Starting CSI attacher").await;
    stage.attach("va1", "pv2");
    stage.until_api(|api| !api.writes().is_empty()).await;
    stage.api.hold_watches("volumeattachments");
    stage.until_attached("va1").await;
    // Resyncs requeue it again and again, and the program knows nothing but its own writes.
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    stage.api.release_watches("volumeattachments");
    settle().await;
    assert_eq!(stage.driver.calls_to("ControllerPublishVolume").len(), 1);
    assert_eq!(stage.api.writes().len(), 3, "{:#?}", stage.trace());
}

/// kube-controller-manager derives the name from volume, driver and node, so that the next
/// attachment has the same.
#[tokio::test]
async fn a_late_patch_does_not_reach_the_next_attachment_of_the_name() {
    for path in ["*/volumeattachments/va1", "*/volumeattachments/va1/status"] {
        let stage = Stage::new().await;
        let gate = Gate::new();
        let patch = Fault::on("PATCH", path).times(1);
        stage.api.fault(patch.hold(&gate));
        stage.attach("va1", "pv1");
        let _attacher = stage.start(&[]);
        until("the patch", async || gate.waiting() == 1).await;
        stage.api.remove("volumeattachments", "va1");
        let next = build::attachment("va1").by("other").on("node1").of("pv1");
        let next = stage.api.insert(next);
        gate.open();
        let answer = || stage.api.requests_to("PATCH", path)[0].status;
        until("its answer", async || answer().is_some()).await;
        assert_eq!(answer(), Some(422), "{path}");
        settle().await;
        assert_eq!(stage.attachment("va1"), next, "{path}");
    }
}

#[tokio::test]
async fn fs_18_an_attachment_that_the_watch_brings_after_an_own_write_is_attached() {
    let stage = Stage::new().await;
    stage.volume("pv2", None);
    let gate = Gate::new();
    let prepare = Fault::on("PATCH", "*/volumeattachments/va1").times(1);
    stage.api.fault(prepare.hold(&gate));
    let attacher = stage.start(&["--retry-interval-start=5m"]);
    attacher.logs("Starting CSI attacher").await;
    stage.attach("va1", "pv1");
    until("the patch", async || gate.waiting() == 1).await;
    stage.api.hold_watches("volumeattachments");
    stage.attach("va2", "pv2");
    gate.open();
    stage.until_attached("va1").await;
    stage.api.release_watches("volumeattachments");
    stage.until_attached("va2").await;
}
