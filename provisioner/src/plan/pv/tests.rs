use csi_proto::csi::volume_content_source::{SnapshotSource, Type};
use csi_proto::csi::{Topology, VolumeContentSource};

use super::*;

const U: &str = "11111111-2222-3333-4444-555555555555";
const GI: i64 = 1 << 30;

fn text(text: &str) -> String {
    text.to_owned()
}

fn pv_template() -> PvTemplate {
    PvTemplate {
        claim: ForClaim {
            namespace: text("ns1"),
            name: text("c1"),
            uid: text(U),
            resource_version: text("7"),
        },
        provisioned_by: text("test-driver"),
        class: text("sc1"),
        reclaim_policy: Some(text("Delete")),
        access_modes: vec![text("ReadWriteOnce")],
        requested: GI,
        topology: true,
        ..PvTemplate::default()
    }
}

fn volume() -> Volume {
    Volume {
        volume_id: text("vol-1"),
        capacity_bytes: GI,
        ..Volume::default()
    }
}

fn answer(volume: Volume) -> CreateVolumeResponse {
    CreateVolumeResponse {
        volume: Some(volume),
    }
}

fn made(pv_template: &PvTemplate, volume: &Volume) -> Value {
    object(pv_template, &format!("pvc-{U}"), volume, "1-2-test-driver").unwrap()
}

fn topologies(topologies: &[&[(&str, &str)]]) -> Vec<Topology> {
    let topology = |segments: &&[(&str, &str)]| Topology {
        segments: segments
            .iter()
            .map(|(key, value)| (text(key), text(value)))
            .collect(),
    };
    topologies.iter().map(topology).collect()
}

#[test]
fn row_32_the_fixture_s_object_in_full() {
    let expected = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": format!("pvc-{U}"),
            "annotations": {
                "pv.kubernetes.io/provisioned-by": "test-driver",
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
        },
        "spec": {
            "capacity": { "storage": "1Gi" },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "sc1",
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": "ns1",
                "name": "c1",
                "uid": U,
                "resourceVersion": "7",
            },
            "csi": {
                "driver": "test-driver",
                "volumeHandle": "vol-1",
                "volumeAttributes": { "storage.kubernetes.io/csiProvisionerIdentity": "1-2-test-driver" },
            },
        },
    });
    assert_eq!(made(&pv_template(), &volume()), expected);
}

#[test]
fn answers_are_accepted_or_named() {
    let sized = |bytes| Volume {
        capacity_bytes: bytes,
        ..volume()
    };
    let filled = Volume {
        content_source: Some(VolumeContentSource {
            r#type: Some(Type::Snapshot(SnapshotSource {
                snapshot_id: text("sid"),
            })),
        }),
        ..volume()
    };
    let small = |has| Unusable::TooSmall {
        wanted: GI,
        has,
        id: text("vol-1"),
    };
    let bare = VolumeContentSource { r#type: None };
    let rows = [
        ("190", false, Some(sized(0)), Ok(GI)),
        ("191", false, Some(sized(GI - 1)), Err(small(GI - 1))),
        ("191 negative", false, Some(sized(-1)), Err(small(-1))),
        (
            "more than asked for",
            false,
            Some(sized(2 * GI)),
            Ok(2 * GI),
        ),
        (
            "112, 143",
            true,
            Some(volume()),
            Err(Unusable::NotFilled { id: text("vol-1") }),
        ),
        ("97", true, Some(filled.clone()), Ok(GI)),
        (
            "any source will do",
            true,
            Some(Volume {
                content_source: Some(bare),
                ..volume()
            }),
            Ok(GI),
        ),
        ("a source nobody asked for", false, Some(filled), Ok(GI)),
        ("9.1 without volume", false, None, Err(Unusable::NoVolume)),
        (
            "without id",
            false,
            Some(Volume::default()),
            Err(Unusable::NoId),
        ),
    ];
    for (row, sourced, volume, expected) in rows {
        let pv_template = PvTemplate {
            sourced,
            ..pv_template()
        };
        let accepted = accept(&pv_template, "pv", CreateVolumeResponse { volume });
        assert_eq!(
            accepted.map(|volume| volume.capacity_bytes),
            expected,
            "row {row}"
        );
    }
}

