//! Rows 46 to 60 and 64 to 78 that are about one attachment each: the ControllerPublishVolume
//! request for a volume as it is written, and the recorded error if there is none.

use std::collections::BTreeMap;

use csi_proto::csi::ControllerPublishVolumeRequest as Publish;
use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;
use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object, Volume};
use sidecar_testkit::driver::ControllerRpc;
use tonic::Code;

use super::stage::{DRIVER, F, Stage};

const PUBLISH: &str = "ControllerPublishVolume";

/// A row: the volume, named after the row, and the expected request.
struct Row {
    name: &'static str,
    volume: fn(Volume) -> Volume,
    seen: fn(&Publish) -> bool,
}

const fn row(name: &'static str, volume: fn(Volume) -> Volume, seen: fn(&Publish) -> bool) -> Row {
    Row { name, volume, seen }
}

/// Attaches all volumes with one process and checks the requests.
async fn requests(stage: Stage, arguments: &[&str], rows: &[Row]) {
    for row in rows {
        let handle = format!("h-{}", row.name);
        stage.driver.volume(&handle);
        let volume = build::volume(row.name).csi(DRIVER, &handle).finalizer(F);
        stage.api.insert((row.volume)(volume));
    }
    let _attacher = stage.start(arguments);
    for row in rows {
        stage.attach(&format!("va-{}", row.name), row.name);
    }
    for row in rows {
        stage.until_attached(&format!("va-{}", row.name)).await;
    }
    let calls = stage.driver.calls_to(PUBLISH);
    for row in rows {
        let handle = format!("h-{}", row.name);
        let call = calls.iter().find(|call| call.volume() == handle).unwrap();
        let request: &Publish = call.request().unwrap();
        assert!((row.seen)(request), "row {}: {call:?}", row.name);
    }
    assert_eq!(calls.len(), rows.len());
}

fn has_mode(request: &Publish, mode: Mode) -> bool {
    let capability = request.volume_capability.as_ref().unwrap();
    capability.access_mode.as_ref().unwrap().mode == i32::from(mode)
}

/// File system type and mount options; `None` for a block volume.
fn mount(request: &Publish) -> Option<(&str, Vec<&str>)> {
    let capability = request.volume_capability.as_ref().unwrap();
    match capability.access_type.as_ref().unwrap() {
        AccessType::Block(_) => None,
        AccessType::Mount(mount) => Some((
            &mount.fs_type,
            mount.mount_flags.iter().map(String::as_str).collect(),
        )),
    }
}

#[tokio::test]
async fn rows_46_to_60_requests_to_a_driver_with_nothing_but_publish() {
    let stage = Stage::new().await;
    stage.api.insert(build::secret("ns1/empty"));
    let rows = [
        row("46", |v| v.mode("RWO").read_only(), |r| !r.readonly),
        row("49", |v| v.mode("RWO"), |r| mount(r) == Some(("", vec![]))),
        row(
            "50",
            |v| {
                v.mode("RWO")
                    .fs_type("xfs")
                    .mount_option("noatime")
                    .mount_option("ro")
            },
            |r| mount(r) == Some(("xfs", vec!["noatime", "ro"])),
        ),
        row(
            "51",
            |v| v.block().mode("RWX").fs_type("xfs").mount_option("ro"),
            |r| mount(r).is_none() && has_mode(r, Mode::MultiNodeMultiWriter),
        ),
        row(
            "53-without",
            |v| v.mode("RWOP"),
            |r| has_mode(r, Mode::SingleNodeWriter),
        ),
        row(
            "54",
            |v| v.mode("RWX").mode("ROX").mode("RWO"),
            |r| has_mode(r, Mode::MultiNodeMultiWriter),
        ),
        row(
            "5.5-reader",
            |v| v.mode("ROX"),
            |r| has_mode(r, Mode::MultiNodeReaderOnly),
        ),
        row(
            "58",
            |v| v.mode("RWO").attribute("k", "v"),
            |r| r.volume_context == BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        ),
        row(
            "60",
            |v| v.mode("RWO").publish_secret("ns1/empty"),
            |r| r.secrets.is_empty(),
        ),
    ];
    requests(stage, &[], &rows).await;
}

#[tokio::test]
async fn rows_47_to_53_requests_to_a_driver_that_can_more() {
    let stage = Stage::new().await;
    stage.driver.configure(|model| {
        model.controller = vec![
            ControllerRpc::PublishUnpublishVolume,
            ControllerRpc::PublishReadonly,
            ControllerRpc::SingleNodeMultiWriter,
        ];
    });
    let rows = [
        row("47", |v| v.mode("RWO").read_only(), |r| r.readonly),
        row("47-writable", |v| v.mode("RWO"), |r| !r.readonly),
        row(
            "48",
            |v| v.mode("RWO"),
            |r| mount(r) == Some(("ext4", vec![])),
        ),
        row(
            "48-named",
            |v| v.mode("RWO").fs_type("xfs"),
            |r| mount(r) == Some(("xfs", vec![])),
        ),
        row(
            "52",
            |v| v.mode("RWO"),
            |r| has_mode(r, Mode::SingleNodeMultiWriter),
        ),
        row(
            "53-with",
            |v| v.mode("RWOP"),
            |r| has_mode(r, Mode::SingleNodeSingleWriter),
        ),
    ];
    requests(stage, &["--default-fstype=ext4"], &rows).await;
}

