//! Sockets that go away, and confirmations that fail: K-39 to K-43.

use std::time::Duration;

use sidecar_testkit::{CallFault, Gate};
use tonic::Status;

use crate::script::Answer;
use crate::stage::{CSINODE, D, NODE_STATUS, Stage, pass};

#[tokio::test(start_paused = true)]
async fn k_39_a_success_that_cannot_be_told_is_undone() {
    let failures = [
        Answer::Fail(Status::internal("boom")),
        Answer::After(Duration::from_secs(6)),
    ];
    for failure in failures {
        let stage = Stage::started().await;
        stage.api.clear_requests();
        let registrar = stage.script("d-reg.sock").notify(failure).listen();
        let node = format!("PATCH {NODE_STATUS}");
        let csinode = format!("PUT {CSINODE}");
        let undone = [&*node, &*csinode, &*csinode, &*node];
        stage
            .until("the registration is undone", |stage| {
                stage.writes() == undone
            })
            .await;
        assert!(stage.entry(D).is_none());
        assert_eq!(stage.annotation(), None);
        assert_eq!(stage.endpoint(D), None);
        assert!(stage.actual().is_empty());
        assert_eq!(registrar.notices(), [Ok(())]);

        registrar.change(|script| script.notify(Answer::Good));
        stage
            .until("it is registered after all", |stage| {
                !stage.actual().is_empty()
            })
            .await;
        stage
            .until("the driver is entered again", |stage| {
                stage.entry(D).is_some()
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn k_40_a_removed_socket_takes_the_driver_with_it() {
    let stage = Stage::started().await;
    let registrar = stage.registered().await;
    stage.api.clear_requests();
    std::fs::remove_file(registrar.socket()).unwrap();
    stage
        .until("the annotation is removed", |stage| {
            stage.annotation().is_none()
        })
        .await;
    let removal = [format!("PUT {CSINODE}"), format!("PATCH {NODE_STATUS}")];
    assert_eq!(stage.writes(), removal);
    assert!(stage.entry(D).is_none());
    assert_eq!(stage.endpoint(D), None);
    pass(30.0).await;
    assert_eq!(
        registrar.connections(),
        1,
        "the registrar, still listening, is not dialled"
    );
}

#[tokio::test(start_paused = true)]
async fn k_41_a_socket_replaced_within_a_tick_is_one_goodbye_and_one_welcome() {
    let stage = Stage::started().await;
    let registrar = stage.registered().await;
    stage.api.clear_requests();
    let registrar = registrar.reborn();
    registrar.confirmed().await;
    pass(30.0).await;
    let node = format!("PATCH {NODE_STATUS}");
    let csinode = format!("PUT {CSINODE}");
    assert_eq!(stage.writes(), [&*csinode, &*node, &*node, &*csinode]);
    assert_eq!(registrar.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn k_42_a_socket_that_comes_back_later_is_deregistered_meanwhile() {
    let stage = Stage::started().await;
    stage.registered().await.remove();
    pass(3.0).await;
    assert!(stage.actual().is_empty() && stage.entry(D).is_none());
    stage.registered().await;
    assert!(stage.entry(D).is_some());
}

#[tokio::test(start_paused = true)]
async fn k_43_a_goodbye_waits_for_the_welcome_to_end() {
    let stage = Stage::started().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on("NodeGetInfo").hold(&gate));
    let registrar = stage.registrar();
    registrar.asked(1).await;
    std::fs::remove_file(registrar.socket()).unwrap();
    stage.api.clear_requests();
    pass(20.0).await;
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
    assert!(stage.desired().is_empty());
    assert_eq!(
        stage.actual(),
        [registrar.socket()],
        "the registration still runs"
    );
    gate.open();
    registrar.confirmed().await;
    stage
        .until("it is deregistered", |stage| stage.actual().is_empty())
        .await;
    stage
        .until("the annotation is removed", |stage| {
            stage.annotation().is_none()
        })
        .await;
    assert!(stage.entry(D).is_none());
}
