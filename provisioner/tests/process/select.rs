//! Rows 33 to 49: which claims are worked on, and when.

use serde_json::json;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::PluginService;
use sidecar_testkit::process::within;

use super::stage::{
    ANNOTATION, DRIVER, PATIENCE, PV, READY, Stage, claim, class, free_address, get, settle,
};

#[tokio::test]
async fn rows_33_to_42_which_claims_are_worked_on() {
    let stage = Stage::new().await;
    stage
        .api
        .insert(build::class("late").of(DRIVER).waiting_for_consumer());
    stage.api.insert(build::class("other").of("other-driver"));
    stage.api.insert(
        build::class("unset")
            .of(DRIVER)
            .with("/volumeBindingMode", json!(null)),
    );
    let beta = "volume.beta.kubernetes.io/storage-provisioner";
    let node = "volume.kubernetes.io/selected-node";
    let plain = |name: &str| {
        let claim = build::claim(&format!("ns1/{name}"))
            .mode("RWO")
            .class("sc1");
        claim.uid(&format!("uid-{name}"))
    };
    let ours = |name: &str| plain(name).annotation(ANNOTATION, DRIVER);
    let rows = [
        ("r33", plain("r33").annotation(beta, DRIVER), true),
        (
            "r34",
            plain("r34")
                .annotation(ANNOTATION, "x")
                .annotation(beta, DRIVER),
            false,
        ),
        ("r35", plain("r35"), false),
        ("r36", ours("r36").with("/spec/volumeName", "some"), false),
        ("r38", ours("r38").class("other"), false),
        ("r39", ours("r39").class("late"), false),
        ("r40", ours("r40").class("late").annotation(node, ""), false),
        (
            "r41",
            ours("r41").class("late").annotation(node, "n1"),
            true,
        ),
        ("r42", ours("r42").class("unset"), true),
    ];
    let program = stage.start(&[]);
    program.logs(READY).await;
    for (_, claim, _) in &rows {
        stage.api.insert(claim.clone());
    }
    for (name, _, provisioned) in &rows {
        if *provisioned {
            stage.until_volume(&format!("pvc-uid-{name}")).await;
        }
    }
    settle().await;
    for (name, _, provisioned) in &rows {
        let volume = stage.volume(&format!("pvc-uid-{name}"));
        assert_eq!(
            !volume.is_null(),
            *provisioned,
            "row {name}: {}",
            program.log()
        );
    }
    assert!(
        stage.events("ProvisioningFailed").is_empty(),
        "rows 34 to 40: silent"
    );
    assert_eq!(stage.calls("CreateVolume"), 3);
}

#[tokio::test]
async fn row_37_a_class_that_comes_later_is_used_at_once() {
    let stage = Stage::new().await;
    stage.api.remove("storageclasses", "sc1");
    // No retry is due within the test.
    let program = stage.start(&["--retry-interval-start=5m"]);
    program.logs(READY).await;
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    assert_eq!(stage.calls("CreateVolume"), 0);
    assert!(stage.events("ProvisioningFailed")[0].contains("sc1"));
    stage.api.insert(class());
    stage.until_volume(PV).await;
}

#[tokio::test]
async fn rows_38_and_46_what_stops_counts_as_failed() {
    let stage = Stage::new().await;
    stage
        .api
        .insert(build::volume(PV).csi(DRIVER, "vol-1").phase("Available"));
    stage.api.insert(build::class("other").of("other-driver"));
    let address = free_address();
    let program = stage.start(&[&format!("--http-endpoint={address}")]);
    program.logs(READY).await;
    stage.api.insert(claim());
    let of_another = claim().uid("u38").class("other");
    stage.api.insert(of_another.with("/metadata/name", "c38"));
    for (row, class) in [("46", "sc1"), ("38", "other")] {
        let counted = format!(
            "controller_persistentvolumeclaim_provision_failed_total\
             {{class=\"{class}\",source=\"\"}} 1\n"
        );
        within(PATIENCE, &format!("row {row}"), async || {
            get(&address, "/metrics").await.1.contains(&counted)
        })
        .await;
    }
    settle().await;
    let (_, text) = get(&address, "/metrics").await;
    let failed = "controller_persistentvolumeclaim_provision_failed_total{";
    let failed = text.lines().filter(|line| line.starts_with(failed));
    assert!(failed.clone().all(|line| line.ends_with(" 1")), "{text}");
    assert_eq!(failed.count(), 2);
    assert_eq!(stage.calls("CreateVolume"), 0);
    for reason in ["Provisioning", "ProvisioningFailed"] {
        assert!(stage.events(reason).is_empty(), "{reason}");
    }
}

#[tokio::test]
async fn row_43_the_old_annotation_names_the_class() {
    let stage = Stage::new().await;
    stage
        .api
        .insert(build::class("sc2").of(DRIVER).parameter("of", "sc2"));
    let address = free_address();
    let _program = stage.start(&[&format!("--http-endpoint={address}")]);
    let annotation = "volume.beta.kubernetes.io/storage-class";
    stage.api.insert(claim().annotation(annotation, "sc2"));
    stage.until_events("ProvisioningSucceeded", 1).await;
    settle().await;
    assert_eq!(stage.creations()[0].parameters["of"], "sc2");
    assert_eq!(stage.volume(PV)["spec"]["storageClassName"], "sc2");
    let (_, text) = get(&address, "/metrics").await;
    let line = r#"controller_persistentvolumeclaim_provision_total{class="sc1",source=""} 1"#;
    assert!(text.contains(line), "{text}");
}

#[tokio::test]
async fn row_47_a_volume_that_is_there_under_another_prefix() {
    let stage = Stage::new().await;
    let name = PV.replacen("pvc", "p", 1);
    let volume = build::volume(&name).csi(DRIVER, "vol-1");
    stage.api.insert(volume.phase("Available"));
    let program = stage.start(&["--volume-name-prefix=p"]);
    program.logs(READY).await;
    stage.api.insert(claim());
    settle().await;
    assert_eq!(stage.calls("CreateVolume"), 0);
    assert!(stage.events("Provisioning").is_empty());
}

#[tokio::test]
async fn row_48_a_claim_that_is_being_deleted() {
    let stage = Stage::new().await;
    let _program = stage.start(&[]);
    stage
        .api
        .insert(claim().finalizer("kubernetes.io/pvc-protection").deleting());
    stage.until_volume(PV).await;
    assert_eq!(stage.calls("CreateVolume"), 1);
}

#[tokio::test]
async fn row_49_the_node_in_the_oldest_annotation() {
    let stage = Stage::new().await;
    let service = PluginService::VolumeAccessibilityConstraints;
    stage.driver.configure(|model| model.services.push(service));
    for (node, zone) in [("n0", "z0"), ("n1", "z1")] {
        stage.api.insert(build::node(node).label("zone", zone));
        let csinode = build::csinode(node).driver(DRIVER, node);
        stage.api.insert(csinode.topology(&["zone"]));
    }
    let program = stage.start(&["--strict-topology"]);
    program.logs(READY).await;
    let annotation = "volume.alpha.kubernetes.io/selected-node";
    stage.api.insert(claim().annotation(annotation, "n1"));
    stage.until_volume(PV).await;
    let request = &stage.creations()[0];
    let requirement = request.accessibility_requirements.as_ref().unwrap();
    assert_eq!(requirement.requisite.len(), 1);
    assert_eq!(requirement.requisite[0].segments["zone"], "z1");
}
