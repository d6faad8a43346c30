//! Rows M-5 to M-20: which claims are the driver's, and the form of their PersistentVolumes.

use serde_json::Value;
use sidecar_testkit::CallFault;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::PluginService;
use sidecar_testkit::process::within;
use tonic::Code;

use super::super::stage::{
    ANNOTATION, PATIENCE, PV, READY, Stage, U, free_address, get, settle, together,
};
use super::{
    EBS, MIGRATED, PLUGIN, answer, claim_for, class_of, counted, on, until_counted, with_class,
};

const BETA: &str = "volume.beta.kubernetes.io/storage-provisioner";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const HOSTPATH: &str = "hostpath.csi.k8s.io";
const FAILED: &str =
    r#"controller_persistentvolumeclaim_provision_failed_total{class="sc1",source=""} 1"#;

/// Expected handling of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Migrated,
    Native,
    /// There is no call, no event and no metric.
    Silent,
    /// There is no call and no event, but the claim counts as failed.
    Stopped,
}

/// Row, driver, annotations of the claim, provisioner of its class.
type Row = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
    Is,
);

/// The RBAC rules for a provisioner of CSI volumes without topology.
fn native_rules() -> [Allow; 6] {
    [
        Allow::new(
            "",
            "persistentvolumes",
            "get,list,watch,create,patch,delete",
        ),
        Allow::new("", "persistentvolumeclaims", "get,list,watch,update"),
        Allow::new("storage.k8s.io", "storageclasses", "get,list,watch"),
        Allow::new("", "events", "create,patch"),
        Allow::new("", "secrets", "get"),
        Allow::new("coordination.k8s.io", "leases", "get,create,update"),
    ]
}

#[tokio::test]
async fn m_5_to_16_and_19_whose_claim_it_is() {
    use Is::{Migrated, Native, Silent, Stopped};
    const GA: &str = ANNOTATION;
    const GCE_PLUGIN: &str = "kubernetes.io/gce-pd";
    let rows: [Row; 15] = [
        ("M-7", EBS, &[(GA, EBS), (BETA, EBS)], PLUGIN, Migrated),
        ("M-8 beta", EBS, &[(BETA, EBS)], PLUGIN, Migrated),
        ("M-8 GA", EBS, &[(GA, EBS)], PLUGIN, Migrated),
        (
            "M-9",
            EBS,
            &[(BETA, PLUGIN), (MIGRATED, EBS)],
            PLUGIN,
            Migrated,
        ),
        ("M-10", EBS, &[(GA, EBS), (MIGRATED, EBS)], PLUGIN, Migrated),
        ("M-11", EBS, &[(GA, PLUGIN)], PLUGIN, Silent),
        (
            "M-12",
            EBS,
            &[(GA, PLUGIN), (MIGRATED, "foo")],
            PLUGIN,
            Silent,
        ),
        (
            "M-12 foo",
            EBS,
            &[(GA, "foo"), (MIGRATED, "foo")],
            PLUGIN,
            Silent,
        ),
        ("M-13", EBS, &[(GA, "foo"), (MIGRATED, EBS)], PLUGIN, Silent),
        ("M-13 none", EBS, &[(MIGRATED, EBS)], PLUGIN, Silent),
        ("M-14", EBS, &[(GA, "foo"), (BETA, EBS)], PLUGIN, Silent),
        ("M-15", EBS, &[(GA, EBS)], GCE_PLUGIN, Stopped),
        ("M-16", EBS, &[(GA, PLUGIN), (MIGRATED, EBS)], EBS, Native),
        ("native", EBS, &[(GA, EBS)], EBS, Native),
        ("M-19", HOSTPATH, &[(GA, HOSTPATH)], PLUGIN, Stopped),
    ];
    together(rows, whose).await;
}

