//! Rows 50 to 96 and 145 to 150: the CreateVolume request and the PersistentVolume.

use super::*;
use crate::model::{DataSource, Quantity, VolumeMode};

fn create(change: fn(&mut World)) -> (String, Value) {
    let mut world = World::new(change);
    let trace = world.run();
    assert_eq!(trace.last().unwrap(), "done Provisioned", "{trace:#?}");
    let create = trace
        .into_iter()
        .find(|line| line.starts_with("create "))
        .unwrap();
    (create, world.saved)
}

/// Change of the fixture, and the CreateVolume that follows.
type Row = (&'static str, fn(&mut World), &'static str);

#[test]
fn rows_50_to_64_fields_of_the_request() {
    let rows: &[Row] = &[
        ("50", |_| {}, CREATE),
        (
            "51",
            |w| {
                w.settings.volume_name_prefix = "p".into();
                w.settings.volume_name_uuid_length = 8;
            },
            "create p-11111111 1073741824 [mount( ) SINGLE_NODE_WRITER]",
        ),
        (
            "55",
            |w| w.claim.request = "1.5".parse().ok(),
            "create pvc-U 2 [mount( ) SINGLE_NODE_WRITER]",
        ),
        (
            "55 small",
            |w| w.claim.request = "100m".parse().ok(),
            "create pvc-U 1 [mount( ) SINGLE_NODE_WRITER]",
        ),
        (
            "57",
            |w| w.claim.access_modes = list(&["ReadOnlyMany", "ReadWriteOnce"]),
            "create pvc-U 1073741824 [mount( ) MULTI_NODE_READER_ONLY, mount( ) SINGLE_NODE_WRITER]",
        ),
        (
            "62",
            |w| w.claim.access_modes = list(&[]),
            "create pvc-U 1073741824 []",
        ),
        (
            "63",
            |w| {
                w.claim.mode = Some(VolumeMode::Block);
                w.parameters(&[("csi.storage.k8s.io/fstype", "xfs")]);
                w.classes[0].mount_options = list(&["a=b"]);
            },
            "create pvc-U 1073741824 [block SINGLE_NODE_WRITER]",
        ),
        (
            "64",
            |w| w.classes[0].mount_options = list(&["a=b", "c=d"]),
            "create pvc-U 1073741824 [mount( a=b,c=d) SINGLE_NODE_WRITER]",
        ),
        (
            "65",
            |w| w.parameters(&[("fstype", "ext3")]),
            "create pvc-U 1073741824 [mount(ext3 ) SINGLE_NODE_WRITER] parameters {\"fstype\": \"ext3\"}",
        ),
        (
            "68",
            |w| w.settings.default_fs_type = "ext4".into(),
            "create pvc-U 1073741824 [mount(ext4 ) SINGLE_NODE_WRITER]",
        ),
        (
            "75",
            |w| {
                w.settings.extra_create_metadata = true;
                w.settings.volume_name_uuid_length = 4;
            },
            "create pvc-1111 1073741824 [mount( ) SINGLE_NODE_WRITER] parameters \
             {\"csi.storage.k8s.io/pv/name\": \"pvc-1111\", \"csi.storage.k8s.io/pvc/name\": \"c1\", \
             \"csi.storage.k8s.io/pvc/namespace\": \"ns1\"}",
        ),
    ];
    for (row, change, expected) in rows {
        assert_eq!(create(*change).0, *expected, "{row}");
    }
}

