//! How long operations that users wait for take, from the first attempt on.
//!
//! Kept apart from decisions, which do not depend on it. Start times are lost with the process: the
//! next process counts from its own first attempt.

use std::collections::HashMap;
use std::time::Instant;

use crate::model::{Group, GroupSource, Snapshot, Source, Text};

/// An operation that users wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The snapshot is taken.
    Create,
    /// The snapshot is taken and can be used.
    CreateAndReady,
    /// The VolumeSnapshot is deleted.
    Delete,
}

impl Operation {
    /// Value of the label `operation_name`.
    #[must_use]
    pub fn name(self, group: bool) -> &'static str {
        match (self, group) {
            (Self::Create, false) => "CreateSnapshot",
            (Self::CreateAndReady, false) => "CreateSnapshotAndReady",
            (Self::Delete, false) => "DeleteSnapshot",
            (Self::Create, true) => "CreateGroupSnapshot",
            (Self::CreateAndReady, true) => "CreateGroupSnapshotAndReady",
            (Self::Delete, true) => "DeleteGroupSnapshot",
        }
    }
}

/// A sample of the duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The operation.
    pub operation: Operation,
    /// Label `operation_status`.
    pub status: &'static str,
    /// Label `driver_name`.
    pub driver: Text,
    /// Label `snapshot_type`.
    pub kind: &'static str,
    /// Whether it is a group's.
    pub group: bool,
    /// Start of the operation.
    pub since: Instant,
}

#[derive(Clone, Debug)]
struct Started {
    since: Instant,
    driver: Text,
    kind: &'static str,
    group: bool,
}

/// State of a VolumeSnapshot or VolumeGroupSnapshot, for the measurement.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Its `metadata.uid`.
    pub uid: &'a Text,
    /// Whether it is a group.
    pub group: bool,
    /// Whether its content is pre-provisioned.
    pub provisioned: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether the snapshot was taken.
    pub taken: bool,
    /// Whether it is ready to use.
    pub ready: bool,
}

impl Snapshot {
    /// Its state, for the measurement.
    #[must_use]
    pub fn state(&self) -> State<'_> {
        State {
            uid: &self.uid,
            group: false,
            provisioned: !matches!(self.source, Source::Claim(_)),
            deleting: self.deleting,
            taken: self.shown().is_taken,
            ready: self.is_ready(),
        }
    }
}

impl Group {
    /// Its state, for the measurement.
    #[must_use]
    pub fn state(&self) -> State<'_> {
        State {
            uid: &self.uid,
            group: true,
            provisioned: !matches!(self.source, GroupSource::Claims(_)),
            deleting: self.deleting,
            taken: self.was_taken(),
            ready: self.is_ready(),
        }
    }
}

/// Running operations, by UID of the VolumeSnapshot.
#[derive(Clone, Debug, Default)]
pub struct Operations(HashMap<(Text, Operation), Started>);

impl Operations {
    /// Number of running operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no operation is running.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Starts the operations of an attempt on an object; `driver` is its driver, if known.
    pub fn begin(&mut self, of: State<'_>, driver: Option<Text>, now: Instant) {
        let kind = match of.provisioned {
            true => "pre-provisioned",
            false => "dynamic",
        };
        let wanted = match (of.deleting, of.ready, of.taken) {
            (true, _, _) => &[Operation::Delete][..],
            (false, true, _) => &[],
            (false, false, true) => &[Operation::CreateAndReady],
            (false, false, false) => &[Operation::Create, Operation::CreateAndReady],
        };
        for operation in wanted {
            let started = self.0.entry((of.uid.clone(), *operation));
            started.or_insert_with(|| Started {
                since: now,
                driver: driver.clone().unwrap_or_else(|| "unknown".into()),
                kind,
                group: of.group,
            });
        }
    }

    /// Ends an operation, if it is running; `driver` is the driver that did it, if known.
    pub fn end(
        &mut self,
        uid: &Text,
        operation: Operation,
        status: &'static str,
        driver: Option<&Text>,
    ) -> Option<Sample> {
        let started = self.0.remove(&(uid.clone(), operation))?;
        Some(Sample {
            operation,
            status,
            driver: driver.cloned().unwrap_or(started.driver),
            kind: started.kind,
            group: started.group,
            since: started.since,
        })
    }

    /// Ends the operations of a deleted VolumeSnapshot. Its unfinished creation ends as well; as in
    /// upstream, that sample has the duration of the deletion.
    pub fn gone(&mut self, uid: &Text) -> Vec<Sample> {
        let deleted = self.end(uid, Operation::Delete, "success", None);
        let canceled = [Operation::Create, Operation::CreateAndReady];
        let canceled = canceled.map(|operation| {
            let sample = self.end(uid, operation, "cancel", None)?;
            let since = deleted
                .as_ref()
                .map_or(sample.since, |deleted| deleted.since);
            Some(Sample { since, ..sample })
        });
        let canceled: Vec<Sample> = canceled.into_iter().flatten().collect();
        deleted.into_iter().chain(canceled).collect()
    }
}
