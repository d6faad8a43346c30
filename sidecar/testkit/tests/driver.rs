//! The model driver, seen through a gRPC client.

#![expect(clippy::unwrap_used, reason = "shared steps of tests fail as tests do")]

use std::time::Duration;

use csi_proto::csi;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::group_controller_client::GroupControllerClient;
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use sidecar_testkit::driver::{ControllerRpc, GroupRpc, Memory, Probe};
use sidecar_testkit::{CallFault, FakeDriver, Gate};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

const PUBLISH: &str = "ControllerPublishVolume";

fn publish(volume: &str, node: &str) -> csi::ControllerPublishVolumeRequest {
    csi::ControllerPublishVolumeRequest {
        volume_id: volume.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(csi::VolumeCapability {
            access_mode: Some(AccessMode {
                mode: Mode::SingleNodeWriter.into(),
            }),
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }),
        secrets: [("user".to_owned(), "top-secret".to_owned())].into(),
        ..csi::ControllerPublishVolumeRequest::default()
    }
}

fn unpublish(volume: &str, node: &str) -> csi::ControllerUnpublishVolumeRequest {
    csi::ControllerUnpublishVolumeRequest {
        volume_id: volume.to_owned(),
        node_id: node.to_owned(),
        ..csi::ControllerUnpublishVolumeRequest::default()
    }
}

fn with_volume() -> (FakeDriver, ControllerClient<Channel>) {
    let driver = FakeDriver::new("test.csi.driver");
    driver.volume("h1");
    let client = ControllerClient::new(driver.channel());
    (driver, client)
}

async fn over_socket(driver: &FakeDriver) -> Channel {
    Endpoint::try_from(driver.address())
        .unwrap()
        .connect()
        .await
        .unwrap()
}

#[tokio::test]
async fn publishing_is_idempotent_and_exclusive_to_one_node() {
    let (driver, mut client) = with_volume();
    driver.configure(|model| model.publish_context = [("dev".to_owned(), "sda".to_owned())].into());
    for _ in 0..2 {
        let answer = client
            .controller_publish_volume(publish("h1", "n1"))
            .await
            .unwrap();
        assert_eq!(answer.into_inner().publish_context["dev"], "sda");
    }
    let code = |result: Result<_, tonic::Status>| {
        result.map(|_: tonic::Response<_>| ()).unwrap_err().code()
    };
    assert_eq!(
        code(client.controller_publish_volume(publish("h1", "n2")).await),
        Code::FailedPrecondition
    );
    assert_eq!(
        code(client.controller_publish_volume(publish("no", "n2")).await),
        Code::NotFound
    );
    assert_eq!(
        code(client.controller_publish_volume(publish("h1", "")).await),
        Code::InvalidArgument
    );
    let mut other = publish("h1", "n1");
    other.readonly = true;
    assert_eq!(
        code(client.controller_publish_volume(other).await),
        Code::AlreadyExists
    );
    assert_eq!(
        driver.published(),
        [("h1".to_owned(), "n1".to_owned())].into()
    );
    for _ in 0..2 {
        client
            .controller_unpublish_volume(unpublish("h1", "n1"))
            .await
            .unwrap();
    }
    assert!(driver.published().is_empty());
}

