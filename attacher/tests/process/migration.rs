//! Rows M-1 to M-6 and M-99 to M-132: volumes of in-tree plugins, which the CSI driver that
//! replaced the plugin attaches.
//!
//! All rows run with the permissions for volumes of CSI drivers, and in a cluster without CSINode
//! annotations.

use std::collections::BTreeMap;

use csi_proto::csi::list_volumes_response::{Entry, VolumeStatus};
use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::{
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, ListVolumesResponse,
};
use serde_json::{Value, json};
use sidecar::trace::TraceId;
use sidecar_testkit::CallFault;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::build::{self, Object, Volume};
use sidecar_testkit::collector::Collector;
use sidecar_testkit::driver::ControllerRpc;

use super::stage::{ATTACHED, N, PROGRAM, Stage, free_address, get, settle, until_metrics};
use super::trace;

const PUBLISH: &str = "ControllerPublishVolume";
const UNPUBLISH: &str = "ControllerUnpublishVolume";
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
const ZONE: &str = "topology.kubernetes.io/zone";

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";
const CINDER: &str = "cinder.csi.openstack.org";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const VSPHERE: &str = "csi.vsphere.vmware.com";
const PORTWORX: &str = "pxd.portworx.com";

fn finalizer(driver: &str) -> String {
    format!("external-attacher/{}", driver.replace('.', "-"))
}

/// The RBAC rules for an attacher of CSI volumes.
fn native_rules() -> [Allow; 6] {
    const STORAGE: &str = "storage.k8s.io";
    [
        Allow::new(STORAGE, "volumeattachments", "get,list,watch,patch"),
        Allow::new(STORAGE, "volumeattachments/status", "patch"),
        Allow::new("", "persistentvolumes", "get,list,watch,patch"),
        Allow::new(STORAGE, "csinodes", "get,list,watch"),
        Allow::new("", "secrets", "get,list"),
        Allow::new("", "events", "create,patch"),
    ]
}

/// A stage with this driver, whose node id of `node1` is this one.
async fn on(driver: &str, node_id: &str) -> Stage {
    let stage = Stage::new().await;
    stage.driver.configure(|model| {
        model.name = driver.to_owned();
        model.any_volume = true;
    });
    stage.api.remove("persistentvolumes", "pv1");
    stage.api.remove("csinodes", "node1");
    let node = build::csinode("node1").driver(driver, node_id);
    stage.api.insert(node);
    stage.api.allow_only(native_rules());
    stage
}

/// A volume with this source of an in-tree plugin.
fn volume(name: &str, field: &str, source: &Value) -> Volume {
    build::volume(name)
        .with(&format!("/spec/{field}"), source.clone())
        .mode("RWO")
}

fn ebs(name: &str) -> Volume {
    let source = json!({"volumeID": format!("aws://us-east-1a/vol-{name}"), "fsType": "ext4"});
    volume(name, "awsElasticBlockStore", &source)
}

fn disk(name: &str) -> Volume {
    volume(name, "gcePersistentDisk", &json!({"pdName": "d"}))
}

fn attach(stage: &Stage, name: &str, driver: &str, volume: &str) {
    let attachment = build::attachment(name).by(driver).on("node1").of(volume);
    stage.api.insert(attachment);
}

/// `va-VOLUME`, attached by an earlier process.
fn attached(stage: &Stage, driver: &str, node_id: &str, volume: &str) {
    let attachment = { build::attachment(&format!("va-{volume}")) }
        .by(driver)
        .on("node1")
        .of(volume)
        .attached()
        .finalizer(&finalizer(driver));
    stage.api.insert(attachment.annotation(N, node_id));
}

/// The only ControllerPublishVolume request, which attached the volume `pv`.
async fn published(stage: &Stage, arguments: &[&str], driver: &str, pv: Volume) -> Published {
    stage.api.insert(pv.finalizer(&finalizer(driver)));
    let _attacher = stage.start(arguments);
    attach(stage, "va", driver, "pv");
    stage.until_attached("va").await;
    let calls = stage.driver.calls_to(PUBLISH);
    assert_eq!(calls.len(), 1);
    Published(calls[0].request().cloned().unwrap())
}

struct Published(ControllerPublishVolumeRequest);

impl Published {
    fn volume(&self) -> &str {
        &self.0.volume_id
    }

