//! Rows M-71 to M-91: released volumes of in-tree plugins.
//!
//! All rows run with the permissions for volumes of CSI drivers.

use csi_proto::csi::DeleteVolumeRequest;
use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::build::{self, Object, Volume};
use sidecar_testkit::driver::{ControllerRpc, PluginService};
use sidecar_testkit::process::within;
use tonic::Code;

use super::super::stage::{
    FINALIZER, PATIENCE, PROTECTION, PV, READY, Stage, U, claim, class, finalizers, free_address,
    get, released, settle, together,
};
use super::{AZURE_DISK, AZURE_FILE, CINDER, EBS, GCE, MIGRATED, PLUGIN, PORTWORX, VSPHERE, on};

const DELETE: &str = "DeleteVolume";
const FAILED: &str = "VolumeFailedDelete";
const WAITS: &str = "VolumeDelete";
const BY: &str = "pv.kubernetes.io/provisioned-by";
const ZONE: &str = "topology.kubernetes.io/zone";
const SECRET_NAME: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";
const SECRET_NAMESPACE: &str = "volume.kubernetes.io/provisioner-deletion-secret-namespace";

/// The RBAC rules for a provisioner of CSI volumes, without those for the journal.
fn native_rules() -> Vec<Allow> {
    const STORAGE: &str = "storage.k8s.io";
    vec![
        Allow::new(
            "",
            "persistentvolumes",
            "get,list,watch,create,patch,delete",
        ),
        Allow::new("", "persistentvolumeclaims", "get,list,watch,update"),
        Allow::new(STORAGE, "storageclasses", "get,list,watch"),
        Allow::new(STORAGE, "volumeattachments", "get,list,watch"),
        Allow::new(STORAGE, "volumeattributesclasses", "get"),
        Allow::new("", "events", "list,watch,create,update,patch"),
        Allow::new("", "secrets", "get,list"),
        Allow::new(
            "coordination.k8s.io",
            "leases",
            "get,create,update,delete,list,watch,patch",
        ),
    ]
}

/// A released volume with kube-controller-manager's annotation that it was migrated to `driver`.
fn moved(name: &str, driver: &str, field: &str, source: &Value) -> Volume {
    let by = match driver {
        EBS => PLUGIN,
        GCE => "kubernetes.io/gce-pd",
        _ => "kubernetes.io/another",
    };
    released(name)
        .with("/spec/csi", Value::Null)
        .with(&format!("/spec/{field}"), source.clone())
        .annotation(BY, by)
        .annotation(MIGRATED, driver)
}

pub(super) fn ebs(name: &str) -> Volume {
    let source = json!({"volumeID": format!("aws://us-east-1a/vol-{name}"), "fsType": "ext4"});
    moved(name, EBS, "awsElasticBlockStore", &source)
}

/// The volume with these annotations and no others.
fn annotated(volume: Volume, annotations: &[(&str, &str)]) -> Volume {
    let bare = volume.with("/metadata/annotations", json!({}));
    let annotations = annotations.iter();
    annotations.fold(bare, |volume, (key, value)| volume.annotation(key, value))
}

/// A bound volume without our finalizer.
fn bare(volume: Volume) -> Volume {
    volume
        .phase("Bound")
        .with("/metadata/finalizers", json!([PROTECTION]))
}

fn move_to(stage: &Stage, name: &str, driver: &str) {
    stage.api.edit("persistentvolumes", name, |object| {
        object["metadata"]["annotations"][MIGRATED] = driver.into();
    });
}

/// Handles of the driver's DeleteVolume calls, sorted.
fn deleted(stage: &Stage) -> Vec<String> {
    let calls = stage.driver.calls_to(DELETE);
    let mut handles: Vec<_> = calls.iter().map(|call| call.volume().to_owned()).collect();
    handles.sort();
    handles
}

/// The events about the failed deletion of this volume.
fn events_of(stage: &Stage, name: &str) -> Vec<String> {
    let events = stage.api.objects("events");
    let of_it = |event: &&Value| {
        let has_reason = [FAILED, WAITS].map(|reason| event["reason"] == reason);
        has_reason.contains(&true) && event["involvedObject"]["name"] == name
    };
    let messages = events.iter().filter(of_it);
    messages
        .map(|event| event["message"].as_str().unwrap().to_owned())
        .collect()
}

