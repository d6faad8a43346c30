use std::time::{Duration, Instant};

use serde_json::json;
use tonic::Code;

use super::harness::*;

#[tokio::test]
async fn the_second_call_fails_the_others_do_not() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    let id = driver.rule(json!({
        "match": {"method": "CreateVolume", "skip": 1, "times": 1},
        "action": {"outcome": {"fail": {"code": "RESOURCE_EXHAUSTED", "message": "full"}}}
    }));
    let mut controller = driver.controller().await;
    let mut codes = Vec::new();
    for name in ["a", "b", "c"] {
        codes.push(
            controller
                .create_volume(create(name))
                .await
                .map_err(|e| e.code())
                .err(),
        );
    }
    assert_eq!(codes, [None, Some(Code::ResourceExhausted), None]);
    let calls = driver.calls("CreateVolume");
    assert_eq!(calls[1].rule.as_deref(), Some(id.as_str()));
    assert_eq!(calls[1].message, "full");
    assert_eq!(
        driver.left_over("volumes"),
        2,
        "the failed call did nothing"
    );
}

#[tokio::test]
async fn a_delay_delays() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    driver.on_create(json!({"delay": {"ms": 200}}));
    let start = Instant::now();
    created(&driver, create("a")).await;
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn a_hanging_call_lasts_until_its_deadline_and_does_nothing() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    driver.on_create(json!({"outcome": "hang"}));
    let answer = driver
        .controller()
        .await
        .create_volume(within(100, create("a")))
        .await;
    assert!(matches!(
        answer.unwrap_err().code(),
        Code::DeadlineExceeded | Code::Cancelled
    ));
    eventually("the driver notices", || {
        driver
            .calls("CreateVolume")
            .iter()
            .any(|call| call.caller_gone)
    })
    .await;
    let calls = driver.calls("CreateVolume");
    assert_eq!((calls[0].code.as_deref(), calls.len()), (None, 1));
    assert_eq!(driver.left_over("volumes"), 0);
}

#[tokio::test]
async fn a_lost_reply_leaves_the_work_done() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    let rule = driver.on_create(json!({"at": "after", "outcome": "hang"}));
    let answer = driver
        .controller()
        .await
        .create_volume(within(300, create("a")))
        .await;
    assert!(answer.is_err());
    assert_eq!(driver.left_over("volumes"), 1);
    driver.control.remove_rule(&rule).unwrap();
    created(&driver, create("a")).await;
    assert_eq!(driver.left_over("volumes"), 1, "the retry finds it");
}

#[tokio::test]
async fn work_goes_on_when_the_caller_gives_up_and_a_retry_is_aborted_meanwhile() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    let rule = driver.rule(json!({
        "match": {"method": "CreateVolume", "times": 1}, "action": {"hold": true}
    }));
    let mut controller = driver.controller().await;
    assert!(
        controller
            .create_volume(within(100, create("a")))
            .await
            .is_err()
    );
    let pending = controller.create_volume(create("a")).await.unwrap_err();
    assert_eq!(pending.code(), Code::Aborted);
    assert!(
        controller.create_volume(create("b")).await.is_ok(),
        "another volume"
    );
    assert_eq!(driver.left_over("volumes"), 1);
    driver.control.remove_rule(&rule).unwrap();
    eventually("the work is done", || driver.left_over("volumes") == 2).await;
    eventually("and recorded", || {
        driver
            .calls("CreateVolume")
            .first()
            .is_some_and(|call| call.work_end_ns.is_some())
    })
    .await;
    let first = &driver.calls("CreateVolume")[0];
    assert!(first.caller_gone && first.work_end_ns > first.end_ns);
    assert_eq!(first.code.as_deref(), Some("OK"));
    assert!(controller.create_volume(create("a")).await.is_ok());
}

#[tokio::test]
async fn concurrent_rules_let_others_through() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    driver.rule(json!({
        "match": {"method": "CreateVolume", "times": 1},
        "action": {"hold": true, "concurrent": true}
    }));
    let mut controller = driver.controller().await;
    assert!(
        controller
            .create_volume(within(100, create("a")))
            .await
            .is_err()
    );
    assert!(controller.create_volume(create("a")).await.is_ok());
}

#[tokio::test]
async fn disconnecting_breaks_the_connection_of_the_call() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    driver.rule(json!({
        "match": {"method": "CreateVolume", "times": 1}, "action": {"outcome": "disconnect"}
    }));
    let mut controller = driver.controller().await;
    let error = controller.create_volume(create("a")).await.unwrap_err();
    assert!(
        matches!(
            error.code(),
            Code::Unavailable | Code::Unknown | Code::Cancelled
        ),
        "{error}"
    );
    eventually("recorded", || {
        driver.calls("CreateVolume")[0].end_ns.is_some()
    })
    .await;
    created(&driver, create("a")).await;
    let calls = driver.calls("CreateVolume");
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].connection, calls[1].connection);
}

#[tokio::test]
async fn hundreds_of_hanging_calls_do_not_block_their_connection() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    driver.rule(json!({"match": {"name": "hang-*"}, "action": {"outcome": "hang"}}));
    let controller = driver.controller().await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..500 {
        let mut controller = controller.clone();
        let request = create(&format!("hang-{number}"));
        calls.spawn(async move { controller.create_volume(request).await });
    }
    let under_way = || {
        let counters = driver.control.ask("GET", "/counters", None).unwrap();
        counters["in_flight"].as_u64().unwrap()
    };
    eventually("all calls arrive", || under_way() == 500).await;
    let mut controller = controller.clone();
    assert!(
        controller
            .create_volume(within(30_000, create("a")))
            .await
            .is_ok()
    );
    calls.abort_all();
    eventually("all calls are over", || under_way() == 0).await;
    assert!(controller.create_volume(create("b")).await.is_ok());
}

#[tokio::test]
async fn rules_can_hold_from_the_start() {
    let place = Place::new();
    let setup = place.path("setup.json");
    let text = json!({
        "settings": {"probe": "not-ready"},
        "rules": [{"match": {"method": "Probe", "times": 1},
                   "action": {"outcome": {"fail": {"code": "UNAVAILABLE"}}}}]
    });
    std::fs::write(&setup, text.to_string()).unwrap();
    let driver = place.start("n1", &[&format!("--setup={}", setup.display())]);
    let mut identity = driver.identity().await;
    let probe = csi_proto::csi::ProbeRequest {};
    assert_eq!(
        identity.probe(probe).await.unwrap_err().code(),
        Code::Unavailable
    );
    assert_eq!(
        identity.probe(probe).await.unwrap().into_inner().ready,
        Some(false)
    );
    driver.control.set(&json!({"probe": "unset"})).unwrap();
    assert_eq!(
        identity.probe(probe).await.unwrap().into_inner().ready,
        None
    );
}
