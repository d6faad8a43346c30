//! Rows M-21 to M-38: the CreateVolume request for a class of the plugin.

use std::collections::BTreeMap;

use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::{CreateVolumeRequest, Topology};
use serde_json::{Value, json};
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::PluginService;

use super::super::stage::{PV, READY, Stage, settle, together};
use super::{
    AZURE_DISK, AZURE_FILE, CINDER, EBS, GCE, PORTWORX, Segments, VSPHERE, claim_for, intents,
    with_class,
};

const SELECTED: &str = "volume.kubernetes.io/selected-node";
const ZONE: &str = "topology.kubernetes.io/zone";
const E: &str = "topology.ebs.csi.aws.com/zone";
const G: &str = "topology.gke.io/zone";
const C: &str = "topology.cinder.csi.openstack.org/zone";
const D: &str = "topology.disk.csi.azure.com/zone";
const A1: &str = "us-east-1a";
const B1: &str = "us-east-1b";

/// Class, nodes and flags of a case, and the expected request.
#[derive(Clone, Copy, Default)]
struct Case {
    row: &'static str,
    driver: &'static str,
    parameters: Segments<'static>,
    /// Zones in `allowedTopologies`.
    zones: &'static [&'static str],
    /// The driver's key, and the values of two nodes: `n0` and `n1`.
    nodes: Option<(&'static str, [&'static str; 2])>,
    selected: Option<&'static str>,
    arguments: &'static [&'static str],
    /// Name and namespace of the existing Secret.
    secret: Option<(&'static str, &'static str)>,
    expected: Expected,
}

#[derive(Clone, Copy)]
enum Expected {
    Request {
        parameters: Segments<'static>,
        fs_type: &'static str,
        requisite: &'static [&'static str],
        first: &'static str,
        secret: bool,
    },
    /// No call is made; text of the event.
    Refused(&'static str),
}

impl Default for Expected {
    fn default() -> Self {
        sent(&[])
    }
}

const fn sent(parameters: Segments<'static>) -> Expected {
    placed(parameters, "", &[], "")
}

const fn placed(
    parameters: Segments<'static>,
    fs_type: &'static str,
    requisite: &'static [&'static str],
    first: &'static str,
) -> Expected {
    Expected::Request {
        parameters,
        fs_type,
        requisite,
        first,
        secret: false,
    }
}

const NODES: Option<(&str, [&str; 2])> = Some((E, [A1, B1]));

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "rows of a table")]
async fn m_21_to_27_what_is_asked_of_ebs() {
    let ebs = |row| Case {
        row,
        driver: EBS,
        ..Case::default()
    };
    const BOTH: Segments<'static> = &[
        ("type", "gp3"),
        ("fsType", "xfs"),
        ("zones", "us-east-1a,us-east-1b"),
    ];
    const BLANK: Segments<'static> = &[("zones", "us-east-1a, us-east-1b")];
    const TYPE: Segments<'static> = &[("type", "gp3")];
    let rows = [
        Case {
            parameters: BOTH,
            nodes: NODES,
            expected: placed(TYPE, "xfs", &[A1, B1], ""),
            ..ebs("M-21")
        },
        Case {
            parameters: BOTH,
            nodes: NODES,
            selected: Some("n1"),
            expected: placed(TYPE, "xfs", &[A1, B1], B1),
            ..ebs("M-22")
        },
        Case {
            parameters: BLANK,
            nodes: NODES,
            selected: Some("n1"),
            expected: placed(&[], "", &[A1, B1], B1),
            ..ebs("M-23")
        },
        Case {
            zones: &[A1],
            nodes: NODES,
            selected: Some("n0"),
            arguments: &["--strict-topology"],
            expected: placed(&[], "", &[A1], A1),
            ..ebs("M-24")
        },
        Case {
            zones: &[A1],
            nodes: NODES,
            selected: Some("n1"),
            arguments: &["--strict-topology"],
            expected: Expected::Refused("error generating accessibility requirements"),
            ..ebs("M-24 elsewhere")
        },
        Case {
            parameters: BLANK,
            zones: &[A1],
            nodes: NODES,
            expected: Expected::Refused(
                "failed to translate storage class: cannot simultaneously set allowed topologies and \
                 zone/zones parameters",
            ),
            ..ebs("M-25")
        },
        Case {
            parameters: &[("iopsPerGB", "10"), ("type", "io1")],
            expected: sent(&[
                ("allowautoiopspergbincrease", "true"),
                ("iopsPerGB", "10"),
                ("type", "io1"),
            ]),
            ..ebs("M-26")
        },
        Case {
            parameters: &[("fsType", "xfs"), ("csi.storage.k8s.io/fstype", "ext4")],
            expected: placed(&[], "xfs", &[], ""),
            ..ebs("M-27")
        },
    ];
    together(rows, ask).await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "rows of a table")]
