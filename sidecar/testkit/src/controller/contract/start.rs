//! From the first contact to the first work.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::super::{ELECTION, NAMESPACE, Program, Stage, free_address, get};
use crate::process::keeps_no_core;

/// Generates the tests of the start.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_starts {
    ($program:path) => {
        #[tokio::test]
        async fn an_api_server_that_is_away_is_waited_for() {
            $crate::controller::contract::start::api_server_away(&$program).await;
        }

        #[tokio::test]
        async fn common_118_a_server_that_takes_few_requests_on_a_connection() {
            $crate::controller::contract::start::few_streams(&$program).await;
        }

        #[tokio::test]
        async fn o_65_o_68_o_69_which_build_it_is() {
            $crate::controller::contract::start::build(&$program).await;
        }

        #[tokio::test]
        async fn o_70_o_72_what_it_works_with() {
            $crate::controller::contract::start::ready_to_work(&$program).await;
        }

        #[tokio::test]
        async fn a_port_in_use_ends_the_process() {
            $crate::controller::contract::start::port_in_use(&$program).await;
        }

        #[tokio::test]
        async fn common_82_paths_without_election() {
            $crate::controller::contract::start::paths(&$program).await;
        }

        #[tokio::test]
        async fn common_80_the_path_of_metrics() {
            $crate::controller::contract::start::metrics_path(&$program).await;
        }

        #[tokio::test]
        async fn common_83_json_in_each_line() {
            $crate::controller::contract::start::json_lines(&$program).await;
        }

        #[tokio::test]
        async fn fa_6_no_core_file() {
            $crate::controller::contract::start::no_core_file(&$program).await;
        }
    };
}

/// The API server is away when the program starts.
pub async fn api_server_away(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    stage.api.set_down(true);
    let mut running = stage.start(&[]);
    sleep(Duration::from_secs(2)).await;
    assert!(running.is_running(), "{}", running.log());
    stage.api.set_down(false);
    running.logs(program.ready).await;
    stage.ask(0);
    stage.until_done(0).await;
}

/// A connection accepts fewer concurrent requests than there are watches.
pub async fn few_streams(program: &'static Program) {
    let stage = Stage::over_tls(program).await;
    stage.api.limit_streams(2);
    (program.work.prepare)(&stage, 1);
    let running = stage.started(&[]).await;
    stage.ask(0);
    stage.until_done(0).await;
    // Waiting for a watch to end takes minutes.
    let took = running.elapsed();
    assert!(took < Duration::from_secs(45), "{took:?} {}", running.log());
}

/// All places show the same version, and the first log line has it.
pub async fn build(program: &'static Program) {
    let said = program.run(&["--version"]).await;
    said.well();
    let said = said.stdout.trim_end().rsplit_once(' ');
    let (_, version) = said.expect("a name and a version");
    let stage = Stage::prepared(program, 0).await;
    let address = free_address();
    let running = stage
        .started(&[&format!("--http-endpoint={address}")])
        .await;
    let log = running.log();
    let first = log.lines().next().unwrap_or_default();
    let name = program.path();
    let name = name.rsplit('/').next().unwrap_or_default();
    let told = format!("\"Version\" program={name:?} version={version:?} revision=");
    assert!(first.contains(&told), "O-69: {first}, not {told}");
    let (_, text) = get(&address, "/metrics").await;
    let infos = text.lines();
    let mut infos = infos.filter(|line| line.starts_with("csi_sidecar_build_info{"));
    let info = infos.next().unwrap_or_default();
    let labels = [
        format!("program={name:?}"),
        format!("version={version:?}"),
        "revision=\"".to_owned(),
        "target=\"".to_owned(),
        "rustc=\"1.".to_owned(),
        "replaces=\"".to_owned(),
    ];
    for label in labels {
        assert!(info.contains(&label), "O-65: {info}, without {label}");
    }
    assert!(info.ends_with("} 1"), "O-65: {info}");
    assert_eq!(infos.next(), None, "O-65: one series");
    let agent = format!("{name}/{version} ");
    for request in stage.api.requests() {
        let had = request.user_agent;
        assert!(had.starts_with(&agent), "O-68: {had:?}, not {agent:?}");
    }
}

