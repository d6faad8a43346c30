//! Rows 32, 50 to 89, 145 to 149, 190 to 198 and 294: a claim gets its volume.

use std::time::Duration;

use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::{CreateVolumeResponse, GetPluginCapabilitiesResponse, Volume};
use serde_json::{Value, json};
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::{CallFault, Fault, Gate};
use tokio::time::sleep;

use super::stage::{
    ANNOTATION, DRIVER, FINALIZER, GI, PV, READY, Stage, U, claim, class, finalizers, free_address,
    get, is_journal, settle, together,
};

#[tokio::test]
async fn rows_32_50_289_290_and_294_a_plain_claim_and_what_it_costs() {
    let stage = Stage::new().await;
    let address = free_address();
    let program = stage.start(&[&format!("--http-endpoint={address}")]);
    program.logs(READY).await;
    stage.api.clear_requests();
    stage.api.insert(claim());
    stage.until_events("ProvisioningSucceeded", 1).await;
    stage.bind("ns1/c1", PV);
    settle().await;
    assert_eq!(stage.calls("CreateVolume"), 1, "row 32");
    let request = &stage.creations()[0];
    assert_eq!(request.name, PV, "row 50");
    let range = request.capacity_range.unwrap();
    assert_eq!((range.required_bytes, range.limit_bytes), (GI, 0), "row 50");
    let [capability] = &request.volume_capabilities[..] else {
        panic!("row 50: {request:?}")
    };
    let mode = capability.access_mode.unwrap().mode;
    assert_eq!(mode, i32::from(Mode::SingleNodeWriter), "row 50");
    let Some(AccessType::Mount(mount)) = &capability.access_type else {
        panic!("row 50: {request:?}")
    };
    assert_eq!(mount.fs_type, "", "row 50");
    assert!(request.secrets.is_empty() && request.volume_content_source.is_none());
    assert!(request.accessibility_requirements.is_none() && request.parameters.is_empty());
    let volume = stage.volume(PV);
    assert_eq!(volume["spec"]["claimRef"]["uid"], U);
    assert_eq!(volume["spec"]["csi"]["driver"], DRIVER);
    assert_eq!(volume["spec"]["storageClassName"], "sc1");
    assert_eq!(finalizers(&volume), json!([FINALIZER]));
    let annotations = &volume["metadata"]["annotations"];
    assert_eq!(annotations["pv.kubernetes.io/provisioned-by"], DRIVER);
    assert_eq!(
        annotations["volume.kubernetes.io/provisioner-deletion-secret-name"],
        ""
    );
    let (_, text) = get(&address, "/metrics").await;
    let line = r#"controller_persistentvolumeclaim_provision_total{class="sc1",source=""} 1"#;
    assert!(text.contains(line), "row 289: {text}");

    stage.api.delete("persistentvolumeclaims", "ns1/c1");
    stage.api.edit("persistentvolumes", PV, |object| {
        object["status"]["phase"] = "Released".into();
    });
    stage.until_volume_gone(PV).await;
    settle().await;
    assert_eq!(stage.calls("DeleteVolume"), 1, "row 294");
    let expected = [
        "POST events Provisioning",
        "POST events ProvisioningSucceeded",
        "POST persistentvolumes",
        "DELETE persistentvolumes",
        "PATCH persistentvolumes",
    ];
    let mut writes = stage.writes();
    writes.sort_unstable();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!(writes, sorted, "row 294");
    let reads = stage.api.requests();
    let reads = reads
        .iter()
        .filter(|request| request.method == "GET" && !request.is_watch() && !is_journal(request));
    assert_eq!(reads.count(), 0, "row 294: {:#?}", stage.history());
    let (_, text) = get(&address, "/metrics").await;
    let line = r#"controller_persistentvolume_delete_total{class="sc1"} 1"#;
    assert!(text.contains(line), "row 290: {text}");
}

