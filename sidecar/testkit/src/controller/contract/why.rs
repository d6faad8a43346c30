//! Answers about objects: the part of `docs/spec/why.md` that holds for every controller.

pub mod limits;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::{ELECTION, Effect, PATIENCE, Program, Running, Stage, free_address, get};
use super::permission::without;
use crate::api::fault::Gate;
use crate::http;

/// Generates the tests of answers about objects.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_answers {
    ($program:path) => {
        #[tokio::test]
        async fn w_1_without_the_flag_nobody_answers() {
            $crate::controller::contract::why::off(&$program).await;
        }

        #[tokio::test]
        async fn w_2_the_log_says_where_and_warns_of_other_addresses() {
            $crate::controller::contract::why::addresses(&$program).await;
        }

        #[tokio::test]
        async fn w_3_and_w_4_what_runs_and_what_waits_is_listed() {
            $crate::controller::contract::why::running(&$program).await;
        }

        #[tokio::test]
        async fn w_9_objects_that_nobody_knows_and_paths_that_there_are_not() {
            $crate::controller::contract::why::unknown(&$program).await;
        }

        #[tokio::test]
        async fn w_10_a_standby_names_the_holder() {
            $crate::controller::contract::why::standby(&$program).await;
        }

        #[tokio::test]
        async fn w_11_a_missing_permission_is_named() {
            $crate::controller::contract::why::missing(&$program).await;
        }

        #[tokio::test]
        async fn w_11_a_list_that_may_not_be_read_is_named_with_the_permission() {
            $crate::controller::contract::why::unlisted(&$program).await;
        }

        $crate::contract_of_limits_of_answers!($program);
    };
}

/// Generates the tests of answers of a controller with a driver.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_answers_with_a_driver {
    ($program:path) => {
        #[tokio::test]
        async fn w_12_a_driver_that_is_away_is_shown_so() {
            $crate::controller::contract::why::away(&$program).await;
        }
    };
}

const SAID: &str = "Answering questions about objects";

/// A program that answers, and where.
pub struct Answering {
    /// The program.
    pub running: Running,
    /// The address.
    pub address: String,
}

impl Answering {
    /// Starts the program with an endpoint on the loopback address.
    pub async fn start(stage: &Stage, more: &[&str]) -> Self {
        let address = free_address();
        let flag = format!("--why-endpoint={address}");
        let flags: Vec<&str> = [&*flag].into_iter().chain(more.iter().copied()).collect();
        let running = stage.start(&flags);
        running.logs(SAID).await;
        Self { running, address }
    }

    /// The answer to this path below `/why/`, and its status.
    ///
    /// # Panics
    /// If it is no JSON.
    pub async fn ask(&self, path: &str) -> (u16, Value) {
        let (status, body) = get(&self.address, &format!("/why/{path}")).await;
        let json = serde_json::from_str(&body);
        (
            status,
            json.unwrap_or_else(|error| panic!("{error}: {status} {body}")),
        )
    }

    /// Waits until the answer to this path fulfils a condition.
    ///
    /// # Panics
    /// If it does not in time.
    pub async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let (status, body) = get(&self.address, &format!("/why/{path}")).await;
            let json: Value = serde_json::from_str(&body).unwrap_or_default();
            if holds(&json) {
                return json;
            }
            assert!(start.elapsed() < PATIENCE, "{path}: {status} {body}");
            sleep(Duration::from_millis(200)).await;
        }
    }
}

