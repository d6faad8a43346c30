use std::process::Command;

use csi_proto::csi;
use serde_json::{Value, json};

use super::harness::*;

fn ctl(driver: &Driver, words: &[&str]) -> (bool, String) {
    let mut command = Command::new(PROGRAM);
    command
        .arg("ctl")
        .arg("--control")
        .arg(driver.control.path())
        .args(words);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn settings_change_what_the_driver_says() {
    let place = Place::new();
    let driver = place.start("n1", &["--topology=zone=a", "--maxvolumespernode=5"]);
    let settings = json!({
        "name": "other.csi.example.com",
        "capabilities": {"controller": ["CREATE_DELETE_VOLUME", 11], "node": []},
        "capacity": [{"topology": {"zone": "b"}, "available": 7}],
        "topology": {"zone": "b"}, "max_volumes": 9
    });
    let mut node = driver.node().await;
    let info = node
        .node_get_info(csi::NodeGetInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(info.max_volumes_per_node, 5);
    assert_eq!(info.accessible_topology.unwrap().segments["zone"], "a");
    driver.control.set(&settings).unwrap();

    let info = node
        .node_get_info(csi::NodeGetInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (info.node_id.as_str(), info.max_volumes_per_node),
        ("n1", 9)
    );
    assert_eq!(info.accessible_topology.unwrap().segments["zone"], "b");
    let said = node
        .node_get_capabilities(csi::NodeGetCapabilitiesRequest {})
        .await
        .unwrap();
    assert!(said.into_inner().capabilities.is_empty());
    let mut controller = driver.controller().await;
    let asked = csi::ControllerGetCapabilitiesRequest {};
    let said = controller
        .controller_get_capabilities(asked)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(said.capabilities.len(), 2);
    let place_b = csi::Topology {
        segments: [("zone".to_owned(), "b".to_owned())].into(),
    };
    let asked = csi::GetCapacityRequest {
        accessible_topology: Some(place_b),
        ..Default::default()
    };
    assert_eq!(
        controller
            .get_capacity(asked)
            .await
            .unwrap()
            .into_inner()
            .available_capacity,
        7
    );
    let name = driver
        .identity()
        .await
        .get_plugin_info(csi::GetPluginInfoRequest {})
        .await
        .unwrap();
    assert_eq!(name.into_inner().name, "other.csi.example.com");
}

#[tokio::test]
async fn strangers_in_answers_do_not_disturb() {
    let place = Place::new();
    let driver = place.start("n1", &["--enable-attach"]);
    let id = created(&driver, create("a")).await;
    let mut controller = driver.controller().await;
    controller
        .controller_publish_volume(attach(&id, "n1"))
        .await
        .unwrap();
    driver
        .control
        .set(&json!({"unknown_fields": true}))
        .unwrap();
    let list = controller
        .list_volumes(csi::ListVolumesRequest::default())
        .await
        .unwrap();
    let entry = &list.into_inner().entries[0];
    assert_eq!(entry.volume.as_ref().unwrap().volume_id, id);
    assert_eq!(entry.status.as_ref().unwrap().published_node_ids, ["n1"]);
}

#[tokio::test]
async fn the_driver_can_forget_and_be_lied_about() {
    let place = Place::new();
    let driver = place.start("n1", &["--enable-attach"]);
    let id = created(&driver, create("a")).await;
    let mut controller = driver.controller().await;
    controller
        .controller_publish_volume(attach(&id, "n1"))
        .await
        .unwrap();
    let refused = controller
        .delete_volume(csi::DeleteVolumeRequest {
            volume_id: id.clone(),
            ..Default::default()
        })
        .await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::FailedPrecondition);
    assert_eq!(driver.left_over("attachments"), 1);

    let nodes = async |controller: &mut csi::controller_client::ControllerClient<_>| {
        let list = controller
            .list_volumes(csi::ListVolumesRequest::default())
            .await
            .unwrap();
        list.into_inner().entries[0]
            .status
            .clone()
            .unwrap()
            .published_node_ids
    };
    let lie = json!({"published_nodes": {id.clone(): ["n8", "n9"]}});
    driver.control.set(&lie).unwrap();
    assert_eq!(nodes(&mut controller).await, ["n8", "n9"]);
    driver
        .control
        .set(&json!({"published_nodes": null}))
        .unwrap();
    assert_eq!(nodes(&mut controller).await, ["n1"]);
    let (ok, _) = ctl(&driver, &["forget", r#"{"attachments": ["*"]}"#]);
    assert!(ok);
    assert!(nodes(&mut controller).await.is_empty());
    let body = json!({"volume": id, "node": "n3", "attached": true});
    driver
        .control
        .ask("POST", "/attachment", Some(&body))
        .unwrap();
    assert_eq!(nodes(&mut controller).await, ["n3"]);
    driver
        .control
        .ask("POST", "/forget", Some(&json!({"all": true})))
        .unwrap();
    assert_eq!(driver.left_over("volumes"), 0);
}

#[tokio::test]
async fn the_command_line_does_what_the_socket_does() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    let rule = r#"{"id": "x", "match": {"method": "CreateVolume"},
                   "action": {"outcome": {"fail": {"code": "OUT_OF_RANGE"}}}}"#;
    assert!(ctl(&driver, &["rule", rule]).0);
    let refused = driver.controller().await.create_volume(create("a")).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::OutOfRange);
    let (_, rules) = ctl(&driver, &["rules"]);
    let rules: Value = serde_json::from_str(&rules).unwrap();
    assert_eq!(
        (&rules[0]["rule"]["id"], &rules[0]["applied"]),
        (&json!("x"), &json!(1))
    );
    assert!(ctl(&driver, &["unrule", "x"]).0);
    created(&driver, create("a")).await;
    let (_, counters) = ctl(&driver, &["counters"]);
    let counters: Value = serde_json::from_str(&counters).unwrap();
    assert_eq!(
        counters["calls"]["CreateVolume"],
        json!({"OK": 1, "OUT_OF_RANGE": 1})
    );
    assert_eq!(driver.control.calls("CreateVolume").unwrap(), 2);

    for (words, hint) in [
        (vec!["unrule", "x"], "404"),
        (vec!["rule", "{}"], "400"),
        (
            vec![
                "rule",
                r#"{"action": {"outcome": {"fail": {"code": "NO"}}}}"#,
            ],
            "gRPC code",
        ),
        (vec!["set", r#"{"prob": 1}"#], "prob"),
        (vec!["set", "nonsense"], "JSON"),
        (vec!["socket", "burn"], "400"),
    ] {
        let (ok, text) = ctl(&driver, &words);
        assert!(!ok && text.contains(hint), "{words:?}: {text}");
    }
}

#[tokio::test]
async fn the_socket_can_go_away_and_come_back() {
    let place = Place::new();
    let mut driver = place.start("n1", &[]);
    let mut connected = driver.identity().await;
    let probe = csi::ProbeRequest {};
    driver.control.socket("remove").unwrap();
    assert!(!driver.socket.exists());
    assert!(
        connected.probe(probe).await.is_ok(),
        "who is connected stays"
    );
    driver.control.socket("start").unwrap();
    assert!(driver.identity().await.probe(probe).await.is_ok());
    driver.control.socket("stop").unwrap();
    assert!(!driver.socket.exists());
    assert!(connected.probe(probe).await.is_err());
    driver.control.socket("start").unwrap();
    created(&driver, create("a")).await;
    driver.terminate();
    assert!(!driver.socket.exists() && !driver.control.path().exists());
    driver.restart();
    assert_eq!(driver.left_over("volumes"), 1);
}

#[test]
fn a_driver_that_cannot_start_says_why() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    let occupied = format!("--endpoint={}", place.path("file").display());
    let state = format!("--statedir={}", place.path("file").display());
    for (flags, hint) in [
        (vec!["--nodeid=n", occupied.as_str()], "not a socket"),
        (
            vec!["--nodeid=n", "--endpoint=/x/y.sock", state.as_str()],
            "--statedir",
        ),
        (vec!["--endpoint=/x/y.sock"], "--nodeid"),
        (vec!["--nodeid=n", "--setup=/no/such/file"], "--setup"),
        (vec!["--nodeid=n", "--what"], "what"),
    ] {
        let mut all = flags.clone();
        let fallback = format!("--statedir={}", place.state().display());
        if !flags.iter().any(|flag| flag.starts_with("--statedir")) {
            all.push(&fallback);
        }
        let output = Command::new(PROGRAM).args(&all).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && text.contains(hint),
            "{flags:?}: {text}"
        );
    }
}

