//! Rows A-22 to A-32, A-53, A-57, A-60 and A-64: one connection to the API server, and one HTTP server.

use std::collections::BTreeSet;
use std::time::Duration;

use sidecar_testkit::api::record::Request;
use sidecar_testkit::controller::ELECTION;
use sidecar_testkit::controller::contract::secure::{Secured, reviews};
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::{CallFault, Fault, Gate};
use tokio::time::Instant;

use super::stage::{
    ALL, CALM, PATIENT, Stage, THREE, free_address, get, is_together, settle, until_metrics,
};

/// Number of TCP connections of a process.
fn connections(process: u32) -> usize {
    let process = format!("/proc/{process}");
    let entries = std::fs::read_dir(format!("{process}/fd")).unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let held: Vec<String> = links.map(|to| to.to_string_lossy().into_owned()).collect();
    let tables = ["tcp", "tcp6"]
        .map(|table| std::fs::read_to_string(format!("{process}/net/{table}")).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let established = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[3] == "01" && held.contains(&format!("socket:[{}]", fields[9]))
    };
    lines.filter(established).count()
}

fn kind(request: &Request) -> String {
    let path = request.path.split('?').next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_22_each_kind_is_watched_once() {
    let stage = Stage::new().await;
    stage.api.allow_streaming_lists();
    let running = stage.three(&[]);
    stage.all_work(0).await;
    let mut watches: Vec<String> = { stage.api.requests().into_iter() }
        .filter(Request::is_watch)
        .map(|request| kind(&request))
        .collect();
    let count = watches.len();
    watches.sort();
    watches.dedup();
    assert_eq!(watches.len(), count, "{watches:?}");
    for kind in ["persistentvolumes", "persistentvolumeclaims", "csinodes"] {
        assert!(watches.contains(&kind.to_owned()), "{watches:?}");
    }
    running.terminated().await.well();
}

#[tokio::test]
async fn a_23_one_connection_for_work_and_one_for_leases() {
    let stage = Stage::over_tls().await;
    let running = stage.three_in_election(&[]);
    stage.until_held(&ALL, is_together).await;
    stage.all_work(0).await;
    assert_eq!(connections(running.id()), 2);
    running.terminated().await.well();
}

#[tokio::test]
async fn a_24_one_list_of_volumes_and_one_of_claims() {
    let stage = Stage::new().await;
    let running = stage.three_in_election(&[]);
    stage.all_work(0).await;
    for kind in ["persistentvolumes", "persistentvolumeclaims"] {
        let lists = stage.api.requests_to("GET", &format!("/api/v1/{kind}"));
        let lists: Vec<_> = lists.iter().filter(|list| !list.is_watch()).collect();
        assert_eq!(lists.len(), 1, "{kind}: {lists:#?}");
    }
    running.terminated().await.well();
}

#[tokio::test]
async fn a_32_audit_logs_still_tell_who_asked() {
    let stage = Stage::new().await;
    let running = stage.three_in_election(&[]);
    stage.all_work(0).await;
    let agents = |fits: &dyn Fn(&Request) -> bool| {
        let mut all = stage.api.requests();
        all.retain(|request| fits(request));
        let agent = |request: Request| request.user_agent;
        let name = |agent: String| agent.split('/').next().unwrap_or_default().to_owned();
        all.into_iter()
            .map(agent)
            .map(name)
            .collect::<BTreeSet<_>>()
    };
    let is_lease = |request: &Request| request.path.ends_with("test-csi-driver");
    let of_leases = agents(&|request| is_lease(request) && request.path.contains("/leases/"));
    assert_eq!(of_leases, BTreeSet::from(["csi-sidecars".to_owned()]));
    let of_writes = agents(&|request| request.is_write() && !request.path.contains("/leases"));
    for name in ["csi-attacher", "csi-provisioner", "csi-resizer"] {
        assert!(of_writes.contains(name), "{of_writes:?}");
    }
    running.terminated().await.well();
}

#[tokio::test]
async fn a_53_a_port_that_is_taken_ends_it() {
    let stage = Stage::new().await;
    let address = free_address();
    let _taken = std::net::TcpListener::bind(&address).unwrap();
    let running = stage.three(&[&format!("--http-endpoint={address}")]);
    running.end().await.says("A-53", 1, "--http-endpoint");
}

#[tokio::test]
async fn a_60_events_are_those_of_the_single_programs() {
    let stage = Stage::new().await;
    let running = stage.three_in_election(&[]);
    stage.all_work(0).await;
    stage.until_events("ProvisioningSucceeded", 1).await;
    stage.until_events("VolumeResizeSuccessful", 1).await;
    let component = |reason: &str| {
        let events = stage.api.objects("events");
        let event = events.iter().find(|event| event["reason"] == reason);
        let component = event.unwrap()["source"]["component"].as_str();
        component.unwrap_or_default().to_owned()
    };
    assert!(component("ProvisioningSucceeded").starts_with("test.csi.driver_"));
    let resizer = component("VolumeResizeSuccessful");
    assert_eq!(resizer, "external-resizer test.csi.driver");
    running.terminated().await.well();
}

#[tokio::test]
async fn a_12_each_controller_keeps_to_its_own_rate() {
    let stage = Stage::new().await;
    let slow = ["--attacher-kube-api-qps=1", "--attacher-kube-api-burst=1"];
    let fast = ["--kube-api-qps=50", "--kube-api-burst=100"];
    let running = stage.three(&[slow, fast].concat());
    running.logs("Starting CSI attacher").await;
    let since = Instant::now();
    for number in 0..3 {
        stage.ask_all(number);
    }
    for number in 0..3 {
        stage.until_done_by(number, &ALL).await;
    }
    assert!(since.elapsed() > Duration::from_secs(5), "six writes");
    let last = |agent: &str| {
        let writes = stage.api.writes();
        let mut own = writes
            .iter()
            .filter(|write| write.user_agent.starts_with(agent));
        own.next_back().unwrap().at
    };
    assert!(last("csi-provisioner") + Duration::from_secs(2) < last("csi-attacher"));
    assert!(last("csi-resizer") + Duration::from_secs(2) < last("csi-attacher"));
    running.terminated().await.well();
}

#[tokio::test]
async fn a_27_a_controller_that_comes_later_joins_and_the_others_have_no_work() {
    let stage = Stage::new().await;
    stage.foreign("attacher", "another-host", 3600);
    let running = stage.three_in_election(&["--leader-election-retry-period=500ms"]);
    stage.ask_all(0);
    stage.until_done_by(0, &["provisioner", "resizer"]).await;
    settle().await;
    let calls = stage.driver.calls().len();
    stage.api.clear_requests();
    stage.take_away("attacher", "");
    stage.until_done_by(0, &ALL).await;
    let lists = stage.api.requests_to("GET", "/api/v1/persistentvolumes");
    let lists: Vec<_> = lists.iter().filter(|list| !list.is_watch()).collect();
    assert_eq!(lists.len(), 1, "{lists:#?}");
    let mut writes = stage.api.writes();
    writes.retain(|write| !write.path.contains("/leases") && !write.path.contains("/events"));
    let others: Vec<_> = { writes.iter() }
        .filter(|write| !write.user_agent.starts_with("csi-attacher"))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    let asked = stage.driver.calls().split_off(calls);
    let asked: Vec<_> = asked.iter().map(|call| call.method).collect();
    assert_eq!(asked, ["ControllerPublishVolume"]);
    running.terminated().await.well();
}

/// The metrics of each controller's limit of concurrent requests, a line each.
async fn concurrency(address: &str) -> Vec<String> {
    let (_, metrics) = get(address, "/metrics").await;
    let family = "csi_sidecar_kube_api_concurrency_limit{";
    let limits = metrics.lines().filter(|line| line.starts_with(family));
    limits.map(str::to_owned).collect()
}

/// Number of this controller's requests that were refused with 429.
fn refusals(metrics: &str, controller: &str) -> f64 {
    let family = format!("csi_sidecar_kube_api_refused_total{{controller=\"{controller}\"");
    let counts = metrics.lines().filter(|line| line.starts_with(&family));
    let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum()
}

#[tokio::test]
async fn a_31_what_one_is_refused_does_not_slow_the_others() {
    let stage = Stage::new().await;
    let address = free_address();
    let running = stage.three(&[&format!("--http-endpoint={address}")]);
    stage.all_work(1).await;
    let limits = concurrency(&address).await;
    let refused = Fault::on("*", "*").user_agent("csi-provisioner*");
    stage.api.fault(refused.too_many(1));
    stage.ask_all(0);
    stage.until_done_by(0, &["attacher", "resizer"]).await;
    let (_, metrics) = get(&address, "/metrics").await;
    assert!(refusals(&metrics, "provisioner") > 0.0, "{metrics}");
    assert_eq!(refusals(&metrics, "attacher"), 0.0, "{metrics}");
    assert_eq!(refusals(&metrics, "resizer"), 0.0, "{metrics}");
    let now = concurrency(&address).await;
    let of = |limits: &[String], name: &str| -> Vec<String> {
        let limits = limits.iter().filter(|line| line.contains(name));
        limits.cloned().collect()
    };
    assert_eq!(of(&limits, "attacher").len(), 1, "{limits:?}");
    assert_eq!(of(&now, "attacher"), of(&limits, "attacher"));
    stage.api.clear_faults();
    stage.until_done_by(0, &ALL).await;
    running.terminated().await.well();
}

/// The changelog names the upstream programs that the process replaces.
#[tokio::test]
async fn o_67_one_build_for_all_controllers() {
    let stage = Stage::new().await;
    let address = free_address();
    let _running = stage.start(&[
        "--controllers=provisioner,resizer",
        &format!("--http-endpoint={address}"),
    ]);
    let metrics = until_metrics(&address, "csi_sidecar_controller_up").await;
    let infos = metrics.lines();
    let infos = infos.filter(|line| line.starts_with("csi_sidecar_build_info{"));
    let infos: Vec<&str> = infos.collect();
    let [info] = *infos else {
        panic!("O-67: one series, not {infos:?}");
    };
    assert!(info.contains(r#"program="csi-sidecars""#), "O-67: {info}");
    let changelog = include_str!("../../../CHANGELOG.md");
    for program in ["csi-provisioner", "csi-resizer"] {
        let row = format!("| {program} | ");
        let row = { changelog.lines() }.find_map(|line| line.strip_prefix(&row));
        let version = row.and_then(|row| row.strip_suffix(" |")).unwrap();
        let replaced = format!("{program} {version}");
        assert!(info.contains(&replaced), "O-67: {info}, without {replaced}");
    }
}

#[tokio::test]
async fn o_55_one_port_with_tls_for_all_controllers() {
    let stage = Stage::new().await;
    let arguments = [&[THREE], &ELECTION[..], &CALM].concat();
    let secured = Secured::start(&stage, &arguments).await;
    stage.until_held(&ALL, is_together).await;
    assert_eq!(secured.running.listeners(), 2);
    let mut text = String::new();
    for _ in 0..5 {
        let answer = secured.scrape().await;
        assert_eq!(answer.status, 200);
        text = answer.body;
    }
    for controller in ALL {
        let series = format!("csi_sidecar_controller_up{{controller=\"{controller}\"}} 1");
        assert!(text.contains(&series), "{text}");
    }
    assert_eq!(reviews(&stage), (1, 1), "one cache");
    for path in ["/livez", "/readyz", "/healthz/leader-election"] {
        assert_eq!(secured.get(path, None).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn o_73_flags_for_all_controllers_once_and_each_ones_own_with_its_name() {
    let stage = Stage::new().await;
    let arguments = [
        THREE,
        "--timeout=9s",
        "--attacher-timeout=7s",
        "--workers=3",
    ];
    let secured = Secured::start(&stage, &arguments).await;
    let status = secured.read("/statusz").await.body;
    assert!(status.starts_with("\ncsi-sidecars statusz\n"), "{status}");
    assert!(status.contains(" /livez "), "{status}");
    let text = secured.read("/flagz").await.body;
    assert!(text.starts_with("\ncsi-sidecars flagz\n"), "{text}");
    let flags: Vec<&str> = text.lines().collect();
    for flag in [
        "controllers=provisioner,attacher,resizer",
        &*format!("secure-http-endpoint={}", secured.address),
        "leader-election=false",
        "provisioner-timeout=9s",
        "attacher-timeout=7s",
        "resizer-timeout=9s",
        "provisioner-worker-threads=3",
        "resizer-workers=3",
    ] {
        let count = flags.iter().filter(|line| **line == flag).count();
        assert_eq!(count, 1, "{flag}: {text}");
    }
    for absent in [
        "timeout=",
        "workers=",
        "attacher-csi-address=",
        "snapshotter-",
    ] {
        let is_there = flags.iter().any(|line| line.starts_with(absent));
        assert!(!is_there, "{absent}: {text}");
    }
}

#[tokio::test]
async fn a_57_and_64_the_process_says_what_it_is_ready_for() {
    let stage = Stage::new().await;
    let can = vec![ControllerRpc::CreateDeleteVolume];
    stage.driver.configure(|model| model.controller = can);
    let gate = Gate::new();
    stage
        .driver
        .fault(CallFault::on("CreateVolume").hold(&gate));
    let address = free_address();
    let running = stage.start(&[
        "--controllers=provisioner,resizer,livenessprobe",
        &format!("--http-endpoint={address}"),
        PATIENT,
    ]);
    running
        .logs("Controller switched off: it cannot work with this driver")
        .await;
    assert_eq!(get(&address, "/livez").await, (200, "ok".to_owned()));
    let (status, text) = get(&address, "/readyz").await;
    assert_eq!(status, 503);
    assert!(text.starts_with("resizer is off: "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let (_, metrics) = get(&address, "/metrics").await;
    for line in [
        "csi_sidecar_controller_up{controller=\"provisioner\"} 1",
        "csi_sidecar_controller_up{controller=\"resizer\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }

    stage.ask_all(0);
    stage.until_calls("CreateVolume", 1).await;
    running.terminate();
    running.logs("Signal received").await;
    let (status, text) = get(&address, "/readyz").await;
    assert!(text.starts_with("shutting down\n"), "{status} {text}");
    assert_eq!(get(&address, "/healthz").await, (200, "ok".to_owned()));
    gate.open();
    running.end().await.well();
}
