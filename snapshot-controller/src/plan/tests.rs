//! The acceptance rows of the controller: the objects in a cluster, and the requests and events
//! that follow.

mod backup;
mod bind;
mod class;
mod delete;
mod dynamic;
mod group;
mod group_end;
mod group_late;
mod group_static;
mod lost;
mod others;
mod refusals;
mod unhandled;

use crate::plan::request::{ApiError, Refusal};
use crate::testing::server::error;

/// Asserts each line; an expected line that ends in … is a prefix.
#[track_caller]
fn shows(row: &str, lines: &[String], expected: &[&str]) {
    let same = |(line, expected): (&String, &&str)| match expected.strip_suffix('…') {
        Some(beginning) => line.starts_with(beginning),
        None => line == expected,
    };
    let all = lines.len() == expected.len() && lines.iter().zip(expected).all(same);
    assert!(all, "row {row}\n got: {lines:#?}\nwant: {expected:#?}");
}

/// The status patch that reports a failure, and the event with the same text.
fn complains(reason: &str, message: &str) -> [String; 2] {
    let quoted = serde_json::Value::from(message).to_string();
    let status = format!(
        "PATCH snapshot/status ns/s1 {{\"status\":{{\"error\":{{\"message\":{quoted},\
         \"time\":\"2026-01-02T03:04:05Z\"}},\"readyToUse\":false}}}}"
    );
    [status, format!("E: ns/s1 Warning {reason} {message}")]
}

/// The lines of a failure that leaves `readyToUse` as it is.
fn complains_only(reason: &str, message: &str) -> [String; 2] {
    complains(reason, message).map(|line| line.replace(",\"readyToUse\":false", ""))
}

fn forbidden() -> ApiError {
    error(Refusal::Forbidden, "forbidden")
}

fn conflict() -> ApiError {
    error(Refusal::Conflict, "the object has been modified")
}

fn broken() -> ApiError {
    error(Refusal::Unknown, "internal error")
}

const PROTECTED: &str = "PATCH snapshot ns/s1 {\"metadata\":{\"finalizers\":[\"F-src\"]}}";
const CLAIMED: &str = "PUT claim ns/p1 [K F-pvc]";
const POSTED: &str = "POST content snapcontent-U1 …";
const WAITING: &str = "E: ns/s1 Normal CreatingSnapshot Waiting for a snapshot ns/s1 to be created \
                       by the CSI driver.";
const SHOWN: &str = "PATCH snapshot/status ns/s1 {\"status\":{\"boundVolumeSnapshotContentName\":\
                     \"snapcontent-U1\",\"readyToUse\":false}}";
const BOUND: &str = "PATCH snapshot ns/s1 {\"metadata\":{\"finalizers\":[\"F-src\",\"F-bound\"]}}";
const TAKEN: &str = "E: ns/s1 Normal SnapshotCreated Snapshot ns/s1 was successfully created by \
                     the CSI driver.";
const READY: &str = "E: ns/s1 Normal SnapshotReady Snapshot ns/s1 is ready to use.";
const FREE: &str = "PUT claim ns/p1 [K]";

/// The requests up to the wait for the sidecar.
const BEGUN: &[&str] = &[PROTECTED, CLAIMED, POSTED, WAITING, SHOWN, BOUND];
