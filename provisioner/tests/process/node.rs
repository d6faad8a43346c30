//! Rows 267 to 281: the provisioner of one node.

use serde_json::{Value, json};
use sidecar_testkit::build::Object;
use sidecar_testkit::controller::until_metrics;
use sidecar_testkit::driver::{ControllerRpc, PluginService};
use sidecar_testkit::{CallFault, Fault};
use tokio::time::{Duration, sleep};
use tonic::Code;

use super::stage::{
    DRIVER, FINALIZER, GI, PROTECTION, PV, READY, Running, Stage, claim, class, finalizers,
    free_address, released, settle,
};

const SELECTED: &str = "volume.kubernetes.io/selected-node";
const QUICK: &[&str] = &[
    "--node-deployment-base-delay=100ms",
    "--node-deployment-max-delay=300ms",
];

async fn stage() -> Stage {
    let stage = Stage::new().await;
    let service = PluginService::VolumeAccessibilityConstraints;
    stage.driver.configure(|model| {
        model.services.push(service);
        model.topology = Some([("key".to_owned(), "foo".to_owned())].into());
        model.capacity = GI;
    });
    stage.can(ControllerRpc::GetCapacity);
    stage
        .api
        .insert(class().with("/volumeBindingMode", "Immediate"));
    stage
}

async fn start(stage: &Stage, arguments: &[&str]) -> Running {
    let mut all = vec!["--node-deployment"];
    all.extend(arguments);
    let program = stage.start_in(&all, &[("NODE_NAME", "foo")]);
    program.logs(READY).await;
    program
}

fn selected(stage: &Stage) -> Value {
    stage.claim("ns1/c1")["metadata"]["annotations"][SELECTED].clone()
}

fn updates(stage: &Stage) -> usize {
    stage
        .api
        .requests_to("PUT", "*/persistentvolumeclaims/*")
        .len()
}

#[tokio::test]
async fn rows_267_268_and_281_a_node_was_selected() {
    let stage = stage().await;
    let _program = start(&stage, QUICK).await;
    let other = claim().uid("u2").with("/metadata/name", "c2");
    stage.api.insert(other.annotation(SELECTED, "bar"));
    stage.api.insert(claim().annotation(SELECTED, "foo"));
    stage.until_volume(PV).await;
    settle().await;
    assert_eq!(stage.calls("CreateVolume"), 1, "row 268");
    assert_eq!(stage.events("Provisioning").len(), 1, "row 268: no event");
    let request = &stage.creations()[0];
    let requirement = request.accessibility_requirements.as_ref().unwrap();
    assert_eq!(requirement.requisite.len(), 1, "row 267");
    assert_eq!(requirement.requisite[0].segments["key"], "foo", "row 267");
    for kind in ["nodes", "csinodes"] {
        let path = format!("*/{kind}*");
        assert!(
            stage.api.requests_to("GET", &path).is_empty(),
            "row 281: {kind}"
        );
    }
}

#[tokio::test]
async fn rows_270_273_and_280_the_first_that_has_room_takes_the_claim() {
    let stage = stage().await;
    let full = CallFault::on("CreateVolume").times(1);
    stage
        .driver
        .fault(full.fail(Code::ResourceExhausted, "full"));
    let broken = CallFault::on("GetCapacity").times(1);
    stage.driver.fault(broken.fail(Code::Internal, "no"));
    let _program = start(&stage, QUICK).await;
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    assert_eq!(selected(&stage), "foo", "row 270");
    assert_eq!(stage.calls("GetCapacity"), 2, "rows 270, 273");
    assert_eq!(stage.calls("CreateVolume"), 2, "row 280");
    assert_eq!(updates(&stage), 3, "row 280: selected, removed, selected");
}

#[tokio::test]
async fn rows_271_272_and_274_not_here() {
    let stage = stage().await;
    let program = start(
        &stage,
        &[
            QUICK[0],
            QUICK[1],
            "--node-deployment-immediate-binding=false",
        ],
    )
    .await;
    stage.api.insert(claim());
    settle().await;
    assert_eq!(stage.calls("GetCapacity"), 0, "row 271");
    program.kill().await;
    stage.driver.configure(|model| model.capacity = GI - 1);
    let program = start(&stage, QUICK).await;
    stage.until_calls("GetCapacity", 1).await;
    settle().await;
    assert_eq!(
        stage.calls("GetCapacity"),
        1,
        "row 272: not again by itself"
    );
    stage.driver.configure(|model| model.capacity = GI);
    program.kill().await;
    let elsewhere = json!([{"matchLabelExpressions": [{"key": "key", "values": ["bar"]}]}]);
    stage.api.edit("storageclasses", "sc1", |class| {
        class["allowedTopologies"] = elsewhere
    });
    let program = start(&stage, QUICK).await;
    settle().await;
    assert_eq!(stage.calls("GetCapacity"), 1, "row 274");
    assert!(selected(&stage).is_null(), "rows 271, 272, 274");
    assert_eq!(updates(&stage), 0);
    assert_eq!(
        stage.events("Provisioning").len() + stage.events("ProvisioningFailed").len(),
        0
    );
    program.kill().await;
    let here = json!([{"matchLabelExpressions": [{"key": "key", "values": ["bar", "foo"]}]}]);
    stage.api.edit("storageclasses", "sc1", |class| {
        class["allowedTopologies"] = here
    });
    let _program = start(&stage, QUICK).await;
    stage.until_volume(PV).await;
    assert_eq!(selected(&stage), "foo", "row 274");
}