#[test]
fn rows_112_123_191_what_nobody_can_use_is_to_be_deleted() {
    let small = accept(
        &pv_template(),
        "pv",
        answer(Volume {
            capacity_bytes: 1,
            ..volume()
        }),
    )
    .unwrap_err();
    assert_eq!(small.discard(), Some("vol-1"));
    assert!(
        small
            .to_string()
            .contains("capacity 1 less than requested capacity 1073741824")
    );
    let sourced = PvTemplate {
        sourced: true,
        ..pv_template()
    };
    let empty = accept(&sourced, "pv", answer(volume())).unwrap_err();
    assert_eq!(empty.discard(), Some("vol-1"));
    assert_eq!(Unusable::NoVolume.discard(), None);
    assert_eq!(Unusable::NoId.discard(), None);
}

#[test]
fn row_193_capacity_is_exact() {
    let rows = [
        (5_970_004_541, "5970004541"),
        (5_905_580_032, "5632Mi"),
        (102_400, "100Ki"),
        (5_368_709_120, "5Gi"),
    ];
    for (bytes, expected) in rows {
        let volume = Volume {
            capacity_bytes: bytes,
            ..volume()
        };
        let object = made(&pv_template(), &volume);
        assert_eq!(object["spec"]["capacity"]["storage"], expected, "row 193");
    }
}

#[test]
fn rows_194_195_the_driver_s_context_is_kept_and_wins() {
    let attributes = |context: &[(&str, &str)]| {
        let volume_context = context
            .iter()
            .map(|(key, value)| (text(key), text(value)))
            .collect();
        let object = made(
            &pv_template(),
            &Volume {
                volume_context,
                ..volume()
            },
        );
        object["spec"]["csi"]["volumeAttributes"].clone()
    };
    assert_eq!(
        attributes(&[("a", "b")]),
        json!({ "a": "b", IDENTITY_ATTRIBUTE: "1-2-test-driver" }),
        "row 194"
    );
    let own = [(IDENTITY_ATTRIBUTE, "x")];
    assert_eq!(
        attributes(&own),
        json!({ IDENTITY_ATTRIBUTE: "x" }),
        "row 195"
    );
}

