//! H-52 to H-57: drivers without lists.

use std::time::Duration;

use sidecar_testkit::CallFault;
use tonic::Code;

use super::stage::{CLAIMS, GET, Stage, claim, free_address, settle, until_metrics, volume};

fn calls_about(stage: &Stage, handle: &str) -> usize {
    let calls = stage.driver.calls_to(GET);
    calls.iter().filter(|call| call.volume() == handle).count()
}

#[tokio::test]
async fn h_52_and_53_each_volume_is_asked_about_once_in_an_interval() {
    let stage = Stage::getting().await;
    for number in 0..97 {
        let key = format!("ns/more{number}");
        stage.driver.volume(&format!("more{number}"));
        stage.api.insert(volume(
            &format!("more{number}"),
            &format!("more{number}"),
            &key,
        ));
        stage.api.insert(claim(&key, &format!("more{number}")));
    }
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let arguments = ["--monitor-interval=12s", "--worker-threads=10", &endpoint];
    let program = stage.started(&arguments).await;
    stage.until_calls(GET, 151).await;
    let calls = stage.driver.calls_to(GET);
    let since = |index: usize| (calls[index].started - calls[0].started).as_secs_f64();
    // 100 volumes in 12 s.
    assert!((11.5..14.0).contains(&since(100)), "H-52: {}", since(100));
    for (index, due) in [(25, 3.0), (50, 6.0), (75, 9.0), (150, 18.0)] {
        let at = since(index);
        assert!((due - 0.5..due + 2.0).contains(&at), "H-52: evenly, {at}");
    }
    let mut handles: Vec<&str> = calls[..100].iter().map(|call| call.volume()).collect();
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), 100, "H-52: each once");
    assert!(stage.driver.peak(GET) <= 10);
    assert!(stage.patches().is_empty());
    let metrics = until_metrics(&address, "csi_volume_health_cycle_seconds 12").await;
    let probes = "csi_volume_health_probe_total{driver_name=\"test.csi.driver\",method=\"ControllerGetVolumeHealth\",result=\"success\"}";
    assert!(metrics.contains(probes), "{metrics}");
    drop(program);
    // At most `--worker-threads` queries start per second, so the round takes longer than the interval.
    stage.clear();
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let arguments = ["--monitor-interval=4s", "--worker-threads=7", &endpoint];
    let program = stage.started(&arguments).await;
    program.logs("takes longer than --monitor-interval").await;
    stage.until_calls(GET, 15).await;
    let calls = stage.driver.calls_to(GET);
    let took = (calls[14].started - calls[0].started).as_secs_f64();
    assert!(took > 1.8, "H-53: {took}");
    // 100 volumes, seven in a second.
    until_metrics(&address, "csi_volume_health_cycle_seconds 14").await;
    assert_eq!(
        program.log().matches("takes longer than").count(),
        1,
        "H-53"
    );
}

#[tokio::test]
async fn h_54_and_55_a_volume_in_error_keeps_its_health_and_waits_longer_each_time() {
    let stage = Stage::getting().await;
    stage.has(10, &["Degraded A"]);
    stage.suffers("h11", &[(1, "A")]);
    stage
        .driver
        .fault(CallFault::on(GET).volume("h10").fail(Code::NotFound, "no"));
    stage.driver.fault(CallFault::on(GET).volume("h12").hang());
    let _program = stage.started(&["--monitor-interval=1s"]).await;
    stage.until_conditions(11, &["Degraded A"]).await;
    stage
        .until("four calls about h10", || calls_about(&stage, "h10") >= 4)
        .await;
    let calls = stage.driver.calls_to(GET);
    let about: Vec<_> = calls.iter().filter(|call| call.volume() == "h10").collect();
    for (pair, wait) in about.windows(2).zip([1.0, 2.0, 4.0]) {
        let apart = (pair[1].started - pair[0].started).as_secs_f64();
        assert!(
            (wait..wait + 1.5).contains(&apart),
            "H-54: {apart} instead of {wait}"
        );
    }
    assert_eq!(stage.conditions(10), ["Degraded A"], "H-54");
    assert!(calls_about(&stage, "h11") >= 6, "H-55");
    assert_eq!(calls_about(&stage, "h12"), 1, "H-55: one call at a time");
}

#[tokio::test]
async fn h_57_a_volume_that_is_bound_later_is_reported() {
    let stage = Stage::getting().await;
    stage.suffers("h13", &[(1, "A")]);
    let _program = stage.started(&[]).await;
    stage.until_calls(GET, 6).await;
    assert_eq!(calls_about(&stage, "h13"), 0);
    stage.api.insert(claim("ns/c13", "pv13"));
    stage.api.edit("persistentvolumes", "pv13", |object| {
        *object = volume("pv13", "h13", "ns/c13").into();
    });
    stage.until_conditions(13, &["Degraded A"]).await;
    // A released volume is no longer queried.
    stage.api.edit("persistentvolumes", "pv13", |object| {
        object["status"]["phase"] = "Released".into()
    });
    settle().await;
    let before = calls_about(&stage, "h13");
    settle().await;
    assert_eq!(calls_about(&stage, "h13"), before);
    let claim = stage.api.object(CLAIMS, "ns/c13").unwrap();
    assert!(
        claim["status"]["healthStatus"]["healthConditions"].is_array(),
        "rule 13"
    );
}

#[tokio::test]
async fn a_driver_that_lacks_the_call_it_announces_is_left_alone() {
    let stage = Stage::getting().await;
    stage
        .driver
        .fault(CallFault::on(GET).fail(Code::Unimplemented, "no"));
    let mut program = stage.started(&[]).await;
    program.logs("answers Unimplemented").await;
    tokio::time::sleep(Duration::from_millis(100)).await; // For calls that were on their way.
    let before = stage.calls(GET);
    settle().await;
    assert_eq!(stage.calls(GET), before);
    assert!(program.is_running());
}
