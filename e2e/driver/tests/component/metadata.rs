use std::os::unix::fs::FileExt as _;
use std::path::Path;

use csi_proto::csi;
use csi_proto::csi::snapshot_metadata_client::SnapshotMetadataClient;
use serde_json::{Value, json};
use tonic::{Code, Status, Streaming};

use super::harness::*;

const FLAGS: &[&str] = &["--enable-snapshot-metadata"];
const BLOCK: i64 = 4096;

type Ranges = Vec<(i64, i64)>;

async fn snapshot(driver: &Driver, volume: &str, name: &str) -> String {
    let request = csi::CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: name.to_owned(),
        ..Default::default()
    };
    let answer = driver.controller().await.create_snapshot(request).await;
    answer.unwrap().into_inner().snapshot.unwrap().snapshot_id
}

/// Writes a byte into each of these blocks of a volume's image.
fn write(state: &Path, volume: &str, blocks: &[i64]) {
    let path = state.join("volumes").join(format!("{volume}.img"));
    let file = std::fs::File::options().write(true).open(path).unwrap();
    for block in blocks {
        file.write_all_at(b"x", (block * BLOCK + 7).unsigned_abs())
            .unwrap();
    }
}

async fn collected(
    answer: Result<tonic::Response<Streaming<csi::GetMetadataAllocatedResponse>>, Status>,
) -> (Vec<Ranges>, Option<Code>) {
    let mut messages = Vec::new();
    let mut stream = match answer {
        Ok(answer) => answer.into_inner(),
        Err(status) => return (messages, Some(status.code())),
    };
    loop {
        match stream.message().await {
            Ok(None) => return (messages, None),
            Err(status) => return (messages, Some(status.code())),
            Ok(Some(message)) => {
                let ranges = message.block_metadata.iter();
                messages.push(ranges.map(|it| (it.byte_offset, it.size_bytes)).collect());
            }
        }
    }
}

async fn allocated(
    driver: &Driver,
    id: &str,
    (starting_offset, max_results): (i64, i32),
) -> (Vec<Ranges>, Option<Code>) {
    let mut client = SnapshotMetadataClient::new(driver.channel().await);
    let request = csi::GetMetadataAllocatedRequest {
        snapshot_id: id.to_owned(),
        starting_offset,
        max_results,
        ..Default::default()
    };
    collected(client.get_metadata_allocated(request).await).await
}

async fn changed(driver: &Driver, base: &str, target: &str) -> (Ranges, Option<Code>) {
    let mut client = SnapshotMetadataClient::new(driver.channel().await);
    let request = csi::GetMetadataDeltaRequest {
        base_snapshot_id: base.to_owned(),
        target_snapshot_id: target.to_owned(),
        ..Default::default()
    };
    let mut stream = match client.get_metadata_delta(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return (Vec::new(), Some(status.code())),
    };
    let mut ranges = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        ranges.extend(
            message
                .block_metadata
                .iter()
                .map(|it| (it.byte_offset, it.size_bytes)),
        );
    }
    (ranges, None)
}

fn blocks(numbers: &[i64]) -> Ranges {
    numbers
        .iter()
        .map(|number| (number * BLOCK, BLOCK))
        .collect()
}

#[tokio::test]
async fn ranges_of_snapshots() {
    let place = Place::new();
    let driver = place.start("n1", FLAGS);
    let request = csi::CreateVolumeRequest {
        volume_capabilities: vec![block()],
        ..create("v")
    };
    let volume = created(&driver, request).await;
    write(&place.state(), &volume, &[0, 1, 200, 255]);
    let first = snapshot(&driver, &volume, "first").await;
    write(&place.state(), &volume, &[1, 2]);
    let second = snapshot(&driver, &volume, "second").await;
    let all = allocated(&driver, &first, (0, 0)).await;
    assert_eq!(all, (vec![blocks(&[0, 1, 200, 255])], None));
    let few = allocated(&driver, &second, (BLOCK, 3)).await;
    assert_eq!(few, (vec![blocks(&[1, 2, 200]), blocks(&[255])], None));
    // Block 1 got the same byte again.
    assert_eq!(
        changed(&driver, &first, &second).await,
        (blocks(&[2]), None)
    );
    assert_eq!(
        changed(&driver, &second, &first).await.1,
        Some(Code::InvalidArgument)
    );
    for (id, offset, code) in [
        ("", 0, Code::InvalidArgument),
        ("nothing", 0, Code::NotFound),
        (&*first, -1, Code::OutOfRange),
        (&*first, 1 << 30, Code::OutOfRange),
    ] {
        assert_eq!(
            allocated(&driver, id, (offset, 0)).await,
            (vec![], Some(code))
        );
    }
    // A volume in a folder has no blocks.
    let folder = created(&driver, create("f")).await;
    let folder = snapshot(&driver, &folder, "folder").await;
    assert_eq!(
        allocated(&driver, &folder, (0, 0)).await.1,
        Some(Code::FailedPrecondition)
    );
    let calls = driver.calls("GetMetadataDelta");
    assert_eq!(calls[0].code.as_deref(), Some("OK"));
}

#[tokio::test]
async fn faults_of_streams() {
    let place = Place::new();
    let driver = place.start("n1", FLAGS);
    let request = csi::CreateVolumeRequest {
        volume_capabilities: vec![block()],
        ..create("v")
    };
    let volume = created(&driver, request).await;
    let id = snapshot(&driver, &volume, "s").await;
    let pretend = |parts: Value| driver.control.set(&json!({"metadata": parts})).unwrap();
    pretend(json!([{"ranges": [[8192, 4096], [0, 4096]]}, {"fail": {"code": "INTERNAL"}}]));
    let (messages, end) = allocated(&driver, &id, (0, 0)).await;
    assert_eq!(
        (messages, end),
        (vec![vec![(8192, 4096), (0, 4096)]], Some(Code::Internal))
    );
    for (parts, least) in [
        (json!([{"endless": 10}]), 100),
        (json!([{"ranges": [[0, 1]]}, "stall"]), 1),
    ] {
        pretend(parts);
        let mut client = SnapshotMetadataClient::new(driver.channel().await);
        let request = csi::GetMetadataAllocatedRequest {
            snapshot_id: id.clone(),
            ..Default::default()
        };
        let mut stream = client
            .get_metadata_allocated(request)
            .await
            .unwrap()
            .into_inner();
        for _ in 0..least {
            assert!(stream.message().await.unwrap().is_some());
        }
    }
    pretend(Value::Null);
    assert_eq!(allocated(&driver, &id, (0, 0)).await, (vec![], None));
}

#[tokio::test]
async fn without_the_flag_there_is_no_such_service() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    assert_eq!(
        allocated(&driver, "x", (0, 0)).await.1,
        Some(Code::Unimplemented)
    );
    for (flags, is_there) in [(&[][..], false), (FLAGS, true)] {
        let driver = place.start("n2", flags);
        let asked = csi::GetPluginCapabilitiesRequest {};
        let said = driver.identity().await.get_plugin_capabilities(asked).await;
        let said = format!("{:?}", said.unwrap().into_inner());
        assert_eq!(
            said.contains("SNAPSHOT_METADATA_SERVICE"),
            is_there,
            "{said}"
        );
    }
}