async fn m_28_to_38_what_is_asked_of_the_others() {
    let of = |row, driver| Case {
        row,
        driver,
        ..Case::default()
    };
    const FOO: Segments<'static> = &[("csi.storage.k8s.io/foo", "x")];
    const NAME: (&str, &str) = ("openstorage.io/auth-secret-name", "s");
    const NAMESPACE: &str = "openstorage.io/auth-secret-namespace";
    const SECRET: Segments<'static> = &[NAME, (NAMESPACE, "ns")];
    const TEMPLATE: Segments<'static> = &[NAME, (NAMESPACE, "${pvc.namespace}")];
    const HALF: Segments<'static> = &[NAME];
    const METADATA: Segments<'static> = &[
        ("csi.storage.k8s.io/pv/name", PV),
        ("csi.storage.k8s.io/pvc/name", "c1"),
        ("csi.storage.k8s.io/pvc/namespace", "ns1"),
        ("csimigration", "true"),
    ];
    let with_secret = Expected::Request {
        parameters: &[],
        fs_type: "",
        requisite: &[],
        first: "",
        secret: true,
    };
    let rows = [
        Case {
            parameters: &[("fsType", "xfs")],
            expected: placed(&[("fsType", "xfs")], "xfs", &[], ""),
            ..of("M-28", AZURE_DISK)
        },
        Case {
            parameters: &[("fsType", "xfs"), ("csi.storage.k8s.io/fstype", "xfs")],
            expected: Expected::Refused("names the file system under several keys"),
            ..of("M-28 twice", AZURE_DISK)
        },
        Case {
            zones: &["0"],
            nodes: Some((D, ["", ""])),
            expected: placed(&[], "", &[""], ""),
            ..of("M-29", AZURE_DISK)
        },
        Case {
            parameters: &[("zones", "0")],
            nodes: Some((D, ["", ""])),
            expected: placed(&[], "", &[""], ""),
            ..of("row 288", AZURE_DISK)
        },
        Case {
            parameters: &[("secretNamespace", "x"), ("skuName", "y")],
            expected: sent(&[("secretNamespace", "x"), ("skuName", "y")]),
            ..of("M-30", AZURE_FILE)
        },
        Case {
            parameters: &[("datastore", "d"), ("foo", "x")],
            expected: sent(&[("csimigration", "true"), ("datastore-migrationparam", "d")]),
            ..of("M-31", VSPHERE)
        },
        Case {
            parameters: FOO,
            expected: sent(&[("csimigration", "true")]),
            ..of("M-32", VSPHERE)
        },
        Case {
            parameters: FOO,
            expected: Expected::Refused("unknown parameter"),
            ..of("M-32", EBS)
        },
        Case {
            parameters: &[("availability", "nova")],
            zones: &["nova"],
            nodes: Some((C, ["nova", "nova"])),
            expected: placed(&[("availability", "nova")], "", &["nova"], "nova"),
            ..of("M-33", CINDER)
        },
        Case {
            parameters: SECRET,
            secret: Some(("s", "ns")),
            expected: with_secret,
            ..of("M-34", PORTWORX)
        },
        Case {
            parameters: TEMPLATE,
            secret: Some(("s", "ns1")),
            expected: with_secret,
            ..of("M-35", PORTWORX)
        },
        Case {
            parameters: HALF,
            expected: Expected::Refused("secret"),
            ..of("M-36", PORTWORX)
        },
        Case {
            parameters: &[
                ("replication-type", "regional-pd"),
                ("zones", "us-east1-a,us-east1-b"),
            ],
            nodes: Some((G, ["us-east1-a", "us-east1-b"])),
            expected: placed(
                &[("replication-type", "regional-pd")],
                "",
                &["us-east1-a", "us-east1-b"],
                "",
            ),
            ..of("M-37", GCE)
        },
        Case {
            arguments: &["--extra-create-metadata"],
            expected: sent(METADATA),
            ..of("M-38", VSPHERE)
        },
    ];
    together(rows, ask).await;
}