#[tokio::test]
async fn row_51_flags_that_name_volumes() {
    let stage = Stage::new().await;
    let _program = stage.start(&["--volume-name-prefix=p", "--volume-name-uuid-length=8"]);
    stage.api.insert(claim());
    stage.until_volume("p-11111111").await;
    assert_eq!(stage.creations()[0].name, "p-11111111");
}

#[tokio::test]
async fn rows_76_to_78_claims_that_cannot_be_served() {
    let stage = Stage::new().await;
    let _program = stage.start(&["--retry-interval-start=5m"]);
    stage.api.insert(claim().with("/spec/selector", json!({})));
    stage.until_events("ProvisioningFailed", 1).await;
    assert!(
        stage.events("ProvisioningFailed")[0].contains("elector"),
        "row 76"
    );
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    let populated = json!({"apiGroup": "example.com", "kind": "MyPopulator", "name": "x"});
    let populated = claim().uid("other").with("/spec/dataSource", populated);
    let before = stage.events("Provisioning").len();
    stage.api.insert(populated);
    stage.until_events("Provisioning", before + 2).await;
    settle().await;
    assert_eq!(stage.calls("CreateVolume"), 0, "rows 76 and 78");
    let events = stage.events("Provisioning");
    assert_eq!(events.len(), before + 2, "row 78: {events:?}");
    let populator = |event: &&String| event.contains("external populator");
    assert_eq!(events.iter().filter(populator).count(), 1, "row 78");
    assert_eq!(stage.events("ProvisioningFailed").len(), 1, "row 78");
}

#[tokio::test]
async fn row_77_a_driver_that_cannot_make_volumes() {
    for lacking in ["CREATE_DELETE_VOLUME", "CONTROLLER_SERVICE"] {
        let stage = Stage::new().await;
        match lacking {
            "CONTROLLER_SERVICE" => {
                let none = GetPluginCapabilitiesResponse::default();
                let asked = CallFault::on("GetPluginCapabilities");
                stage.driver.fault(asked.answer(none));
            }
            _ => stage
                .driver
                .configure(|model| model.controller = Vec::new()),
        }
        let mut program = stage.start(&["--retry-interval-start=5m"]);
        stage.api.insert(claim());
        stage.until_events("ProvisioningFailed", 1).await;
        settle().await;
        let events = stage.events("ProvisioningFailed");
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].contains(lacking), "{events:?}");
        assert_eq!(stage.calls("CreateVolume"), 0);
        assert!(program.is_running());
    }
}

#[tokio::test]
async fn rows_79_88_and_293_secrets() {
    let stage = Stage::new().await;
    let with_secret = |name: &str, secret: &str| {
        let class = build::class(name).of(DRIVER);
        let class = class.parameter("csi.storage.k8s.io/provisioner-secret-name", secret);
        class.parameter("csi.storage.k8s.io/provisioner-secret-namespace", "ns9")
    };
    stage.api.insert(with_secret("good", "sec"));
    stage.api.insert(with_secret("bad", "missing"));
    stage
        .api
        .insert(build::secret("ns9/sec").entry("k", "cGxhbnRlZA=="));
    let program = stage.start(&["-v=5"]);
    stage.api.insert(claim().class("good"));
    stage.until_volume(PV).await;
    let request = &stage.creations()[0];
    assert_eq!(request.secrets["k"], "planted", "row 79");
    let annotations = stage.volume(PV)["metadata"]["annotations"].clone();
    let name = "volume.kubernetes.io/provisioner-deletion-secret-name";
    assert_eq!(annotations[name], "sec", "row 79");
    program.logs("***stripped***").await;
    let log = program.log();
    assert!(!log.contains("planted"), "row 293");
    let other = build::claim("ns1/c2")
        .class("bad")
        .mode("RWO")
        .annotation(ANNOTATION, DRIVER);
    stage.api.insert(other);
    stage.until_events("ProvisioningFailed", 1).await;
    assert_eq!(stage.calls("CreateVolume"), 1, "row 88");
}