#[test]
fn rows_177_to_179_affinity_is_what_the_driver_says() {
    let term = |pairs: &[(&str, &str)]| {
        let expression = |(key, value): &(&str, &str)| json!({ "key": key, "operator": "In", "values": [value] });
        json!({ "matchExpressions": pairs.iter().map(expression).collect::<Vec<_>>() })
    };
    let required = |terms: Vec<Value>| json!({ "required": { "nodeSelectorTerms": terms } });
    let rows = [
        (
            "177",
            true,
            topologies(&[&[("zone", "z1")], &[("zone", "z2")]]),
            required(vec![term(&[("zone", "z1")]), term(&[("zone", "z2")])]),
        ),
        (
            "178",
            true,
            topologies(&[&[("zone", "z1"), ("rack", "r1")]]),
            required(vec![term(&[("rack", "r1"), ("zone", "z1")])]),
        ),
        ("179", true, Vec::new(), Value::Null),
        (
            "8.4 all segments empty",
            true,
            topologies(&[&[], &[]]),
            Value::Null,
        ),
        (
            "8.4 some segments empty",
            true,
            topologies(&[&[], &[("zone", "z1")]]),
            required(vec![term(&[("zone", "z1")])]),
        ),
        ("176", false, topologies(&[&[("zone", "z1")]]), Value::Null),
    ];
    for (row, topology, accessible_topology, expected) in rows {
        let pv_template = PvTemplate {
            topology,
            ..pv_template()
        };
        let object = made(
            &pv_template,
            &Volume {
                accessible_topology,
                ..volume()
            },
        );
        assert_eq!(object["spec"]["nodeAffinity"], expected, "row {row}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn optional_fields_are_absent_or_copied() {
    let secret = |name: &str| {
        Some(SecretName {
            name: text(name),
            namespace: text("ns"),
        })
    };
    let reference = |name: &str| json!({ "name": name, "namespace": "ns" });
    let full = made(
        &PvTemplate {
            reclaim_policy: Some(text("Retain")),
            mount_options: vec![text("a=b"), text("c=d")],
            volume_mode: Some(text("Block")),
            fs_type: text("ext4"),
            read_only: true,
            attributes_class: Some(text("gold")),
            secrets: SecretRefs {
                provisioner: secret("p"),
                controller_modify: secret("m"),
                controller_publish: secret("cp"),
                node_stage: secret("ns"),
                node_publish: secret("np"),
                controller_expand: secret("ce"),
                node_expand: secret("ne"),
            },
            ..pv_template()
        },
        &volume(),
    );
    let rows = [
        ("64", "/spec/mountOptions", json!(["a=b", "c=d"])),
        ("63", "/spec/volumeMode", json!("Block")),
        ("66", "/spec/csi/fsType", json!("ext4")),
        ("196", "/spec/csi/readOnly", json!(true)),
        (
            "198",
            "/spec/persistentVolumeReclaimPolicy",
            json!("Retain"),
        ),
        (
            "198 finalizer",
            "/metadata/finalizers",
            json!([VOLUME_FINALIZER]),
        ),
        ("145", "/spec/volumeAttributesClassName", json!("gold")),
        (
            "81 publish",
            "/spec/csi/controllerPublishSecretRef",
            reference("cp"),
        ),
        ("81 stage", "/spec/csi/nodeStageSecretRef", reference("ns")),
        (
            "81 node publish",
            "/spec/csi/nodePublishSecretRef",
            reference("np"),
        ),
        (
            "81 expand",
            "/spec/csi/controllerExpandSecretRef",
            reference("ce"),
        ),
        (
            "81 node expand",
            "/spec/csi/nodeExpandSecretRef",
            reference("ne"),
        ),
    ];
    let bare = made(
        &PvTemplate {
            reclaim_policy: None,
            ..pv_template()
        },
        &volume(),
    );
    for (row, path, expected) in rows {
        assert_eq!(full.pointer(path), Some(&expected), "row {row}");
        if path.starts_with("/spec") {
            assert_eq!(bare.pointer(path), None, "row {row}: absent");
        }
    }
    let annotation = |key: &str| full["metadata"]["annotations"][key].clone();
    assert_eq!(annotation(DELETION_SECRET_NAME), "p", "row 79");
    assert_eq!(annotation(DELETION_SECRET_NAMESPACE), "ns", "row 79");
    assert_eq!(annotation(MODIFY_SECRET_NAME), "m", "row 96");
    assert_eq!(annotation(MODIFY_SECRET_NAMESPACE), "ns", "row 96");
    assert_eq!(
        bare["metadata"]["annotations"].get(MODIFY_SECRET_NAME),
        None,
        "row 80"
    );
}

#[test]
fn a_pv_template_survives_a_restart() {
    let full = PvTemplate {
        mount_options: vec![text("a")],
        volume_mode: Some(text("Filesystem")),
        secrets: SecretRefs {
            provisioner: Some(SecretName {
                name: text("p"),
                namespace: text("ns"),
            }),
            ..SecretRefs::default()
        },
        ..pv_template()
    };
    for pv_template in [full, pv_template(), PvTemplate::default()] {
        let json = serde_json::to_string(&pv_template).unwrap();
        assert_eq!(
            serde_json::from_str::<PvTemplate>(&json).unwrap(),
            pv_template
        );
    }
}
