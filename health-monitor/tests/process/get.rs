//! H-52 to H-57: drivers without lists.

use std::time::{Duration, Instant};

use sidecar_testkit::CallFault;
use tonic::Code;

use super::stage::{CLAIMS, GET, Stage, claim, free_address, settle, until_metrics, volume};

fn calls_about(stage: &Stage, handle: &str) -> usize {
    let calls = stage.driver.calls_to(GET);
    calls.iter().filter(|call| call.volume() == handle).count()
}

/// The fixture, and as many volumes more as make `count`.
async fn getting_of(count: usize) -> Stage {
    let stage = Stage::getting().await;
    for number in 3..count {
        let (name, key) = (format!("more{number}"), format!("ns/more{number}"));
        stage.driver.volume(&name);
        stage.api.insert(volume(&name, &name, &key));
        stage.api.insert(claim(&key, &name));
    }
    stage
}

/// Seconds from the first call to each, and the volumes asked about.
fn asked(stage: &Stage) -> (Vec<f64>, Vec<String>) {
    let calls = stage.driver.calls_to(GET);
    let since = { calls.iter() }.map(|call| (call.started - calls[0].started).as_secs_f64());
    let handles = calls.iter().map(|call| call.volume().to_owned());
    (since.collect(), handles.collect())
}

/// Seconds from `begun` until the driver heard of the first call. If it heard of it late, calls that are made on time seem
/// to follow too soon.
fn until_first(stage: &Stage, begun: Instant) -> f64 {
    let first = stage.driver.calls_to(GET)[0].started.into_std();
    (first - begun).as_secs_f64()
}

#[tokio::test]
async fn h_52_each_volume_is_asked_about_once_in_an_interval() {
    let stage = getting_of(100).await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let arguments = ["--monitor-interval=60s", "--worker-threads=10", &endpoint];
    let begun = Instant::now();
    let _program = stage.started(&arguments).await;
    until_calls_within(&stage, 111, Duration::from_secs(180)).await;
    let late = until_first(&stage, begun);
    let (since, mut handles) = asked(&stage);
    for (index, due) in [(25, 15.0), (50, 30.0), (75, 45.0), (100, 60.0), (110, 66.0)] {
        let at = since[index];
        assert!(at + late >= due - 0.6 && at < due + 30.0, "evenly: {at}");
    }
    handles.truncate(100);
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), 100, "each once");
    assert!(stage.driver.peak(GET) <= 10);
    assert!(stage.patches().is_empty());
    let metrics = until_metrics(&address, "csi_volume_health_cycle_seconds 60").await;
    let probes = "csi_volume_health_probe_total{driver_name=\"test.csi.driver\",method=\"ControllerGetVolumeHealth\",result=\"success\"}";
    assert!(metrics.contains(probes), "{metrics}");
}

/// As `h_53_many_…` with fewer volumes, for a round of 14 s.
#[tokio::test]
async fn h_53_a_round_that_takes_longer_than_the_interval_is_said_once() {
    let stage = getting_of(100).await;
    slow_round(&stage, ["--monitor-interval=4s", "--worker-threads=7"], 14).await;
}

/// `cargo test -p health-monitor --test process h_53 -- --ignored`
#[tokio::test]
#[ignore = "takes five minutes"]
async fn h_53_many_volumes_take_five_minutes() {
    let stage = getting_of(3000).await;
    slow_round(
        &stage,
        ["--monitor-interval=1m", "--worker-threads=10"],
        300,
    )
    .await;
    assert!(stage.driver.peak(GET) <= 10);
    let (since, mut handles) = asked(&stage);
    for calls in since.windows(11) {
        // Calls of one second may be recorded a moment late, and the next ones in time.
        assert!(calls[10] - calls[0] > 0.9, "{calls:?}");
    }
    handles.truncate(3000);
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), 3000, "each once");
}

/// Volumes divided by workers is `seconds`.
async fn slow_round(stage: &Stage, [interval, workers]: [&str; 2], seconds: u64) {
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let begun = Instant::now();
    let program = stage.started(&[interval, workers, &endpoint]).await;
    program.logs("takes longer than --monitor-interval").await;
    let count = stage.api.objects(CLAIMS).len() - 2;
    until_calls_within(stage, count + 8, Duration::from_secs(seconds + 120)).await;
    let (took, due) = (asked(stage).0[count], seconds as f64);
    let late = until_first(stage, begun);
    assert!(
        took + late >= due - 1.0 && took < due * 1.1 + 30.0,
        "{took}"
    );
    // Its first two digits.
    let digits = &seconds.to_string()[..2];
    until_metrics(
        &address,
        &format!("csi_volume_health_cycle_seconds {digits}"),
    )
    .await;
    let log = program.log();
    let said = { log.lines() }.filter(|line| line.contains("takes longer than"));
    let said: Vec<&str> = said.collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains(&seconds.to_string()), "{said:?}");
}

/// As `Stage::until_calls`, for as long as `limit`.
async fn until_calls_within(stage: &Stage, count: usize, limit: Duration) {
    let begun = Instant::now();
    while stage.calls(GET) < count {
        assert!(begun.elapsed() < limit, "{} of {count}", stage.calls(GET));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
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
    let arguments = ["--monitor-interval=1s", "--timeout=5m"];
    let _program = stage.started(&arguments).await;
    stage.until_conditions(11, &["Degraded A"]).await;
    stage
        .until("four calls about h10", || calls_about(&stage, "h10") >= 4)
        .await;
    let calls = stage.driver.calls_to(GET);
    let about: Vec<_> = calls.iter().filter(|call| call.volume() == "h10").collect();
    for (pair, wait) in about.windows(2).zip([1.0, 2.0, 4.0]) {
        let apart = (pair[1].started - pair[0].started).as_secs_f64();
        // A busy machine makes pauses longer, nothing makes them shorter.
        assert!(apart >= wait, "H-54: {apart} instead of {wait}");
    }
    assert_eq!(stage.conditions(10), ["Degraded A"], "H-54");
    stage
        .until("H-55", || calls_about(&stage, "h11") >= 6)
        .await;
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
    let round = async || stage.until_calls(GET, stage.calls(GET) + 6).await;
    round().await;
    let before = calls_about(&stage, "h13");
    round().await;
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
