//! Which operations may start: never two that touch the same, and after a failure not at once.
//!
//! An operation is on a whole volume, or on a volume for one pod. The first kind excludes every
//! other one of the volume; those of different pods may overlap.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::kubelet::plan::schedule::OPERATION_BACK_OFF;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Stage and publish.
    Mount,
    /// Unpublish.
    Unpublish,
    /// Unstage.
    Unstage,
    /// Grow the file system.
    Expand,
}

impl Kind {
    /// Kubelet's label `operation_name`.
    #[must_use]
    pub const fn name(self, block: bool) -> &'static str {
        match (self, block) {
            (Self::Mount, false) => "volume_mount",
            (Self::Mount, true) => "map_volume",
            (Self::Unpublish, false) => "volume_unmount",
            (Self::Unpublish, true) => "unmap_volume",
            (Self::Unstage, false) => "unmount_device",
            (Self::Unstage, true) => "unmap_device",
            (Self::Expand, _) => "volume_fs_resize",
        }
    }
}

/// What an operation is on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The volume's key.
    pub volume: String,
    /// Uid of the pod; `None` is the whole volume.
    pub pod: Option<String>,
}

/// Why it may not start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another operation is under way.
    Busy,
    /// The last one failed; not before then.
    BackOff(Instant),
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
    running: bool,
    failures: u32,
    not_before: Option<Instant>,
}

/// The operations under way, and those that failed.
#[derive(Debug, Default)]
pub struct Operations {
    entries: BTreeMap<Subject, Entry>,
}

impl Operations {
    /// Marks an operation as running. One of another kind than the last forgets failures.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn start(&mut self, subject: &Subject, kind: Kind, now: Instant) -> Result<(), Refused> {
        let conflicts = |other: &Subject| {
            other.volume == subject.volume
                && (other.pod.is_none() || subject.pod.is_none() || other.pod == subject.pod)
        };
        let mut entries = self.entries.iter();
        if entries.any(|(other, entry)| entry.running && conflicts(other)) {
            return Err(Refused::Busy);
        }
        let entry = self.entries.entry(subject.clone()).or_insert(Entry {
            kind,
            running: false,
            failures: 0,
            not_before: None,
        });
        if entry.kind != kind {
            entry.failures = 0;
            entry.not_before = None;
            entry.kind = kind;
        }
        if let Some(then) = entry.not_before.filter(|then| now < *then) {
            return Err(Refused::BackOff(then));
        }
        entry.running = true;
        Ok(())
    }

    /// Records the end of an operation; after a failure, when the next one may start.
    pub fn finish(&mut self, subject: &Subject, succeeded: bool, now: Instant) -> Option<Instant> {
        if succeeded {
            self.entries.remove(subject);
            return None;
        }
        let entry = self.entries.get_mut(subject)?;
        entry.running = false;
        entry.failures = entry.failures.saturating_add(1);
        entry.not_before = Some(now + OPERATION_BACK_OFF.delay(entry.failures, 0.0));
        entry.not_before
    }

    /// Whether something is under way on this volume.
    #[must_use]
    pub fn is_busy(&self, volume: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|(subject, entry)| entry.running && subject.volume == volume)
    }

    /// Forgets the failures of a volume that is no more.
    pub fn forget(&mut self, volume: &str) {
        self.entries
            .retain(|subject, entry| entry.running || subject.volume != volume);
    }

    /// Number of subjects that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing runs and no failure is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
