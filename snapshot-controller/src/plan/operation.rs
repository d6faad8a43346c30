//! How long what users wait for takes, from the first attempt on.
//!
//! Apart from decisions, which do not depend on it. Times are lost with the process: what was under
//! way before counts from the start of the next one.

use std::collections::HashMap;
use std::time::Instant;

use crate::model::{Group, GroupSource, Snapshot, Source, Text};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The snapshot is taken.
    Create,
    /// The snapshot is taken and can be used.
    CreateAndReady,
    /// The VolumeSnapshot is gone.
    Delete,
}

impl Operation {
    /// As the label `operation_name` has it.
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

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What was waited for.
    pub operation: Operation,
    /// Label `operation_status`.
    pub status: &'static str,
    /// Label `driver_name`.
    pub driver: Text,
    /// Label `snapshot_type`.
    pub kind: &'static str,
    /// Whether it is about a group.
    pub group: bool,
    /// Since when it took.
    pub since: Instant,
}

#[derive(Debug)]
struct Started {
    since: Instant,
    driver: Text,
    kind: &'static str,
    group: bool,
}

/// A VolumeSnapshot, or a group of them, as it is being worked on.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Its UID.
    pub uid: &'a Text,
    /// Whether it is a group.
    pub group: bool,
    /// Whether an administrator made its content.
    pub provisioned: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it was taken.
    pub taken: bool,
    /// Whether it can be used.
    pub ready: bool,
}

impl Snapshot {
    /// It, as it is being worked on.
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
    /// It, as it is being worked on.
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

/// What is under way, by UID of the VolumeSnapshot.
#[derive(Debug, Default)]
pub struct Operations(HashMap<(Text, Operation), Started>);

impl Operations {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An attempt begins on something whose driver is known by this name, if it is.
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

    /// It has come to its end, if it was under way; `driver` is the one that did it, if that is known.
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

    /// The VolumeSnapshot with this UID is gone. What was being created never will be; as upstream has
    /// it, that sample says how long the deletion took.
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
