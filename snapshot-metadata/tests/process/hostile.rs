//! Malicious clients and drivers.

use std::time::Duration;

use csi_proto::health::HealthCheckRequest;
use csi_proto::snapshot_metadata::GetMetadataAllocatedRequest;
use sidecar_testkit::driver::Part;
use sidecar_testkit::measure::memory;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Code;

use crate::stage::{
    HERE, Stage, begin, collected, config, connect_from, get, get_snapshots, request, secured,
    took, until,
};

const SECOND: Duration = Duration::from_secs(1);

/// A thousand calls at once, of one authorized client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_once() {
    let stage = Stage::streaming([Part::Blocks(1), Part::Wait(SECOND), Part::Blocks(1)]).await;
    let mut running = stage.started(&["--max-streams=64"]).await;
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(running.client().await);
    }
    let mut calls = JoinSet::new();
    for number in 0..1000 {
        let mut client = clients[number % 10].clone();
        calls.spawn(async move {
            let answer = client.get_metadata_allocated(request()).await;
            collected(answer)
                .await
                .1
                .map_err(|status| (status.code(), status.message().to_owned()))
        });
    }
    let ends = calls.join_all().await;
    let busy = (Code::Unavailable, "too many requests".to_owned());
    let served = ends.iter().filter(|end| end.is_ok()).count();
    assert!(served >= 32, "{served}");
    let refused = ends.iter().filter_map(|end| end.as_ref().err());
    let others: Vec<_> = refused.filter(|end| **end != busy).collect();
    assert!(others.is_empty(), "{others:?}");
    // One client may use half of the streams.
    assert!(stage.driver.peak("GetMetadataAllocated") <= 32);
    running.process.must_run();
    let anonymous = memory(running.process.id(), "RssAnon");
    assert!(anonymous < 40_000_000, "{anonymous}");
    assert!(running.allocated(request()).await.1.is_ok());
}

/// A thousand connections that send nothing, half a handshake, or something else.
#[tokio::test]
async fn connections_that_say_nothing() {
    let stage = Stage::new().await;
    let mut running = stage.started(&[]).await;
    let mut silent = Vec::new();
    for number in 0..1000 {
        let Ok(mut stream) = TcpStream::connect(&running.address).await else {
            break;
        };
        let words: &[u8] = match number % 3 {
            0 => b"",
            1 => b"\x16\x03\x01\x01\x00",
            _ => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        };
        let _closed = stream.write_all(words).await;
        silent.push(stream);
    }
    // Health is answered all the time, and clients again once the server has given those connections up.
    assert_eq!(get(&running.http, "/health").await.0, 200);
    let mut client = None;
    until("a client's turn", async || {
        let connected = tokio::time::timeout(SECOND, running.connected(HERE)).await;
        client = connected.ok().and_then(Result::ok);
        client.is_some()
    })
    .await;
    // The next connection may have to wait until it may send a review.
    let answer = client.unwrap().get_metadata_allocated(request()).await;
    assert!(collected(answer).await.1.is_ok());
    running.process.must_run();
}

/// Two addresses hold all connections, which are silent or have watches of the health that anybody may make; a client
/// at a third one is served, and a stream that was there before goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_addresses_cannot_lock_out_the_others() {
    let stage = Stage::streaming([Part::Endless(100)]).await;
    let mut running = stage.started(&[]).await;
    let mut early = running.client_at([127, 0, 0, 4]).await;
    let early = early.get_metadata_allocated(request()).await.unwrap();
    let hostile = [[127, 0, 0, 2], [127, 0, 0, 3]];
    let mut watches = Vec::new();
    for from in hostile {
        for _ in 0..8 {
            let mut client = running.health_client_at(from).await;
            for _ in 0..128 {
                // Those over the limit are refused.
                watches.extend(client.watch(HealthCheckRequest::default()).await);
            }
        }
    }
    assert!(watches.len() > 1024, "{}", watches.len());
    let mut silent = Vec::new();
    for number in 0..1100 {
        silent.push(
            connect_from(hostile[number % 2], &running.address)
                .await
                .unwrap(),
        );
    }
    // As long as the hostile clients stay, which is for ever.
    let mut other = tokio::time::timeout(30 * SECOND, running.client_at(HERE))
        .await
        .unwrap();
    let mut answer = other
        .get_metadata_allocated(request())
        .await
        .unwrap()
        .into_inner();
    assert!(answer.message().await.unwrap().is_some());
    let metrics = get(&running.http, "/metrics").await.1;
    let both = "csi_snapshot_metadata_streams 2\n";
    assert!(metrics.contains(both), "the stream from before: {metrics}");
    drop(early);
    running.process.must_run();
}

