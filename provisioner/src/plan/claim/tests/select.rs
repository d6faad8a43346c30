//! Rows 32 to 49: which claims are provisioned, and when.

use super::*;
use crate::keys::{
    ALPHA_SELECTED_NODE, BETA_STORAGE_CLASS, BETA_STORAGE_PROVISIONER, MIGRATED_TO, SELECTED_NODE,
    STORAGE_PROVISIONER,
};
use crate::model::BindingMode;

/// Change of the fixture, and the end of the attempt: `create`, or its last line.
type Row = (&'static str, fn(&mut World), &'static str);

fn check(rows: &[Row]) {
    for (row, change, expected) in rows {
        let mut world = World::new(change);
        let trace = world.run();
        if *expected == "create" {
            assert!(
                trace.iter().any(|line| line.starts_with("create ")),
                "{row}: {trace:#?}"
            );
            assert_eq!(trace.last().unwrap(), "done Provisioned", "{row}");
        } else {
            assert_eq!(trace.last().unwrap(), expected, "{row}: {trace:#?}");
            assert!(
                !trace.iter().any(|line| line.starts_with("create ")),
                "{row}: {trace:#?}"
            );
        }
    }
}

const SILENT: &str = "done NotOurs";

#[test]
fn row_32_the_plain_case() {
    let mut world = World::default();
    assert_eq!(world.run(), provisioned(&[CREATE]));
    assert_eq!(world.saved["metadata"]["name"], format!("pvc-{U}"));
    assert!(
        world.claim.finalizers.is_empty(),
        "row 294: no write but the volume"
    );
}

#[test]
fn rows_33_to_36_whose_claim_it_is() {
    check(&[
        (
            "33",
            |w| w.claim.annotations = pairs(&[(BETA_STORAGE_PROVISIONER, "test-driver")]),
            "create",
        ),
        (
            "34",
            |w| {
                w.annotate(&[
                    (STORAGE_PROVISIONER, "other"),
                    (BETA_STORAGE_PROVISIONER, "test-driver"),
                ])
            },
            SILENT,
        ),
        ("35", |w| w.claim.annotations = Pairs::default(), SILENT),
        ("36", |w| w.claim.volume = "pv".into(), SILENT),
        (
            "36 although the volume exists",
            |w| {
                w.claim.volume = "pv".into();
                w.volumes = vec![format!("pvc-{U}")];
            },
            SILENT,
        ),
        (
            "migrated-to alone",
            |w| w.annotate(&[(STORAGE_PROVISIONER, "x"), (MIGRATED_TO, "test-driver")]),
            SILENT,
        ),
        ("gone", |w| w.gone = true, SILENT),
    ]);
}

#[test]
fn rows_35_36_39_40_nothing_at_all_is_done() {
    let changes: [fn(&mut World); 3] = [
        |w| w.claim.annotations = Pairs::default(),
        |w| w.claim.volume = "pv".into(),
        |w| w.classes[0].binding_mode = BindingMode::WaitForFirstConsumer,
    ];
    for change in changes {
        assert_eq!(World::new(change).run(), [SILENT]);
    }
}

#[test]
fn rows_37_38_43_classes() {
    check(&[
        (
            "37",
            |w| w.classes.clear(),
            "fail Finished storageclass.storage.k8s.io \"sc1\" not found",
        ),
        (
            "38",
            |w| w.classes[0].provisioner = "other".into(),
            "done Stopped",
        ),
        (
            "no class name",
            |w| w.claim.class = None,
            "fail Finished storageclass.storage.k8s.io \"\" not found",
        ),
    ]);
    let mut world = World::new(|w| {
        w.annotate(&[(BETA_STORAGE_CLASS, "sc2")]);
        w.classes.push(Class {
            name: "sc2".into(),
            ..class()
        });
    });
    world.run();
    assert_eq!(world.saved["spec"]["storageClassName"], "sc2", "row 43");
    let failure = Failure::NoClass("sc1".into());
    assert_eq!(
        failure.cure("sc1"),
        Some(RequeueTrigger::Class("sc1".into())),
        "row 37: within a second"
    );
    assert!(
        !failure.may_pass(),
        "row 37: an event, better than upstream"
    );
    let other = World::new(|w| w.classes[0].provisioner = "other".into()).run();
    assert_eq!(other, ["done Stopped"], "row 38: no event");
}