async fn whose((row, driver, annotations, provisioner, is): Row) {
    let stage = on(driver).await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(build::class("sc1").of(provisioner));
    stage.api.allow_only(native_rules());
    let address = free_address();
    let program = stage.start(&[&format!("--http-endpoint={address}")]);
    program.logs(READY).await;
    let claim = build::claim("ns1/c1").class("sc1").mode("RWO").uid(U);
    let claim = annotations
        .iter()
        .fold(claim, |claim, (key, value)| claim.annotation(key, value));
    stage.api.insert(claim);
    match is {
        Is::Migrated | Is::Native => provisioned(&stage, &address, row, driver, is).await,
        Is::Stopped => {
            within(PATIENCE, row, async || {
                get(&address, "/metrics").await.1.contains(FAILED)
            })
            .await;
        }
        Is::Silent => {
            settle().await;
            let text = get(&address, "/metrics").await.1;
            assert!(
                !text.contains("controller_persistentvolumeclaim"),
                "{row}: {text}"
            );
        }
    }
    if matches!(is, Is::Silent | Is::Stopped) {
        assert_eq!(stage.calls("CreateVolume"), 0, "{row}");
        assert!(stage.api.objects("events").is_empty(), "{row}");
        assert!(stage.volume(PV).is_null(), "{row}");
    }
    let mut refused = stage.api.requests();
    refused.retain(|request| request.status == Some(403));
    assert!(refused.is_empty(), "M-6, {row}: {refused:?}");
    assert!(stage.api.objects("csinodes").is_empty(), "M-5, {row}");
}

async fn provisioned(stage: &Stage, address: &str, row: &str, driver: &str, is: Is) {
    stage.until_events("ProvisioningSucceeded", 1).await;
    let volume = stage.volume(PV);
    let (source, by) = match is {
        Is::Native => (&volume["spec"]["csi"]["volumeHandle"], driver),
        Is::Migrated | Is::Silent | Is::Stopped => {
            (&volume["spec"]["awsElasticBlockStore"]["volumeID"], PLUGIN)
        }
    };
    assert_eq!(source, "vol-1", "{row}: {volume}");
    assert_eq!(
        volume["spec"]["csi"].is_null(),
        is == Is::Migrated,
        "{row}: {volume}"
    );
    let annotations = &volume["metadata"]["annotations"];
    assert_eq!(annotations[PROVISIONED_BY], by, "{row}");
    assert!(annotations[MIGRATED].is_null(), "{row}");
    let (_, text) = get(address, "/metrics").await;
    let calls = [true, false].map(|migrated| counted(&text, "CreateVolume", migrated));
    let migrated = u64::from(is == Is::Migrated);
    assert_eq!(calls, [migrated, 1 - migrated], "{row}: {text}");
}

#[tokio::test]
async fn rows_44_45_282_and_284_a_claim_of_a_plugin() {
    const E: &str = "topology.ebs.csi.aws.com/zone";
    let parameters = [("fsType", "ext4"), ("zones", "us-east-1a,us-east-1b")];
    let stage = with_class(EBS, &parameters).await;
    let native = build::class("native").of(EBS).parameter("zones", "a");
    stage.api.insert(native);
    let service = PluginService::VolumeAccessibilityConstraints;
    stage.driver.configure(|model| model.services.push(service));
    for (name, zone) in [("n0", "us-east-1a"), ("n1", "us-east-1b")] {
        stage.api.insert(build::node(name).label(E, zone));
        let node = build::csinode(name).driver(EBS, name);
        stage.api.insert(node.topology(&[E]));
    }
    let answer = answer("vol-1", &[], &[&[(E, "us-east-1a")]]);
    stage
        .driver
        .fault(CallFault::on("CreateVolume").answer(answer));
    let address = free_address();
    let program = stage.start(&[&format!("--http-endpoint={address}")]);
    program.logs(READY).await;
    let named = |name: &str, provisioner: &str| {
        let claim = claim_for(provisioner).uid(name);
        claim.with("/metadata/name", name)
    };
    stage.api.insert(named("r282", EBS));
    stage.until_volume("pvc-r282").await;
    let request = &stage.creations()[0];
    assert!(request.parameters.is_empty(), "row 282: {request:?}");
    let requirements = request.accessibility_requirements.as_ref().unwrap();
    let zones = requirements.requisite.iter();
    let zones: Vec<&str> = zones.map(|it| &*it.segments[E]).collect();
    assert_eq!(zones, ["us-east-1a", "us-east-1b"], "row 282");
    let volume = stage.volume("pvc-r282");
    assert_eq!(
        volume["spec"]["awsElasticBlockStore"]["fsType"], "ext4",
        "row 282"
    );
    let labels = &volume["metadata"]["labels"];
    assert_eq!(
        labels["topology.kubernetes.io/region"], "us-east-1",
        "row 282"
    );
    until_counted(&address, "CreateVolume", (1, 0)).await;

    stage
        .api
        .insert(named("r45a", PLUGIN).annotation(MIGRATED, "other.csi"));
    stage.api.insert(named("r45b", PLUGIN));
    stage
        .api
        .insert(named("r44", PLUGIN).annotation(MIGRATED, EBS));
    stage.until_volume("pvc-r44").await;
    assert_ne!(
        stage.volume("pvc-r44")["spec"]["awsElasticBlockStore"],
        Value::Null,
        "row 44"
    );
    stage.api.insert(named("r284", EBS).class("native"));
    stage.until_volume("pvc-r284").await;
    assert_eq!(
        stage.volume("pvc-r284")["spec"]["csi"]["driver"],
        EBS,
        "row 284"
    );
    assert_eq!(stage.creations()[2].parameters["zones"], "a", "row 284");
    until_counted(&address, "CreateVolume", (2, 1)).await;
    settle().await;
    assert_eq!(stage.calls("CreateVolume"), 3, "row 45");
    assert!(stage.volume("pvc-r45a").is_null() && stage.volume("pvc-r45b").is_null());
}

