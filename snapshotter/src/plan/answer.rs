//! What the driver's answer says of a snapshot.
//!
//! An answer may lack what a status must have, and create, list and get calls answer alike.

use csi_proto::csi::Snapshot;
use jiff::Timestamp;

use crate::model::Text;

/// What is known of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The driver's id.
    pub handle: Text,
    /// When it was cut, nanoseconds since 1970.
    pub created: i64,
    /// Bytes that a volume restored from it needs, if the driver says so.
    pub size: Option<i64>,
    /// Whether it can be restored from.
    pub ready: bool,
    /// The driver's id of the group that it was cut with.
    pub group: Option<Text>,
}

impl Said {
    /// Out of an answer; `None` if it names no snapshot.
    #[must_use]
    pub fn new(answer: Option<Snapshot>, now: Timestamp) -> Option<Self> {
        let answer = answer.filter(|answer| !answer.snapshot_id.is_empty())?;
        let created = answer.creation_time.and_then(|time| {
            let nanos = time.seconds.checked_mul(1_000_000_000)?;
            nanos.checked_add(time.nanos.into())
        });
        let group = answer.group_snapshot_id;
        Some(Self {
            handle: answer.snapshot_id.into(),
            created: created.unwrap_or_else(|| nanos(now)),
            size: Some(answer.size_bytes).filter(|size| *size > 0),
            ready: answer.ready_to_use,
            group: (!group.is_empty()).then(|| group.into()),
        })
    }

    /// What is assumed where the driver cannot be asked.
    #[must_use]
    pub fn assumed(handle: &Text, now: Timestamp) -> Self {
        Self {
            handle: handle.clone(),
            created: nanos(now),
            size: None,
            ready: true,
            group: None,
        }
    }
}

fn nanos(now: Timestamp) -> i64 {
    i64::try_from(now.as_nanosecond()).unwrap_or_default()
}
