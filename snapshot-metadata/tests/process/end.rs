//! Termination of the process: rows CB-36 to CB-38.

use std::time::Duration;

use sidecar_testkit::driver::Part;
use tonic::Code;

use crate::stage::{Signal, Stage, begin, blocks, collected, get, request, took, until};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn cb_36_without_a_stream_it_ends_at_once() {
    for signal in [Signal::TERM, Signal::INT] {
        let stage = Stage::new().await;
        // Longer than the end of the process is waited for.
        let mut running = stage.started(&["--shutdown-grace=1m"]).await;
        // A connection without a call does not delay the shutdown.
        let mut client = running.client().await;
        let answer = client.get_metadata_allocated(request()).await;
        assert!(collected(answer).await.1.is_ok());
        running.process.signal(signal);
        running.process.ended().await.with_code(0);
    }
}

#[tokio::test]
async fn cb_37_a_client_that_does_not_read_holds_up_nothing() {
    let stage = Stage::streaming([Part::Endless(20_000)]).await;
    let mut running = stage.started(&["--shutdown-grace=10s"]).await;
    let answer = running
        .client()
        .await
        .get_metadata_allocated(request())
        .await;
    let mut stalled = answer.unwrap().into_inner();
    stalled.message().await.unwrap().unwrap();
    stage.streams([Part::Blocks(1), Part::Hang]);
    let answer = running
        .client()
        .await
        .get_metadata_allocated(request())
        .await;
    let mut waiting = answer.unwrap().into_inner();
    waiting.message().await.unwrap().unwrap();
    let mut client = running.client().await;
    let began = begin();
    running.process.signal(Signal::TERM);
    until("health to tell", async || {
        get(&running.http, "/health").await.0 == 503
    })
    .await;
    // The program refuses new calls, on open connections too.
    let status = client.get_metadata_allocated(request()).await.unwrap_err();
    // The server closes a connection without calls; the client's library reports that as one of
    // these codes.
    let is_refused = matches!(status.code(), Code::Unavailable | Code::Cancelled);
    assert!(is_refused, "{status:?}");
    // A call that waits for the driver gets a status that asks for a retry.
    let status = waiting.message().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (
            Code::Unavailable,
            "shutting down, continue at the next offset"
        )
    );
    running.process.ended().await.with_code(0);
    took(began, SECOND, 12 * SECOND);
}

#[tokio::test]
async fn cb_38_what_ends_soon_may_end() {
    let stage = Stage::streaming([
        Part::Blocks(1),
        Part::Wait(Duration::from_secs(5)),
        Part::Blocks(1),
    ])
    .await;
    let mut running = stage.started(&[]).await;
    let answer = running
        .client()
        .await
        .get_metadata_allocated(request())
        .await;
    running.process.signal(Signal::TERM);
    let (messages, end) = collected(answer).await;
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(messages, [blocks(0, 1), blocks(1, 1)]);
    running.process.ended().await.with_code(0);
}