fn controllers(list: &Value) -> &[Value] {
    list["controllers"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn keys(list: &Value) -> &[Value] {
    list["keys"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The paths do not exist without the flag.
pub async fn off(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let address = free_address();
    let running = stage.start(&[&format!("--http-endpoint={address}")]);
    running.logs(program.ready).await;
    for path in ["/why/", "/why/driver", "/why/claims/a/b"] {
        assert_eq!(get(&address, path).await.0, 404, "{path}");
    }
    assert!(!running.log().contains(SAID), "{}", running.log());
}

/// The address with the port that the system chose, and who can reach it.
pub async fn addresses(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let plain = free_address();
    for (flag, loopback) in [("localhost:0", true), (":0", false)] {
        let flags = [
            format!("--why-endpoint={flag}"),
            format!("--http-endpoint={plain}"),
        ];
        let running = stage.start(&[&flags[0], &flags[1]]);
        running.logs(program.ready).await;
        let log = running.log();
        let line = log
            .lines()
            .find(|line| line.contains(SAID))
            .expect("a line");
        let address = line.split("address=").nth(1).expect("an address");
        let address = address.trim_matches('"').replace("[::]", "127.0.0.1");
        let (status, body) = get(&address, "/why/").await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(get(&plain, "/why/").await.0, 404, "not on --http-endpoint");
        let warnings = log
            .matches("answers everybody who reaches this address")
            .count();
        assert_eq!(warnings, usize::from(!loopback), "{log}");
        running.terminate();
        running.end().await.well();
    }
    let ended = stage.start(&["--why-endpoint=1.2.3.4"]).end().await;
    ended.says(
        "W-2",
        program.fatal,
        "--why-endpoint: cannot start the HTTP server",
    );
}

/// One piece of work is held, and shown with its step.
pub async fn running(program: &'static Program) {
    let stage = Stage::prepared(program, 2).await;
    let gate = Gate::new();
    stage.hold_effects(&gate);
    let answering = Answering::start(&stage, &[]).await;
    answering.running.logs(program.ready).await;
    stage.ask(0);
    stage.until_effects(1).await;
    let runs = |key: &Value| key["queue"]["state"] == "running";
    let list = answering
        .until("", |list| keys(list).iter().any(runs))
        .await;
    assert_eq!(list["version"], 2, "{list:#}");
    let controller = &controllers(&list)[0];
    assert_eq!(controller["driver"], program.driver, "{list:#}");
    assert_eq!(controller["leads"], true, "{list:#}");
    let synced = controller["synced"].as_object().expect("lists");
    assert!(!synced.is_empty(), "{list:#}");
    if let Effect::Call(method) = program.work.effect {
        let calls = |it: &Value| it["underWay"][method].as_u64() >= Some(1);
        let driver = answering.until("driver", calls).await;
        assert_eq!(driver["driver"], program.driver, "{driver:#}");
        assert_eq!(driver["driverLink"]["state"], "up", "{driver:#}");
    }
    gate.open();
    stage.until_done(0).await;
    let idle = |list: &Value| !keys(list).iter().any(runs);
    answering.until("", idle).await;
}

/// Unknown objects, and other paths.
pub async fn unknown(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let answering = Answering::start(&stage, &[]).await;
    answering.running.logs(program.ready).await;
    for path in [
        "claims/shop/none",
        "volumes/none",
        "attachments/none",
        "snapshots/shop/none",
    ] {
        let (status, answer) = answering.ask(path).await;
        assert_eq!(
            (status, &answer["known"]),
            (404, &json!(false)),
            "{answer:#}"
        );
    }
    for path in [
        "/why/secrets/a/b",
        "/why/volumes/A",
        "/why",
        "/",
        "/metrics",
        "/readyz",
    ] {
        let (status, body) = get(&answering.address, path).await;
        assert_eq!((status, &*body), (404, "404 page not found\n"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let answer = http::request(&answering.address, method, "/why/").await;
        assert_eq!(answer.status, 405, "{method}: {}", answer.body);
    }
}

/// Another replica leads.
pub async fn standby(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.foreign_lease(3600);
    let answering = Answering::start(&stage, &ELECTION).await;
    let knows = |answer: &Value| answer["answers"][0]["holder"] == "another";
    let answer = answering.until("volumes/v0", knows).await;
    let first = &answer["answers"][0];
    assert_eq!(first["leads"], false, "{answer:#}");
    assert_eq!(first["lease"], program.lease(), "{answer:#}");
    assert_eq!(first["since"], "2020-01-01T00:00:00.000000Z", "{answer:#}");
    assert_eq!(first["queue"]["state"], "standby", "{answer:#}");
    assert_eq!(answering.ask("volumes/v0").await.0, 200);
}

/// Whether a controller lacks these verbs of a resource, separated by commas.
fn lacks(controller: &Value, (group, resource, verbs): (&str, &str, &str)) -> bool {
    let verbs = verbs.replace(',', "\", \"");
    let rule =
        format!("{{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"{verbs}\"]}}");
    let mut missing = controller["missing"].as_array().into_iter().flatten();
    missing.any(|text| text.as_str().is_some_and(|text| text.contains(&rule)))
}

/// A required permission is missing.
pub async fn missing(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.api.allow_only(without(program, program.withheld));
    let answering = Answering::start(&stage, &[]).await;
    let names = |list: &Value| {
        let mut controllers = controllers(list).iter();
        controllers.any(|one| lacks(one, program.withheld))
    };
    answering.until("", names).await;
}

/// The last kind that the program lists may be neither listed nor watched, so that work does not begin.
pub async fn unlisted(program: &'static Program) {
    const LIST: &str = "list,watch";
    let stage = Stage::prepared(program, 1).await;
    let mut listed = program.permissions.iter().rev();
    let listed = listed.find(|(_, _, verbs)| verbs.split(',').any(|verb| verb == "list"));
    let (group, kind, _) = *listed.expect("it lists something");
    stage.api.allow_only(without(program, (group, kind, LIST)));
    let answering = Answering::start(&stage, &[]).await;
    stage.ask(0);
    let path = format!("{}0", program.work.subject);
    let waits = |answer: &Value| {
        let first = &answer["answers"][0];
        let lists = first["synced"].as_object();
        let is_alone =
            lists.is_some_and(|lists| lists.iter().all(|(of, is)| (of == kind) == (*is == false)));
        first["queue"]["state"] == "unsynced"
            && first["synced"][kind] == false
            && is_alone
            && lacks(first, (group, kind, LIST))
    };
    answering.until(&path, waits).await;
    stage.api.allow_only(without(program, ("", "", "")));
    let begins = |answer: &Value| {
        let first = &answer["answers"][0];
        let state = first["queue"]["state"].as_str();
        state.is_some_and(|state| state != "unsynced") && first["synced"][kind] == true
    };
    answering.until(&path, begins).await;
    stage.until_done(0).await;
}

/// The driver goes away and comes back.
pub async fn away(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let answering = Answering::start(&stage, &[]).await;
    answering.running.logs(program.ready).await;
    let link = |list: &Value| controllers(list)[0]["driverLink"].clone();
    let up = answering
        .until("", |list| link(list)["state"] == "up")
        .await;
    stage.driver.stop();
    let away = answering
        .until("", |list| link(list)["state"] == "away")
        .await;
    assert_ne!(link(&up)["since"], link(&away)["since"]);
    stage.driver.start();
    answering
        .until("", |list| link(list)["state"] == "up")
        .await;
}