/// One line names the program's settings before it works.
pub async fn ready_to_work(program: &'static Program) {
    const SECRET: &str = "hunter2";
    for format in ["text", "json"] {
        let stage = Stage::prepared(program, 1).await;
        let address = free_address();
        let flags = [
            format!("--logging-format={format}"),
            format!("--http-endpoint={address}"),
            "--kube-api-qps=50".to_owned(),
            format!("{}=3", program.workers),
            "--leader-election".to_owned(),
            "--leader-election-namespace=ns".to_owned(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let proxy = format!("http://me:{SECRET}@127.0.0.1:1");
        let environment = [("HTTPS_PROXY", &*proxy), ("TOKEN", SECRET)];
        let running = stage.start_in(&flags, &environment);
        running.logs(program.ready).await;
        stage.ask(0);
        stage.until_done(0).await;
        let log = running.log();
        let lines: Vec<&str> = log.lines().collect();
        let is_it = |line: &&str| line.contains("Ready to work");
        let at = lines.iter().position(is_it).expect(&log);
        let begins = lines.iter().position(|line| line.contains(program.ready));
        assert!(Some(at) < begins, "O-70, before it works: {log}");
        let said = lines[at];
        assert_eq!(lines.into_iter().filter(is_it).count(), 1, "O-70: {log}");
        assert!(said.len() <= 2048, "O-70: {} bytes: {said}", said.len());
        let lease = format!("{NAMESPACE}/{}", program.lease);
        let mut expected = vec![
            ("lease", lease.as_str()),
            ("workers", "3"),
            ("qps", "50 burst 10"),
        ];
        if program.has_driver() {
            expected.extend([("driver", program.driver), ("driver_version", "1.0.0")]);
        }
        for (field, value) in expected {
            let field = match format {
                "json" => format!("{field:?}:{value:?}"),
                _ => format!(" {field}={value:?}"),
            };
            assert!(said.contains(&field), "O-70: {said}, not {field}");
        }
        let others = [&*address, "kube-api-qps=50", "watches"];
        for text in others {
            assert!(said.contains(text), "O-70: {said}, not {text}");
        }
        if format == "json" {
            let read: Result<Value, _> = serde_json::from_str(said);
            let missing = &read.expect("an object")["missing_optional_permissions"];
            assert_eq!(missing, 0, "O-70: {said}");
        }
        for secret in [SECRET, "test-token"] {
            assert!(!said.contains(secret), "O-72: {said}");
        }
    }
}

/// The port is already taken.
pub async fn port_in_use(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let ended = stage
        .start(&[&format!("--http-endpoint={address}")])
        .end()
        .await;
    ended.says("section 6", program.fatal, "--http-endpoint");
}

/// The paths of the HTTP server without leader election.
pub async fn paths(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let address = free_address();
    let _running = stage
        .started(&[&format!("--http-endpoint={address}")])
        .await;
    for path in ["/healthz/leader-election", "/healthz", "/debug/pprof/"] {
        assert_eq!(get(&address, path).await.0, 404, "{path}");
    }
    let (code, text) = get(&address, "/metrics").await;
    assert_eq!(code, 200);
    assert!(text.contains("workqueue_depth{name="), "{text}");
    assert!(
        !text.contains("leader_election_master_status{"),
        "no election, no series"
    );
    assert!(!text.contains("migrated"), "{text}");
    if program.has_driver() {
        let probe = r#"csi_sidecar_operations_seconds_count{driver_name="unknown-driver",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"} 1"#;
        assert!(text.contains(probe), "{text}");
    }
}

/// Metrics are at the flag's path; the older address has no health.
pub async fn metrics_path(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let address = free_address();
    let (endpoint, path) = (format!("--http-endpoint={address}"), "--metrics-path=/m");
    let running = stage.started(&[&endpoint, path]).await;
    assert_eq!(get(&address, "/m").await.0, 200);
    assert_eq!(get(&address, "/metrics").await.0, 404);
    drop(running);
    if program.has_driver() {
        let address = free_address();
        let endpoint = format!("--metrics-address={address}");
        let arguments: Vec<&str> = ELECTION.into_iter().chain([endpoint.as_str()]).collect();
        let _running = stage.started(&arguments).await;
        assert_eq!(get(&address, "/healthz/leader-election").await.0, 404);
        assert_eq!(get(&address, "/metrics").await.0, 200);
    }
}

/// The log as JSON.
pub async fn json_lines(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    let running = stage.started(&["--logging-format=json", "-v=5"]).await;
    stage.ask(0);
    stage.until_done(0).await;
    let ended = running.terminated().await;
    ended.well();
    assert_eq!(ended.stdout, "");
    for line in ended.log.lines() {
        let read: Result<Value, _> = serde_json::from_str(line);
        assert!(read.is_ok_and(|line| line.is_object()), "{line}");
    }
}

/// A crash leaves no core file with the memory's contents.
pub async fn no_core_file(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let running = stage.started(&[]).await;
    keeps_no_core(running.id());
    assert!(running.log().contains(program.ready));
}
