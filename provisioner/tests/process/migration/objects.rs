//! Rows M-39 to M-52: PersistentVolumes of the plugin.

use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::PluginService;

use super::super::stage::{FINALIZER, PV, READY, Stage, U, finalizers, together};
use super::{
    AZURE_DISK, AZURE_FILE, CINDER, EBS, GCE, PORTWORX, Segments, VSPHERE, answer, claim_for,
    plugin, with_class,
};

const Z: &str = "topology.kubernetes.io/zone";
const R: &str = "topology.kubernetes.io/region";
const E: &str = "topology.ebs.csi.aws.com/zone";
const G: &str = "topology.gke.io/zone";
const C: &str = "topology.cinder.csi.openstack.org/zone";
const D: &str = "topology.disk.csi.azure.com/zone";
const VZ: &str = "topology.csi.vmware.com/zone";
const VR: &str = "topology.csi.vmware.com/region";
const URI: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/n";

struct Row {
    row: &'static str,
    driver: &'static str,
    /// Volume handle of the driver's answer.
    id: &'static str,
    context: Segments<'static>,
    topologies: &'static [Segments<'static>],
    /// Whether the driver supports topology.
    topology: bool,
    parameters: Segments<'static>,
    arguments: &'static [&'static str],
    modes: &'static [&'static str],
    block: bool,
    /// `spec.SOURCE`
    source: &'static str,
    is: Value,
    /// The terms of `spec.nodeAffinity`.
    terms: Value,
    labels: Value,
    /// Annotations besides those that every volume of the plugin has.
    annotations: Segments<'static>,
}

fn row(
    row: &'static str,
    driver: &'static str,
    id: &'static str,
    source: &'static str,
    is: Value,
) -> Row {
    Row {
        row,
        driver,
        id,
        context: &[],
        topologies: &[],
        topology: true,
        parameters: &[],
        arguments: &[],
        modes: &["ReadWriteOnce"],
        block: false,
        source,
        is,
        terms: Value::Null,
        labels: Value::Null,
        annotations: &[],
    }
}

fn within(expressions: &[(&str, &[&str])]) -> Value {
    let expressions: Vec<Value> = { expressions.iter() }
        .map(|(key, values)| json!({"key": key, "operator": "In", "values": values}))
        .collect();
    json!({ "matchExpressions": expressions })
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "rows of a table")]
async fn m_39_to_50_and_52_what_is_saved_of_each_plugin() {
    const AWS: &str = "awsElasticBlockStore";
    const DISK: &str = "gcePersistentDisk";
    let ebs = |name, is| row(name, EBS, "vol-1", AWS, is);
    let zonal = "projects/p/zones/us-east1-a/disks/d";
    let a1: &[&str] = &["us-east-1a"];
    let region: &[&str] = &["us-east-1"];
    let rows = [
        Row {
            topologies: &[&[(E, "us-east-1a")]],
            parameters: &[("fsType", "xfs")],
            terms: json!([within(&[(Z, a1), (R, region)])]),
            labels: json!({Z: "us-east-1a", R: "us-east-1"}),
            ..ebs("M-39", json!({"volumeID": "vol-1", "fsType": "xfs"}))
        },
        Row {
            topologies: &[&[(E, "us-east-1a"), (Z, "us-east-1a")]],
            terms: json!([within(&[(Z, a1), (Z, a1), (R, region)])]),
            labels: json!({Z: "us-east-1a", R: "us-east-1"}),
            ..ebs("M-40", json!({"volumeID": "vol-1"}))
        },
        Row {
            topologies: &[&[(E, "us-east-1a")]],
            topology: false,
            ..ebs("M-41", json!({"volumeID": "vol-1"}))
        },
        Row {
            topologies: &[&[(G, "us-east1-a")]],
            terms: json!([within(&[(Z, &["us-east1-a"]), (R, &["us-east1"])])]),
            labels: json!({Z: "us-east1-a", R: "us-east1"}),
            ..row("M-42", GCE, zonal, DISK, json!({"pdName": "d"}))
        },
        Row {
            topologies: &[&[(G, "us-east1-b")], &[(G, "us-east1-a")]],
            terms: json!([
                within(&[(Z, &["us-east1-b"]), (R, &["us-east1"])]),
                within(&[(Z, &["us-east1-a"]), (R, &["us-east1"])]),
            ]),
            labels: json!({Z: "us-east1-a__us-east1-b", R: "us-east1"}),
            ..row(
                "M-43",
                GCE,
                "projects/p/regions/us-east1/disks/d",
                DISK,
                json!({"pdName": "d"}),
            )
        },
        Row {
            topologies: &[&[(C, "nova")]],
            terms: json!([within(&[(Z, &["nova"])])]),
            labels: json!({Z: "nova"}),
            ..row("M-44", CINDER, "u", "cinder", json!({"volumeID": "u"}))
        },
        Row {
            context: &[("cachingMode", "ReadOnly")],
            topologies: &[&[(D, "")]],
            terms: json!([within(&[(D, &[""])])]),
            ..row(
                "M-45",
                AZURE_DISK,
                URI,
                "azureDisk",
                json!({
                    "diskName": "n", "diskURI": URI, "cachingMode": "ReadOnly", "fsType": "",
                    "kind": "Managed", "readOnly": false,
                }),
            )
        },
        Row {
            context: &[("shareName", "sh")],
            annotations: &[("kubernetes.io/azure-file-resource-group", "rg")],
            ..row(
                "M-46",
                AZURE_FILE,
                "rg#acc#sh#uuid",
                "azureFile",
                json!({
                    "shareName": "sh", "secretName": "azure-storage-account-acc-secret",
                    "secretNamespace": "default",
                }),
            )
        },
        Row {
            context: &[("initialvolumefilepath", "[ds] a.vmdk")],
            topologies: &[&[(VZ, "z1"), (VR, "r1")]],
            terms: json!([within(&[(R, &["r1"]), (Z, &["z1"])])]),
            labels: json!({Z: "z1", R: "r1"}),
            ..row(
                "M-47",
                VSPHERE,
                "uuid",
                "vsphereVolume",
                json!({"volumePath": "[ds] a.vmdk"}),
            )
        },
        row(
            "M-48",
            PORTWORX,
            "1",
            "portworxVolume",
            json!({"volumeID": "1"}),
        ),
        Row {
            modes: &["ReadWriteMany"],
            ..row("M-49", GCE, zonal, DISK, json!({"pdName": "d"}))
        },
        Row {
            block: true,
            parameters: &[("fsType", "xfs")],
            ..ebs("M-50", json!({"volumeID": "vol-1"}))
        },
        Row {
            modes: &["ReadOnlyMany"],
            arguments: &["--controller-publish-readonly"],
            ..ebs("M-52", json!({"volumeID": "vol-1", "readOnly": true}))
        },
        Row {
            context: &[("initialvolumefilepath", "[ds] a.vmdk")],
            modes: &["ReadOnlyMany"],
            arguments: &["--controller-publish-readonly"],
            ..row(
                "M-52",
                VSPHERE,
                "uuid",
                "vsphereVolume",
                json!({"volumePath": "[ds] a.vmdk"}),
            )
        },
    ];
    together(rows, saved).await;
}