const MIXED: &str = "Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume";
const READER_AND_WRITER: &str =
    "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume";

/// Row, volume, attachment, message, and the requests except the one that records it.
type Refused = (&'static str, Value, Value, String, Vec<String>);

fn refused() -> Vec<Refused> {
    let volume = |row: &str| build::volume(row).csi(DRIVER, &format!("h-{row}"));
    let on = |row: &str| {
        build::attachment(&format!("va-{row}"))
            .by(DRIVER)
            .on("node1")
    };
    let of = |row: &str| Value::from(on(row).of(row));
    let modes = |row: &'static str, modes: &[&str], text: &str| -> Refused {
        let volume = modes
            .iter()
            .fold(volume(row), |volume, mode| volume.mode(mode));
        (
            row,
            volume.finalizer(F).into(),
            of(row),
            text.into(),
            vec![],
        )
    };
    let both = on("66-both")
        .of("66-both")
        .inline(json!({"csi": {"driver": DRIVER}}));
    vec![
        modes("55", &["ROX", "RWO"], READER_AND_WRITER),
        modes("56", &["RWOP", "RWO"], MIXED),
        modes("57", &[], "unsupported AccessMode combination: []"),
        (
            "64",
            // Another finalizer holds it, so that it still exists.
            volume("64").mode("RWO").finalizer("a/b").deleting().into(),
            of("64"),
            "PersistentVolume \"64\" is marked for deletion".into(),
            vec![],
        ),
        (
            "66-both",
            volume("66-both").mode("RWO").into(),
            both.into(),
            "both InlineCSIVolumeSource and PersistentVolumeName specified in VA source".into(),
            vec![],
        ),
        (
            "66-neither",
            volume("66-neither").into(),
            on("66-neither").into(),
            "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source".into(),
            vec![],
        ),
    ]
}

#[tokio::test]
async fn rows_55_to_57_64_and_66_what_cannot_be_attached() {
    let stage = Stage::new().await;
    let rows = refused();
    for (_, volume, attachment, ..) in &rows {
        stage.api.insert(volume.clone());
        stage.api.insert(attachment.clone());
    }
    let _attacher = stage.start(&["--retry-interval-start=5m"]);
    for (row, _, _, text, mut expected) in rows {
        let name = format!("va-{row}");
        let error = stage.error(&name, "attachError").await;
        assert_eq!(error["message"], text, "row {row}");
        assert!(error["errorCode"].is_null(), "row {row}: no call, no code");
        let time = &error["time"];
        expected.push(format!(
            "st {}",
            json!({"status": {"attachError": {"message": text, "time": time}}})
        ));
        assert_eq!(stage.trace_for(row), expected, "row {row}");
        assert!(stage.attachment(&name)["metadata"]["finalizers"].is_null());
    }
    assert!(stage.driver.calls_to(PUBLISH).is_empty());
}

#[tokio::test]
async fn rows_75_and_78_final_codes_are_retried_and_their_repetition_is_short() {
    let stage = Stage::new().await;
    let fault = CallFault::on(PUBLISH).fail(Code::InvalidArgument, "no");
    stage.driver.fault(fault.times(3));
    stage.volume("pv2", Some(json!([F])));
    let _attacher = stage.start(&[]);
    stage.attach("va-pv2", "pv2");
    let error = stage.error("va-pv2", "attachError").await;
    assert_eq!(error["errorCode"], 3, "row 75");
    let text = "rpc error: code = InvalidArgument desc = no";
    assert_eq!(error["message"], text, "row 75");
    stage.until_attached("va-pv2").await;
    let trace = stage.trace_for("pv2");
    let recorded: Vec<&String> = trace
        .iter()
        .filter(|line| line.starts_with("st "))
        .collect();
    assert_eq!(recorded.len(), 4, "row 75: {trace:#?}");
    for repeated in &recorded[1..3] {
        let body: Value = serde_json::from_str(&repeated[3..]).unwrap();
        let time = &body["status"]["attachError"]["time"];
        let expected = json!({"status": {"attachError": {"time": time}}});
        assert!(time.is_string() && body == expected, "row 78: {trace:#?}");
    }
    let cleared = r#"st {"status":{"attachError":null,"attached":true}}"#;
    assert_eq!(recorded[3], cleared);
}
