//! What the process remembers beyond its caches. All of it may be lost at any time: it saves calls
//! and waiting, and no decision about a snapshot's life depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sidecar::waits::Waits;

use super::answer::Said;
use super::attempt::{Attempt, End};
use super::failing::Before;
use super::outcome::RequeueTrigger;
use super::request::Parameters;
use crate::model::{Content, Text};

/// The first wait after the driver called a snapshot impossible; it doubles each time.
const INFEASIBLE: Duration = Duration::from_secs(30);

/// What an attempt begins with.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The content must be read first.
    pub unread: bool,
    /// The parameters of the first call for this snapshot, by this process.
    pub parameters: Option<Arc<Parameters>>,
    /// The mark on the content is this process's, and no call followed it.
    pub uncalled: bool,
    /// The mark on the content is this process's, and nothing is on its way that takes it away.
    pub owns_mark: bool,
    /// The driver has deleted the snapshot.
    pub deleted: bool,
    /// What the driver has said, and the content does not.
    pub untold: Option<Said>,
    /// It was said what the driver cannot do.
    pub warned: bool,
    /// How many calls for the snapshot in a row ran out of time.
    pub expired: u32,
    /// How the attempt before failed, if it did.
    pub before: Before,
}

/// What is remembered of one content.
#[derive(Clone, Debug, Default)]
struct Entry {
    uid: Text,
    start: Start,
    /// How often in a row the driver called it impossible.
    infeasible: u32,
}

/// Everything remembered.
#[derive(Debug, Default)]
pub struct InFlightState {
    contents: BTreeMap<Text, Entry>,
    waits: Waits<Text, RequeueTrigger>,
}

impl InFlightState {
    /// Whether anything is remembered of this content.
    #[must_use]
    pub fn knows(&self, name: &Text) -> bool {
        self.contents.contains_key(name)
    }

    /// An attempt on this content begins.
    pub fn begin(&mut self, name: &Text, content: &Content) -> Start {
        self.waits.forget(name);
        let entry = self.contents.get(name);
        match entry.filter(|entry| entry.uid == content.uid) {
            Some(entry) => entry.start.clone(),
            None => {
                self.contents.remove(name);
                Start::default()
            }
        }
    }

    /// The driver is asked with these parameters for the snapshot of this content.
    pub fn calls(&mut self, name: &Text, uid: &Text, parameters: Arc<Parameters>) {
        let start = &mut self.entry(name, uid).start;
        start.parameters = Some(parameters);
        start.uncalled = false;
    }

    /// This process marks the content.
    pub fn marks(&mut self, name: &Text, uid: &Text) {
        self.entry(name, uid).start.uncalled = true;
    }

    /// The content fails, and waits for this beside its back-off.
    pub fn waits(&mut self, name: &Text, uid: &Text, trigger: RequeueTrigger) {
        self.waits.forget(name);
        // Whose content is gone goes with what is remembered of it.
        self.entry(name, uid);
        self.waits.wait(name, trigger);
    }

    /// This has appeared or changed: who waited for it.
    pub fn triggered(&mut self, trigger: &RequeueTrigger) -> BTreeSet<Text> {
        let names = self.waits.triggered(trigger);
        names.iter().for_each(|name| self.begins_anew(name));
        names
    }

    /// What was called impossible may be possible now.
    pub fn begins_anew(&mut self, name: &Text) {
        if let Some(entry) = self.contents.get_mut(name) {
            entry.infeasible = 0;
        }
    }

    /// The attempt is over. How long the content waits, if not as long as its back-off says.
    /// `there`: whether the content still is.
    pub fn end(
        &mut self,
        name: &Text,
        (attempt, end): (&Attempt, &End),
        there: bool,
        longest: Duration,
    ) -> Option<Duration> {
        if !there {
            self.forget(name);
            return None;
        }
        let entry = self.entry(name, attempt.uid());
        let start = &mut entry.start;
        start.unread = attempt.is_stale();
        start.uncalled = attempt.is_uncalled();
        start.owns_mark = attempt.owns_mark();
        start.deleted = attempt.has_deleted();
        start.untold = attempt.untold();
        start.warned = attempt.is_warned();
        start.expired = attempt.expired();
        start.before = match end {
            End::Failed(_) => attempt.failed(),
            End::Done
            | End::NotReady
            | End::Awaits
            | End::Incapable
            | End::Foreign(_)
            | End::Gone => Before::default(),
        };
        if attempt.is_settled() {
            start.parameters = None;
        }
        match end {
            End::Failed(failure) if failure.is_infeasible() => {
                let wait = INFEASIBLE.saturating_mul(2_u32.saturating_pow(entry.infeasible));
                entry.infeasible += 1;
                Some(wait.min(longest))
            }
            End::Failed(_) => None,
            End::NotReady | End::Awaits | End::Incapable | End::Foreign(_) => {
                entry.infeasible = 0;
                None
            }
            End::Done | End::Gone => {
                let deleted = entry.start.deleted;
                self.waits.forget(name);
                if deleted {
                    self.begins_anew(name)
                } else {
                    self.forget(name)
                }
                None
            }
        }
    }

    /// The content is gone.
    pub fn forget(&mut self, name: &Text) {
        self.waits.forget(name);
        self.contents.remove(name);
    }

    fn entry(&mut self, name: &Text, uid: &Text) -> &mut Entry {
        let entry = self.contents.entry(name.clone()).or_default();
        if entry.uid != *uid {
            *entry = Entry {
                uid: uid.clone(),
                ..Entry::default()
            };
        }
        entry
    }
}
