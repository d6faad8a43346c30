//! S-104 and S-105: one process on each node.

use serde_json::json;

use super::stage::{READY, Stage, content, settle};

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
