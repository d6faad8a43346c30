//! S-104 to S-106 and G-40: one process on each node.

use std::collections::BTreeSet;

use serde_json::json;

use super::stage::{READY, Running, Stage, content, group_content, settle};

const LABEL: &str = "snapshot.storage.kubernetes.io/managed-by";

#[tokio::test]
async fn s_104_s_105_contents_of_this_node() {
    let stage = Stage::new().await;
    for (uid, node) in [("u1", Some("n1")), ("u2", Some("n2")), ("u3", None)] {
        let mut labelled = content(uid);
        if let Some(node) = node {
            labelled["metadata"]["labels"] = json!({ LABEL: node });
        }
        stage.api.insert(labelled);
    }
    let program = stage.start_with(&["--node-deployment"], &[("NODE_NAME", "n1")]);
    program.logs(READY).await;
    stage.until_ready("snapcontent-u1").await;
    settle().await;
    let asked: Vec<String> = stage.asked().into_iter().map(|asked| asked.name).collect();
    assert_eq!(asked, ["snapshot-u1"], "S-105");
    let selects = |resource: &str| {
        let reads = stage.api.requests_to("GET", &format!("*/{resource}"));
        assert!(!reads.is_empty(), "{resource}");
        let label = format!("{LABEL}=n1");
        let selects = |read: &sidecar_testkit::api::record::Request| {
            read.query.get("labelSelector") == Some(&label)
        };
        reads.iter().all(selects)
    };
    assert!(selects("volumesnapshotcontents"), "S-104");
    assert!(!selects("volumesnapshotclasses"), "S-104");
    assert!(stage.api.requests_to("*", "*/leases*").is_empty(), "S-104");
}

/// A stage as in the rows before, with group snapshots.
async fn with_groups() -> (Stage, Running) {
    let stage = Stage::with_groups().await;
    stage.api.insert(group_content());
    let program = stage.start_with(&["--node-deployment"], &[("NODE_NAME", "n1")]);
    program.logs(READY).await;
    settle().await;
    (stage, program)
}

#[tokio::test]
async fn s_106_classes_of_groups_have_no_node() {
    let (stage, _program) = with_groups().await;
    // The first lists read one object.
    let one = "1".to_owned();
    let selectors = |resource: &str| {
        let reads = stage.api.requests_to("GET", &format!("*/{resource}"));
        let watched = reads
            .iter()
            .filter(|read| read.query.get("limit") != Some(&one));
        let selectors = watched.map(|read| read.query.get("labelSelector").cloned());
        selectors.collect::<BTreeSet<_>>()
    };
    let label = format!("{LABEL}=n1");
    let contents = selectors("volumegroupsnapshotcontents");
    assert_eq!(contents, [Some(label)].into());
    let classes = selectors("volumegroupsnapshotclasses");
    assert_eq!(classes, [None].into());
}

#[tokio::test]
async fn g_40_groups_are_left_to_others() {
    let (stage, program) = with_groups().await;
    assert!(stage.trace().is_empty(), "{:?}", stage.trace());
    let said = program.log().matches("belong to no node").count();
    assert_eq!(said, 1, "{}", program.log());
}
