//! One leader among replicas.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::super::{ELECTION, Program, Stage, free_address, get, settle};
use crate::Fault;
use crate::api::record::Request;
use crate::election::succeed_while_stopped;
use crate::http::attack::Target;

/// Generates the tests of leader election.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_elections {
    ($program:path) => {
        #[tokio::test]
        async fn common_48_and_65_a_standby_asks_for_the_lease_and_nothing_else() {
            $crate::controller::contract::election::standby(&$program).await;
        }

        #[tokio::test]
        async fn common_48_49_63_and_64_a_leader_says_so() {
            $crate::controller::contract::election::leader(&$program).await;
        }

        #[tokio::test]
        async fn common_112_a_lease_that_can_have_no_name() {
            $crate::controller::contract::election::no_name(&$program).await;
        }

        #[tokio::test]
        async fn common_52_the_namespace_of_the_pod() {
            $crate::controller::contract::election::namespace(&$program).await;
        }

        #[tokio::test]
        async fn common_55_and_58_a_lease_that_nobody_holds() {
            $crate::controller::contract::election::free_lease(&$program).await;
        }

        #[tokio::test]
        async fn common_57_and_67_a_silent_leader_is_succeeded_and_the_lease_released() {
            $crate::controller::contract::election::succession(&$program).await;
        }

        #[tokio::test]
        async fn common_61_a_leader_that_cannot_renew_ends() {
            $crate::controller::contract::election::no_renewal(&$program).await;
        }

        #[tokio::test]
        async fn common_62_events_are_forbidden() {
            $crate::controller::contract::election::no_events(&$program).await;
        }

        #[tokio::test]
        async fn fs_9_a_leader_that_was_stopped_changes_nothing_when_it_goes_on() {
            $crate::controller::contract::election::stopped(&$program).await;
        }

        #[tokio::test]
        async fn fs_11_health_is_answered_under_attack() {
            $crate::controller::contract::election::attacked(&$program).await;
        }
    };
}

/// A short lease that still survives on a busy machine.
const SHORT: [&str; 5] = [
    ELECTION[0],
    ELECTION[1],
    "--leader-election-lease-duration=8s",
    "--leader-election-renew-deadline=6s",
    "--leader-election-retry-period=1s",
];

/// As [`ELECTION`], with a lease that is renewed once a second.
const LONG: [&str; 5] = [
    ELECTION[0],
    ELECTION[1],
    ELECTION[2],
    ELECTION[3],
    "--leader-election-retry-period=1s",
];

/// A driver name that no object may have: CSI allows capitals, a Lease's name does not.
pub async fn no_name(program: &'static Program) {
    if !program.has_driver() {
        return;
    }
    let stage = Stage::prepared(program, 0).await;
    stage
        .driver
        .configure(|model| model.name = "Storage.Example.com".into());
    let ended = stage.start(&ELECTION).end().await;
    ended.says("a name with capitals", 1, "refuses a Lease called");
    ended.says("a name with capitals", 1, "Storage.Example.com");
    assert_eq!(stage.holder(), json!(null));
}

/// Another replica leads.
pub async fn standby(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    stage.foreign_lease(3600);
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let running = stage.start(&[ELECTION[0], ELECTION[1], &endpoint]);
    running.logs("Attempting to acquire leader lease").await;
    stage.ask(0);
    sleep(Duration::from_secs(2)).await;
    let about_the_lease = format!(
        "GET /apis/coordination.k8s.io/v1/namespaces/ns/leases/{}",
        program.lease
    );
    // Discovery GETs a group and version, or lists a single object of a kind.
    let is_discovery = |request: &Request| {
        request.path.matches('/').count() <= 3 || request.query.get("limit") == Some(&"1".into())
    };
    let mut requests = stage.api.requests();
    requests.retain(|request| !is_discovery(request));
    let requests = requests.iter().map(ToString::to_string);
    let foreign: Vec<String> = requests
        .filter(|request| *request != about_the_lease)
        .collect();
    assert_eq!(foreign, [""; 0]);
    assert_eq!(stage.effects(), 0);
    let health = get(&address, "/healthz/leader-election").await;
    assert_eq!(health, (200, "ok".into()), "row 65");
    let (_, text) = get(&address, "/metrics").await;
    let standby = r#"leader_election_master_status{name=""} 0"#;
    assert!(text.contains(standby), "row 48: {text}");
    running.terminated().await.well();
    assert_eq!(stage.holder(), "another");
}