#[test]
fn rows_63_64_68_70_what_the_volume_says() {
    let (_, block) = create(|w| {
        w.claim.mode = Some(VolumeMode::Block);
        w.parameters(&[("csi.storage.k8s.io/fstype", "xfs")]);
        w.classes[0].mount_options = list(&["a=b"]);
    });
    assert_eq!(block["spec"]["volumeMode"], "Block", "63");
    assert_eq!(block["spec"]["csi"]["fsType"], Value::Null, "63");
    assert_eq!(
        block["spec"]["mountOptions"],
        serde_json::json!(["a=b"]),
        "63"
    );
    let (_, named) = create(|w| w.settings.default_fs_type = "ext4".into());
    assert_eq!(named["spec"]["csi"]["fsType"], "ext4", "68");
    let (_, plain) = create(|_| {});
    assert_eq!(plain["spec"]["csi"]["fsType"], Value::Null, "70");
    assert_eq!(
        plain["spec"]["claimRef"]["resourceVersion"], "7",
        "section 9.2"
    );
    assert_eq!(plain["spec"]["csi"]["volumeHandle"], "vol-1", "section 9.2");
}

/// Change of the fixture, and the text of the failure.
type Refusal = (&'static str, fn(&mut World), &'static str);

fn refuse(rows: &[Refusal]) {
    for (row, change, expected) in rows {
        let mut world = World::new(change);
        let trace = world.run();
        let last = trace.last().unwrap();
        let (effect, text) = expected.split_once(' ').unwrap();
        assert!(
            last.starts_with(&format!("fail {effect} ")),
            "{row}: {trace:#?}"
        );
        assert!(last.contains(text), "{row}: {last}");
        let writes = ["create", "protect", "unselect", "save"];
        let wrote = trace
            .iter()
            .any(|line| writes.iter().any(|word| line.starts_with(word)));
        assert!(!wrote, "{row}: {trace:#?}");
    }
}

#[test]
fn rows_54_61_67_71_76_77_refusals_without_a_call() {
    refuse(&[
        (
            "54",
            |w| w.settings.volume_name_prefix.clear(),
            "Finished --volume-name-prefix",
        ),
        ("54 uid", |w| w.claim.uid = "".into(), "Finished UID"),
        (
            "61",
            |w| w.claim.access_modes = list(&["Bogus"]),
            "Finished \"Bogus\"",
        ),
        (
            "67",
            |w| w.parameters(&[("fstype", "a"), ("csi.storage.k8s.io/fstype", "a")]),
            "Finished fstype, csi.storage.k8s.io/fstype",
        ),
        (
            "71",
            |w| w.parameters(&[("csi.storage.k8s.io/bim", "x")]),
            "Finished csi.storage.k8s.io/bim",
        ),
        ("76", |w| w.claim.selector = true, "Finished spec.selector"),
        (
            "77",
            |w| w.driver.abilities.create_delete = false,
            "Finished CREATE_DELETE_VOLUME",
        ),
        (
            "77 service",
            |w| w.driver.abilities.controller = false,
            "Finished CONTROLLER_SERVICE",
        ),
        (
            "1.2: upstream crashes",
            |w| w.settings.volume_name_uuid_length = 33,
            "Finished --volume-name-uuid-length=33",
        ),
        (
            "75: the class has the key itself",
            |w| {
                w.settings.extra_create_metadata = true;
                w.parameters(&[("csi.storage.k8s.io/pvc/name", "x")]);
            },
            "Finished csi.storage.k8s.io/pvc/name",
        ),
    ]);
}