async fn until_released(stage: &Stage, name: &str) {
    stage
        .until(name, |stage| {
            finalizers(&stage.volume(name)) == json!([PROTECTION])
        })
        .await;
}

/// Whether the metrics have samples of a method with that label.
fn counted(metrics: &str, method: &str, migrated: bool) -> bool {
    let label = format!(r#"migrated="{migrated}""#);
    let mut counts = metrics.lines().filter(|line| line.contains("_count{"));
    counts.any(|line| line.contains(&format!("/{method}\"")) && line.contains(&label))
}

async fn until_counted(address: &str, method: &str) -> String {
    within(PATIENCE, method, async || {
        let text = get(address, "/metrics").await.1;
        text.contains(&format!("/{method}\""))
    })
    .await;
    get(address, "/metrics").await.1
}

#[tokio::test]
async fn m_71_call_object_finalizer_and_nothing_else() {
    let stage = on(EBS).await;
    stage.api.allow_only(native_rules());
    stage.api.insert(ebs("m71"));
    let address = free_address();
    let _program = stage.start(&[&format!("--http-endpoint={address}")]);
    until_released(&stage, "m71").await;
    assert!(!stage.volume("m71")["metadata"]["deletionTimestamp"].is_null());
    let text = until_counted(&address, DELETE).await;
    assert!(counted(&text, DELETE, true), "{text}");
    assert!(!counted(&text, DELETE, false), "{text}");
    stage.api.remove("persistentvolumes", "m71");
    settle().await;
    assert_eq!(deleted(&stage), ["vol-m71"]);
    assert_eq!(
        stage.writes(),
        ["DELETE persistentvolumes", "PATCH persistentvolumes"]
    );
    let read = stage.api.requests_to("GET", "*/persistentvolumes/m71");
    assert!(read.is_empty(), "{read:?}");
    let mut refused = stage.api.requests();
    refused.retain(|request| request.status == Some(403));
    assert!(refused.is_empty(), "{refused:?}");
}

/// Of the calls for volumes of a plugin, those for an in-tree source count as migrated.
#[tokio::test]
async fn rows_205_and_285_volumes_that_were_moved_are_deleted() {
    for (name, source, migrated) in [("r205", false, false), ("r285", true, true)] {
        let stage = on(EBS).await;
        let handle = format!("vol-{name}");
        let volume = if source {
            ebs(name)
        } else {
            ebs(name)
                .with("/spec/awsElasticBlockStore", Value::Null)
                .with("/spec/csi", Value::Null)
                .csi(EBS, &handle)
        };
        stage.api.insert(volume);
        let address = free_address();
        let _program = stage.start(&[&format!("--http-endpoint={address}")]);
        until_released(&stage, name).await;
        assert_eq!(deleted(&stage), [handle], "row {name}");
        let text = until_counted(&address, DELETE).await;
        assert!(counted(&text, DELETE, migrated), "row {name}: {text}");
        assert!(!counted(&text, DELETE, !migrated), "row {name}: {text}");
    }
}

/// Volumes, and whether they are deleted.
fn fates() -> Vec<(&'static str, Volume, bool)> {
    let disk = json!({"pdName": "d"});
    let theirs = |name| moved(name, GCE, "gcePersistentDisk", &disk);
    vec![
        ("m73", ebs("m73").annotation(BY, EBS), true),
        // Annotations of provisioners before 3.0; kube-controller-manager adds none to these.
        ("m73b", annotated(ebs("m73b"), &[(BY, EBS)]), true),
        ("m74", annotated(ebs("m74"), &[(BY, PLUGIN)]), false),
        ("m76", annotated(ebs("m76"), &[(MIGRATED, EBS)]), true),
        ("m77", annotated(ebs("m77"), &[]), false),
        ("m78", theirs("m78"), false),
        ("kept", ebs("kept").reclaim("Retain"), false),
    ]
}

#[tokio::test]
async fn m_72_to_78_whose_volumes_of_in_tree_plugins_are_looked_after() {
    let stage = on(EBS).await;
    let rows = fates();
    for (_, volume, _) in &rows {
        stage.api.insert(volume.clone());
    }
    stage.api.insert(bare(ebs("m72")));
    stage
        .api
        .insert(bare(annotated(ebs("m75"), &[(BY, PLUGIN)])));
    let disk = json!({"pdName": "d"});
    let theirs = moved("m78b", GCE, "gcePersistentDisk", &disk);
    stage.api.insert(bare(theirs));
    let program = stage.start(&[]);
    program.logs(READY).await;
    let ours = json!([PROTECTION, FINALIZER]);
    stage
        .until("M-72", |stage| finalizers(&stage.volume("m72")) == ours)
        .await;
    for (name, _, is_deleted) in &rows {
        if *is_deleted || *name == "kept" {
            until_released(&stage, name).await;
        }
    }
    settle().await;
    assert_eq!(deleted(&stage), ["vol-m73", "vol-m73b", "vol-m76"]);
    for name in ["m74", "m77", "m78"] {
        assert_eq!(finalizers(&stage.volume(name)), ours, "{name}");
    }
    for name in ["m75", "m78b"] {
        let held = finalizers(&stage.volume(name));
        assert_eq!(held, json!([PROTECTION]), "{name}");
    }
    for request in stage.api.requests_to("PATCH", "*/persistentvolumes/m72") {
        let strategic = "application/strategic-merge-patch+json";
        assert_eq!(request.content_type, strategic, "M-72");
    }
    // kube-controller-manager annotates it later.
    move_to(&stage, "m74", EBS);
    until_released(&stage, "m74").await;
    assert_eq!(stage.calls(DELETE), 4, "M-74");
    move_to(&stage, "m75", EBS);
    stage
        .until("M-75", |stage| finalizers(&stage.volume("m75")) == ours)
        .await;
    assert!(stage.events(FAILED).is_empty());
}

#[tokio::test]
async fn m_79_and_85_and_90_volumes_that_are_not_deleted() {
    let disk = json!({"pdName": "d"});
    let nfs = json!({"server": "s", "path": "/"});
    let rows = [
        ("m79", moved("m79", EBS, "gcePersistentDisk", &disk), GCE),
        (
            "m85",
            ebs("m85"),
            "persistentvolume m85 is still attached to node node1, waiting for detach",
        ),
        ("m90", moved("m90", EBS, "nfs", &nfs), "no spec.csi"),
    ];
    let stage = on(EBS).await;
    stage.can(ControllerRpc::PublishUnpublishVolume);
    let attachment = build::attachment("va").by(EBS).on("node1").of("m85");
    stage.api.insert(attachment);
    let rows = rows.map(|(row, volume, text)| (row, stage.api.insert(volume), text));
    let _program = stage.start(&["--retry-interval-start=5m"]);
    stage.until_events(FAILED, 2).await;
    stage.until_events(WAITS, 1).await;
    settle().await;
    assert_eq!(stage.calls(DELETE), 0);
    for (row, before, text) in rows {
        let events = events_of(&stage, row);
        assert!(
            events.len() == 1 && events[0].contains(text),
            "{row}: {events:?}"
        );
        assert_eq!(stage.volume(row), before, "{row}");
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table")]
async fn m_80_to_84_in_the_words_of_the_driver() {
    let aws = json!({"volumeID": "aws://z/x"});
    let shared = json!({"diskName": "n", "diskURI": "/subscriptions/s", "kind": "Shared"});
    let managed = json!({"diskName": "n", "diskURI": "/subscriptions/s", "kind": "Managed"});
    let share = json!({"shareName": "s", "secretName": "azure-storage-account-a-secret"});
    let path = json!({"volumePath": "[ds] kubevols/a.vmdk"});
    let id = json!({"volumeID": "c"});
    let disk = json!({"pdName": "d"});
    let zones = "us-east1-a__us-east1-b";
    let rows = [
        (
            EBS,
            moved("pv", EBS, "awsElasticBlockStore", &aws),
            Err("failed to translate Kubernetes ID"),
        ),
        (
            AZURE_DISK,
            moved("pv", AZURE_DISK, "azureDisk", &shared),
            Err("kind(Shared) is not supported"),
        ),
        (
            AZURE_DISK,
            moved("pv", AZURE_DISK, "azureDisk", &managed),
            Ok("/subscriptions/s"),
        ),
        (
            AZURE_FILE,
            moved("pv", AZURE_FILE, "azureFile", &share),
            Ok("#a#s#pv#ns1"),
        ),
        (
            GCE,
            moved("pv", GCE, "gcePersistentDisk", &disk).label(ZONE, zones),
            Ok("projects/UNSPECIFIED/regions/us-east1/disks/d"),
        ),
        (
            VSPHERE,
            moved("pv", VSPHERE, "vsphereVolume", &path),
            Ok("[ds] kubevols/a.vmdk"),
        ),
        (CINDER, moved("pv", CINDER, "cinder", &id), Ok("c")),
        (
            PORTWORX,
            moved("pv", PORTWORX, "portworxVolume", &id),
            Ok("c"),
        ),
    ];
    together(rows, |(driver, volume, expected)| async move {
        let stage = on(driver).await;
        let before = stage.api.insert(volume);
        let _program = stage.start(&["--retry-interval-start=300ms"]);
        match expected {
            Ok(handle) => {
                until_released(&stage, "pv").await;
                assert_eq!(deleted(&stage), [handle], "{driver}");
            }
            Err(text) => {
                stage
                    .until("it is tried again", |stage| {
                        let events = stage.api.objects("events");
                        let is_failure = |event: &Value| event["reason"] == FAILED;
                        let tries = |event: &Value| event["count"].as_u64();
                        events
                            .iter()
                            .any(|event| is_failure(event) && tries(event) >= Some(2))
                    })
                    .await;
                let texts = stage.events(FAILED);
                assert!(
                    texts.iter().all(|event| event.starts_with(text)),
                    "{texts:?}"
                );
                assert_eq!(stage.calls(DELETE), 0, "{driver}");
                assert_eq!(stage.volume("pv"), before, "{driver}");
            }
        }
    })
    .await;
}

/// A class of an in-tree plugin is translated for the driver, whatever its topologies are.
#[tokio::test]
async fn m_86_to_88_secrets() {
    const AUTH_NAME: &str = "openstorage.io/auth-secret-name";
    const AUTH_NAMESPACE: &str = "openstorage.io/auth-secret-namespace";
    let source = json!({"volumeID": "vol-1"});
    let portworx = || moved("pv", PORTWORX, "portworxVolume", &source);
    let secured = || {
        build::class("sc1")
            .of("kubernetes.io/portworx-volume")
            .parameter(AUTH_NAME, "sec")
            .parameter(AUTH_NAMESPACE, "${pvc.namespace}")
    };
    let zones = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["us-east-1a"]}]}]);
    let contradictory = build::class("sc1")
        .of(PLUGIN)
        .parameter("zones", "us-east-1b")
        .with("/allowedTopologies", zones);
    let made_by_us = portworx()
        .annotation(SECRET_NAME, "")
        .annotation(SECRET_NAMESPACE, "");
    let rows = [
        ("M-86", PORTWORX, portworx(), secured(), Some("sec")),
        ("M-87", EBS, ebs("pv"), contradictory, None),
        ("M-88", PORTWORX, made_by_us, secured(), None),
    ];
    together(rows, |(row, driver, volume, class, expected)| async move {
        let stage = on(driver).await;
        stage.api.remove("storageclasses", "sc1");
        stage.api.insert(class);
        stage
            .api
            .insert(build::secret("ns1/sec").entry("k", "c2Vj"));
        stage.api.insert(volume);
        let _program = stage.start(&["--retry-interval-start=5m"]);
        until_released(&stage, "pv").await;
        let calls = stage.driver.calls_to(DELETE);
        let request: &DeleteVolumeRequest = calls[0].request().unwrap();
        let value = request.secrets.get("k").map(String::as_str);
        assert_eq!((calls.len(), value), (1, expected), "{row}");
        let read = stage.api.requests_to("GET", "*/secrets/*").len();
        assert_eq!(read, usize::from(expected.is_some()), "{row}");
    })
    .await;
}

