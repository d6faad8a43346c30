//! Rows M-92 to M-98: storage capacity, node deployment, metrics and cost.

use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::{ControllerRpc, PluginService};

use super::super::capacity::KIND;
use super::super::stage::{PV, READY, Stage, free_address, is_journal, settle};
use super::{EBS, MIGRATED, PLUGIN, answer, claim_for, class_of, on, until_counted, with_class};

const ZONE: &str = "topology.kubernetes.io/zone";
const E: &str = "topology.ebs.csi.aws.com/zone";
const HERE: &str = "us-east-1a";

/// A driver with topology that reports its capacity.
async fn stage() -> Stage {
    let stage = on(EBS).await;
    let service = PluginService::VolumeAccessibilityConstraints;
    stage.driver.configure(|model| {
        model.services.push(service);
        model.capacity = 5 << 30;
        model.topology = Some([(E.to_owned(), HERE.to_owned())].into());
    });
    stage.can(ControllerRpc::GetCapacity);
    stage.api.remove("storageclasses", "sc1");
    stage
}

#[tokio::test]
async fn m_92_and_93_room_is_told_for_classes_of_the_driver_alone() {
    let stage = stage().await;
    for (name, zone) in [("n0", HERE), ("n1", "us-east-1b")] {
        stage.api.insert(build::node(name).label(E, zone));
        stage
            .api
            .insert(build::csinode(name).driver(EBS, name).topology(&[E]));
    }
    stage.api.insert(class_of(EBS, &[]).waiting_for_consumer());
    stage
        .api
        .insert(build::class("native").of(EBS).waiting_for_consumer());
    let answer = answer("vol-1", &[], &[&[(E, HERE)]]);
    stage
        .driver
        .fault(CallFault::on("CreateVolume").answer(answer));
    let address = free_address();
    // The poll comes too late to have an effect here.
    let arguments = [
        &format!("--http-endpoint={address}"),
        "--enable-capacity",
        "--capacity-ownerref-level=-1",
        "--capacity-poll-interval=1h",
    ];
    let program = stage.start_in(&arguments, &[("NAMESPACE", "ns"), ("POD_NAME", "pod")]);
    program.logs(READY).await;
    let capacities = |stage: &Stage, zone: &str| -> Vec<Value> {
        let objects = stage.api.objects(KIND);
        let mut of = objects.into_iter();
        let found = of.find(|object| object["nodeTopology"]["matchLabels"][E] == zone);
        found
            .into_iter()
            .map(|object| object["capacity"].clone())
            .collect()
    };
    stage
        .until("objects", |stage| stage.api.objects(KIND).len() == 2)
        .await;
    settle().await;
    let objects = stage.api.objects(KIND);
    let classes: Vec<&Value> = objects
        .iter()
        .map(|object| &object["storageClassName"])
        .collect();
    assert_eq!(classes, ["native", "native"], "M-92");

    stage.driver.configure(|model| model.capacity = 4 << 30);
    let claim = claim_for(EBS).annotation("volume.kubernetes.io/selected-node", "n0");
    stage.api.insert(claim);
    stage.until_volume(PV).await;
    stage
        .until("M-93", |stage| capacities(stage, HERE) == ["4Gi"])
        .await;
    assert_eq!(
        capacities(&stage, "us-east-1b"),
        ["5Gi"],
        "M-93: another place"
    );
    let (_, text) = super::get(&address, "/metrics").await;
    let method = "GetCapacity";
    assert_eq!(super::counted(&text, method, true), 0, "M-96: {text}");
    assert!(super::counted(&text, method, false) >= 3, "M-96: {text}");
}

#[tokio::test]
async fn m_94_and_95_a_node_takes_claims_of_a_class_of_the_plugin() {
    for (row, zones, taken) in [
        ("M-94", Some(HERE), true),
        ("M-94 elsewhere", Some("us-east-1b"), false),
        ("M-95", None, true),
    ] {
        let stage = stage().await;
        let class = class_of(EBS, &[]).with("/volumeBindingMode", "Immediate");
        stage.api.insert(match zones {
            None => class,
            Some(zone) => {
                let term = json!({"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]});
                class.with("/allowedTopologies", json!([term]))
            }
        });
        let arguments = [
            "--node-deployment",
            "--node-deployment-base-delay=100ms",
            "--node-deployment-max-delay=300ms",
        ];
        let program = stage.start_in(&arguments, &[("NODE_NAME", "foo")]);
        program.logs(READY).await;
        stage.api.insert(claim_for(EBS));
        if taken {
            stage.until_volume(PV).await;
            assert_eq!(stage.volume(PV)["metadata"]["labels"][ZONE], HERE, "{row}");
        } else {
            settle().await;
            assert_eq!(stage.calls("CreateVolume"), 0, "{row}");
            let writes = stage.api.requests_to("PUT", "*/persistentvolumeclaims/*");
            assert!(writes.is_empty(), "{row}");
        }
    }
}

#[tokio::test]
async fn m_96_and_98_what_the_life_of_a_volume_costs_and_how_it_is_counted() {
    let stage = with_class(EBS, &[]).await;
    let address = free_address();
    let program = stage.start(&[&format!("--http-endpoint={address}")]);
    program.logs(READY).await;
    stage.api.clear_requests();
    stage.api.insert(claim_for(EBS));
    stage.until_events("ProvisioningSucceeded", 1).await;
    stage.bind("ns1/c1", PV);
    stage.api.edit("persistentvolumes", PV, |volume| {
        volume["metadata"]["annotations"][MIGRATED] = EBS.into();
    });
    settle().await;
    let by = &stage.volume(PV)["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"];
    assert_eq!(by, PLUGIN);
    stage.api.delete("persistentvolumeclaims", "ns1/c1");
    stage.api.edit("persistentvolumes", PV, |object| {
        object["status"]["phase"] = "Released".into();
    });
    stage.until_volume_gone(PV).await;
    settle().await;
    let mut writes = stage.writes();
    writes.sort_unstable();
    let expected = [
        "DELETE persistentvolumes",
        "PATCH persistentvolumes",
        "POST events Provisioning",
        "POST events ProvisioningSucceeded",
        "POST persistentvolumes",
    ];
    assert_eq!(writes, expected, "M-98");
    let reads = stage.api.requests();
    let reads = { reads.iter() }
        .filter(|request| request.method == "GET" && !request.is_watch() && !is_journal(request));
    assert_eq!(reads.count(), 0, "M-98: {:#?}", stage.history());
    for method in ["CreateVolume", "DeleteVolume"] {
        until_counted(&address, method, (1, 0)).await;
    }
    for method in [
        "Probe",
        "ControllerGetCapabilities",
        "GetPluginCapabilities",
    ] {
        let (_, text) = super::get(&address, "/metrics").await;
        assert_eq!(super::counted(&text, method, true), 0, "M-96: {method}");
        assert!(
            super::counted(&text, method, false) > 0,
            "M-96: {method}: {text}"
        );
    }
    assert!(stage.handles().is_empty());
}
