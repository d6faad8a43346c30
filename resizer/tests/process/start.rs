//! Z-11 to Z-14 and Z-19 to Z-33: from discovery and socket to the first work.

use std::time::Duration;

use csi_proto::csi::GetPluginCapabilitiesResponse;
use csi_proto::csi::plugin_capability::{Service, Type, VolumeExpansion};
use csi_proto::csi::{PluginCapability, plugin_capability};
use sidecar_testkit::driver::{ControllerRpc, NodeRpc, PluginService};
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{EXPAND, MODIFY, READY, Stage, free_address, get, settle};

const DISCOVERY: &str = "/apis/storage.k8s.io/v1";

fn methods(stage: &Stage) -> Vec<&'static str> {
    let calls = stage.driver.calls();
    calls.iter().map(|call| call.method).collect()
}

fn watches(stage: &Stage, resource: &str) -> bool {
    !stage
        .api
        .requests_to("GET", &format!("*/{resource}"))
        .is_empty()
}

#[tokio::test]
async fn z_11_to_14_whether_there_are_attributes_classes() {
    // Row, the gate, the discovery's behaviour, the number of discovery requests, whether classes
    // are watched.
    type Prepare = fn(&Stage);
    let missing: Prepare = |stage| stage.api.forget_kind("volumeattributesclasses");
    let broken: Prepare = |stage| {
        stage.api.fault(Fault::on("GET", DISCOVERY).answer(500));
    };
    let absent: Prepare = |stage| {
        stage.api.fault(Fault::on("GET", DISCOVERY).answer(404));
    };
    let usual: Prepare = |_| {};
    for (row, gate, prepare, asked, works) in [
        ("Z-11", Some("VolumeAttributesClass=false"), usual, 0, false),
        ("Z-12", None, usual, 1, true),
        ("Z-13", None, absent, 1, false),
        ("Z-13 not listed", None, missing, 1, false),
        ("Z-14", None, broken, 1, true),
    ] {
        let stage = Stage::modifying().await;
        prepare(&stage);
        let flag = gate.map(|gate| format!("--feature-gates={gate}"));
        let arguments: Vec<&str> = flag.iter().map(String::as_str).collect();
        let program = stage.started(&arguments).await;
        stage.reclass(Some("b"));
        if works {
            stage.until_class("b").await;
        } else {
            settle().await;
            assert_eq!(stage.calls(MODIFY), 0, "{row}");
            assert!(!watches(&stage, "volumeattributesclasses"), "{row}");
            assert_eq!(stage.trace(), [""; 0], "{row}");
        }
        let reads = stage.api.requests_to("GET", DISCOVERY);
        assert_eq!(reads.len(), asked, "{row}");
        let probe = stage.driver.calls_to("Probe")[0].started;
        assert!(reads.iter().all(|read| read.at < probe), "{row}");
        let log = program.log();
        match row {
            "Z-11" => assert!(log.contains("GA feature gate"), "{log}"),
            "Z-13" => assert_eq!(log.matches("VolumeAttributesClass").count(), 1, "{log}"),
            "Z-14" => {
                assert!(
                    log.contains("Failed to check VolumeAttributesClass V1 API"),
                    "{log}"
                );
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn z_19_20_22_to_24_what_the_driver_is_asked() {
    const HEAD: [&str; 3] = ["Probe", "GetPluginInfo", "GetPluginCapabilities"];
    const CONTROLLER: &str = "ControllerGetCapabilities";
    const NODE: &str = "NodeGetCapabilities";
    use ControllerRpc::{ExpandVolume, ModifyVolume};
    let node = vec![NodeRpc::ExpandVolume];
    for (row, controller, node, further, code) in [
        (
            "Z-19",
            vec![ExpandVolume],
            Vec::new(),
            &[CONTROLLER][..],
            None,
        ),
        ("Z-22", Vec::new(), node.clone(), &[CONTROLLER, NODE], None),
        (
            "Z-23",
            Vec::new(),
            Vec::new(),
            &[CONTROLLER, NODE],
            Some(255),
        ),
        (
            "Z-24",
            vec![ModifyVolume],
            Vec::new(),
            &[CONTROLLER, NODE],
            None,
        ),
        (
            "Z-25",
            vec![ExpandVolume, ModifyVolume],
            node,
            &[CONTROLLER],
            None,
        ),
    ] {
        for (arguments, deadline) in [(&[][..], 10), (&["--timeout=40s"], 40)] {
            let stage = Stage::new().await;
            let (controller, node) = (controller.clone(), node.clone());
            stage.driver.configure(|model| {
                model.controller = controller;
                model.node = node;
            });
            let program = stage.start(arguments);
            if let Some(code) = code {
                let ended = program.end().await;
                assert_eq!(ended.code, Some(code), "{row}: {}", ended.log);
                let text = "CSI driver does not support resize nor modify";
                assert!(ended.log.contains(text), "{row}: {}", ended.log);
            } else {
                program.logs(READY).await;
            }
            let expected: Vec<&str> = HEAD.iter().chain(further).copied().collect();
            assert_eq!(methods(&stage), expected, "{row}");
            for call in stage.driver.calls() {
                let given = call.deadline.unwrap();
                let fits = given <= Duration::from_secs(deadline)
                    && given > Duration::from_secs(deadline - 9);
                assert!(fits, "{row}, Z-20: {} {given:?}", call.method);
            }
        }
    }
}

#[tokio::test]
async fn z_21_a_driver_without_controller_service() {
    let stage = Stage::new().await;
    stage.driver.configure(|model| {
        model.services = Vec::new();
        model.node = vec![NodeRpc::ExpandVolume];
    });
    let ended = stage.start(&[]).end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let text = "CSI driver does not support controller service";
    assert!(ended.log.contains(text), "{}", ended.log);
    assert_eq!(
        methods(&stage),
        ["Probe", "GetPluginInfo", "GetPluginCapabilities"]
    );
}

#[tokio::test]
async fn z_23_a_socket_without_node_service() {
    let stage = Stage::new().await;
    stage
        .driver
        .configure(|model| model.controller = Vec::new());
    stage
        .driver
        .fault(CallFault::on("NodeGetCapabilities").fail(Code::Unimplemented, "no"));
    let ended = stage.start(&[]).end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("NodeGetCapabilities"), "{}", ended.log);
    assert!(!ended.log.contains("panicked"), "Q11: {}", ended.log);
}

#[tokio::test]
async fn z_24_to_26_what_is_watched() {
    use ControllerRpc::{ExpandVolume, ModifyVolume};
    let careless = "--handle-volume-inuse-error=false";
    for (row, controller, argument, pods, classes) in [
        ("Z-24", vec![ModifyVolume], None, false, true),
        ("Z-25", vec![ExpandVolume, ModifyVolume], None, true, true),
        ("Z-26", vec![ExpandVolume], Some(careless), false, false),
        ("Z-25 without modify", vec![ExpandVolume], None, true, false),
    ] {
        let stage = Stage::new().await;
        let grows = controller.contains(&ExpandVolume);
        stage
            .driver
            .configure(|model| model.controller = controller);
        let arguments: Vec<&str> = argument.into_iter().collect();
        let _program = stage.started(&arguments).await;
        stage.grow("2Gi");
        if grows {
            stage.until_capacity("2Gi").await
        } else {
            settle().await
        }
        assert_eq!(stage.calls(EXPAND), usize::from(grows), "{row}");
        assert!(watches(&stage, "persistentvolumes"), "{row}");
        assert!(watches(&stage, "persistentvolumeclaims"), "{row}");
        assert_eq!(watches(&stage, "pods"), pods, "{row}");
        assert_eq!(watches(&stage, "volumeattributesclasses"), classes, "{row}");
    }
}

#[tokio::test]
async fn z_27_how_a_driver_expands_makes_no_difference() {
    use plugin_capability::volume_expansion;
    use volume_expansion::Type::{Offline, Online};
    for expansion in [Online, Offline] {
        let stage = Stage::new().await;
        let entry = |r#type| PluginCapability {
            r#type: Some(r#type),
        };
        let service = i32::from(PluginService::ControllerService);
        stage
            .driver
            .fault(
                CallFault::on("GetPluginCapabilities").answer(GetPluginCapabilitiesResponse {
                    capabilities: vec![
                        entry(Type::Service(Service { r#type: service })),
                        entry(Type::VolumeExpansion(VolumeExpansion {
                            r#type: expansion.into(),
                        })),
                    ],
                }),
            );
        let _program = stage.started(&[]).await;
        stage.grow("2Gi");
        stage.until_capacity("2Gi").await;
    }
}

#[tokio::test]
async fn z_28_and_29_each_sort_of_work_waits_for_its_own_lists() {
    for (row, path, waits, goes_on) in [
        ("Z-28", "/api/v1/pods*", EXPAND, MODIFY),
        (
            "Z-29",
            "/apis/storage.k8s.io/v1/volumeattributesclasses*",
            MODIFY,
            EXPAND,
        ),
    ] {
        let stage = Stage::modifying().await;
        let fault = stage.api.fault(Fault::on("GET", path).answer(403));
        let mut program = stage.start(&[]);
        stage.grow("2Gi");
        stage.reclass(Some("b"));
        stage.until_calls(goes_on, 1).await;
        settle().await;
        assert_eq!(stage.calls(waits), 0, "{row}");
        assert!(program.is_running(), "{row}");
        fault.remove();
        stage.until_capacity("2Gi").await;
        stage.until_class("b").await;
    }
}

#[tokio::test]
async fn z_30_a_driver_that_in_tree_volumes_were_moved_to() {
    let stage = Stage::new().await;
    stage
        .driver
        .configure(|model| model.name = "pd.csi.storage.gke.io".into());
    let address = free_address();
    let _program = stage
        .started(&[&format!("--http-endpoint={address}")])
        .await;
    assert_eq!(stage.calls("Probe"), 2);
    let (_, text) = get(&address, "/metrics").await;
    let sample = text
        .lines()
        .find(|line| line.contains("ControllerGetCapabilities"));
    assert!(
        sample.is_some_and(|line| line.contains(r#"migrated="false""#)),
        "{text}"
    );
}