#[tokio::test]
async fn volumes_can_be_made_without_a_call() {
    let place = Place::new();
    let driver = place.start("n1", &["--enable-attach=true"]);
    let names = ["one".to_owned(), "two".to_owned()];
    let ids = driver.control.make_volumes(&names, 1 << 20).unwrap();
    assert_eq!(ids.len(), 2);
    assert_eq!(
        driver.control.make_volumes(&names, 1 << 20).unwrap(),
        ids,
        "again is the same"
    );
    let state = driver.control.state().unwrap();
    assert_eq!(state["left_over"]["volumes"], 2);
    assert_eq!(driver.control.calls("CreateVolume").unwrap(), 0);
    let request = csi::ControllerPublishVolumeRequest {
        volume_id: ids[0].clone(),
        node_id: "n1".to_owned(),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    let mut controller = driver.controller().await;
    controller.controller_publish_volume(request).await.unwrap();
}

#[tokio::test]
async fn snapshots_can_be_taken_without_a_call() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    let ids = driver.control.make_volumes(&["one".to_owned()], 1 << 20);
    let ids = ids.unwrap();
    let snapshot = driver.control.take_snapshot("early", &ids[0]).unwrap();
    let state = driver.control.state().unwrap();
    assert!(state["snapshots"].get(&snapshot).is_some(), "{state}");
    assert_eq!(driver.control.calls("CreateSnapshot").unwrap(), 0);
    assert!(driver.control.take_snapshot("none", "no-such").is_err());
}
