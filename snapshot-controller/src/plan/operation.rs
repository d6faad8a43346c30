//! How long operations that users wait for take, from the first attempt on.
//!
//! Kept apart from decisions, which do not depend on it. Start times are lost with the process: the
//! next process counts from its own first attempt.

use std::collections::HashMap;
use std::time::Instant;

use super::request::Progress;
use crate::model::{ContentSource, Head, Kind, Text};

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

/// Running operations, by UID of the VolumeSnapshot, with samples whose status is open.
#[derive(Clone, Debug, Default)]
pub struct Operations(HashMap<(Text, Operation), Sample>);

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
    pub fn begin(&mut self, of: &Head<'_>, driver: Option<Text>, now: Instant) {
        let kind = match of.source {
            ContentSource::Volume => "dynamic",
            ContentSource::Snapshot | ContentSource::Unclear => "pre-provisioned",
        };
        let wanted = match (of.deleting, of.ready == Some(true), of.has_time) {
            (true, _, _) => &[Operation::Delete][..],
            (false, true, _) => &[],
            (false, false, true) => &[Operation::CreateAndReady],
            (false, false, false) => &[Operation::Create, Operation::CreateAndReady],
        };
        for operation in wanted {
            let started = self.0.entry((of.uid.clone(), *operation));
            started.or_insert_with(|| Sample {
                operation: *operation,
                status: "",
                since: now,
                driver: driver.clone().unwrap_or_else(|| "unknown".into()),
                kind,
                group: of.kind == Kind::Group,
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
            status,
            driver: driver.cloned().unwrap_or(started.driver),
            ..started
        })
    }

    /// Ends the operations that are complete when a status shows this.
    pub fn shown(
        &mut self,
        uid: &Text,
        progress: Progress,
        driver: Option<&Text>,
    ) -> impl Iterator<Item = Sample> {
        let mut end = |operation| self.end(uid, operation, "success", driver);
        let created = progress.created.then(|| end(Operation::Create));
        let ready = progress.ready.then(|| end(Operation::CreateAndReady));
        [created, ready].into_iter().flatten().flatten()
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