fn attributes_class(driver: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
        "metadata": {"name": "gold"}, "driverName": driver, "parameters": {"p": "from-vac"},
    })
}

#[tokio::test]
async fn row_145_an_attributes_class() {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::ModifyVolume);
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class().parameter("p", "from-sc"));
    stage.api.insert(attributes_class(DRIVER));
    let _program = stage.start(&[]);
    stage
        .api
        .insert(claim().with("/spec/volumeAttributesClassName", "gold"));
    stage.until_volume(PV).await;
    let request = &stage.creations()[0];
    assert_eq!(request.mutable_parameters["p"], "from-vac");
    assert_eq!(request.parameters["p"], "from-sc");
    assert_eq!(
        stage.volume(PV)["spec"]["volumeAttributesClassName"],
        "gold"
    );
}

#[tokio::test]
async fn rows_148_and_149_an_attributes_class_that_comes_later_is_used_at_once() {
    together(
        [("148", None), ("149", Some("another-driver"))],
        late_attributes_class,
    )
    .await;
}

async fn late_attributes_class((row, before): (&str, Option<&str>)) {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::ModifyVolume);
    if let Some(driver) = before {
        stage.api.insert(attributes_class(driver));
    }
    let _program = stage.start(&["--retry-interval-start=5m"]);
    stage
        .api
        .insert(claim().with("/spec/volumeAttributesClassName", "gold"));
    stage.until_events("ProvisioningFailed", 1).await;
    let text = &stage.events("ProvisioningFailed")[0];
    assert!(
        text.contains("VolumeAttributesClass gold"),
        "row {row}: {text}"
    );
    let looks = |stage: &Stage| {
        let path = "*/volumeattributesclasses/gold";
        stage.api.requests_to("GET", path).len()
    };
    let looked = |stage: &Stage| looks(stage) >= 2;
    stage.until("looked for", looked).await;
    assert_eq!(stage.calls("CreateVolume"), 0, "row {row}");
    if before.is_some() {
        stage.api.remove("volumeattributesclasses", "gold");
    }
    stage.api.insert(attributes_class(DRIVER));
    stage.until_volume(PV).await;
    settle().await;
    let seen = looks(&stage);
    // The class must not be read meanwhile.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(looks(&stage), seen, "row {row}: nobody waits any more");
}

#[tokio::test]
async fn fp_11_nobody_looks_for_what_a_claim_that_went_meanwhile_has_lacked() {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::ModifyVolume);
    let gate = Gate::new();
    let class = "*/volumeattributesclasses/gold";
    stage
        .api
        .fault(Fault::on("GET", class).times(1).hold(&gate));
    let program = stage.start(&["--retry-interval-start=5m"]);
    stage
        .api
        .insert(claim().with("/spec/volumeAttributesClassName", "gold"));
    stage.until("asked for", |_| gate.waiting() == 1).await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    // The watch reports it.
    settle().await;
    gate.open();
    program.logs("Provisioning failed").await;
    // While a claim waits for the class, it is read every second.
    sleep(Duration::from_secs(4)).await;
    assert_eq!(stage.api.requests_to("GET", class).len(), 1);
}

fn answer(capacity_bytes: i64) -> CreateVolumeResponse {
    CreateVolumeResponse {
        volume: Some(Volume {
            capacity_bytes,
            volume_id: "vol-x".into(),
            volume_context: [("a".to_owned(), "b".to_owned())].into(),
            ..Volume::default()
        }),
    }
}

#[tokio::test]
async fn rows_190_193_and_194_what_the_answer_becomes() {
    let rows = [
        (0, "1Gi"),
        (5_970_004_541, "5970004541"),
        (5_905_580_032, "5632Mi"),
    ];
    together(rows, answered).await;
}

