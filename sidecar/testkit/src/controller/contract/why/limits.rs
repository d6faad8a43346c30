//! Who may ask, and how much.

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::super::{PATIENCE, Program, Stage, free_address, get, settle};
use super::super::secure::Secured;
use super::Answering;
use crate::api::access::AUDIENCE;
use crate::api::record::Request;
use crate::http;

/// Generates the tests of who may ask, and how much.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_limits_of_answers {
    ($program:path) => {
        #[tokio::test]
        async fn w_16_questions_cost_nobody_else_anything() {
            $crate::controller::contract::why::limits::flood(&$program).await;
        }

        #[tokio::test]
        async fn w_75_over_tls_who_may_ask() {
            $crate::controller::contract::why::limits::secure(&$program).await;
        }
    };
}

/// Many questions: some are refused, and neither API server nor driver hears of any.
pub async fn flood(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    let answering = Answering::start(&stage, &[]).await;
    answering.running.logs(program.ready).await;
    stage.ask(0);
    stage.until_done(0).await;
    // The provisioner's journal drops what is settled seconds after the work.
    let written = || -> Vec<String> {
        let changes = |request: &Request| {
            ["PATCH", "PUT"].contains(&&*request.method) && !request.path.contains("/leases/")
        };
        let writes = stage.api.writes().into_iter().filter(changes);
        writes.map(|request| request.to_string()).collect()
    };
    // Writes that belong to the work may come after it.
    loop {
        stage.clear();
        settle().await;
        if written().is_empty() {
            break;
        }
    }
    let (answered, refused) = ask_until_refused(&answering.address).await;
    assert!(answered >= 20 && refused >= 1, "{answered} {refused}");
    assert_eq!(written(), [""; 0]);
}

/// Asks at least 200 questions, until one is refused; returns how many were answered, and how many refused.
async fn ask_until_refused(address: &str) -> (usize, usize) {
    let (mut answered, mut refused) = (0, 0);
    let begun = Instant::now();
    while answered + refused < 200 || refused == 0 {
        assert!(begun.elapsed() < PATIENCE, "{answered} {refused}");
        // One after the other they could come more slowly than the rate, on a busy machine.
        let mut questions = JoinSet::new();
        for path in ["/why/", "/why/volumes/v0"].into_iter().cycle().take(20) {
            let address = address.to_owned();
            questions.spawn(async move { http::get(&address, path).await.status });
        }
        for status in questions.join_all().await {
            match status {
                200 | 404 => answered += 1,
                429 => refused += 1,
                other => panic!("{other}"),
            }
        }
    }
    (answered, refused)
}

/// The same answers over TLS, for those who may get the path.
pub async fn secure(program: &'static Program) {
    const ASKER: &str = "system:serviceaccount:support:asker";
    const OTHER: &str = "system:serviceaccount:support:other";
    let stage = Stage::prepared(program, 0).await;
    stage.api.issue_token("token-of-asker", ASKER, &[AUDIENCE]);
    stage.api.issue_token("token-of-other", OTHER, &[AUDIENCE]);
    stage.api.grant_path(ASKER, "get", "/why/volumes/none");
    let plain = free_address();
    let flag = format!("--why-endpoint={plain}");
    let secured = Secured::start(&stage, &[&flag]).await;
    secured.running.logs(program.ready).await;
    let path = "/why/volumes/none";
    for (token, status) in [
        (None, 401),
        (Some("token-of-other"), 403),
        (Some("token-of-asker"), 404),
    ] {
        let answer = secured.get(path, token).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let of = |body: &str| {
        let mut json: Value = serde_json::from_str(body).expect("JSON");
        json["now"] = Value::Null;
        json
    };
    let over_tls = secured.get(path, Some("token-of-asker")).await;
    let (_, body) = get(&plain, path).await;
    assert_eq!(of(&over_tls.body), of(&body));
}