#[tokio::test]
async fn rows_275_and_277_somebody_else_was_faster_or_the_claim_is_gone() {
    let stage = stage().await;
    let slow = [
        "--node-deployment-base-delay=2s",
        "--node-deployment-max-delay=2s",
    ];
    let _program = start(&stage, &slow).await;
    stage.api.insert(claim());
    stage
        .api
        .insert(claim().uid("u2").with("/metadata/name", "c2"));
    stage.api.edit("persistentvolumeclaims", "ns1/c1", |claim| {
        claim["metadata"]["annotations"][SELECTED] = "bar".into();
    });
    stage.api.delete("persistentvolumeclaims", "ns1/c2");
    // Nothing may happen meanwhile.
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(updates(&stage), 0);
    assert_eq!(stage.calls("GetCapacity"), 0);
    assert_eq!(stage.calls("CreateVolume"), 0);
}

#[tokio::test]
async fn row_276_a_conflict_begins_the_wait_anew() {
    let stage = stage().await;
    let conflict = Fault::on("PUT", "*/persistentvolumeclaims/*").times(1);
    let conflict = stage.api.fault(conflict.answer(409));
    let _program = start(&stage, QUICK).await;
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    assert_eq!(conflict.hits(), 1);
    assert_eq!(stage.calls("GetCapacity"), 2);
    assert_eq!(stage.events("ProvisioningFailed").len(), 0);
}

#[tokio::test]
async fn rows_278_and_279_whose_volumes_are_deleted() {
    let stage = stage().await;
    let at = |value: &str| {
        let requirement = json!({"key": "key", "operator": "In", "values": [value]});
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}})
    };
    for (name, affinity) in [
        ("there", at("bar")),
        ("here", at("foo")),
        ("anywhere", Value::Null),
    ] {
        let volume = released(name);
        stage
            .api
            .insert(volume.with("/spec/nodeAffinity", affinity));
    }
    let _program = start(&stage, QUICK).await;
    for name in ["here", "anywhere"] {
        stage
            .until(name, |stage| {
                finalizers(&stage.volume(name)) == json!([PROTECTION])
            })
            .await;
    }
    settle().await;
    let called = stage.driver.calls_to("DeleteVolume");
    let mut called: Vec<String> = called.iter().map(|call| call.volume().to_owned()).collect();
    called.sort();
    assert_eq!(called, ["vol-anywhere", "vol-here"], "row 278");
    let kept = finalizers(&stage.volume("there"));
    assert_eq!(kept, json!([PROTECTION, FINALIZER]), "row 278");
    assert!(stage.events("VolumeFailedDelete").is_empty(), "row 278");
}

#[tokio::test]
async fn row_269_a_claim_that_waits_for_its_pod_is_nobody_s_yet() {
    let stage = stage().await;
    stage.api.insert(class().waiting_for_consumer());
    let _program = start(&stage, QUICK).await;
    stage.api.insert(claim());
    settle().await;
    assert_eq!(stage.calls("GetCapacity") + stage.calls("CreateVolume"), 0);
    assert!(stage.events("Provisioning").is_empty());
}

/// Only a node's own process can find out the outcome of its calls.
#[tokio::test]
async fn j_14_p_8_a_journal_of_a_node_that_is_gone_goes_or_is_told_of() {
    let stage = Stage::new().await;
    for node in ["n1", "n3"] {
        stage.api.insert(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": node },
        }));
    }
    let journal = |node: &str, driver: &str| {
        let header =
            json!({"version": 1, "driver": driver, "node": node, "epoch": 3, "holder": "x"});
        let claim = json!({"namespace": "ns1", "name": "c1", "uid": "u1"});
        let entry = json!({"prepared": {"name": "pvc-u1", "blueprint": {"claim": claim}}});
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": format!("{driver}-journal-{node}-0"),
                "namespace": "csi",
                "annotations": {
                    "csi-sidecars.io/journal": header.to_string(),
                    "intent.csi-sidecars.io/u1": entry.to_string(),
                },
            },
        })
    };
    for (node, driver) in [("n2", DRIVER), ("n3", DRIVER), ("n4", "other")] {
        stage.api.insert(journal(node, driver));
    }
    for node in ["n3", "n5"] {
        let mut empty = journal(node, DRIVER);
        empty["metadata"]["name"] = format!("test-driver-journal-{node}-1").into();
        let annotations = empty["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove("intent.csi-sidecars.io/u1");
        stage.api.insert(empty);
    }
    let left = || stage.api.object("leases", "csi/test-driver-journal-n2-0");
    let before = left();
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let flags = ["--node-deployment", &endpoint];
    let program = stage.start_in(&flags, &[("NODE_NAME", "n1")]);
    program
        .logs("The node of this provisioning journal is gone")
        .await;
    stage
        .until("n5 goes", |stage| {
            let name = "csi/test-driver-journal-n5-1";
            stage.api.object("leases", name).is_none()
        })
        .await;
    settle().await;
    let log = program.log();
    let lines: Vec<&str> = { log.lines() }
        .filter(|line| line.contains("journal is gone"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    for part in ["test-driver-journal-n2-0", "n2", "pvc-u1"] {
        assert!(lines[0].contains(part), "{part}: {log}");
    }
    until_metrics(&address, "csi_sidecar_provisioning_journals_without_node 1").await;
    assert_eq!(left(), before);
    let empty = |node: &str| {
        let name = format!("csi/test-driver-journal-{node}-1");
        stage.api.object("leases", &name).is_some()
    };
    assert!(!empty("n5") && empty("n3"), "of the node that is gone");
    assert_eq!(stage.calls("CreateVolume"), 0);
}
