//! Traces of attachments: rows of `docs/spec/observability.md`.

use sidecar::trace::TraceId;
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::collector::Collector;
use tonic::Code;

use super::stage::{DRIVER, Running, Stage};

const CLAIM: &str = "0b0c2a5e-6c2d-4f53-8a2e-1f5f0e6f7a10";
const UID: &str = "9a7c1f0e-1111-4222-8333-444455556666";

fn undashed(uid: &str) -> String {
    uid.replace('-', "")
}

pub(crate) fn start(stage: &Stage, collector: &Collector) -> Running {
    let endpoint = collector.endpoint();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let flags = ["--enable-otel-tracing", "--retry-interval-start=100ms"];
    stage.start_in(&flags, &environment)
}

/// The model API server creates all objects now.
#[tokio::test]
async fn o_15_an_attachment_right_after_its_volume_is_in_the_claims_trace() {
    let stage = Stage::new().await;
    let collector = Collector::start().await;
    let volume = format!("pvc-{CLAIM}");
    stage.volume(&volume, None);
    let _attacher = start(&stage, &collector);
    let attachment = build::attachment("va1").by(DRIVER).on("node1").of(&volume);
    stage.api.insert(attachment.uid(UID));
    let attach = collector.until_named("VolumeAttachment attach").await;
    let claim = TraceId::of(CLAIM);
    assert_eq!(attach.trace(), undashed(CLAIM));
    assert_eq!(attach.parent(), claim.root().to_string());
    assert!(attach.span.links.is_empty(), "{:?}", attach.span.links);
    let call = &collector.named("csi.v1.Controller/ControllerPublishVolume")[0];
    let attempts = collector.named("attempt");
    let attempt = attempts.iter().find(|one| one.id() == call.parent());
    let attempt = attempt.unwrap();
    assert_eq!(
        (attempt.trace(), attempt.parent()),
        (attach.trace(), attach.id())
    );

    // The detach links to the attach, wherever that is shown.
    stage.api.delete("volumeattachments", "va1");
    let detach = collector.until_named("VolumeAttachment detach").await;
    assert_ne!(detach.trace(), attach.trace());
    assert_eq!(detach.links(), [(attach.trace(), attach.id())]);
}

#[tokio::test]
async fn o_14_o_16_o_17_and_o_26_three_failures_an_attach_and_a_detach() {
    let stage = Stage::new().await;
    let collector = Collector::start().await;
    let volume = format!("pvc-{CLAIM}");
    stage.driver.volume("planted-handle");
    // planted-secret
    stage
        .api
        .insert(build::secret("planted-ns/planted-s").entry("password", "cGxhbnRlZC1zZWNyZXQ="));
    stage.api.insert(
        build::volume(&volume)
            .csi(DRIVER, "planted-handle")
            .mode("RWO")
            .attribute("pool", "planted-context")
            .with("/metadata/creationTimestamp", "2026-01-01T00:00:00Z")
            .publish_secret("planted-ns/planted-s"),
    );
    let words = "planted-secret is wrong for planted-handle in planted-context";
    let fault = CallFault::on("ControllerPublishVolume").times(3);
    stage.driver.fault(fault.fail(Code::Internal, words));
    let _attacher = start(&stage, &collector);
    let attachment = build::attachment("va1").by(DRIVER).on("node1").of(&volume);
    stage.api.insert(attachment.uid(UID));
    stage.until_attached("va1").await;
    let attach = collector.until_named("VolumeAttachment attach").await;

    assert_eq!(attach.trace(), undashed(UID));
    assert_eq!(attach.parent(), "");
    assert_eq!(attach.attribute("csi.driver.name"), DRIVER);
    assert_eq!(attach.attribute("k8s.node.name"), "node1");
    assert_eq!(attach.attribute("k8s.persistentvolume.name"), volume);
    let links = attach.links().into_iter().map(|(trace, _)| trace);
    assert_eq!(links.collect::<Vec<_>>(), [undashed(CLAIM)]);
    let mut attempts = collector.named("attempt");
    attempts.retain(|one| one.parent() == attach.id());
    let failed = attempts.iter().filter(|one| one.error().is_some());
    for one in failed.clone() {
        assert_eq!(
            one.error(),
            Some("csi.v1.Controller/ControllerPublishVolume: Internal")
        );
    }
    assert_eq!(failed.count(), 3);
    let numbers = attempts.iter().map(|one| one.attribute("csi.attempt"));
    assert_eq!(numbers.collect::<Vec<_>>(), ["1", "2", "3", "4"]);
    assert_eq!(collector.named("backoff").len(), 3);

    stage.api.delete("volumeattachments", "va1");
    stage.until_gone("va1").await;
    let detach = collector.until_named("VolumeAttachment detach").await;
    assert_ne!(detach.trace(), attach.trace());
    let mut links = detach.links().into_iter();
    assert!(links.any(|(trace, _)| trace == attach.trace()));
    for body in collector.bodies() {
        assert!(!body.windows(8).any(|bytes| bytes == b"planted-"));
    }
}