    fn context(&self) -> Value {
        let context: BTreeMap<_, _> = self.0.volume_context.iter().collect();
        json!(context)
    }

    fn has_mode(&self, mode: Mode) -> bool {
        let capability = self.0.volume_capability.as_ref().unwrap();
        capability.access_mode.as_ref().unwrap().mode == i32::from(mode)
    }

    /// File system type of the capability; `None` for a block volume.
    fn fs_type(&self) -> Option<&str> {
        let capability = self.0.volume_capability.as_ref().unwrap();
        match capability.access_type.as_ref().unwrap() {
            AccessType::Block(_) => None,
            AccessType::Mount(mount) => Some(&mount.fs_type),
        }
    }
}

/// Whether the metrics have samples of a method with this label `migrated`.
fn counted(metrics: &str, method: &str, migrated: bool) -> bool {
    let (method, label) = (
        format!("/{method}\"}}"),
        format!(r#"migrated="{migrated}""#),
    );
    let method_is = |line: &str| line.contains(method.trim_end_matches('}'));
    let mut counts = metrics.lines().filter(|line| line.contains("_count{"));
    counts.any(|line| method_is(line) && line.contains(&label))
}

#[tokio::test]
async fn m_1_and_2_drivers_that_replaced_a_plugin_are_met_twice_and_count_what_is_migrated() {
    let others = ["EBS.csi.aws.com", "rbd.csi.ceph.com", "hostpath.csi.k8s.io"];
    let replacing = [EBS, GCE, CINDER, AZURE_DISK, AZURE_FILE, VSPHERE, PORTWORX];
    let rows = replacing.map(|name| (name, true)).into_iter();
    for (driver, migrated) in rows.chain(others.map(|name| (name, false))) {
        let stage = on(driver, "NID1").await;
        let address = free_address();
        let attacher = stage.start(&[&format!("--http-endpoint={address}")]);
        attacher.logs("Starting CSI attacher").await;
        let probes = if migrated { 2 } else { 1 };
        assert_eq!(stage.driver.calls_to("Probe").len(), probes, "{driver}");
        assert_eq!(stage.driver.calls_to("GetPluginInfo").len(), 1, "{driver}");
        let (_, text) = get(&address, "/metrics").await;
        let of_calls = || {
            text.lines()
                .filter(|line| line.starts_with("csi_sidecar_operations"))
        };
        assert!(of_calls().count() > 0, "{driver}: {text}");
        let labelled = |line: &str| line.contains(r#"migrated="false""#);
        assert!(
            of_calls().all(|line| labelled(line) == migrated),
            "{driver}: {text}"
        );
        assert!(!text.contains(r#"migrated="true""#), "{driver}: {text}");
        assert!(
            counted(&text, "ControllerGetCapabilities", false) == migrated,
            "{text}"
        );
    }
}

#[tokio::test]
async fn m_4_there_are_no_gates_for_it() {
    for gate in [
        "CSIMigration",
        "CSIMigrationAWS",
        "InTreePluginAWSUnregister",
    ] {
        let ended = PROGRAM
            .run(&[&format!("--feature-gates={gate}=true")])
            .await;
        assert_eq!(ended.code, Some(1), "{gate}: {}", ended.log);
        assert!(ended.log.contains(gate), "{}", ended.log);
    }
}

/// All requests for a volume without finalizer, from attach to detach.
#[tokio::test]
async fn m_5_and_6_and_99_and_118_and_120_and_122_the_whole_life_of_an_attachment() {
    let stage = on(EBS, "i-1").await;
    let f = finalizer(EBS);
    let ours = ebs("ours").annotation(MIGRATED_TO, EBS);
    stage.api.insert(ours.finalizer("a/b"));
    stage.api.insert(ebs("static"));
    let address = free_address();
    let _attacher = stage.start(&[&format!("--http-endpoint={address}")]);
    attach(&stage, "va-ours", EBS, "ours");
    stage.until_attached("va-ours").await;
    let prepare = json!({"metadata": {"annotations": {N: "i-1"}, "finalizers": [f]}});
    let protect = json!([{"op": "add", "path": "/metadata/finalizers/-", "value": f}]);
    let attach_trace = [
        format!("pvp {protect}"),
        format!("md {prepare}"),
        "pub vol-ours i-1".into(),
        ATTACHED.into(),
    ];
    assert_eq!(stage.trace(), attach_trace, "M-99");
    let calls = stage.driver.calls_to(PUBLISH);
    let request = Published(calls[0].request().cloned().unwrap());
    assert_eq!(request.context(), json!({"partition": "0"}), "M-99");
    assert_eq!(request.fs_type(), Some("ext4"), "M-99");
    assert!(request.has_mode(Mode::SingleNodeWriter), "M-99");

    stage.api.delete("volumeattachments", "va-ours");
    stage.until_gone("va-ours").await;
    stage
        .until_written("PATCH", "*/volumeattachments/va-ours/status", 2)
        .await;
    let detach = [
        "unpub vol-ours i-1",
        r#"md {"metadata":{"finalizers":null}}"#,
        r#"st {"status":{"attached":false}}"#,
    ];
    assert_eq!(stage.trace()[4..7], detach, "M-118");
    let text = until_metrics(&address, "ControllerUnpublishVolume").await;
    assert!(
        counted(&text, PUBLISH, true) && counted(&text, UNPUBLISH, true),
        "{text}"
    );
    assert!(
        !counted(&text, PUBLISH, false) && !counted(&text, UNPUBLISH, false),
        "{text}"
    );

    attach(&stage, "va-static", EBS, "static");
    stage.until_attached("va-static").await;
    let finalizers = |name: &str| -> Value {
        stage.api.object("persistentvolumes", name).unwrap()["metadata"]["finalizers"].clone()
    };
    assert_eq!(finalizers("static"), json!([f]));
    stage.api.delete("volumeattachments", "va-static");
    stage.until_gone("va-static").await;
    stage.until_api(|_| finalizers("static").is_null()).await;
    assert_eq!(finalizers("ours"), json!(["a/b", f]), "M-120");
    let of_ours = stage.api.requests_to("PATCH", "*/persistentvolumes/ours");
    assert_eq!(of_ours.len(), 1, "M-120");
    let of_static = stage.api.requests_to("PATCH", "*/persistentvolumes/static");
    assert_eq!(of_static.len(), 2, "M-122: on and off");
    let mut refused = stage.api.requests();
    refused.retain(|request| request.status == Some(403));
    assert!(refused.is_empty(), "M-6: {refused:?}");
    let node = stage.api.object("csinodes", "node1").unwrap();
    assert!(node["metadata"]["annotations"].is_null(), "M-5");
}

#[tokio::test]
async fn m_100_and_101_and_111_whether_it_is_read_only_and_by_how_many_it_is_used() {
    let read_only =
        |field: &str| volume("pv", field, &json!({"volumeID": "vol-1", "readOnly": true}));
    let rows = [
        ("M-100", EBS, "awsElasticBlockStore", true, true),
        ("M-100 without", EBS, "awsElasticBlockStore", false, false),
        ("M-111", PORTWORX, "portworxVolume", true, false),
    ];
    for (row, driver, field, announced, expected) in rows {
        let stage = on(driver, "NID1").await;
        stage.driver.configure(|model| {
            if announced {
                model.controller.push(ControllerRpc::PublishReadonly);
            }
        });
        let request = published(&stage, &[], driver, read_only(field)).await;
        assert_eq!(request.0.readonly, expected, "{row}");
    }
    let stage = on(EBS, "NID1").await;
    let many = ebs("pv").with("/spec/accessModes", json!(["ReadWriteMany"]));
    let request = published(&stage, &[], EBS, many).await;
    assert!(request.has_mode(Mode::MultiNodeMultiWriter), "M-101");

    let stage = on(EBS, "NID1").await;
    stage.api.insert(ebs("pv").mode("ROX"));
    let _attacher = stage.start(&[]);
    attach(&stage, "va", EBS, "pv");
    let error = stage.error("va", "attachError").await;
    let text = "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume";
    assert_eq!(error["message"], text, "M-101");
    assert!(stage.driver.calls_to(PUBLISH).is_empty(), "M-101");
}

#[tokio::test]
async fn m_102_to_104_disks_of_gce() {
    let modes = |modes: Value| disk("pv").with("/spec/accessModes", modes);
    let rows = [
        (
            "M-102",
            modes(json!(["ReadWriteOnce", "ReadOnlyMany"])),
            "zones/UNSPECIFIED",
        ),
        (
            "M-102",
            modes(json!(["ReadWriteOncePod"])),
            "zones/UNSPECIFIED",
        ),
        ("M-103", disk("pv"), "zones/UNSPECIFIED"),
        (
            "M-104",
            disk("pv").label(ZONE, "us-east1-a__us-east1-b"),
            "regions/us-east1",
        ),
    ];
    for (row, pv, place) in rows {
        let stage = on(GCE, "projects/p/zones/us-east1-a/instances/n").await;
        let request = published(&stage, &[], GCE, pv).await;
        let handle = format!("projects/UNSPECIFIED/{place}/disks/d");
        assert_eq!(request.volume(), handle, "{row}");
        assert!(request.has_mode(Mode::SingleNodeWriter), "{row}");
        assert_eq!(request.context(), json!({"partition": ""}), "{row}");
    }
}

#[tokio::test]
async fn rows_122_to_125_disks_of_gce_and_aws() {
    const NODE: &str = "projects/p1/zones/z1/instances/n1";
    let stage = listing(GCE, NODE).await;
    let source = json!({"pdName": "d1", "partition": 2});
    let pv = volume("pv", "gcePersistentDisk", &source)
        .with("/spec/accessModes", json!(["ReadWriteMany"]));
    // The real driver does the same: it never lists an id without the project.
    let entry = Entry {
        volume: Some(csi_proto::csi::Volume {
            volume_id: "projects/p1/zones/z1/disks/d1".into(),
            ..csi_proto::csi::Volume::default()
        }),
        status: Some(VolumeStatus {
            published_node_ids: vec![NODE.into()],
        }),
    };
    let listed = ListVolumesResponse {
        entries: vec![entry],
        ..ListVolumesResponse::default()
    };
    stage
        .driver
        .fault(CallFault::on("ListVolumes").answer(listed));
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    stage.api.insert(pv.label(ZONE, "z1"));
    let _attacher = stage.start(&[&endpoint, COMPARE_OFTEN[0]]);
    attach(&stage, "va", GCE, "pv");
    stage.until_attached("va").await;
    let before = stage.driver.calls_to("ListVolumes").len();
    stage.until_calls("ListVolumes", before + 3).await;
    let calls = stage.driver.calls_to(PUBLISH);
    assert_eq!(
        calls.len(),
        1,
        "row 122: the driver lists it under the repaired handle"
    );
    let request = Published(calls[0].request().cloned().unwrap());
    assert_eq!(
        request.volume(),
        "projects/UNSPECIFIED/zones/z1/disks/d1",
        "row 122"
    );
    assert_eq!(request.context(), json!({"partition": "2"}), "row 122");
    assert!(request.has_mode(Mode::SingleNodeWriter), "row 123");
    let text = until_metrics(&address, PUBLISH).await;
    assert!(
        counted(&text, PUBLISH, true) && !counted(&text, PUBLISH, false),
        "row 125: {text}"
    );
    assert_eq!(stage.driver.calls_to("Probe").len(), 2, "row 125");
    let probes = text
        .lines()
        .find(|line| line.contains("_count{") && line.contains("/Probe"));
    assert!(probes.unwrap().ends_with(" 1"), "row 125: {text}");

    let stage = on(EBS, "i-1").await;
    let source = json!({"volumeID": "aws://us-east-1a/vol-12"});
    let request = published(
        &stage,
        &[],
        EBS,
        volume("pv", "awsElasticBlockStore", &source),
    )
    .await;
    assert_eq!(request.volume(), "vol-12", "row 124");
    assert_eq!(request.context(), json!({"partition": "0"}), "row 124");
}

#[tokio::test]
async fn m_105_and_108_and_109_and_112_what_else_the_driver_is_told() {
    let stage = on(AZURE_DISK, "NID1").await;
    let source = json!({
        "diskName": "n", "diskURI": "/subscriptions/s/disks/n", "cachingMode": "ReadWrite",
        "fsType": "ext4", "readOnly": false, "kind": "Managed",
    });
    let request = published(&stage, &[], AZURE_DISK, volume("pv", "azureDisk", &source)).await;
    assert_eq!(request.volume(), "/subscriptions/s/disks/n", "M-105");
    let expected = json!({"kind": "Managed", "cachingmode": "ReadWrite", "fstype": "ext4"});
    assert_eq!(request.context(), expected, "M-105");

    let stage = on(AZURE_FILE, "NID1").await;
    let source = json!({"secretName": "azure-storage-account-a-secret", "shareName": "s"});
    let pv = volume("pv", "azureFile", &source).with("/spec/claimRef/namespace", "ns2");
    let request = published(&stage, &["--default-fstype=ext4"], AZURE_FILE, pv).await;
    assert_eq!(request.fs_type(), Some("ext4"), "M-108");
    assert_eq!(request.volume(), "#a#s#pv#ns2", "M-108");
    assert_eq!(request.context(), json!({"sharename": "s"}), "M-108");

    let stage = on(VSPHERE, "NID1").await;
    let source = json!({"volumePath": "[ds] kubevols/a.vmdk", "storagePolicyName": "gold"});
    let request = published(&stage, &[], VSPHERE, volume("pv", "vsphereVolume", &source)).await;
    assert_eq!(request.volume(), "[ds] kubevols/a.vmdk", "M-109");
    assert_eq!(
        request.context(),
        json!({"storagepolicyname": "gold"}),
        "M-109"
    );

    let stage = on(CINDER, "NID1").await;
    let pv = volume("pv", "cinder", &json!({"volumeID": "c"})).block();
    let request = published(&stage, &[], CINDER, pv).await;
    assert_eq!((request.volume(), request.fs_type()), ("c", None), "M-112");
}

#[tokio::test]
async fn m_106_and_107_what_cannot_be_translated_is_protected_all_the_same() {
    let prefix = "failed to translate in tree pv to CSI:";
    let shared = json!({"diskName": "n", "diskURI": "/u", "kind": "Shared"});
    let nobody = json!({"secretName": "x", "shareName": "s"});
    let rows = [
        (
            "M-106",
            AZURE_DISK,
            volume("pv", "azureDisk", &shared),
            "kind(Shared) is not supported in csi migration",
        ),
        (
            "M-107",
            AZURE_FILE,
            volume("pv", "azureFile", &nobody),
            "could not find a secret namespace in PersistentVolumeSource or ClaimRef",
        ),
    ];
    for (row, driver, pv, text) in rows {
        let stage = on(driver, "NID1").await;
        stage.api.insert(pv);
        let _attacher = stage.start(&["--retry-interval-start=5m"]);
        attach(&stage, "va", driver, "pv");
        let error = stage.error("va", "attachError").await;
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("{prefix} {text}")),
            "{row}: {message}"
        );
        assert!(error["errorCode"].is_null(), "{row}");
        let pv = stage.api.object("persistentvolumes", "pv").unwrap();
        assert_eq!(
            pv["metadata"]["finalizers"],
            json!([finalizer(driver)]),
            "{row}"
        );
        let trace = stage.trace();
        assert!(
            trace[0].starts_with("pvp ") && trace[1].starts_with("st "),
            "{row}: {trace:#?}"
        );
        assert_eq!(trace.len(), 2, "{row}: {trace:#?}");
    }
}

#[tokio::test]
async fn m_110_the_secret_that_portworx_is_asked_with() {
    let stage = on(PORTWORX, "NID1").await;
    let secret = build::secret("ns1/sec").entry("user", "YWRtaW4=");
    stage.api.insert(secret);
    let pv = volume("pv", "portworxVolume", &json!({"volumeID": "p"}))
        .annotation(MIGRATED_TO, PORTWORX)
        .annotation("openstorage.io/auth-secret-name", "sec")
        .annotation("openstorage.io/auth-secret-namespace", "ns1");
    stage.api.insert(pv);
    let attacher = stage.start(&["-v=5"]);
    attach(&stage, "va", PORTWORX, "pv");
    stage.until_attached("va").await;
    stage.api.delete("volumeattachments", "va");
    stage.until_gone("va").await;
    let secrets = stage.trace().into_iter().filter(|line| line == "secret");
    assert_eq!(secrets.count(), 2);
    let calls = stage.driver.calls_to(PUBLISH);
    let publish: &ControllerPublishVolumeRequest = calls[0].request().unwrap();
    assert_eq!(publish.secrets["user"], "admin");
    let calls = stage.driver.calls_to(UNPUBLISH);
    let unpublish: &ControllerUnpublishVolumeRequest = calls[0].request().unwrap();
    assert_eq!(
        (&*unpublish.volume_id, &*unpublish.secrets["user"]),
        ("p", "admin")
    );
    assert!(!attacher.log().contains("admin"));
}

#[tokio::test]
async fn m_113_and_116_and_117_whose_driver_and_node_it_is() {
    const OTHER: &str = "other.csi.driver";
    let stage = on(OTHER, "NID1").await;
    let request = published(&stage, &[], OTHER, disk("pv")).await;
    let handle = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d";
    assert_eq!(request.volume(), handle, "M-113");

    let stage = on(EBS, "i-1").await;
    let annotation = "storage.alpha.kubernetes.io/migrated-plugins";
    let bare = build::csinode("bare").driver(OTHER, "x");
    stage
        .api
        .insert(bare.annotation(annotation, "kubernetes.io/aws-ebs"));
    stage.api.insert(ebs("pv"));
    stage.api.insert(ebs("pv2"));
    let _attacher = stage.start(&["--retry-interval-start=5m"]);
    attach(&stage, "va", EBS, "pv");
    stage.until_attached("va").await;
    let node = stage.api.object("csinodes", "node1").unwrap();
    assert!(node["metadata"]["annotations"].is_null(), "M-116");
    let elsewhere = build::attachment("va2").by(EBS).on("bare").of("pv2");
    stage.api.insert(elsewhere);
    let error = stage.error("va2", "attachError").await;
    let text = format!("CSINode bare does not contain driver {EBS}");
    assert_eq!(error["message"], text, "M-117");
}

#[tokio::test]
async fn m_114_and_115_volumes_written_inline() {
    let stage = on(GCE, "NID1").await;
    let address = free_address();
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": GCE, "volumeHandle": "inl", "volumeAttributes": {"partition": "3"}},
    });
    let given = build::attachment("va").by(GCE).on("node1").inline(spec);
    stage.api.insert(given);
    let in_tree = json!({"accessModes": ["ReadWriteOnce"], "gcePersistentDisk": {"pdName": "d"}});
    let untranslated = build::attachment("va2").by(GCE).on("node1").inline(in_tree);
    stage.api.insert(untranslated);
    let _attacher = stage.start(&[&format!("--http-endpoint={address}")]);
    stage.until_attached("va").await;
    let calls = stage.driver.calls_to(PUBLISH);
    let request = Published(calls[0].request().cloned().unwrap());
    assert_eq!(request.volume(), "inl", "M-114");
    assert_eq!(request.context(), json!({"partition": "3"}), "M-114");
    let text = until_metrics(&address, PUBLISH).await;
    assert!(
        counted(&text, PUBLISH, false) && !counted(&text, PUBLISH, true),
        "M-114: {text}"
    );
    let error = stage.error("va2", "attachError").await;
    let text = "inline volume spec contains nil CSI source";
    assert_eq!(error["message"], text, "M-115");
    assert!(
        stage
            .api
            .requests_to("PATCH", "*/persistentvolumes/*")
            .is_empty(),
        "M-114"
    );
    assert_eq!(stage.driver.calls_to(PUBLISH).len(), 1);
}