/// A ClientHello of 64 kB, which the server would have to buffer, ends the connection, and sooner than the limit of
/// 10 s for any handshake does.
#[tokio::test]
async fn a_greeting_without_end() {
    let stage = Stage::new().await;
    let mut running = stage.started(&[]).await;
    let mut stream = TcpStream::connect(&running.address).await.unwrap();
    // A record of 16 kB with the first part of a ClientHello of 64 kB.
    let mut words = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xf0];
    words.resize(12 << 10, 0);
    stream.write_all(&words).await.unwrap();
    let end = tokio::time::timeout(9 * SECOND, stream.read(&mut [0; 16])).await;
    let end = end.expect("the server waits for the rest");
    assert!(end.is_err() || end.is_ok_and(|bytes| bytes == 0));
    running.process.must_run();
    assert!(running.allocated(request()).await.1.is_ok());
}

/// Streams that nobody reads leave half of the capacity to other clients.
#[tokio::test]
async fn streams_that_nobody_reads_leave_room_for_others() {
    let stage = Stage::streaming([Part::Endless(100)]).await;
    stage.api.issue_token("other", "another", &["aud1"]);
    stage.api.grant("another", get_snapshots("default"));
    let running = stage.started(&["--max-streams=4"]).await;
    let mut stalled = Vec::new();
    let mut client = running.client().await;
    for _ in 0..2 {
        stalled.push(client.get_metadata_allocated(request()).await.unwrap());
    }
    let began = begin();
    let status = client.get_metadata_allocated(request()).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "too many requests")
    );
    took(began, SECOND, 20 * SECOND);
    let other = GetMetadataAllocatedRequest {
        security_token: "other".to_owned(),
        ..request()
    };
    let answer = running.client().await.get_metadata_allocated(other).await;
    assert!(
        answer
            .unwrap()
            .into_inner()
            .message()
            .await
            .unwrap()
            .is_some()
    );
    // A stream is available again as soon as a client disconnects.
    drop(stalled.pop());
    until("the place", async || {
        client.get_metadata_allocated(request()).await.is_ok()
    })
    .await;
}

/// Requests that are not gRPC, or for an unknown service.
#[tokio::test]
async fn requests_of_any_kind() {
    let stage = Stage::new().await;
    let mut running = stage.started(&[]).await;
    let stream = secured(&running.address, config(&stage.pair.der, &[b"h2"]))
        .await
        .unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    const ALLOCATED: &str = "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated";
    let grpc = "application/grpc";
    for (path, kind, body, http, status) in [
        ("/", "text/plain", &b""[..], 415, ""),
        ("/", grpc, b"", 200, "12"),
        (
            "/snapshotmetadata.SnapshotMetadata/Other",
            grpc,
            b"",
            200,
            "12",
        ),
        (
            "/grpc.health.v1.Health/Check",
            grpc,
            b"\0\0\0\0\x03\x0a\x01x",
            200,
            "5",
        ),
        (ALLOCATED, grpc, b"", 200, "13"),
        (ALLOCATED, grpc, b"\0\0\0\0\x05abc", 200, "13"),
        (ALLOCATED, grpc, b"\0\0\0\0\x01\xff", 200, "13"),
        (ALLOCATED, grpc, b"\x01\0\0\0\0", 200, "12"),
        (ALLOCATED, grpc, b"\0\0\0\0\0\0\0\0\0\0", 200, "13"),
        (ALLOCATED, grpc, &[0; 100_000], 200, "8"),
    ] {
        let request = http::Request::post(format!("http://localhost{path}"));
        let request = request.header("content-type", kind).body(()).unwrap();
        client = client.ready().await.unwrap();
        let (answer, mut sending) = client.send_request(request, false).unwrap();
        // Bytes beyond the window are not sent, and need not be.
        let _ = sending.send_data(bytes::Bytes::copy_from_slice(body), true);
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), http, "{path} {body:?}");
        let found = answer
            .headers()
            .get("grpc-status")
            .map(|it| it.to_str().unwrap());
        assert_eq!(found.unwrap_or_default(), status, "{path} {}", body.len());
    }
    running.process.must_run();
}

/// An endless driver's stream is read as long as the client reads and the deadline allows.
#[tokio::test]
async fn a_driver_that_streams_for_ever() {
    let stage = Stage::streaming([Part::Endless(1000)]).await;
    let running = stage.started(&[]).await;
    let mut request = tonic::Request::new(request());
    request
        .metadata_mut()
        .insert("grpc-timeout", "5S".parse().unwrap());
    let began = begin();
    let mut stream = running
        .client()
        .await
        .get_metadata_allocated(request)
        .await
        .unwrap()
        .into_inner();
    let end = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("there is no end"),
            Err(status) => break status,
        }
    };
    // If the deadline cuts a message, the stream is reset and the client's library reports Unknown; between
    // messages the client gets the reason.
    assert!(
        matches!(end.code(), Code::DeadlineExceeded | Code::Unknown),
        "{end:?}"
    );
    took(began, 4 * SECOND, 30 * SECOND);
    assert!(memory(running.process.id(), "RssAnon") < 30_000_000);
}