#[tokio::test]
async fn m_89_a_failed_deletion_is_reported_and_retried() {
    let codes = [
        Code::NotFound,
        Code::Internal,
        Code::DeadlineExceeded,
        Code::FailedPrecondition,
    ];
    together(codes, |code| async move {
        let stage = on(EBS).await;
        stage.api.insert(ebs("m89"));
        let fails = CallFault::on(DELETE).fail(code, "what?");
        let fails = stage.driver.fault(fails);
        let _program = stage.start(&["--retry-interval-start=300ms"]);
        stage.until_events(FAILED, 1).await;
        stage.until_calls(DELETE, 2).await;
        assert_eq!(
            finalizers(&stage.volume("m89")),
            json!([PROTECTION, FINALIZER]),
            "{code:?}"
        );
        assert!(stage.events(FAILED)[0].contains("what?"), "{code:?}");
        fails.remove();
        until_released(&stage, "m89").await;
    })
    .await;
}

#[tokio::test]
async fn m_91_the_provisioner_of_a_node_deletes_what_is_in_its_zone() {
    let stage = on(EBS).await;
    stage.driver.configure(|model| {
        model
            .services
            .push(PluginService::VolumeAccessibilityConstraints);
        let here = ("topology.ebs.csi.aws.com/zone", "us-east-1a");
        model.topology = Some([(here.0.to_owned(), here.1.to_owned())].into());
    });
    let at = |zone: &str| {
        let requirement = json!({"key": ZONE, "operator": "In", "values": [zone]});
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}})
    };
    for (name, zone) in [("here", "us-east-1a"), ("there", "us-east-1b")] {
        let volume = ebs(name).with("/spec/nodeAffinity", at(zone));
        stage.api.insert(volume);
    }
    // The affinity has no topology: the label has it.
    stage.api.insert(ebs("labelled").label(ZONE, "us-east-1b"));
    let program = stage.start_in(&["--node-deployment"], &[("NODE_NAME", "n1")]);
    program.logs(READY).await;
    until_released(&stage, "here").await;
    settle().await;
    assert_eq!(deleted(&stage), ["vol-here"]);
    for name in ["there", "labelled"] {
        assert_eq!(
            finalizers(&stage.volume(name)),
            json!([PROTECTION, FINALIZER]),
            "{name}"
        );
    }
    assert!(stage.events(FAILED).is_empty());
}