#[test]
fn rows_39_to_42_and_49_binding_modes() {
    fn wait(w: &mut World) {
        w.classes[0].binding_mode = BindingMode::WaitForFirstConsumer;
    }
    check(&[
        ("39", wait, SILENT),
        (
            "40",
            |w| {
                wait(w);
                w.annotate(&[(SELECTED_NODE, "")]);
            },
            SILENT,
        ),
        (
            "41",
            |w| {
                wait(w);
                w.annotate(&[(SELECTED_NODE, "n1")]);
            },
            "create",
        ),
        (
            "42",
            |w| w.classes[0].binding_mode = BindingMode::Unset,
            "create",
        ),
    ]);
    // The node is missing from the cluster: the error shows that it counts.
    let trace = World::new(|w| {
        w.driver.abilities.topology = true;
        w.annotate(&[(ALPHA_SELECTED_NODE, "n1")]);
    })
    .run();
    assert!(
        trace.last().unwrap().contains("CSINode \"n1\""),
        "row 49: {trace:#?}"
    );
}

#[test]
fn rows_44_45_282_and_284_in_tree_plugins() {
    fn migrated(w: &mut World) {
        w.driver.name = "ebs.csi.aws.com".into();
        w.classes[0].provisioner = "kubernetes.io/aws-ebs".into();
    }
    check(&[
        (
            "44",
            |w| {
                migrated(w);
                w.annotate(&[
                    (STORAGE_PROVISIONER, "kubernetes.io/aws-ebs"),
                    (MIGRATED_TO, "ebs.csi.aws.com"),
                ]);
            },
            "create",
        ),
        (
            "282",
            |w| {
                migrated(w);
                w.annotate(&[(STORAGE_PROVISIONER, "ebs.csi.aws.com")]);
            },
            "create",
        ),
        (
            "284",
            |w| {
                migrated(w);
                w.classes[0].provisioner = "ebs.csi.aws.com".into();
                w.annotate(&[(STORAGE_PROVISIONER, "ebs.csi.aws.com")]);
            },
            "create",
        ),
        (
            "45 absent",
            |w| {
                migrated(w);
                w.annotate(&[(STORAGE_PROVISIONER, "kubernetes.io/aws-ebs")]);
            },
            SILENT,
        ),
        (
            "45 other",
            |w| {
                migrated(w);
                w.annotate(&[
                    (STORAGE_PROVISIONER, "kubernetes.io/aws-ebs"),
                    (MIGRATED_TO, "x"),
                ]);
            },
            SILENT,
        ),
    ]);
}

#[test]
fn rows_46_to_48_volumes_that_exist_and_claims_that_go() {
    check(&[
        (
            "46",
            |w| w.volumes = vec![format!("pvc-{U}")],
            "done Exists",
        ),
        (
            "47 the real name counts",
            |w| {
                w.settings.volume_name_prefix = "p".into();
                w.volumes = vec![format!("p-{U}")];
            },
            "done Exists",
        ),
        (
            "47 and no other",
            |w| {
                w.settings.volume_name_prefix = "p".into();
                w.volumes = vec![format!("pvc-{U}")];
            },
            "create",
        ),
        ("48", |w| w.claim.deleting = true, "create"),
    ]);
    let mut world = World::new(|w| w.volumes = vec![format!("pvc-{U}")]);
    assert_eq!(world.run(), ["done Exists"], "row 46: no event");
}

#[test]
fn rows_268_to_271_node_deployment() {
    use crate::plan::settings::NodeDeployment;
    fn on_foo(w: &mut World) {
        w.settings.node = Some(NodeDeployment {
            name: "foo".into(),
            immediate_binding: true,
        });
    }
    check(&[
        (
            "267",
            |w| {
                on_foo(w);
                w.annotate(&[(SELECTED_NODE, "foo")]);
            },
            "create",
        ),
        (
            "268",
            |w| {
                on_foo(w);
                w.annotate(&[(SELECTED_NODE, "bar")]);
            },
            SILENT,
        ),
        (
            "269",
            |w| {
                on_foo(w);
                w.classes[0].binding_mode = BindingMode::WaitForFirstConsumer;
            },
            SILENT,
        ),
        ("270", on_foo, "done Contend"),
        (
            "271",
            |w| {
                on_foo(w);
                w.settings.node.as_mut().unwrap().immediate_binding = false;
            },
            SILENT,
        ),
        (
            "no class name",
            |w| {
                on_foo(w);
                w.claim.class = None;
                w.annotate(&[(BETA_STORAGE_CLASS, "sc1")]);
            },
            SILENT,
        ),
    ]);
}
