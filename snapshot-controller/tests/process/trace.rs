//! Traces of snapshots and groups: rows of `docs/spec/observability.md`. The test plays the sidecar.

use serde_json::{Value, json};
use sidecar::trace::TraceId;
use sidecar_testkit::collector::{Collector, Received};
use sidecar_testkit::process::Process;

use super::groups::{self, CONTENTS, group, selected, until_content, until_group};
use super::stage::Stage;

/// Starts the program with traces, and waits until it works.
async fn start(stage: &Stage, collector: &Collector) -> Process {
    let endpoint = collector.endpoint();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let process = stage.start_in(&["--enable-otel-tracing"], &environment);
    process.says("Starting snapshot controller").await;
    process
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

/// The root of an object's trace, as a link to it has it.
fn root(uid: &str) -> (String, String) {
    let trace = TraceId::of(uid);
    (trace.to_string(), trace.root().to_string())
}

fn links(span: &Received) -> Vec<(String, String)> {
    let mut links = span.links();
    links.sort();
    links
}

#[tokio::test]
async fn o_18_a_snapshot_is_one_trace_with_a_link_to_its_claim() {
    let stage = Stage::new().await;
    let collector = Collector::start().await;
    let process = start(&stage, &collector).await;
    let snapshot = stage.snapshot("s1");
    stage
        .take_when_there(&format!("snapcontent-{snapshot}"))
        .await;
    let told = collector.until_named("VolumeSnapshot").await;
    let claim = stage.api.object("persistentvolumeclaims", "ns/p1").unwrap();
    assert_eq!((told.trace(), told.id()), root(&snapshot));
    assert_eq!(told.parent(), "");
    assert_eq!(links(&told), [root(uid(&claim))]);
    assert_eq!(told.attribute("k8s.namespace.name"), "ns");
    assert_eq!(told.attribute("k8s.volumesnapshot.name"), "s1");
    drop(process);
}

#[tokio::test]
async fn o_18_a_group_of_three_is_one_trace_with_three_links() {
    let stage = groups::stage().await;
    stage
        .api
        .edit("persistentvolumeclaims", "ns/other", |claim| {
            claim["metadata"]["labels"] = json!({"app": "x"});
        });
    let collector = Collector::start().await;
    let process = start(&stage, &collector).await;
    let group = group(&stage, &selected());
    let content = format!("groupsnapcontent-{group}");
    until_content(&stage, &content).await;
    stage.api.edit(CONTENTS, &content, |content| {
        let member = |number: u32| {
            json!({
                "volumeHandle": format!("h-pv{number}"), "snapshotHandle": format!("snap-{number}"),
                "readyToUse": true, "creationTime": 1_767_323_045_000_000_000_i64,
            })
        };
        content["status"] = json!({
            "volumeGroupSnapshotHandle": "grp-1", "readyToUse": true,
            "creationTime": "2026-01-02T03:04:05Z",
            "volumeSnapshotInfoList": [member(1), member(2), member(3)],
        });
    });
    until_group(&stage, |group| group["status"]["readyToUse"] == true).await;
    let told = collector.until_named("VolumeGroupSnapshot").await;
    assert_eq!((told.trace(), told.id()), root(&group));
    assert_eq!(told.attribute("k8s.volumegroupsnapshot.name"), "v1");
    let members = stage.api.objects("volumesnapshots");
    assert_eq!(members.len(), 3);
    let mut expected: Vec<_> = members.iter().map(|member| root(uid(member))).collect();
    expected.sort();
    assert_eq!(links(&told), expected);

    // Each member is a trace of its own, linked to its claim and its group.
    collector
        .until("the members", |collector| {
            collector.named("VolumeSnapshot").len() == 3
        })
        .await;
    for member in collector.named("VolumeSnapshot") {
        let name = format!("ns/{}", member.attribute("k8s.volumesnapshot.name"));
        let object = stage.api.object("volumesnapshots", &name).unwrap();
        assert_eq!((member.trace(), member.id()), root(uid(&object)));
        let claim = &object["spec"]["source"]["persistentVolumeClaimName"];
        let claim = format!("ns/{}", claim.as_str().unwrap());
        let claim = stage.api.object("persistentvolumeclaims", &claim).unwrap();
        let mut expected = [root(uid(&claim)), root(&group)];
        expected.sort();
        assert_eq!(links(&member), expected, "{name}");
    }
    drop(process);
}