async fn answered((bytes, text): (i64, &str)) {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on("CreateVolume").answer(answer(bytes)));
    let _program = stage.start(&[]);
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    let volume = stage.volume(PV);
    assert_eq!(
        volume["spec"]["capacity"]["storage"], text,
        "rows 190 and 193"
    );
    let attributes = &volume["spec"]["csi"]["volumeAttributes"];
    assert_eq!(attributes["a"], "b", "row 194");
    let identity = &attributes["storage.kubernetes.io/csiProvisionerIdentity"];
    let identity = identity.as_str().unwrap();
    assert!(identity.ends_with(DRIVER), "row 194: {identity}");
    assert_eq!(
        identity.splitn(3, '-').count(),
        3,
        "section 2.1: {identity}"
    );
}

#[tokio::test]
async fn rows_195_to_197_attributes_and_read_only_volumes() {
    let rows = [
        ("196", &["ROX"][..], true, true),
        ("196 off", &["ROX"], false, false),
        ("197", &["ROX", "RWO"], true, false),
    ];
    together(rows, read_only).await;
}

const IDENTITY: &str = "storage.kubernetes.io/csiProvisionerIdentity";

async fn read_only((row, modes, flag, expected): (&str, &[&str], bool, bool)) {
    let stage = Stage::new().await;
    let mut answer = answer(GI);
    if let Some(volume) = &mut answer.volume {
        volume.volume_context = [(IDENTITY.to_owned(), "driver".to_owned())].into();
    }
    stage
        .driver
        .fault(CallFault::on("CreateVolume").answer(answer));
    let flag = format!("--controller-publish-readonly={flag}");
    let _program = stage.start(&[&flag]);
    let mut claim = build::claim("ns1/c1").class("sc1").uid(U);
    for mode in modes {
        claim = claim.mode(mode);
    }
    stage.api.insert(claim.annotation(ANNOTATION, DRIVER));
    stage.until_volume(PV).await;
    let csi = stage.volume(PV)["spec"]["csi"].clone();
    let read_only = csi["readOnly"].as_bool().unwrap_or_default();
    assert_eq!(read_only, expected, "row {row}: {csi}");
    assert_eq!(csi["volumeAttributes"][IDENTITY], "driver", "row 195");
}

#[tokio::test]
async fn rows_191_and_192_a_volume_that_is_too_small_is_deleted_again() {
    together([("191", false, 1), ("192", true, 5)], too_small).await;
}

async fn too_small((row, fails, deletions): (&str, bool, usize)) {
    let stage = Stage::new().await;
    stage.driver.fault(
        CallFault::on("CreateVolume")
            .answer(answer(GI - 1))
            .times(1),
    );
    if fails {
        let fault = CallFault::on("DeleteVolume");
        stage.driver.fault(fault.fail(tonic::Code::Internal, "no"));
    }
    let _program = stage.start(&["--retry-interval-start=30s"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    settle().await;
    assert_eq!(stage.calls("DeleteVolume"), deletions, "row {row}");
    let text = &stage.events("ProvisioningFailed")[0];
    assert_eq!(text.contains("orphan"), fails, "row {row}: {text}");
    if fails {
        assert_eq!(stage.intents().len(), 1, "row {row}");
    } else {
        // A volume that was deleted again leaves no unknown outcome.
        stage.until_settled().await;
    }
}

#[tokio::test]
async fn row_198_reclaim_policy_retain() {
    let stage = Stage::new().await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class().with("/reclaimPolicy", "Retain"));
    let _program = stage.start(&[]);
    stage.api.insert(claim());
    stage
        .until("finalizer removed", |stage| {
            let volume = stage.volume(PV);
            !volume.is_null() && finalizers(&volume) == json!([])
        })
        .await;
    let created = stage.api.requests_to("POST", "*/persistentvolumes");
    assert_eq!(
        created[0].body["metadata"]["finalizers"],
        json!([FINALIZER])
    );
    let spec = stage.volume(PV)["spec"].clone();
    assert_eq!(spec["persistentVolumeReclaimPolicy"], "Retain");
}
