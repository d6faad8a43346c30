//! Traces of claims: rows of `docs/spec/observability.md`.

use serde_json::json;
use sidecar::trace::TraceId;
use sidecar_testkit::build::Object;
use sidecar_testkit::collector::Collector;

use super::source::{cloning, restoring, snapshot, source};
use super::stage::{DRIVER, READY, Running, Stage, claim, released, settle};

pub(crate) const UID: &str = "9a7c1f0e-1111-4222-8333-444455556666";
pub(crate) const TRACE: &str = "9a7c1f0e111142228333444455556666";

pub(crate) async fn start(stage: &Stage, collector: &Collector) -> Running {
    let endpoint = collector.endpoint();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let running = stage.start_in(&["--enable-otel-tracing"], &environment);
    running.logs(READY).await;
    running
}

pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[tokio::test]
async fn o_12_a_claim_is_one_trace_from_its_creation_to_bound() {
    let (stage, collector) = (Stage::new().await, Collector::start().await);
    let _provisioner = start(&stage, &collector).await;
    let annotated = claim().uid(UID).annotation(
        "tracing.k8s.io/traceparent",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
    );
    let created = annotated.with("/metadata/creationTimestamp", json!(now()));
    stage.api.insert(created);
    let volume = format!("pvc-{UID}");
    stage.until_volume(&volume).await;
    collector.until_named("provision").await;
    stage.bind("ns1/c1", &volume);
    collector.until_named("PersistentVolumeClaim").await;

    let root = &collector.named("PersistentVolumeClaim")[0];
    assert_eq!((&*root.trace(), &*root.parent()), (TRACE, ""));
    assert_eq!(root.attribute("k8s.persistentvolumeclaim.name"), "c1");
    assert_eq!(root.attribute("k8s.namespace.name"), "ns1");
    assert_eq!(root.attribute("k8s.storageclass.name"), "sc1");
    assert_eq!(root.attribute("csi.driver.name"), DRIVER);
    assert_eq!(root.attribute("csi.migrated"), "");
    // Row O-25.
    let links = root.links().into_iter().map(|(trace, _)| trace);
    assert_eq!(
        links.collect::<Vec<_>>(),
        ["4bf92f3577b34da6a3ce929d0e0e4736"]
    );
    let [work, bind] = ["provision", "bind"].map(|name| {
        let found = collector.named(name);
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(
            (found[0].parent(), found[0].trace()),
            (root.id(), TRACE.to_owned())
        );
        found[0].clone()
    });
    // The spans cover all of the root.
    assert_eq!(
        root.span.start_time_unix_nano,
        work.span.start_time_unix_nano
    );
    assert_eq!(work.span.end_time_unix_nano, bind.span.start_time_unix_nano);
    assert_eq!(bind.span.end_time_unix_nano, root.span.end_time_unix_nano);
    let attempt = &collector.named("attempt")[0];
    assert_eq!(attempt.parent(), work.id());
    for name in [
        "journal",
        "csi.v1.Controller/CreateVolume",
        "POST persistentvolumes",
    ] {
        let found = collector.named(name);
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(
            (found[0].parent(), found[0].trace()),
            (attempt.id(), TRACE.to_owned())
        );
    }
}

#[tokio::test]
async fn o_12_a_claim_that_goes_unbound_says_so() {
    let (stage, collector) = (Stage::new().await, Collector::start().await);
    let _provisioner = start(&stage, &collector).await;
    let created = json!(now());
    // The claim's StorageClass does not exist.
    let claim = claim().uid(UID).class("none");
    let claim = claim.with("/metadata/creationTimestamp", created);
    stage
        .api
        .insert(claim.finalizer("kubernetes.io/pvc-protection"));
    collector.until_named("attempt").await;
    stage.api.delete("persistentvolumeclaims", "ns1/c1");
    // The program sees the deletion before the claim is gone.
    settle().await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    collector.until_named("PersistentVolumeClaim").await;
    let root = &collector.named("PersistentVolumeClaim")[0];
    assert_eq!(root.error(), Some("deleted before bound"));
    assert_eq!(root.trace(), TRACE);
}

#[tokio::test]
async fn o_20_a_clone_and_a_restored_volume_link_to_the_traces_of_their_sources() {
    for (origin, uid) in [("a snapshot", "uid-s1"), ("a claim", "uid-src")] {
        let (stage, collector) = (Stage::new().await, Collector::start().await);
        let claim = if origin == "a claim" {
            source(&stage);
            cloning()
        } else {
            snapshot(&stage);
            restoring()
        };
        let _provisioner = start(&stage, &collector).await;
        let created = claim.uid(UID).with("/metadata/creationTimestamp", now());
        stage.api.insert(created);
        let volume = format!("pvc-{UID}");
        stage.until_volume(&volume).await;
        collector.until_named("provision").await;
        stage.bind("ns1/c1", &volume);
        collector.until_named("PersistentVolumeClaim").await;
        let trace = TraceId::of(uid);
        let expected = (trace.to_string(), trace.root().to_string());
        for name in ["provision", "PersistentVolumeClaim"] {
            let found = &collector.named(name)[0];
            assert_eq!(found.trace(), TRACE, "{origin}");
            assert_eq!(
                found.links(),
                std::slice::from_ref(&expected),
                "{origin}: {name}"
            );
        }
    }
}

#[tokio::test]
async fn o_17_a_deletion_is_a_trace_of_its_own() {
    let (stage, collector) = (Stage::new().await, Collector::start().await);
    let name = format!("pvc-{UID}");
    stage.driver.volume(&format!("vol-{name}"));
    let _provisioner = start(&stage, &collector).await;
    let volume = released(&name).uid("0b0c2a5e-6c2d-4f53-8a2e-1f5f0e6f7a10");
    stage
        .api
        .insert(volume.with("/spec/claimRef/uid", json!(UID)));
    stage.until_calls("DeleteVolume", 1).await;
    collector.until_named("delete").await;
    let delete = &collector.named("delete")[0];
    let links = delete.links().into_iter().map(|(trace, _)| trace);
    let links: Vec<_> = links.collect();
    let own = "0b0c2a5e6c2d4f538a2e1f5f0e6f7a10";
    assert_eq!(links, [TRACE, own]);
    assert!(![TRACE, own].contains(&&*delete.trace()));
    let call = &collector.named("csi.v1.Controller/DeleteVolume")[0];
    assert_eq!(call.trace(), delete.trace());
}
