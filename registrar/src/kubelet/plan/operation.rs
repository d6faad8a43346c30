//! At most one running operation per socket, and a growing pause after each failure.
//!
//! Registration and deregistration of a socket share one entry. Only success resets the failures: neither the deletion
//! of the socket nor a change of the operation's kind does, because kubelet behaves so and registrars' restart loops
//! are slowed down by it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::schedule::OPERATION_BACK_OFF;

/// How long the failures of a socket that does not exist any more are kept. Kubelet keeps them for ever, which lets the
/// map grow with every socket name ever tried; this is ten times the longest pause, far beyond any behaviour that
/// depends on it.
pub const FORGET_AFTER: Duration = Duration::from_secs(1220);

/// Why an operation may not start now. Both are normal and not logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another operation runs on this socket.
    AlreadyRunning,
    /// The last operation failed, and its pause is not over.
    BackOff,
}

#[derive(Debug, Default)]
struct Entry {
    running: bool,
    failures: u32,
    last_failure: Option<Instant>,
}

/// The operations of all sockets.
#[derive(Debug, Default)]
pub struct Operations {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Operations {
    /// Marks an operation on `socket` as running.
    ///
    /// # Errors
    /// [`Refused`] if one runs already or the pause after the last failure is not over.
    pub fn start(&mut self, socket: &Path, now: Instant) -> Result<(), Refused> {
        let entry = self.entries.entry(socket.to_path_buf()).or_default();
        if entry.running {
            return Err(Refused::AlreadyRunning);
        }
        if let Some(last) = entry.last_failure
            && now.saturating_duration_since(last) <= OPERATION_BACK_OFF.delay(entry.failures, 0.0)
        {
            return Err(Refused::BackOff);
        }
        entry.running = true;
        Ok(())
    }

    /// Ends the operation; returns the pause before the next one after a failure.
    pub fn finish(&mut self, socket: &Path, succeeded: bool, now: Instant) -> Option<Duration> {
        if succeeded {
            self.entries.remove(socket);
            return None;
        }
        let entry = self.entries.get_mut(socket)?;
        entry.running = false;
        entry.failures = entry.failures.saturating_add(1);
        entry.last_failure = Some(now);
        Some(OPERATION_BACK_OFF.delay(entry.failures, 0.0))
    }

    /// Drops the entries of sockets for which `wanted` is false and nothing happened for [`FORGET_AFTER`].
    pub fn forget(&mut self, now: Instant, wanted: impl Fn(&Path) -> bool) {
        self.entries.retain(|socket, entry| {
            let fresh = entry
                .last_failure
                .is_none_or(|last| now.saturating_duration_since(last) < FORGET_AFTER);
            entry.running || fresh || wanted(socket)
        });
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no operation runs and no failure is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
