//! FS-20: VolumeAttachments that are gone before their volume was detached, because somebody
//! removed the finalizer.

use std::time::Duration;

use sidecar_testkit::CallFault;
use sidecar_testkit::api::fault::Gate;
use tonic::Code;

use super::stage::{Stage, settle};

const PUBLISH: &str = "ControllerPublishVolume";
const UNPUBLISH: &str = "ControllerUnpublishVolume";
const ATTACHMENTS: &str = "volumeattachments";

/// Deletes the attachment and removes its finalizer by force.
async fn force_delete(stage: &Stage, name: &str) {
    stage.api.delete(ATTACHMENTS, name);
    settle().await;
    stage.api.remove(ATTACHMENTS, name);
}

async fn until_off_the_node(stage: &Stage) {
    let off = stage.driver.until(|driver| driver.published().is_empty());
    let off = tokio::time::timeout(super::stage::PATIENCE, off).await;
    off.unwrap_or_else(|_| panic!("it stays attached:\n{}", stage.trace().join("\n")));
}

#[tokio::test]
async fn fs_20_an_attachment_that_goes_while_it_is_attached_leaves_nothing() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(PUBLISH).hold(&gate));
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    stage.attach("va1", "pv1");
    stage.until_calls(PUBLISH, 1).await;
    force_delete(&stage, "va1").await;
    assert!(stage.driver.calls_to(UNPUBLISH).is_empty(), "the call runs");
    let fault = CallFault::on(UNPUBLISH).fail(Code::Internal, "boom");
    stage.driver.fault(fault.times(2));
    gate.open();
    // The driver refuses twice, and the program retries.
    stage.until_calls(UNPUBLISH, 3).await;
    until_off_the_node(&stage).await;
    settle().await;
    assert_eq!(stage.driver.calls_to(UNPUBLISH).len(), 3, "and no more");
    stage.api.delete("persistentvolumes", "pv1");
    let gone = |api: &sidecar_testkit::FakeApi| api.object("persistentvolumes", "pv1").is_none();
    stage.until_api(gone).await;
    assert!(stage.driver.overlaps().is_empty());
}

#[tokio::test]
async fn fs_20_an_attachment_that_goes_while_it_is_detached_leaves_nothing() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    let fault = CallFault::on(UNPUBLISH).fail(Code::Internal, "boom");
    stage.driver.fault(fault.times(1));
    let attacher = stage.start(&["--retry-interval-start=3s"]);
    attacher.logs("Starting CSI attacher").await;
    stage.api.delete(ATTACHMENTS, "va1");
    stage.until_error("va1", "detachError").await;
    stage.api.remove(ATTACHMENTS, "va1");
    until_off_the_node(&stage).await;
}

#[tokio::test]
async fn fs_20_what_an_attachment_left_is_not_detached_under_the_next_one() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage
        .driver
        .fault(CallFault::on(PUBLISH).hold(&gate).times(1));
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    stage.attach("va1", "pv1");
    stage.until_calls(PUBLISH, 1).await;
    force_delete(&stage, "va1").await;
    stage.attach("va1", "pv1");
    settle().await;
    gate.open();
    stage.until_attached("va1").await;
    // No call may come meanwhile.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(
        stage.driver.calls_to(UNPUBLISH).is_empty(),
        "{:#?}",
        stage.trace()
    );
    stage.api.delete(ATTACHMENTS, "va1");
    stage.until_gone("va1").await;
    until_off_the_node(&stage).await;
}

/// The volume may be in use: as far as the program knows, nobody asked for a detach.
#[tokio::test]
async fn fs_20_an_attached_one_that_vanishes_without_having_been_deleted_stays_on_the_node() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    stage.api.remove(ATTACHMENTS, "va1");
    attacher
        .logs("disappeared without a deletion timestamp")
        .await;
    settle().await;
    assert!(stage.driver.calls_to(UNPUBLISH).is_empty());
}
