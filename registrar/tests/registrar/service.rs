//! Rows about the registration service.

use std::time::{Duration, Instant};

use csi_proto::registration::PluginInfo;
use tonic::Code;

use crate::driver::{Driver, NAME};
use crate::kubelet;
use crate::process::{ENDPOINT, Seat, within_a_second};
use crate::raw;

fn info(endpoint: &str) -> PluginInfo {
    PluginInfo {
        r#type: "CSIPlugin".to_owned(),
        name: NAME.to_owned(),
        endpoint: endpoint.to_owned(),
        supported_versions: vec!["1.0.0".to_owned()],
    }
}

#[tokio::test]
async fn r_20_any_authority() {
    let seat = Seat::new();
    let (_driver, mut process) = seat.running(&[]).await;
    let directory = "/var/lib/kubelet/plugins_registry";
    for authority in [
        format!("{}%2F{NAME}-reg.sock", directory.replace('/', "%2F")),
        format!("{directory}/{NAME}-reg.sock"),
        "localhost".to_owned(),
    ] {
        let mut connection = raw::Connection::open(&seat.socket());
        // The second call refers to entries that the first one added to the dynamic table.
        for stream in [1, 3] {
            let reply = connection.get_info(stream, &authority);
            assert_eq!(reply, raw::GOLDEN, "{authority}, stream {stream}");
        }
    }
    process.must_run();
}

#[tokio::test]
async fn r_23_the_endpoint_is_passed_on_as_it_is() {
    for endpoint in [
        ENDPOINT,
        r"C:\x\csi.sock",
        "relative/csi.sock",
        "  ",
        "/ü/%2F",
    ] {
        let seat = Seat::new();
        let flag = format!("--kubelet-registration-path={endpoint}");
        let (_driver, _process) = seat.running(&[&flag]).await;
        assert_eq!(kubelet::ask(&seat.socket()).await, info(endpoint));
    }
}

#[tokio::test]
async fn r_24_many_calls() {
    let seat = Seat::new();
    let (_driver, _process) = seat.running(&[]).await;
    let mut client = kubelet::connect(&seat.socket()).await;
    for _ in 0..100 {
        let reply = client
            .get_info(csi_proto::registration::InfoRequest {})
            .await
            .unwrap();
        assert_eq!(reply.into_inner(), info(ENDPOINT));
    }
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let (socket, mut shared) = (seat.socket(), client.clone());
            tokio::spawn(async move {
                if number % 2 == 0 {
                    return kubelet::ask(&socket).await;
                }
                let request = csi_proto::registration::InfoRequest {};
                shared.get_info(request).await.unwrap().into_inner()
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), info(ENDPOINT));
    }
}

#[tokio::test]
async fn r_25_confirmed_twice() {
    let seat = Seat::new();
    let (_driver, mut process) = seat.running(&[]).await;
    for _ in 0..2 {
        kubelet::notify(&seat.socket(), true, "").await.unwrap();
    }
    process.says("kubelet has registered the driver").await;
    process.must_run();
    assert_eq!(kubelet::ask(&seat.socket()).await, info(ENDPOINT));
}

#[tokio::test]
async fn r_26_refused() {
    within_a_second(refused).await;
}

/// Returns the time until the process ended.
async fn refused() -> Duration {
    let seat = Seat::new();
    let (_driver, mut process) = seat.running(&[]).await;
    let start = Instant::now();
    let status = kubelet::notify(&seat.socket(), false, "boom")
        .await
        .unwrap_err();
    let end = process.ended().await;
    let took = start.elapsed();
    assert!(
        matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Internal
        ),
        "{status}"
    );
    end.failed_naming(&["boom"]);
    assert!(seat.socket().exists());
    took
}

#[tokio::test]
async fn r_51_unknown_methods() {
    let seat = Seat::new();
    let (_driver, _process) = seat.running(&[]).await;
    for path in [
        "/pluginregistration.Registration/Nope",
        "/pluginregistration.v1.Registration/GetInfo",
        "/grpc.health.v1.Health/Check",
        "/csi.v1.Identity/Probe",
    ] {
        let mut client = tonic::client::Grpc::new(kubelet::channel(&seat.socket()).await);
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let path = http::uri::PathAndQuery::from_static(path);
        let status = client
            .unary(tonic::Request::new(()), path, codec)
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
    }
}

/// Peers that send nothing or nonsense do not keep others from being served.
#[tokio::test]
async fn odd_peers_do_no_harm() {
    use std::io::Write;
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let mut process = seat.start(&["-v=4"]);
    process.listening(&seat.socket()).await;
    let mut peers = Vec::new();
    for bytes in [
        &b""[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n",
        &[0xff; 4096],
    ] {
        let mut peer = std::os::unix::net::UnixStream::connect(seat.socket()).unwrap();
        let _ = peer.write_all(bytes);
        peers.push(peer);
    }
    assert_eq!(kubelet::ask(&seat.socket()).await, info(ENDPOINT));
    drop(peers);
    assert_eq!(kubelet::ask(&seat.socket()).await, info(ENDPOINT));
    process.must_run();
}