#[tokio::test]
async fn m_119_a_volume_that_can_no_longer_be_translated_is_not_detached() {
    let stage = on(AZURE_DISK, "NID1").await;
    let source = json!({"diskName": "n", "diskURI": "/u", "kind": "Shared"});
    let f = finalizer(AZURE_DISK);
    let pv = volume("pv", "azureDisk", &source).annotation(MIGRATED_TO, AZURE_DISK);
    stage.api.insert(pv.finalizer(&f));
    attached(&stage, AZURE_DISK, "NID1", "pv");
    stage.api.delete("volumeattachments", "va-pv");
    let attacher = stage.start(&["--retry-interval-start=100ms"]);
    let error = stage.error("va-pv", "detachError").await;
    let message = error["message"].as_str().unwrap();
    let text = "failed to translate in tree pv to CSI: kind(Shared) is not supported";
    assert!(message.starts_with(text), "{message}");
    assert!(error["errorCode"].is_null());
    attacher.logs_times("Error processing", 4).await;
    let attachment = stage.attachment("va-pv");
    assert_eq!(attachment["metadata"]["finalizers"], json!([f]));
    let pv = stage.api.object("persistentvolumes", "pv").unwrap();
    assert_eq!(pv["metadata"]["finalizers"], json!([f]));
    assert!(stage.driver.calls_to(UNPUBLISH).is_empty());
}

