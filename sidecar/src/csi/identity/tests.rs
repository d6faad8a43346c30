//! Rows 14 to 22 of the common specification.

use super::*;
use crate::csi::observe::Observer;
use crate::csi::pipe::channel as through_pipe;
use csi_proto::csi::{
    ControllerGetCapabilitiesResponse, ControllerServiceCapability, GetPluginCapabilitiesResponse,
    GetPluginInfoResponse, NodeGetCapabilitiesResponse, NodeServiceCapability, PluginCapability,
    ProbeResponse,
};
use sidecar_testkit::driver::scripted::{Answer, Driver, message};
use tokio::time::Instant;

const TIMEOUT: Duration = Duration::from_secs(1);

fn ready(ready: Option<bool>) -> Answer {
    message(&ProbeResponse { ready })
}

/// Runs the probe loop and returns its result, the number of probes and the time it took.
async fn probing(
    script: impl Fn(usize) -> Answer + Send + Sync + 'static,
) -> (Result<(), String>, usize, Duration) {
    let driver = Driver::new(move |_, earlier| script(earlier));
    let channel = through_pipe(&driver, Observer::default()).await;
    let start = Instant::now();
    let result = probe_until_ready(channel, TIMEOUT).await;
    let result = result.map_err(|error| error.to_string());
    (result, driver.calls().len(), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn row_14_a_missing_answer_means_ready() {
    let (result, probes, took) = probing(|_| ready(None)).await;
    assert_eq!((result, probes), (Ok(()), 1));
    assert!(
        took < Duration::from_millis(100),
        "the first probe comes at once: {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn row_15_not_ready_is_waited_out() {
    let (result, probes, took) = probing(|earlier| ready(Some(earlier == 2))).await;
    assert_eq!((result, probes), (Ok(()), 3));
    assert_eq!(took.as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn row_16_a_timeout_is_waited_out() {
    let script = |earlier| {
        if earlier < 2 {
            Answer::Never
        } else {
            ready(Some(true))
        }
    };
    let (result, probes, _) = probing(script).await;
    assert_eq!((result, probes), (Ok(()), 3));
}

#[tokio::test(start_paused = true)]
async fn row_16_also_when_the_driver_itself_says_so() {
    let script = |earlier| match earlier {
        0 | 1 => Answer::Status(Code::DeadlineExceeded, "slow"),
        _ => ready(Some(true)),
    };
    assert_eq!(probing(script).await.1, 3);
}

#[tokio::test(start_paused = true)]
async fn row_17_any_other_error_ends_the_waiting() {
    let (result, probes, _) = probing(|_| Answer::Status(Code::Unknown, "mock error")).await;
    let expected = "CSI driver probe failed: rpc error: code = Unknown desc = mock error";
    assert_eq!((result, probes), (Err(expected.to_owned()), 1));
    for code in [Code::Unavailable, Code::Unimplemented] {
        assert_eq!(probing(move |_| Answer::Status(code, "")).await.1, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn row_18_an_error_after_not_ready() {
    let script = |earlier| match earlier {
        0 => ready(Some(false)),
        _ => Answer::Status(Code::Unknown, "mock error"),
    };
    let (result, probes, _) = probing(script).await;
    assert!(result.is_err());
    assert_eq!(probes, 2);
}

#[tokio::test(start_paused = true)]
async fn row_19_after_a_slow_probe_the_next_follows_at_once() {
    let driver = Driver::new(|_, earlier| match earlier {
        0 => Answer::Late(Duration::from_millis(1500), Box::new(ready(Some(false)))),
        _ => ready(Some(true)),
    });
    let channel = through_pipe(&driver, Observer::default()).await;
    probe_until_ready(channel, Duration::from_secs(5))
        .await
        .unwrap();
    let calls = driver.calls();
    let gap = calls[1].at - calls[0].at;
    assert!(gap < Duration::from_millis(1600), "{gap:?}");
}

async fn name(answer: Answer) -> Result<String, String> {
    let driver = Driver::new(move |_, _| answer.clone());
    let channel = through_pipe(&driver, Observer::default()).await;
    driver_name(channel, TIMEOUT)
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn row_20_a_driver_must_have_a_name() {
    let info = |name: &str| {
        message(&GetPluginInfoResponse {
            name: name.to_owned(),
            ..GetPluginInfoResponse::default()
        })
    };
    assert_eq!(name(info("")).await, Err("driver name is empty".to_owned()));
    assert_eq!(
        name(info("a/b !")).await,
        Ok("a/b !".to_owned()),
        "no syntax check"
    );
    assert_eq!(
        name(Answer::Never).await,
        Err(
            "GetPluginInfo: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
                .to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn rows_21_22_plugin_capabilities() {
    use plugin_capability::{Service, Type, VolumeExpansion};
    let entry = |r#type| PluginCapability { r#type };
    let service = |number| entry(Some(Type::Service(Service { r#type: number })));
    let mixed = vec![
        entry(None),
        entry(Some(Type::VolumeExpansion(VolumeExpansion::default()))),
        service(i32::from(ServiceType::ControllerService)),
        service(12345),
    ];
    for (capabilities, expected) in [(mixed, true), (Vec::new(), false)] {
        let answer = message(&GetPluginCapabilitiesResponse { capabilities });
        let driver = Driver::new(move |_, _| answer.clone());
        let channel = through_pipe(&driver, Observer::default()).await;
        let set = plugin_capabilities(channel, TIMEOUT).await.unwrap();
        assert_eq!(set.has(ServiceType::ControllerService), expected);
        assert!(!set.has(ServiceType::VolumeAccessibilityConstraints));
    }
}

#[tokio::test(start_paused = true)]
async fn rows_21_22_controller_capabilities() {
    use controller_service_capability::{Rpc, Type};
    let entry = |r#type| ControllerServiceCapability { r#type };
    let number = i32::from(ControllerType::PublishUnpublishVolume);
    let mixed = vec![entry(None), entry(Some(Type::Rpc(Rpc { r#type: number })))];
    for (capabilities, expected) in [(mixed, true), (Vec::new(), false)] {
        let answer = message(&ControllerGetCapabilitiesResponse { capabilities });
        let driver = Driver::new(move |_, _| answer.clone());
        let channel = through_pipe(&driver, Observer::default()).await;
        let set = controller_capabilities(channel, TIMEOUT).await.unwrap();
        assert_eq!(set.has(ControllerType::PublishUnpublishVolume), expected);
        assert!(!set.has(ControllerType::ListVolumes));
    }
}

#[tokio::test(start_paused = true)]
async fn node_capabilities_as_the_controllers() {
    use node_service_capability::{Rpc, Type};
    let entry = |r#type| NodeServiceCapability { r#type };
    let number = i32::from(NodeType::ExpandVolume);
    let capabilities = vec![entry(None), entry(Some(Type::Rpc(Rpc { r#type: number })))];
    let answer = message(&NodeGetCapabilitiesResponse { capabilities });
    let driver = Driver::new(move |_, _| answer.clone());
    let channel = through_pipe(&driver, Observer::default()).await;
    let set = node_capabilities(channel, TIMEOUT).await.unwrap();
    assert!(set.has(NodeType::ExpandVolume) && !set.has(NodeType::StageUnstageVolume));
}
