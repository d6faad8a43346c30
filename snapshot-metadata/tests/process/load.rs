//! Memory, processor time and other clients: rows CB-52 to CB-54. The limits are those of a release build;
//! this build is not optimized: docs/figures has those of a released one.

use std::time::{Duration, Instant};

use csi_proto::snapshot_metadata::GetMetadataAllocatedRequest;
use sidecar_testkit::driver::Part;
use sidecar_testkit::measure::memory;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::stage::{Running, Stage, USER, collected, get_snapshots, request, until, until_answer};

const MB: u64 = 1_000_000;

/// Starts the program, which may be upstream's: that says in other words that it serves.
async fn serving(stage: &Stage) -> Running {
    let running = stage.start(&[]);
    until("the port of health", async || {
        TcpStream::connect(&running.http).await.is_ok()
    })
    .await;
    until_answer(&running.http, "/health", 200, "").await;
    running
}

/// Number of blocks in a driver's message of about `bytes` bytes, with the offsets of a large volume.
fn blocks_in(bytes: i64) -> i64 {
    bytes / 11
}

#[tokio::test]
async fn cb_52_clients_that_do_not_read_cost_a_message_each() {
    for (size, most) in [(220_000, 15 * MB), (3_300_000, 130 * MB)] {
        let stage = Stage::streaming([Part::Endless(blocks_in(size))]).await;
        let users = ["one", "two"];
        for user in users {
            stage.api.issue_token(user, user, &["aud1"]);
            stage.api.grant(user, get_snapshots("default"));
        }
        let running = serving(&stage).await;
        assert!(
            running
                .allocated(GetMetadataAllocatedRequest {
                    snapshot_name: "missing".to_owned(),
                    ..request()
                })
                .await
                .1
                .is_err()
        );
        let idle = memory(running.process.id(), "RssAnon");
        let mut streams = Vec::new();
        for number in 0..20 {
            let request = GetMetadataAllocatedRequest {
                security_token: users[number % 2].to_owned(),
                ..request()
            };
            let mut client = running.client().await;
            let answer = client.get_metadata_allocated(request).await.unwrap();
            streams.push((answer.into_inner(), client));
        }
        // Until the driver has sent all that anybody reads.
        let mut before = 0;
        until("the end of what is taken", async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = memory(running.process.id(), "RssAnon");
            std::mem::replace(&mut before, now) == now
        })
        .await;
        let used = before.saturating_sub(idle);
        println!(
            "{size} bytes a message: {:.1} MB beyond idle",
            used as f64 / 1e6
        );
        assert!(used <= most, "{used} bytes for messages of {size}");
        let calls = stage.driver.calls_to("GetMetadataAllocated");
        assert!(calls.len() == 20 && calls.iter().all(|call| call.is_running()));
    }
}

#[tokio::test]
async fn cb_53_a_large_volume_passes_in_little_memory() {
    ranges_pass(50).await;
}

#[tokio::test]
#[ignore = "a measurement of a released build"]
async fn cb_53_six_million_ranges() {
    ranges_pass(300).await;
}

/// Reads so many messages of 20,000 ranges each.
async fn ranges_pass(messages: usize) {
    let parts = std::iter::repeat_n(Part::Blocks(20_000), messages);
    let stage = Stage::streaming(parts).await;
    let running = serving(&stage).await;
    let answer = running
        .client()
        .await
        .get_metadata_allocated(request())
        .await;
    let mut stream = answer.unwrap().into_inner();
    let mut ranges = 0;
    while let Some(message) = stream.message().await.unwrap() {
        ranges += message.block_metadata.len();
    }
    assert_eq!(ranges, messages * 20_000);
    let [anonymous, peak] = ["RssAnon", "VmHWM"].map(|kind| memory(running.process.id(), kind));
    println!(
        "after {ranges} ranges: {:.1} MB anonymous, at most {:.1} MB resident",
        anonymous as f64 / 1e6,
        peak as f64 / 1e6
    );
    assert!(anonymous <= 20 * MB, "{anonymous}");
}

#[tokio::test]
async fn cb_54_a_flood_of_bad_tokens_leaves_room() {
    let stage = Stage::new().await;
    // Reviews are slow, as those of a busy API server.
    let slow = sidecar_testkit::Fault::on("POST", "*/tokenreviews");
    stage.api.fault(slow.delay(Duration::from_millis(20)));
    let running = serving(&stage).await;
    let mut flood = JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(running.client().await);
    }
    let began = Instant::now();
    for number in 0..1500_u32 {
        let mut client = clients[number as usize % 4].clone();
        flood.spawn(async move {
            tokio::time::sleep_until((began + Duration::from_millis(2) * number).into()).await;
            let request = GetMetadataAllocatedRequest {
                security_token: format!("bad-{number}"),
                ..request()
            };
            client
                .get_metadata_allocated(request)
                .await
                .unwrap_err()
                .code()
        });
    }
    let mut worst = Duration::ZERO;
    let mut good = running.client_at([127, 0, 0, 2]).await;
    for number in 0..5 {
        // A new token each time.
        let token = format!("good-{number}");
        stage.api.issue_token(&token, USER, &["aud1"]);
        let began = Instant::now();
        let request = GetMetadataAllocatedRequest {
            security_token: token.clone(),
            ..request()
        };
        let (_, end) = collected(good.get_metadata_allocated(request).await).await;
        assert!(end.is_ok(), "{end:?}");
        worst = worst.max(began.elapsed());
    }
    println!("the good caller waited {worst:?} at most");
    // No call was refused. The bound is two seconds where flood, API server and program have a processor
    // each.
    assert!(worst < Duration::from_secs(20), "{worst:?}");
    let refused = flood.join_all().await;
    let known = |code: &tonic::Code| {
        matches!(
            code,
            tonic::Code::Unauthenticated | tonic::Code::Unavailable
        )
    };
    assert!(refused.iter().all(known));
}