#[tokio::test]
async fn calls_beyond_the_capabilities_are_unimplemented() {
    let (driver, mut client) = with_volume();
    let request = csi::ListVolumesRequest::default();
    let refused = client.list_volumes(request.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    driver.configure(|model| {
        model.controller.extend([
            ControllerRpc::ListVolumes,
            ControllerRpc::ListVolumesPublishedNodes,
        ]);
        model.publish("h1", "n1");
        model.add("h2");
        model.add("h3");
    });
    let mut handles = Vec::new();
    let mut request = csi::ListVolumesRequest {
        max_entries: 2,
        ..request
    };
    loop {
        let page = client
            .list_volumes(request.clone())
            .await
            .unwrap()
            .into_inner();
        for entry in page.entries {
            handles.push((
                entry.volume.unwrap().volume_id,
                entry.status.unwrap().published_node_ids,
            ));
        }
        request.starting_token = page.next_token;
        if request.starting_token.is_empty() {
            break;
        }
    }
    let nobody = Vec::<String>::new;
    let want = [
        ("h1", vec!["n1".to_owned()]),
        ("h2", nobody()),
        ("h3", nobody()),
    ];
    assert_eq!(
        handles,
        want.map(|(handle, nodes)| (handle.to_owned(), nodes))
    );
    assert_eq!(driver.calls_to("ListVolumes").len(), 3);
}

#[tokio::test]
async fn creating_a_volume_twice_gives_the_same_one() {
    let (driver, mut client) = with_volume();
    driver.configure(|model| model.controller.push(ControllerRpc::CreateDeleteVolume));
    let request = csi::CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        capacity_range: Some(csi::CapacityRange {
            required_bytes: 1 << 30,
            limit_bytes: 0,
        }),
        volume_capabilities: publish("", "").volume_capability.into_iter().collect(),
        ..csi::CreateVolumeRequest::default()
    };
    let first = client
        .create_volume(request.clone())
        .await
        .unwrap()
        .into_inner()
        .volume
        .unwrap();
    let second = client
        .create_volume(request.clone())
        .await
        .unwrap()
        .into_inner()
        .volume
        .unwrap();
    assert_eq!(first, second);
    assert_eq!(first.capacity_bytes, 1 << 30);
    let larger = csi::CreateVolumeRequest {
        capacity_range: Some(csi::CapacityRange {
            required_bytes: 1 << 31,
            limit_bytes: 0,
        }),
        ..request
    };
    assert_eq!(
        client.create_volume(larger).await.unwrap_err().code(),
        Code::AlreadyExists
    );
    let delete = csi::DeleteVolumeRequest {
        volume_id: first.volume_id,
        ..csi::DeleteVolumeRequest::default()
    };
    client.delete_volume(delete.clone()).await.unwrap();
    client.delete_volume(delete).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn faults_take_their_calls_and_the_record_tells_what_came_of_them() {
    let (driver, mut client) = with_volume();
    let first = driver.fault(
        CallFault::on(PUBLISH)
            .volume("h1")
            .times(1)
            .fail(Code::Internal, "boom"),
    );
    driver.fault(
        CallFault::on(PUBLISH)
            .times(1)
            .fail_after(Code::Aborted, "pending"),
    );
    let boom = client
        .controller_publish_volume(publish("h1", "n1"))
        .await
        .unwrap_err();
    assert_eq!((boom.code(), boom.message()), (Code::Internal, "boom"));
    assert!(driver.published().is_empty());
    let pending = client
        .controller_publish_volume(publish("h1", "n1"))
        .await
        .unwrap_err();
    assert_eq!(pending.code(), Code::Aborted);
    assert_eq!(driver.published().len(), 1);
    assert_eq!(first.hits(), 1);

    driver.fault(
        CallFault::on("ControllerUnpublishVolume")
            .times(1)
            .lose_reply(),
    );
    let mut request = Request::new(unpublish("h1", "n1"));
    request.set_timeout(Duration::from_secs(15));
    let waited = tokio::time::timeout(
        Duration::from_secs(15),
        client.controller_unpublish_volume(request),
    );
    assert!(waited.await.map_or(true, |answer| answer.is_err()));
    assert!(driver.published().is_empty());
    driver
        .until(|driver| driver.calls().iter().all(|call| !call.is_running()))
        .await;
    let calls = driver.calls();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[0].code, Some(Code::Internal));
    assert!(calls[2].is_cancelled());
    assert_eq!(calls[2].deadline, Some(Duration::from_secs(15)));
    assert_eq!((calls[2].volume(), calls[2].node()), ("h1", "n1"));
    assert_eq!(calls[0].authority, "localhost");
    let sent = calls[0]
        .request::<csi::ControllerPublishVolumeRequest>()
        .unwrap();
    assert_eq!(sent.secrets["user"], "top-secret");
    assert!(!format!("{calls:?}").contains("top-secret"));
}

