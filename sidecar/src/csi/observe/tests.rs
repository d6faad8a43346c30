//! Rows 33 to 42 of the common specification: log lines and metrics of a call.

use std::time::Duration;

use bytes::Bytes;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, ProbeRequest, methods,
};

use super::*;
use crate::csi::pipe::channel as through_pipe;
use crate::csi::{Deadline, call, call_with};
use crate::metrics::{OperationsConfig, Registry};
use sidecar_testkit::driver::scripted::{Answer, Driver, message};

const TIMEOUT: Duration = Duration::from_secs(60);

fn ok() -> Answer {
    message(&GetPluginInfoResponse {
        name: "test.csi.driver".to_owned(),
        ..GetPluginInfoResponse::default()
    })
}

async fn info(channel: Channel, deadline: impl Into<Deadline>) -> Result<String, Status> {
    let mut client = IdentityClient::new(channel);
    let request = GetPluginInfoRequest {};
    let answer = call(deadline, request, async |request| {
        client.get_plugin_info(request).await
    });
    Ok(answer.await?.name)
}

fn measured(config: OperationsConfig) -> (Registry, CsiOperations, Observer) {
    let registry = Registry::new();
    let operations = CsiOperations::new(&registry, config).unwrap();
    let observer = Observer {
        operations: Some(operations.clone()),
        ..Observer::default()
    };
    (registry, operations, observer)
}

fn logged(limit: Option<usize>) -> Observer {
    Observer {
        methods: &[methods::IDENTITY, methods::CONTROLLER],
        response_limit: limit,
        controller: None,
        operations: None,
    }
}

/// Lines of `registry` that contain every one of `parts`.
fn lines(registry: &Registry, parts: &[&str]) -> Vec<String> {
    let text = registry.render();
    let found = text
        .lines()
        .filter(|line| parts.iter().all(|part| line.contains(part)));
    found.map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn row_36_buckets_sum_and_count() {
    let (registry, _, observer) = measured(OperationsConfig::default());
    let driver = Driver::new(|_, _| Answer::Late(Duration::from_secs(20), Box::new(ok())));
    info(through_pipe(&driver, observer).await, TIMEOUT)
        .await
        .unwrap();
    let series = "driver_name=\"unknown-driver\",grpc_status_code=\"OK\",\
                  method_name=\"/csi.v1.Identity/GetPluginInfo\"";
    for (line, value) in [
        (
            format!("csi_sidecar_operations_seconds_bucket{{{series},le=\"15\"}}"),
            "0",
        ),
        (
            format!("csi_sidecar_operations_seconds_bucket{{{series},le=\"25\"}}"),
            "1",
        ),
        (
            format!("csi_sidecar_operations_seconds_bucket{{{series},le=\"+Inf\"}}"),
            "1",
        ),
        (
            format!("csi_sidecar_operations_seconds_count{{{series}}}"),
            "1",
        ),
    ] {
        assert_eq!(lines(&registry, &[&line]), [format!("{line} {value}")]);
    }
    let sum = lines(&registry, &["operations_seconds_sum"]);
    let sum: f64 = sum[0].rsplit(' ').next().unwrap().parse().unwrap();
    assert!((sum - 20.0).abs() < 0.1, "{sum}");
}

#[tokio::test(start_paused = true)]
async fn rows_37_39_40_code_and_driver_name() {
    let (registry, operations, observer) = measured(OperationsConfig::default());
    let driver = Driver::new(|_, earlier| match earlier {
        0 => ok(),
        _ => Answer::Status(Code::InvalidArgument, "bad"),
    });
    let channel = through_pipe(&driver, observer).await;
    info(channel.clone(), TIMEOUT).await.unwrap();
    operations.set_driver_name("test.csi.driver");
    let status = info(channel, TIMEOUT).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "bad")
    );
    let count = |parts: &[&str]| lines(&registry, parts).len();
    assert_eq!(
        count(&["_count", "\"unknown-driver\"", "\"OK\""]),
        1,
        "keeps the old name"
    );
    assert_eq!(
        count(&["_count", "\"test.csi.driver\"", "\"InvalidArgument\""]),
        1
    );
    assert_eq!(count(&["_count"]), 2);
}

