//! A process that cannot work reports not ready and the reason, and is not restarted for a problem that a
//! restart does not fix.
//!
//! The rule is section 6.1.

use super::super::{ELECTION, Program, Running, Stage, free_address, get, until_answer};
use super::permission::without;
use crate::Fault;
use crate::api::access::Allow;

/// Generates the tests of health.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_health {
    ($program:path) => {
        #[tokio::test]
        async fn common_99_who_does_not_accept_the_certificate_is_not_ready_until_it_does() {
            $crate::controller::contract::health::certificate(&$program).await;
        }

        #[tokio::test]
        async fn common_113_who_gets_no_answer_is_not_ready_until_there_is_one() {
            $crate::controller::contract::health::unanswered(&$program).await;
        }

        #[tokio::test]
        async fn common_114_who_may_not_list_what_it_needs_is_not_ready_until_it_may() {
            $crate::controller::contract::health::unlisted(&$program).await;
        }

        #[tokio::test]
        async fn common_115_who_lacks_a_permission_is_not_ready_until_it_has_it() {
            $crate::controller::contract::health::not_permitted(&$program).await;
        }

        #[tokio::test]
        async fn common_116_who_may_not_ask_for_the_lease_is_not_ready_until_it_may() {
            $crate::controller::contract::health::no_lease(&$program).await;
        }
    };
}

/// Generates the tests of health of programs with a driver.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_health_with_a_driver {
    ($program:path) => {
        #[tokio::test]
        async fn common_117_whose_driver_is_away_is_not_ready_until_it_is_back() {
            $crate::controller::contract::health::driver_away(&$program).await;
        }
    };
}

const READY: &str = "/readyz";
const ALIVE: &str = "/healthz/leader-election";

/// The program with an HTTP server and leader election.
struct Watched {
    running: Running,
    address: String,
}

impl Watched {
    fn start(stage: &Stage) -> Self {
        let address = free_address();
        let endpoint = format!("--http-endpoint={address}");
        let arguments: Vec<&str> = ELECTION.into_iter().chain([endpoint.as_str()]).collect();
        let running = stage.start(&arguments);
        Self { running, address }
    }

    /// Asserts that it reports not ready, on a line with `reason`, and still alive.
    async fn is_hindered(&self, reason: &str) {
        let text = until_answer(&self.address, READY, 503, reason).await;
        assert!(text.ends_with('\n'), "{text}");
        let alive = get(&self.address, ALIVE).await;
        assert_eq!(alive, (200, "ok".to_owned()), "a restart does not help");
    }

    /// Asserts that it is ready again, without a restart.
    async fn is_ready(&mut self) {
        until_answer(&self.address, READY, 200, "ok").await;
        assert!(self.running.is_running(), "{}", self.running.log());
    }
}

/// The program first trusts another certificate authority.
pub async fn certificate(program: &'static Program) {
    let (stage, other) = (
        Stage::over_tls(program).await,
        Stage::over_tls(program).await,
    );
    (program.work.prepare)(&stage, 1);
    let own = std::fs::read(stage.authority()).expect("a file");
    std::fs::copy(other.authority(), stage.authority()).expect("a file to write");
    let mut watched = Watched::start(&stage);
    let said = "UnknownIssuer; certificate-authority of";
    watched.is_hindered(said).await;
    let log = "Cannot talk to the API server until this is fixed";
    assert_eq!(watched.running.log().matches(log).count(), 1, "row 99");
    std::fs::write(stage.authority(), own).expect("a file to write");
    watched.running.logs(program.ready).await;
    watched.is_ready().await;
    stage.ask(0);
    stage.until_done(0).await;
}

/// The API server is away, for a standby: a leader would exit.
pub async fn unanswered(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.foreign_lease(3600);
    let mut watched = Watched::start(&stage);
    watched.running.logs("Leader lease is held").await;
    watched.is_ready().await;
    stage.api.set_down(true);
    watched
        .is_hindered("the API server does not answer: ")
        .await;
    stage.api.set_down(false);
    watched.is_ready().await;
}

/// The first resource that it needs may be neither listed nor watched.
pub async fn unlisted(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    let (group, resource, _) = program.permissions[0];
    let rules = without(program, (group, resource, "list,watch"));
    stage
        .api
        .allow_only(rules.into_iter().chain([LEASES.allowed()]));
    let mut watched = Watched::start(&stage);
    if !program.has_driver() {
        // It checks for its definitions before anything else, and exits without them.
        let ended = watched.running.end().await;
        ended.says(
            "row 114",
            program.fatal,
            &format!("may not list {resource}"),
        );
        return;
    }
    watched.running.logs("Listing or watching failed").await;
    let refused = format!("{resource} cannot be listed: the API server answered 403");
    watched.is_hindered(&refused).await;
    let text = get(&watched.address, READY).await.1;
    let words =
        |verb: &str| format!("cannot {verb} resource \"{resource}\" in API group \"{group}\"");
    assert!(
        text.contains(&words("list")) || text.contains(&words("watch")),
        "{text}"
    );
    let all = without(program, ("", "", ""));
    stage
        .api
        .allow_only(all.into_iter().chain([LEASES.allowed()]));
    watched.is_ready().await;
    stage.ask(0);
    stage.until_done(0).await;
}

/// The program lacks one verb that it needs for its work.
pub async fn not_permitted(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    let rules = without(program, program.withheld);
    stage
        .api
        .allow_only(rules.into_iter().chain([LEASES.allowed()]));
    let mut watched = Watched::start(&stage);
    let (group, resource, verb) = program.withheld;
    let rule = format!(
        r#"not allowed to - {{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}} in a ClusterRole"#
    );
    watched.is_hindered(&rule).await;
    let all = without(program, ("", "", ""));
    stage
        .api
        .allow_only(all.into_iter().chain([LEASES.allowed()]));
    watched.is_ready().await;
    let granted = "The service account has all required permissions";
    watched.running.logs(granted).await;
}

/// Access to the lease is forbidden, so that nobody would ever lead.
pub async fn no_lease(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    let path = format!("*/leases/{}", program.lease);
    let refused = stage
        .api
        .fault(Fault::on("GET", &path).answer_saying(403, "leases is forbidden"));
    let mut watched = Watched::start(&stage);
    let reason = format!(
        "the lease {} cannot be asked for: the API server answered 403 Forbidden: leases is forbidden",
        program.lease
    );
    watched.is_hindered(&reason).await;
    let log = "Could not get or renew the leader lease";
    assert!(
        watched.running.log().contains(log),
        "{}",
        watched.running.log()
    );
    refused.remove();
    watched.running.logs(program.ready).await;
    watched.is_ready().await;
}

/// The driver goes away and comes back.
pub async fn driver_away(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let mut watched = Watched::start(&stage);
    watched.running.logs(program.ready).await;
    watched.is_ready().await;
    stage.driver.stop();
    let reason = format!("CSI driver: {} does not answer at ", program.driver);
    watched.is_hindered(&reason).await;
    stage.driver.start();
    watched.is_ready().await;
}

/// A rule that leader election needs beside the program's own.
struct Rule(&'static str, &'static str, &'static str);

const LEASES: Rule = Rule(
    "coordination.k8s.io",
    "leases",
    "get,create,update,patch,delete,list,watch",
);

impl Rule {
    fn allowed(&self) -> Allow {
        Allow::new(self.0, self.1, self.2)
    }
}