#[tokio::test(start_paused = true)]
async fn overlapping_calls_for_one_volume_and_node_are_noticed() {
    let (driver, client) = with_volume();
    driver.volume("h2");
    let gate = Gate::new();
    driver.fault(CallFault::on(PUBLISH).hold(&gate));
    let call = |volume: &'static str| {
        let mut client = client.clone();
        tokio::spawn(async move {
            client
                .controller_publish_volume(publish(volume, "n1"))
                .await
        })
    };
    let tasks = [call("h1"), call("h2")];
    driver.until(|_| gate.waiting() == 2).await;
    assert_eq!(driver.peak(PUBLISH), 2);
    assert!(driver.overlaps().is_empty());
    let third = call("h1");
    driver.until(|_| gate.waiting() == 3).await;
    assert_eq!(driver.overlaps().len(), 1);
    gate.open();
    for task in tasks.into_iter().chain([third]) {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn probes_answer_in_sequence_and_canned_answers_win() {
    let driver = FakeDriver::new("test.csi.driver");
    let mut client = IdentityClient::new(driver.channel());
    driver.configure(|model| {
        let failure = Probe::Fail(Code::Unavailable, "later".to_owned());
        model
            .probes
            .extend([failure, Probe::NotReady, Probe::Unset]);
    });
    let mut answers = Vec::new();
    for _ in 0..4 {
        let answer = client.probe(csi::ProbeRequest {}).await;
        answers.push(
            answer
                .map(|answer| answer.into_inner().ready)
                .map_err(|status| status.code()),
        );
    }
    assert_eq!(
        answers,
        [
            Err(Code::Unavailable),
            Ok(Some(false)),
            Ok(None),
            Ok(Some(true))
        ]
    );
    let nameless = csi::GetPluginInfoResponse::default();
    driver.fault(CallFault::on("GetPluginInfo").times(1).answer(nameless));
    let names = [
        client
            .get_plugin_info(csi::GetPluginInfoRequest {})
            .await
            .unwrap()
            .into_inner()
            .name,
        client
            .get_plugin_info(csi::GetPluginInfoRequest {})
            .await
            .unwrap()
            .into_inner()
            .name,
    ];
    assert_eq!(names, ["", "test.csi.driver"]);
}

#[tokio::test]
async fn a_restart_breaks_connections_and_keeps_or_loses_memory() {
    let (driver, _) = with_volume();
    driver.start();
    let mut client = ControllerClient::new(over_socket(&driver).await);
    client
        .controller_publish_volume(publish("h1", "n1"))
        .await
        .unwrap();
    driver.fault(CallFault::on(PUBLISH).times(1).hang());
    let hanging = tokio::spawn({
        let mut client = client.clone();
        async move { client.controller_publish_volume(publish("h1", "n1")).await }
    });
    driver.until(|driver| driver.calls().len() == 2).await;
    driver.restart(Memory::Kept);
    assert!(hanging.await.unwrap().is_err());
    driver
        .until(|driver| driver.calls()[1].is_cancelled())
        .await;
    assert_eq!(driver.published().len(), 1);
    driver.restart(Memory::Lost);
    assert!(driver.published().is_empty());
    driver.stop();
    assert!(!driver.socket().exists());
}

#[tokio::test]
async fn a_group_is_cut_once_and_goes_with_all_of_its_snapshots() {
    let (driver, mut client) = with_volume();
    let mut groups = GroupControllerClient::new(driver.channel());
    let cut = csi::CreateVolumeGroupSnapshotRequest {
        name: "g".to_owned(),
        source_volume_ids: vec!["h1".to_owned()],
        ..csi::CreateVolumeGroupSnapshotRequest::default()
    };
    let refused = groups.create_volume_group_snapshot(cut.clone()).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    driver.configure(|model| {
        model.group = Some(vec![GroupRpc::CreateDeleteGetVolumeGroupSnapshot]);
        model.controller = vec![ControllerRpc::CreateDeleteSnapshot];
    });
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = groups.create_volume_group_snapshot(cut.clone()).await;
        let group = answer.unwrap().into_inner().group_snapshot.unwrap();
        let snapshot = group.snapshots.first().unwrap();
        assert_eq!(snapshot.group_snapshot_id, group.group_snapshot_id);
        ids.push((group.group_snapshot_id, snapshot.snapshot_id.clone()));
    }
    assert_eq!(ids.first(), ids.last());
    let (group_snapshot_id, snapshot_id) = ids.remove(0);
    let alone = csi::DeleteSnapshotRequest {
        snapshot_id: snapshot_id.clone(),
        ..csi::DeleteSnapshotRequest::default()
    };
    let refused = client.delete_snapshot(alone).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    let mut delete = csi::DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: group_snapshot_id.clone(),
        ..csi::DeleteVolumeGroupSnapshotRequest::default()
    };
    let refused = groups.delete_volume_group_snapshot(delete.clone()).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    delete.snapshot_ids.push(snapshot_id.clone());
    let get = csi::GetVolumeGroupSnapshotRequest {
        group_snapshot_id,
        snapshot_ids: vec![snapshot_id],
        ..csi::GetVolumeGroupSnapshotRequest::default()
    };
    groups.get_volume_group_snapshot(get.clone()).await.unwrap();
    for _ in 0..2 {
        let deleted = groups.delete_volume_group_snapshot(delete.clone()).await;
        deleted.unwrap();
    }
    let gone = groups.get_volume_group_snapshot(get).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    driver.configure(|model| assert!(model.snapshots.is_empty()));
}