#[tokio::test]
async fn m_121_and_123_to_125_the_finalizer_of_a_volume_that_is_migrated_no_more() {
    let stage = on(EBS, "NID1").await;
    let f = finalizer(EBS);
    stage.api.insert(ebs("static").finalizer(&f));
    stage
        .api
        .insert(ebs("back").finalizer(&f).annotation(MIGRATED_TO, EBS));
    let plugin = ebs("plugin").annotation(MIGRATED_TO, "kubernetes.io/aws-ebs");
    stage.api.insert(plugin.finalizer(&f));
    let deleted = ebs("deleted").annotation(MIGRATED_TO, EBS).finalizer(&f);
    stage.api.insert(deleted);
    for name in ["static", "back"] {
        attached(&stage, EBS, "NID1", name);
    }
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    let finalizers = |name: &str| -> Value {
        let pv = stage.api.object("persistentvolumes", name);
        pv.map_or(Value::Null, |pv| pv["metadata"]["finalizers"].clone())
    };
    stage.until_api(|_| finalizers("plugin").is_null()).await;
    stage.api.edit("persistentvolumes", "back", |pv| {
        pv["metadata"]["annotations"] = Value::Null;
    });
    settle().await;
    assert_eq!(finalizers("deleted"), json!([f]));
    stage.api.delete("persistentvolumes", "deleted");
    let gone =
        |api: &sidecar_testkit::FakeApi| api.object("persistentvolumes", "deleted").is_none();
    stage.until_api(gone).await;
    assert_eq!(finalizers("static"), json!([f]), "M-121");
    assert_eq!(finalizers("back"), json!([f]), "M-123");
    let patched = stage.api.requests_to("PATCH", "*/persistentvolumes/*");
    assert_eq!(patched.len(), 2, "M-124 and M-125, and M-121: {patched:?}");
    stage.api.delete("volumeattachments", "va-back");
    stage.until_api(|_| finalizers("back").is_null()).await;
    assert_eq!(finalizers("static"), json!([f]), "M-121");
}