#[tokio::test]
async fn m_17_a_class_of_the_driver_is_sent_as_it_is() {
    let stage = on(EBS).await;
    stage.api.remove("storageclasses", "sc1");
    let class = build::class("sc1").of(EBS).parameter("zone", "a");
    stage.api.insert(class.parameter("fsType", "x"));
    let _program = stage.start(&[]);
    stage.api.insert(claim_for(EBS));
    stage.until_volume(PV).await;
    let sent: Vec<(String, String)> = stage.creations()[0]
        .parameters
        .clone()
        .into_iter()
        .collect();
    let sent: Vec<(&str, &str)> = sent.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(sent, [("fsType", "x"), ("zone", "a")]);
}

#[tokio::test]
async fn m_18_a_class_that_waits_for_a_consumer() {
    let stage = on(EBS).await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class_of(EBS, &[]).waiting_for_consumer());
    let program = stage.start(&[]);
    program.logs(READY).await;
    stage.api.insert(claim_for(EBS));
    settle().await;
    assert_eq!(stage.calls("CreateVolume"), 0);
    assert!(stage.api.objects("events").is_empty());
    stage.api.edit("persistentvolumeclaims", "ns1/c1", |claim| {
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = "n1".into();
    });
    stage.until_volume(PV).await;
    assert_ne!(
        stage.volume(PV)["spec"]["awsElasticBlockStore"],
        Value::Null
    );
}

#[tokio::test]
async fn m_20_and_97_a_class_that_becomes_native_while_the_claim_waits() {
    let stage = with_class(EBS, &[]).await;
    let fault = CallFault::on("CreateVolume").times(1);
    stage.driver.fault(fault.fail(Code::Internal, "no"));
    let address = free_address();
    let http = format!("--http-endpoint={address}");
    let _program = stage.start(&["--retry-interval-start=3s", &http]);
    stage.api.insert(claim_for(EBS));
    stage.until_events("ProvisioningFailed", 1).await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(build::class("sc1").of(EBS).uid("another"));
    stage.until_volume(PV).await;
    let volume = stage.volume(PV);
    assert_eq!(volume["spec"]["csi"]["volumeHandle"], "vol-1", "{volume}");
    assert!(volume["spec"]["awsElasticBlockStore"].is_null(), "{volume}");
    assert_eq!(volume["metadata"]["annotations"][PROVISIONED_BY], EBS);
    until_counted(&address, "CreateVolume", (1, 1)).await;
}
