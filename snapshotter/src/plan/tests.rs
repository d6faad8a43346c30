//! The sidecar's acceptance rows on the bench: the initial objects, and everything visible that
//! follows, in order.
//!
//! | line | means |
//! |---|---|
//! | `bc+`, `bc-` | patch of the content that adds, removes the mark of a call; `F+`: adds the finalizer too, `again`:
//! the mark was already there |
//! | `F-` | patch that removes the finalizer |
//! | `st {…}` | patch of the status, with its fields |
//! | `Create name volume {parameters} {secrets}` | call; likewise `List`, `Get`, `Delete` |
//! | `secret namespace/name` | GET of a Secret |
//! | `read` | GET of the content |
//! | `E reason: message` | Warning on the content |
//! | `refused …` | the response to the patch before |

mod copied;
mod create;
mod delete;
mod error;
mod found;
mod group;
mod idle;
mod incomplete;
mod restart;
mod topology;
mod undone;

use crate::testing::Bench;

/// The status patch after the fixture's driver has created a snapshot.
const TAKEN: &str = r#"st {"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":1073741824,"snapshotHandle":"snap-1"}"#;
/// Like [`TAKEN`], not ready yet.
const CUT: &str = r#"st {"creationTime":1767323045000000000,"readyToUse":false,"restoreSize":1073741824,"snapshotHandle":"snap-1"}"#;
const CREATE: &str = "Create snapshot-U1 vol-1 {a: b} {}";
const READY: &str = r#"st {"readyToUse":true}"#;
/// The status patch after the snapshot of [`TAKEN`] was deleted.
const CLEARED: &str =
    r#"st {"creationTime":null,"readyToUse":null,"restoreSize":null,"snapshotHandle":null}"#;

/// One row: its number, the difference from the fixture, and the expected lines.
type Row<'a> = (&'a str, fn(&mut Bench), &'a [&'a str]);

fn hold(rows: &[Row<'_>]) {
    for (row, given, expected) in rows {
        let mut bench = Bench::new();
        given(&mut bench);
        assert_eq!(bench.run(), *expected, "{row}");
    }
}

/// The status patch of an error at this moment.
fn failed(message: &str) -> String {
    let message = serde_json::json!(message);
    format!(r#"st {{"error":{{"message":{message},"time":"now"}},"readyToUse":false}}"#)
}

/// Status patch and event of a failure.
fn told(reason: &str, message: &str) -> [String; 2] {
    [failed(message), format!("E {reason}: {message}")]
}

/// Status patch and event of a first attempt.
fn told_first(message: &str) -> [String; 2] {
    told(
        "SnapshotCreationFailed",
        &format!("Failed to create snapshot: {message}"),
    )
}

/// Status patch and event of a later attempt.
fn told_later(message: &str) -> [String; 2] {
    let message = format!("Failed to check and update snapshot content: {message}");
    told("SnapshotContentCheckandUpdateFailed", &message)
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// All lines, one after the other.
fn joined(parts: &[&[String]]) -> Vec<String> {
    parts.concat()
}