/// A stage with the driver's list and attached volumes.
async fn listing(driver: &str, node_id: &str) -> Stage {
    let stage = on(driver, node_id).await;
    stage.driver.configure(|model| {
        model.controller = vec![
            ControllerRpc::PublishUnpublishVolume,
            ControllerRpc::ListVolumes,
            ControllerRpc::ListVolumesPublishedNodes,
        ];
    });
    stage
}

const COMPARE_OFTEN: [&str; 1] = ["--reconcile-sync=100ms"];

#[tokio::test]
async fn m_126_to_129_disks_of_gce_are_compared_by_their_repaired_handles() {
    const NODE: &str = "projects/p1/zones/us-east1-a/instances/n";
    let stage = listing(GCE, NODE).await;
    let f = finalizer(GCE);
    let zonal = disk("zonal").label(ZONE, "us-east1-a").finalizer(&f);
    let regional = disk("regional").label(ZONE, "us-east1-a__us-east1-b");
    stage.api.insert(zonal);
    stage.api.insert(regional.finalizer(&f));
    // The driver knows the node `odd` by another id.
    stage.api.insert(build::csinode("odd").driver(GCE, "n1"));
    stage.api.insert(disk("odd").finalizer(&f));
    for name in ["zonal", "regional"] {
        attached(&stage, GCE, NODE, name);
    }
    let odd = build::attachment("va-odd")
        .by(GCE)
        .on("odd")
        .of("odd")
        .attached();
    stage.api.insert(odd.finalizer(&f).annotation(N, "n1"));
    let handle = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/inl";
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": GCE, "volumeHandle": handle},
    });
    let inline = build::attachment("va-inline")
        .by(GCE)
        .on("node1")
        .inline(spec);
    stage
        .api
        .insert(inline.attached().finalizer(&f).annotation(N, NODE));
    stage.driver.configure(|model| {
        for listed in ["zones/us-east1-a/disks/d", "regions/us-east1/disks/d"] {
            model.publish(&format!("projects/p1/{listed}"), NODE);
        }
        model.publish("projects/p1/zones/us-east1-a/disks/inl", NODE);
    });
    let attacher = stage.start(&COMPARE_OFTEN);
    stage.until_calls("ListVolumes", 4).await;
    assert!(
        stage.driver.calls_to(PUBLISH).is_empty(),
        "{:#?}",
        stage.trace()
    );
    attacher
        .logs("node handle has wrong number of elements; got 1, wanted 6 or more")
        .await;
    // A volume that the list lacks is attached again, with the handle as it is written.
    stage.driver.configure(|model| {
        model.unpublish("projects/p1/zones/us-east1-a/disks/inl", NODE);
    });
    stage.until_calls(PUBLISH, 1).await;
    assert_eq!(stage.driver.calls_to(PUBLISH)[0].volume(), handle, "M-129");
}