#[tokio::test(start_paused = true)]
async fn rows_41_42_migrated() {
    let driver = Driver::new(|_, _| message(&ControllerPublishVolumeResponse::default()));
    let publish = async |observer: &Observer, migrated: Option<bool>| {
        let mut client = ControllerClient::new(through_pipe(&driver, observer.clone()).await);
        let mut request = tonic::Request::new(ControllerPublishVolumeRequest::default());
        if let Some(migrated) = migrated {
            request.extensions_mut().insert(Migrated(migrated));
        }
        let call = call_with(TIMEOUT, request, async |request| {
            client.controller_publish_volume(request).await
        });
        call.await.unwrap();
    };
    let (plain, _, observer) = measured(OperationsConfig::default());
    publish(&observer, Some(true)).await;
    assert!(lines(&plain, &["migrated"]).is_empty());
    let (labelled, _, observer) = measured(OperationsConfig {
        migrated: true,
        ..OperationsConfig::default()
    });
    publish(&observer, None).await;
    publish(&observer, Some(false)).await;
    publish(&observer, Some(true)).await;
    let count = |value: &str| lines(&labelled, &["_count", value])[0].clone();
    assert!(count("migrated=\"false\"").ends_with(" 2"));
    assert!(count("migrated=\"true\"").ends_with(" 1"));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_told_and_enforced() {
    let (registry, _, observer) = measured(OperationsConfig::default());
    let driver = Driver::new(|_, _| Answer::Never);
    let start = Instant::now();
    let status = info(
        through_pipe(&driver, observer).await,
        Duration::from_millis(1500),
    )
    .await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(status.message(), "context deadline exceeded");
    assert_eq!(start.elapsed().as_millis(), 1500);
    let told = driver.calls()[0].headers["grpc-timeout"].clone();
    assert_eq!(told, "1500000u");
    assert_eq!(
        lines(&registry, &["_count", "\"DeadlineExceeded\""]).len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_asks_nobody() {
    let driver = Driver::new(|_, _| ok());
    let channel = through_pipe(&driver, Observer::default()).await;
    let status = info(channel, Duration::ZERO).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(driver.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn several_calls_can_share_a_deadline() {
    let late = |millis| Answer::Late(Duration::from_millis(millis), Box::new(ok()));
    let driver = Driver::new(move |_, earlier| late(if earlier == 0 { 600 } else { 700 }));
    let channel = through_pipe(&driver, Observer::default()).await;
    let deadline = Deadline::after(Duration::from_secs(1));
    assert!(info(channel.clone(), deadline).await.is_ok());
    let status = info(channel, deadline).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_grpc_becomes_a_status() {
    for (answer, code) in [
        (Answer::Http(503), Code::Unavailable),
        (Answer::Http(404), Code::Unimplemented),
        (Answer::Http(418), Code::Unknown),
        (Answer::Truncated(Bytes::new()), Code::Internal),
    ] {
        let driver = Driver::new(move |_, _| answer.clone());
        let channel = through_pipe(&driver, Observer::default()).await;
        assert_eq!(info(channel, TIMEOUT).await.unwrap_err().code(), code);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_beyond_4_mib_is_refused() {
    let info_of = |length: usize| {
        message(&GetPluginInfoResponse {
            name: "n".repeat(length),
            ..GetPluginInfoResponse::default()
        })
    };
    let most = (4 << 20) - 5;
    let driver = Driver::new(move |_, earlier| info_of(most + earlier));
    let channel = through_pipe(&driver, Observer::default()).await;
    assert_eq!(info(channel.clone(), TIMEOUT).await.unwrap().len(), most);
    let status = info(channel, TIMEOUT).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

/// Drivers put the output of whole commands into the status message.
#[tokio::test(start_paused = true)]
async fn a_long_status_text_arrives() {
    let long: &'static str = "x".repeat(300_000).leak();
    for text in [long, "100 % \u{e9}"] {
        let encoded: &'static str = if text == long { long } else { "100 %25 %C3%A9" };
        let driver = Driver::new(move |_, _| Answer::Status(Code::Internal, encoded));
        let channel = through_pipe(&driver, Observer::default()).await;
        let status = info(channel, TIMEOUT).await.unwrap_err();
        assert_eq!(
            (status.code(), status.message().len()),
            (Code::Internal, text.len())
        );
        assert_eq!(status.message(), text);
    }
}

fn publish_request() -> ControllerPublishVolumeRequest {
    ControllerPublishVolumeRequest {
        volume_id: "v".to_owned(),
        secrets: [("key".to_owned(), "hunter2".to_owned())].into(),
        ..ControllerPublishVolumeRequest::default()
    }
}

async fn publish(channel: Channel) -> Result<(), Status> {
    let mut client = ControllerClient::new(channel);
    let answer = call(TIMEOUT, publish_request(), async |request| {
        client.controller_publish_volume(request).await
    });
    answer.await.map(|_| ())
}

#[tokio::test(start_paused = true)]
async fn row_33_messages_appear_from_level_5_on() {
    let driver = Driver::new(|_, _| message(&ControllerPublishVolumeResponse::default()));
    for (verbosity, expected) in [(4, 0), (5, 2)] {
        let _turn = log::at_verbosity(verbosity);
        let captured = log::capture();
        publish(through_pipe(&driver, logged(None)).await)
            .await
            .unwrap();
        let lines = captured.lines();
        let count = lines.iter().filter(|line| line.contains("GRPC ")).count();
        assert_eq!(count, expected, "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_logged_without_secrets_and_with_the_callers_context() {
    use tracing::Instrument;
    let _turn = log::at_verbosity(5);
    let captured = log::capture();
    let driver = Driver::new(|_, earlier| match earlier {
        0 => message(&ControllerPublishVolumeResponse {
            publish_context: [("dev".to_owned(), "/dev/x".to_owned())].into(),
        }),
        _ => Answer::Status(Code::Internal, "boom"),
    });
    let span = tracing::info_span!("sync", VolumeAttachment = "va1");
    let channel = through_pipe(&driver, logged(None)).await;
    publish(channel.clone()).instrument(span).await.unwrap();
    publish(channel).await.unwrap_err();
    let lines = captured.lines();
    let grpc: Vec<&str> = lines
        .iter()
        .filter(|line| line.contains("GRPC"))
        .map(|line| line.split_once("] ").unwrap().1)
        .collect();
    assert_eq!(
        grpc,
        [
            r#""GRPC call" VolumeAttachment="va1" method="/csi.v1.Controller/ControllerPublishVolume" request="{\"secrets\":\"***stripped***\",\"volume_id\":\"v\"}""#,
            r#""GRPC response" VolumeAttachment="va1" response="{\"publish_context\":{\"dev\":\"/dev/x\"}}" err=null"#,
            r#""GRPC call" method="/csi.v1.Controller/ControllerPublishVolume" request="{\"secrets\":\"***stripped***\",\"volume_id\":\"v\"}""#,
            r#""GRPC response" response="{}" err="rpc error: code = Internal desc = boom""#,
        ]
    );
    assert!(!lines.concat().contains("hunter2"));
}

#[test]
fn rows_34_35_long_answers_are_cut() {
    let text = "0123456789012345678901234567890123456789012345678\u{e9}".to_owned();
    let cut = capped(text.clone(), Some(20));
    let suffix = " [response body too large, log capped to 20 chars]";
    assert_eq!(cut, format!("01234567890123456789{suffix}"));
    assert_eq!(capped(text.clone(), Some(51)), text);
    assert!(
        capped(text.clone(), Some(50))
            .starts_with("0123456789012345678901234567890123456789012345678 [")
    );
    assert_eq!(capped(text.clone(), None), text);
}

#[tokio::test(start_paused = true)]
async fn a_channel_can_be_observed_differently() {
    let (registry, _, observer) = measured(OperationsConfig::default());
    let driver = Driver::new(|_, _| ok());
    let channel = through_pipe(&driver, Observer::default()).await;
    info(channel.clone(), TIMEOUT).await.unwrap();
    info(channel.observed_by(observer), TIMEOUT).await.unwrap();
    assert_eq!(driver.calls().len(), 2);
    assert!(lines(&registry, &["_count"])[0].ends_with(" 1"));
}

#[tokio::test(start_paused = true)]
async fn calls_run_side_by_side() {
    let driver = Driver::new(|_, _| Answer::Late(Duration::from_secs(1), Box::new(ok())));
    let channel = through_pipe(&driver, Observer::default()).await;
    let start = Instant::now();
    let mut probes = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let channel = channel.clone();
        probes.spawn(async move {
            let mut client = IdentityClient::new(channel);
            call(TIMEOUT, ProbeRequest {}, async |request| {
                client.probe(request).await
            })
            .await
        });
    }
    while let Some(result) = probes.join_next().await {
        // The driver sends another message, which does not decode as this one.
        let _ = result.unwrap();
    }
    assert_eq!(start.elapsed().as_secs(), 1);
    assert_eq!(driver.calls().len(), 50);
}