/// Section 5.1: the first condition that does not hold is the one in the event.
#[test]
fn the_order_of_conditions() {
    fn everything(w: &mut World) {
        w.claim.data_source = Some(DataSource {
            kind: "PersistentVolumeClaim".into(),
            ..DataSource::default()
        });
        w.driver.abilities.controller = false;
        w.claim.selector = true;
        w.settings.volume_name_prefix.clear();
        w.parameters(&[
            ("fstype", "a"),
            ("FSTYPE", "b"),
            ("csi.storage.k8s.io/secret-name", "x"),
            ("csi.storage.k8s.io/bim", "x"),
        ]);
        w.claim.access_modes = list(&["Bogus"]);
        w.driver.abilities.topology = true;
        w.claim.attributes_class = Some("vac".into());
    }
    type Fix = (&'static str, fn(&mut World));
    let fixes: &[Fix] = &[
        ("6 has no name", |w| w.claim.data_source = None),
        ("8 CONTROLLER_SERVICE", |w| {
            w.driver.abilities.controller = true
        }),
        ("8 MODIFY_VOLUME", |w| w.driver.abilities.modify = true),
        ("9 spec.selector", |w| w.claim.selector = false),
        ("10 prefix", |w| {
            w.settings.volume_name_prefix = "pvc".into()
        }),
        ("11 several keys", |w| {
            w.parameters(&[
                ("csi.storage.k8s.io/secret-name", "x"),
                ("csi.storage.k8s.io/bim", "x"),
            ]);
        }),
        ("12 Bogus", |w| w.claim.access_modes = list(&[])),
        ("15 topology", |w| w.driver.abilities.topology = false),
        ("16 but not", |w| {
            w.parameters(&[("csi.storage.k8s.io/bim", "x")])
        }),
        ("18 csi.storage.k8s.io/bim", |w| w.parameters(&[])),
        ("19 VolumeAttributesClass vac", |w| {
            w.claim.attributes_class = None
        }),
    ];
    let mut world = World::new(everything);
    for (expected, fix) in fixes {
        let trace = world.run();
        let (number, text) = expected.split_once(' ').unwrap();
        assert!(
            trace.last().unwrap().contains(text),
            "condition {number}: {trace:#?}"
        );
        fix(&mut world);
    }
    assert_eq!(world.run().last().unwrap(), "done Provisioned");
}

#[test]
fn row_78_somebody_else_fills_the_volume() {
    let mut world = World::new(|w| {
        let kind = "MyPopulator".into();
        w.claim.data_source_ref = Some(DataSource {
            kind,
            name: "x".into(),
            ..DataSource::default()
        });
    });
    assert_eq!(world.run(), [ANNOUNCE, "event Populator", "done Stopped"]);
}

const NAME: &str = "csi.storage.k8s.io/provisioner-secret-name";
const NAMESPACE: &str = "csi.storage.k8s.io/provisioner-secret-namespace";

fn secret(w: &mut World, key: &str) {
    let values = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    w.secrets.insert(key.to_owned(), Some(values));
}

#[test]
fn rows_79_80_81_96_secrets_of_the_request_and_the_volume() {
    let mut world = World::new(|w| {
        w.parameters(&[(NAME, "sec"), (NAMESPACE, "ns2")]);
        secret(w, "ns2/sec");
    });
    let with = format!("{CREATE} secrets {{\"k\": \"v\"}}");
    assert_eq!(
        world.run(),
        provisioned(&["get-secret ns2/sec", &with]),
        "79"
    );
    let annotations = &world.saved["metadata"]["annotations"];
    assert_eq!(
        annotations["volume.kubernetes.io/provisioner-deletion-secret-name"], "sec",
        "79"
    );
    let (_, plain) = create(|_| {});
    let annotations = &plain["metadata"]["annotations"];
    assert_eq!(
        annotations["volume.kubernetes.io/provisioner-deletion-secret-name"], "",
        "80"
    );
    assert_eq!(
        annotations["volume.kubernetes.io/controller-modify-secret-name"],
        Value::Null,
        "80"
    );
    let mut world = World::new(|w| {
        w.parameters(&[
            ("csi.storage.k8s.io/secret-name", "${pvc.name}"),
            ("csi.storage.k8s.io/secret-namespace", "ns2"),
            ("csi.storage.k8s.io/node-publish-secret-name", "own"),
            ("csi.storage.k8s.io/node-publish-secret-namespace", "ns3"),
        ]);
        secret(w, "ns2/c1");
    });
    let trace = world.run();
    let loads = trace.iter().filter(|line| line.starts_with("get-secret"));
    assert_eq!(loads.count(), 1, "81: fetched once");
    let csi = &world.saved["spec"]["csi"];
    for field in [
        "controllerPublishSecretRef",
        "nodeStageSecretRef",
        "controllerExpandSecretRef",
        "nodeExpandSecretRef",
    ] {
        assert_eq!(csi[field]["name"], "c1", "81, 82 {field}");
    }
    assert_eq!(csi["nodePublishSecretRef"]["name"], "own", "83");
    let annotations = &world.saved["metadata"]["annotations"];
    assert_eq!(
        annotations["volume.kubernetes.io/controller-modify-secret-name"], "c1",
        "81, 96"
    );
}

#[test]
fn rows_84_88_to_91_secrets_that_are_not_there() {
    refuse(&[
        ("84", |w| w.parameters(&[(NAME, "sec")]), "NoChange but not"),
        (
            "88",
            |w| w.parameters(&[(NAME, "sec"), (NAMESPACE, "ns2")]),
            "NoChange error getting secret sec in namespace ns2",
        ),
        (
            "not text",
            |w| {
                w.parameters(&[(NAME, "sec"), (NAMESPACE, "ns2")]);
                w.secrets.insert("ns2/sec".into(), None);
            },
            "Finished not UTF-8",
        ),
        (
            "91",
            |w| w.parameters(&[(NAME, "${pvc.annotations['none']}"), (NAMESPACE, "ns2")]),
            "NoChange pvc.annotations['none']",
        ),
    ]);
    create(|w| {
        w.parameters(&[
            ("csi.storage.k8s.io/node-stage-secret-name", "missing"),
            ("csi.storage.k8s.io/node-stage-secret-namespace", "ns"),
        ]);
    });
    let mut world = World::new(|w| {
        w.parameters(&[(NAME, "${pvc.annotations['akey']}"), (NAMESPACE, "ns2")]);
        w.annotate(&[("akey", "avalue")]);
        secret(w, "ns2/avalue");
    });
    assert_eq!(world.run().last().unwrap(), "done Provisioned", "90");
}

fn attributes(w: &mut World) {
    w.driver.abilities.modify = true;
    w.claim.attributes_class = Some("vac".into());
    w.parameters(&[("p", "from-sc")]);
    w.attributes = vec![AttributesClass {
        name: "vac".into(),
        driver: "test-driver".into(),
        parameters: pairs(&[("p", "from-vac")]),
    }];
}

#[test]
fn rows_145_to_150_attributes_classes() {
    let plain = format!("{CREATE} parameters {{\"p\": \"from-sc\"}}");
    let (request, volume) = create(attributes);
    assert_eq!(
        request,
        format!("{plain} mutable {{\"p\": \"from-vac\"}}"),
        "145"
    );
    assert_eq!(volume["spec"]["volumeAttributesClassName"], "vac", "145");
    let (request, volume) = create(|w| {
        attributes(w);
        w.settings.gates.attributes_class = false;
        w.driver.abilities.modify = false;
    });
    assert_eq!(request, plain, "146, 26");
    assert_eq!(
        volume["spec"]["volumeAttributesClassName"],
        Value::Null,
        "146"
    );
    refuse(&[
        (
            "147",
            |w| {
                attributes(w);
                w.driver.abilities.modify = false;
            },
            "Finished MODIFY_VOLUME",
        ),
        (
            "148, 27",
            |w| {
                attributes(w);
                w.attributes.clear();
            },
            "NoChange VolumeAttributesClass vac",
        ),
        (
            "149",
            |w| {
                attributes(w);
                w.attributes[0].driver = "other".into();
            },
            "Finished belongs to driver other, not to this one",
        ),
    ]);
    let (request, _) = create(|w| {
        attributes(w);
        w.claim.attributes_class = Some("".into());
        w.driver.abilities.modify = false;
    });
    assert_eq!(request, plain, "150");
}

#[test]
fn row_56_a_request_rounds_up_and_limits_do_not_count() {
    let (request, volume) = create(|w| w.claim.request = Some(Quantity::from_bytes(5)));
    assert!(request.starts_with("create pvc-U 5 "), "{request}");
    assert_eq!(volume["spec"]["capacity"]["storage"], "1Gi");
}
