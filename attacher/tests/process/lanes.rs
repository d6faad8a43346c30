//! The delay of attaches behind a burst of slow detaches, in real time.
//!
//! `plan::fairness` tests the same in virtual time, and `retry` the part that needs no clock, so these
//! tests run only on request, on a quiet machine:
//!
//! ```text
//! cargo test -p attacher --test process -- --ignored --nocapture lanes
//! ```

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};
use tokio::time::Instant;

use super::stage::{DRIVER, F, N, Stage};

const ATTACHES: usize = 100;
const DETACHES: usize = 2000;
const NODES: usize = 50;

fn node(index: usize) -> String {
    format!("n{}", index % NODES)
}

/// Creates the attachments `va-ROUND-…` and returns how long each took until its status was written,
/// the shortest first.
async fn attach(stage: &Stage, round: &str) -> Vec<Duration> {
    let name = |index: usize| format!("va-{round}-{index}");
    let mut created = Vec::new();
    for index in 0..ATTACHES {
        created.push(Instant::now());
        let attachment = build::attachment(&name(index)).by(DRIVER).on(&node(index));
        stage
            .api
            .insert(attachment.of(&format!("pv-{round}-{index}")));
    }
    for index in 0..ATTACHES {
        stage.until_attached(&name(index)).await;
    }
    let took = created.iter().enumerate().map(|(index, created)| {
        let path = format!("*/volumeattachments/{}/status", name(index));
        let recorded = stage.api.requests_to("PATCH", &path).remove(0);
        recorded.at - *created
    });
    let mut took: Vec<Duration> = took.collect();
    took.sort();
    took
}

#[tokio::test]
#[ignore = "a figure of time, for a quiet machine"]
async fn two_thousand_slow_detaches_and_a_hundred_attaches() {
    let stage = Stage::new().await;
    let fault = |method, delay| stage.driver.fault(CallFault::on(method).delay(delay));
    fault("ControllerPublishVolume", Duration::from_millis(200));
    fault("ControllerUnpublishVolume", Duration::from_secs(10));
    for index in 0..NODES {
        let id = node(index);
        stage.api.insert(build::csinode(&id).driver(DRIVER, &id));
    }
    for index in 0..ATTACHES {
        stage.volume(&format!("pv-alone-{index}"), Some(json!([F])));
        stage.volume(&format!("pv-loaded-{index}"), Some(json!([F])));
    }
    for index in 0..DETACHES {
        let volume = format!("old-{index}");
        stage.volume(&volume, Some(json!([F])));
        let attachment = build::attachment(&format!("gone-{index}"))
            .by(DRIVER)
            .on(&node(index))
            .of(&volume)
            .finalizer(F)
            .annotation(N, &node(index));
        stage.api.insert(attachment.attached());
    }
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    let alone = attach(&stage, "alone").await;
    for index in 0..DETACHES {
        let name = format!("gone-{index}");
        stage.api.delete("volumeattachments", &name);
    }
    stage.until_calls("ControllerUnpublishVolume", 8).await;
    let loaded = attach(&stage, "loaded").await;
    let p99 = |took: &[Duration]| took[took.len() * 99 / 100 - 1];
    println!(
        "{ATTACHES} attaches of 200 ms: p99 {:?} alone, {:?} beside {DETACHES} detaches of 10 s, \
         of which {} ran at once",
        p99(&alone),
        p99(&loaded),
        stage.driver.peak("ControllerUnpublishVolume"),
    );
    // Two workers until the first detaches end, then half of the ten.
    assert!(p99(&loaded) <= Duration::from_secs(11));
}
