//! Traces of contents: rows of `docs/spec/observability.md`.

use sidecar::trace::TraceId;
use sidecar_testkit::collector::{Collector, Received};

use super::stage::{GROUP, NAME, READY, Running, Stage, content, group_content};

const UID: &str = "9a7c1f0e-1111-4222-8333-444455556666";

async fn start(stage: &Stage, collector: &Collector) -> Running {
    let endpoint = collector.endpoint();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let program = stage.start_with(&["--enable-otel-tracing"], &environment);
    program.logs(READY).await;
    program
}

/// The span `cut`, and the call below it.
async fn cut(collector: &Collector, method: &str) -> [Received; 2] {
    let call = format!("csi.v1.{method}");
    [
        collector.until_named("cut").await,
        collector.until_named(&call).await,
    ]
}

/// The snapshot-controller tells the root.
fn must_be_below_the_root([cut, call]: &[Received; 2]) {
    let trace = TraceId::of(UID);
    assert_eq!(cut.trace(), trace.to_string());
    assert_eq!(cut.parent(), trace.root().to_string());
    assert_eq!(call.trace(), cut.trace());
}

#[tokio::test]
async fn o_18_a_snapshot_is_cut_in_the_trace_of_its_volumesnapshot() {
    let (stage, collector) = (Stage::new().await, Collector::start().await);
    let _program = start(&stage, &collector).await;
    let mut wanted = content("u1");
    wanted["spec"]["volumeSnapshotRef"]["uid"] = UID.into();
    stage.api.insert(wanted);
    let spans = cut(&collector, "Controller/CreateSnapshot").await;
    must_be_below_the_root(&spans);
    let [cut, _] = spans;
    assert_eq!(cut.attribute("k8s.volumesnapshot.name"), "s1");
    assert_eq!(cut.attribute("k8s.volumesnapshotcontent.name"), NAME);
}

#[tokio::test]
async fn o_18_a_group_is_cut_in_the_trace_of_its_volumegroupsnapshot() {
    let (stage, collector) = (Stage::with_groups().await, Collector::start().await);
    let _program = start(&stage, &collector).await;
    let mut wanted = group_content();
    wanted["spec"]["volumeGroupSnapshotRef"]["uid"] = UID.into();
    stage.api.insert(wanted);
    let method = "GroupController/CreateVolumeGroupSnapshot";
    let spans = cut(&collector, method).await;
    must_be_below_the_root(&spans);
    let [cut, _] = spans;
    assert_eq!(cut.attribute("k8s.volumegroupsnapshot.name"), "v1");
    assert_eq!(cut.attribute("k8s.volumegroupsnapshotcontent.name"), GROUP);
}