async fn cluster(row: &Row) -> Stage {
    let stage = with_class(row.driver, row.parameters).await;
    if row.topology {
        let service = PluginService::VolumeAccessibilityConstraints;
        stage.driver.configure(|model| model.services.push(service));
    }
    let answer = answer(row.id, row.context, row.topologies);
    stage
        .driver
        .fault(CallFault::on("CreateVolume").answer(answer));
    stage
}

async fn saved(row: Row) {
    let stage = cluster(&row).await;
    // The request has no topology: there are no nodes.
    let mut arguments = vec!["--immediate-topology=false"];
    arguments.extend(row.arguments);
    let program = stage.start(&arguments);
    program.logs(READY).await;
    let claim = build::claim("ns1/c1")
        .class("sc1")
        .uid(U)
        .with("/spec/accessModes", json!(row.modes));
    let claim = claim.annotation(super::ANNOTATION, row.driver);
    stage.api.insert(if row.block {
        claim.with("/spec/volumeMode", "Block")
    } else {
        claim
    });
    stage.until_volume(PV).await;
    let posts = stage.api.requests_to("POST", "*/persistentvolumes");
    let volume = posts[0].body.clone();
    let mut annotations = json!({
        "pv.kubernetes.io/provisioned-by": plugin(row.driver),
        "volume.kubernetes.io/provisioner-deletion-secret-name": "",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
    });
    for (key, value) in row.annotations {
        annotations[key] = (*value).into();
    }
    let mut metadata = json!({"name": PV, "annotations": annotations, "finalizers": [FINALIZER]});
    if !row.labels.is_null() {
        metadata["labels"] = row.labels;
    }
    assert_eq!(volume["metadata"], metadata, "{}", row.row);
    let claim = &volume["spec"]["claimRef"];
    let mut spec = json!({
        row.source: row.is,
        "accessModes": row.modes,
        "capacity": {"storage": "1Gi"},
        "claimRef": claim,
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "sc1",
    });
    if row.block {
        spec["volumeMode"] = "Block".into();
    }
    if !row.terms.is_null() {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": row.terms}});
    }
    assert_eq!(claim["uid"], U, "{}", row.row);
    let mut given = volume["spec"].clone();
    if given["volumeMode"] == "Filesystem" {
        given.as_object_mut().unwrap().remove("volumeMode");
    }
    assert_eq!(given, spec, "{}", row.row);
}

#[tokio::test]
async fn m_51_a_volume_that_is_kept_loses_our_finalizer() {
    let stage = with_class(EBS, &[]).await;
    stage.api.edit("storageclasses", "sc1", |class| {
        class["reclaimPolicy"] = "Retain".into()
    });
    let _program = stage.start(&[]);
    stage.api.insert(claim_for(EBS));
    stage.until_volume(PV).await;
    let posts = stage.api.requests_to("POST", "*/persistentvolumes");
    assert_eq!(finalizers(&posts[0].body), json!([FINALIZER]));
    // kube-controller-manager annotates that the volume was migrated to the driver.
    stage.api.edit("persistentvolumes", PV, |volume| {
        volume["metadata"]["annotations"][super::MIGRATED] = EBS.into();
    });
    stage
        .until("no finalizer", |stage| {
            finalizers(&stage.volume(PV)) == json!([])
        })
        .await;
    assert_ne!(
        stage.volume(PV)["spec"]["awsElasticBlockStore"],
        Value::Null
    );
}