/// The program becomes leader.
pub async fn leader(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _running = stage.started(&[ELECTION[0], ELECTION[1], &endpoint]).await;
    let leases = "*/namespaces/ns/leases";
    let path = format!("{leases}/{}", program.lease);
    stage.until_written("PUT", &path, 1).await;
    assert_eq!(
        stage.api.requests_to("GET", &path)[0].status,
        Some(404),
        "row 49"
    );
    let mut created = stage.api.requests_to("POST", leases);
    created.retain(|request| request.body["metadata"]["name"] == program.lease);
    assert_eq!(created.len(), 1, "row 49");
    let spec = &stage.lease()["spec"];
    assert_eq!(spec["leaseDurationSeconds"], 15, "row 49");
    assert_eq!(spec["leaseTransitions"], 0, "row 49");
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    assert!(!holder.is_empty(), "row 49: {spec}");
    let (_, text) = get(&address, "/metrics").await;
    let leads = r#"leader_election_master_status{name=""} 1"#;
    assert!(text.contains(leads), "row 48: {text}");
    let health = get(&address, "/healthz/leader-election").await;
    assert_eq!(health, (200, "ok".into()), "row 64");
    stage.until_events("LeaderElection", 1).await;
    let said = format!("{holder} became leader");
    assert_eq!(stage.events("LeaderElection"), [said], "row 63");
    let events = stage.api.objects("events");
    let component = events[0]["source"]["component"].as_str();
    let (lease, host) = component
        .and_then(|of| of.rsplit_once('/'))
        .expect("row 63");
    assert_eq!(lease.replace('.', "-"), program.lease, "row 63");
    assert_eq!(host.replace('.', "-"), holder, "row 63");
}

/// The pod's namespace is used without a flag.
pub async fn namespace(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let running = stage.start_in(&[ELECTION[0]], &[("POD_NAMESPACE", "env")]);
    running.logs(program.ready).await;
    let lease = format!("env/{}", program.lease);
    assert!(stage.api.object("leases", &lease).is_some(), "row 52");
}

/// A released lease, with a label of another owner.
pub async fn free_lease(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.foreign_lease(3600);
    stage.api.edit("leases", &program.lease(), |lease| {
        lease["metadata"]["labels"] = json!({"keep": "me"});
        lease["spec"]["holderIdentity"] = "".into();
    });
    // The snapshot-controller has no flag for labels, like upstream's.
    let labels = program
        .has_driver()
        .then_some("--leader-election-labels=a:b,c:d");
    let arguments: Vec<&str> = ELECTION.into_iter().chain(labels).collect();
    let _running = stage.started(&arguments).await;
    assert_eq!(stage.lease()["spec"]["leaseTransitions"], 8, "row 58");
    let expected = match labels {
        Some(_) => json!({"a": "b", "c": "d", "keep": "me"}),
        None => json!({"keep": "me"}),
    };
    assert_eq!(stage.lease()["metadata"]["labels"], expected, "row 55");
}

/// A holder that vanished, and a successor that releases the lease.
pub async fn succession(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    stage.foreign_lease(4);
    let running = stage.start(&LONG);
    running.logs(program.ready).await;
    assert!(running.elapsed() >= Duration::from_secs(4), "row 57");
    assert_eq!(stage.lease()["spec"]["leaseTransitions"], 8, "row 57");
    stage.ask(0);
    stage.until_done(0).await;
    running.terminated().await.well();
    assert_eq!(stage.holder(), "", "row 67");
    assert_eq!(stage.lease()["spec"]["leaseDurationSeconds"], 1, "row 67");
}

/// The API server goes away for longer than the lease.
pub async fn no_renewal(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let running = stage.started(&SHORT).await;
    stage.api.set_down(true);
    running.end().await.says("row 61", 1, "Stopped leading");
}

/// Events are forbidden, in the authorizer's words: a refusal by a policy or a quota silences no
/// namespace.
#[must_use]
pub fn events_forbidden() -> Fault {
    let forbidden =
        "events.events.k8s.io is forbidden: User \"sidecar\" cannot create resource \"events\"";
    Fault::on("POST", "*/events").answer_saying(403, forbidden)
}

/// The program may create no events.
pub async fn no_events(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    stage.api.fault(events_forbidden());
    let mut running = stage.started(&ELECTION).await;
    running.logs("Server rejected event").await;
    settle().await;
    let lines = running.log().matches("Server rejected event").count();
    assert_eq!(lines, 1, "row 62: {}", running.log());
    stage.ask(0);
    stage.until_done(0).await;
    assert!(running.is_running());
}

/// The leader is stopped while it works, and another takes the lease meanwhile.
pub async fn stopped(program: &'static Program) {
    const PIECES: usize = 400;
    let stage = Stage::prepared(program, PIECES).await;
    let workers = format!("{}=100", program.workers);
    let mut arguments = SHORT.to_vec();
    arguments.extend([workers.as_str(), "--kube-api-qps=-1"]);
    let running = stage.started(&arguments).await;
    for number in 0..PIECES {
        stage.ask(number);
    }
    stage.until_effects(20).await;
    let (lease, over) = (program.lease(), Duration::from_millis(7500));
    let (api, driver) = (&stage.api, &stage.driver);
    let later = succeed_while_stopped(api, driver, running.id(), &lease, over).await;
    let ended = running.end().await;
    settle().await;
    assert_eq!(later.effects(), [""; 0]);
    ended.says("FS-9", 1, "Stopped leading");
    let done = (0..PIECES).filter(|number| stage.is_done(*number)).count();
    assert!(done < PIECES, "it was not at work");
}

/// Malicious clients of the program's HTTP server.
pub async fn attacked(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let mut arguments = LONG.to_vec();
    arguments.push(&endpoint);
    let mut running = stage.started(&arguments).await;
    let target = Target {
        id: running.id(),
        address,
        health: "/healthz/leader-election",
        large: "/metrics",
    };
    target.withstands().await;
    assert!(running.is_running(), "{}", running.log());
}
