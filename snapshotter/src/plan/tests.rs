//! The acceptance rows of the sidecar on the bench: what is there, and all that can be seen of what
//! it makes of that, in order.
//!
//! | line | means |
//! |---|---|
//! | `bc+`, `bc-` | patch of the content that sets, removes the mark of a call; `F+`: with the finalizer, `again`: a mark that was there |
//! | `F-` | patch that removes the finalizer |
//! | `st {…}` | patch of the status, by its fields |
//! | `Create name volume {parameters} {secrets}` | call; so are `List`, `Get`, `Delete` |
//! | `secret namespace/name` | GET of a Secret |
//! | `read` | GET of the content |
//! | `E reason: message` | Warning on the content |
//! | `refused …` | the answer to the patch before |

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

/// What the fixture's driver brings about.
const TAKEN: &str = r#"st {"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":1073741824,"snapshotHandle":"snap-1"}"#;
/// As [`TAKEN`], not ready yet.
const CUT: &str = r#"st {"creationTime":1767323045000000000,"readyToUse":false,"restoreSize":1073741824,"snapshotHandle":"snap-1"}"#;
const CREATE: &str = "Create snapshot-U1 vol-1 {a: b} {}";
const READY: &str = r#"st {"readyToUse":true}"#;
/// Out of [`TAKEN`] after the snapshot is gone.
const CLEARED: &str =
    r#"st {"creationTime":null,"readyToUse":null,"restoreSize":null,"snapshotHandle":null}"#;

/// One row: its number, what differs from the fixture, and what follows.
type Row<'a> = (&'a str, fn(&mut Bench), &'a [&'a str]);

fn hold(rows: &[Row<'_>]) {
    for (row, given, expected) in rows {
        let mut bench = Bench::new();
        given(&mut bench);
        assert_eq!(bench.run(), *expected, "{row}");
    }
}

/// As a status error of this moment reads.
fn failed(message: &str) -> String {
    let message = serde_json::json!(message);
    format!(r#"st {{"error":{{"message":{message},"time":"now"}},"readyToUse":false}}"#)
}

/// Status and event of a failure.
fn told(reason: &str, message: &str) -> [String; 2] {
    [failed(message), format!("E {reason}: {message}")]
}

/// Status and event of a first attempt.
fn told_first(message: &str) -> [String; 2] {
    told(
        "SnapshotCreationFailed",
        &format!("Failed to create snapshot: {message}"),
    )
}

/// Status and event of a later attempt.
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