#[tokio::test]
async fn m_130_and_132_one_volume_that_cannot_be_translated_hides_no_other() {
    let stage = listing(EBS, "i-1").await;
    let f = finalizer(EBS);
    for name in ["listed", "lost"] {
        stage.api.insert(ebs(name).finalizer(&f));
        attached(&stage, EBS, "i-1", name);
    }
    let bad = volume(
        "bad",
        "awsElasticBlockStore",
        &json!({"volumeID": "aws://z/x"}),
    );
    stage.api.insert(bad.finalizer(&f));
    attached(&stage, EBS, "i-1", "bad");
    stage.driver.configure(|model| {
        model.any_volume = false;
        model.publish("vol-listed", "i-1");
    });
    let attacher = stage.start(&COMPARE_OFTEN);
    stage.until_calls(PUBLISH, 2).await;
    let calls = stage.driver.calls_to(PUBLISH);
    assert!(
        calls.iter().all(|call| call.volume() == "vol-lost"),
        "M-130: {calls:?}"
    );
    attacher
        .logs("failed to translate in tree pv to CSI: failed to translate Kubernetes ID")
        .await;
    let untouched = stage.attachment("va-bad");
    assert_eq!(untouched["status"], json!({"attached": true}), "M-132");
}

#[tokio::test]
async fn m_131_a_disk_that_is_listed_by_another_id_is_left_alone() {
    let stage = listing(VSPHERE, "NID1").await;
    for (name, path) in [("unknown", "[ds] a.vmdk"), ("elsewhere", "[ds] b.vmdk")] {
        let pv = volume(name, "vsphereVolume", &json!({"volumePath": path}));
        stage.api.insert(pv.finalizer(&finalizer(VSPHERE)));
        attached(&stage, VSPHERE, "NID1", name);
    }
    stage.driver.configure(|model| {
        model.publish("6000C29a-uuid", "NID1");
        // This driver lists paths, and lists this volume without the node.
        model.add("[ds] b.vmdk");
    });
    let _attacher = stage.start(&COMPARE_OFTEN);
    stage.until_calls("ListVolumes", 5).await;
    stage.until_calls(PUBLISH, 1).await;
    let calls = stage.driver.calls_to(PUBLISH);
    assert!(
        calls.iter().all(|call| call.volume() == "[ds] b.vmdk"),
        "{calls:?}"
    );
}

#[tokio::test]
async fn o_21_an_attachment_of_an_in_tree_volume_is_in_the_claims_trace_too() {
    const CLAIM: &str = "0b0c2a5e-6c2d-4f53-8a2e-1f5f0e6f7a10";
    const PUBLISHED: &str = "csi.v1.Controller/ControllerPublishVolume";
    let stage = on(EBS, "NID1").await;
    let collector = Collector::start().await;
    let name = format!("pvc-{CLAIM}");
    stage.api.insert(ebs(&name));
    let _attacher = trace::start(&stage, &collector);
    attach(&stage, "va", EBS, &name);
    let attach = collector.until_named("VolumeAttachment attach").await;
    let root = TraceId::of(CLAIM);
    for span in ["VolumeAttachment attach", "attempt", PUBLISHED] {
        let found = collector.named(span);
        let found = found.first().unwrap_or_else(|| panic!("no {span}"));
        assert_eq!(found.trace(), root.to_string(), "{span}");
    }
    for span in ["VolumeAttachment attach", PUBLISHED] {
        assert_eq!(collector.named(span)[0].attribute("csi.migrated"), "true");
    }
    assert_eq!(attach.attribute("csi.driver.name"), EBS);
    assert_eq!(attach.parent(), root.root().to_string());
}