async fn cluster(case: Case) -> Stage {
    let stage = with_class(case.driver, case.parameters).await;
    if !case.zones.is_empty() {
        let terms = json!([{"matchLabelExpressions": [{"key": ZONE, "values": case.zones}]}]);
        stage.api.edit("storageclasses", "sc1", |class| {
            class["allowedTopologies"] = terms
        });
    }
    if let Some((key, values)) = case.nodes {
        let service = PluginService::VolumeAccessibilityConstraints;
        stage.driver.configure(|model| model.services.push(service));
        for (name, value) in ["n0", "n1"].into_iter().zip(values) {
            stage.api.insert(build::node(name).label(key, value));
            let node = build::csinode(name).driver(case.driver, name);
            stage.api.insert(node.topology(&[key]));
        }
    }
    if let Some((name, namespace)) = case.secret {
        let secret = build::secret(&format!("{namespace}/{name}"));
        stage.api.insert(secret.entry("k", "dg=="));
    }
    stage
}

async fn ask(case: Case) {
    let row = case.row;
    let stage = cluster(case).await;
    let mut arguments = vec!["--retry-interval-start=300ms"];
    arguments.extend(case.arguments);
    let program = stage.start(&arguments);
    program.logs(READY).await;
    let claim = claim_for(case.driver);
    stage.api.insert(match case.selected {
        None => claim,
        Some(node) => claim.annotation(SELECTED, node),
    });
    match case.expected {
        Expected::Refused(text) => {
            // Events with the same text are counted.
            let retried = |stage: &Stage| {
                let events = stage.api.objects("events");
                let mut failed = events
                    .iter()
                    .filter(|event| event["reason"] == "ProvisioningFailed");
                failed.any(|event| event["count"].as_u64().unwrap_or_default() >= 2)
            };
            stage.until(row, retried).await;
            let event = &stage.events("ProvisioningFailed")[0];
            assert!(event.contains(text), "{row}: {event}");
            settle().await;
            assert_eq!(stage.calls("CreateVolume"), 0, "{row}");
            assert_eq!(intents(&stage, case.driver), [""; 0], "{row}");
        }
        Expected::Request { .. } => {
            stage.until_calls("CreateVolume", 1).await;
            let key = case.nodes.map_or("", |(key, _)| key);
            compare(row, &stage.creations()[0], key, case.expected);
        }
    }
    if let (Some((name, namespace)), Expected::Request { .. }) = (case.secret, case.expected) {
        stage.until_volume(PV).await;
        let annotations = &stage.volume(PV)["metadata"]["annotations"];
        let prefix = "volume.kubernetes.io/provisioner-deletion-secret";
        assert_eq!(annotations[format!("{prefix}-name")], name, "{row}");
        assert_eq!(
            annotations[format!("{prefix}-namespace")],
            namespace,
            "{row}"
        );
    }
}

fn compare(row: &str, request: &CreateVolumeRequest, key: &str, expected: Expected) {
    let Expected::Request {
        parameters,
        fs_type,
        requisite,
        first,
        secret,
    } = expected
    else {
        panic!("{row}")
    };
    let parameters: BTreeMap<&str, &str> = parameters.iter().copied().collect();
    let sent = request.parameters.iter();
    let sent: BTreeMap<&str, &str> = sent.map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(sent, parameters, "{row}");
    let capability = request.volume_capabilities[0].access_type.as_ref();
    let Some(AccessType::Mount(mount)) = capability else {
        panic!("{row}: {capability:?}")
    };
    assert_eq!(mount.fs_type, fs_type, "{row}");
    let secrets: Value = json!(request.secrets);
    assert_eq!(secrets == json!({"k": "v"}), secret, "{row}: {secrets}");
    let requirement = request
        .accessibility_requirements
        .clone()
        .unwrap_or_default();
    let zones = |topologies: &[Topology]| -> Vec<String> {
        let topologies = topologies.iter();
        topologies
            .map(|topology| {
                assert_eq!(topology.segments.len(), 1, "{row}: {topology:?}");
                topology.segments[key].clone()
            })
            .collect()
    };
    assert_eq!(zones(&requirement.requisite), requisite, "{row}");
    if !first.is_empty() {
        assert_eq!(zones(&requirement.preferred)[0], first, "{row}");
    }
}