/// A call has had no answer, and an administrator rescues its volume with an object of the in-tree form: the unsettled
/// request must not take the volume for one without a PersistentVolume.
#[tokio::test]
async fn m_71_a_volume_whose_object_is_in_tree_is_not_taken_for_one_without() {
    together(["rescue", PV], rescued).await;
}

async fn rescued(name: &'static str) {
    const CREATE: &str = "CreateVolume";
    let stage = on(EBS).await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class().of(EBS));
    let dies = CallFault::on(CREATE).fail_after(Code::Unavailable, "died");
    stage.driver.fault(dies.times(1));
    let refuses = CallFault::on(CREATE).fail(Code::Unknown, "not yet");
    stage.driver.fault(refuses.times(2));
    let _program = stage.start(&["--retry-interval-start=1s"]);
    let claim = claim().annotation(super::super::stage::ANNOTATION, EBS);
    stage.api.insert(claim);
    stage.until_events("ProvisioningFailed", 2).await;
    let handle = stage.handles().remove(0);
    let volume = build::volume(name)
        .with("/spec/awsElasticBlockStore/volumeID", handle.as_str())
        .with(
            "/spec/claimRef",
            json!({"namespace": "ns1", "name": "c1", "uid": U}),
        )
        .mode("RWO")
        .reclaim("Retain");
    stage.api.insert(volume);
    stage.bind("ns1/c1", name);
    let journal = |stage: &Stage| stage.intents_in("csi/ebs-csi-aws-com-journal-0").is_empty();
    stage.until("nothing is unsettled", journal).await;
    settle().await;
    assert_eq!(stage.calls(DELETE), 0, "{name}");
    assert_eq!(stage.handles(), [handle], "{name}");
    let objects = stage.api.objects("persistentvolumes");
    assert_eq!(objects.len(), 1, "{name}: {objects:?}");
}
