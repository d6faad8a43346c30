use csi_proto::csi;
use tonic::Code;

use super::harness::*;

fn zone(name: &str) -> csi::Topology {
    csi::Topology {
        segments: [("zone".to_owned(), name.to_owned())].into(),
    }
}

#[tokio::test]
async fn a_controller_and_several_nodes_share_volumes() {
    let place = Place::new();
    let controller = place.start("c", &["--role=controller", "--enable-attach"]);
    let node_flags = |topology| vec!["--role=node", "--enable-attach", topology];
    let a = place.start("a", &node_flags("--topology=zone=a"));
    let b = place.start("b", &node_flags("--topology=zone=b"));

    let mut request = create("pvc-1");
    request.accessibility_requirements = Some(csi::TopologyRequirement {
        requisite: vec![zone("a"), zone("b")],
        preferred: vec![zone("b")],
    });
    let id = created(&controller, request).await;
    let mut service = controller.controller().await;
    let elsewhere = service
        .controller_publish_volume(attach(&id, "a"))
        .await
        .unwrap_err();
    assert_eq!(elsewhere.code(), Code::FailedPrecondition, "{elsewhere}");
    let nobody = service
        .controller_publish_volume(attach(&id, "x"))
        .await
        .unwrap_err();
    assert_eq!(nobody.code(), Code::NotFound);
    service
        .controller_publish_volume(attach(&id, "b"))
        .await
        .unwrap();

    let stage = |id: &str| csi::NodeStageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: place.path("staging").to_str().unwrap().to_owned(),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    let wrong = a
        .node()
        .await
        .node_stage_volume(stage(&id))
        .await
        .unwrap_err();
    assert_eq!(wrong.code(), Code::FailedPrecondition);
    b.node().await.node_stage_volume(stage(&id)).await.unwrap();
    assert_eq!(controller.left_over("staged"), 1, "the controller knows");
    let used = csi::DeleteVolumeRequest {
        volume_id: id,
        ..Default::default()
    };
    assert_eq!(
        service.delete_volume(used).await.unwrap_err().code(),
        Code::FailedPrecondition
    );

    let asked = csi::NodeGetInfoRequest {};
    let here = controller
        .node()
        .await
        .node_get_info(asked)
        .await
        .unwrap_err();
    assert_eq!(here.code(), Code::Unimplemented, "a controller is no node");
    let there = b
        .controller()
        .await
        .create_volume(create("x"))
        .await
        .unwrap_err();
    assert_eq!(there.code(), Code::Unimplemented, "a node is no controller");
}

#[tokio::test]
async fn a_full_place_sends_the_volume_to_the_next() {
    let place = Place::new();
    let capacity = "--capacity=fast=1Mi";
    let _a = place.start("a", &["--role=node", "--topology=zone=a"]);
    let b = place.start("b", &["--topology=zone=b", capacity]);
    let place_of = async |name: &str| {
        let mut request = create(name);
        request.accessibility_requirements = Some(csi::TopologyRequirement {
            requisite: vec![zone("a"), zone("b")],
            preferred: vec![],
        });
        let answer = b
            .controller()
            .await
            .create_volume(request)
            .await
            .map_err(|e| e.code())?;
        let volume = answer.into_inner().volume.unwrap();
        Ok::<_, Code>(volume.accessible_topology[0].segments["zone"].clone())
    };
    assert_eq!(place_of("1").await.as_deref(), Ok("a"));
    assert_eq!(place_of("2").await.as_deref(), Ok("b"));
    assert_eq!(place_of("3").await, Err(Code::ResourceExhausted));
}
