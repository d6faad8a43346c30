//! State that the process keeps besides its caches. It may be lost at any time: it saves calls and
//! waiting, and no decision about a snapshot's life depends on it.

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

/// The first wait after the driver called a request infeasible; it doubles each time.
const INFEASIBLE: Duration = Duration::from_secs(30);

/// Input of a new attempt.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The content has to be read first.
    pub unread: bool,
    /// The parameters of this process's first create call for this content.
    pub parameters: Option<Arc<Parameters>>,
    /// This process has marked the content, and has not called the driver since.
    pub uncalled: bool,
    /// This process has marked the content, and no patch that removes the mark is on its way.
    pub owns_mark: bool,
    /// The driver has deleted the snapshot.
    pub deleted: bool,
    /// The driver's report that the content does not have yet.
    pub untold: Option<Said>,
    /// The driver's missing capability was reported.
    pub warned: bool,
    /// Number of consecutive create calls that timed out.
    pub expired: u32,
    /// Failure of the previous attempt.
    pub before: Before,
}

/// State of one content.
#[derive(Clone, Debug, Default)]
struct Entry {
    uid: Text,
    start: Start,
    /// How many times in a row the driver called the request infeasible.
    infeasible: u32,
}

/// The state of one process.
#[derive(Debug, Default)]
pub struct InFlightState {
    contents: BTreeMap<Text, Entry>,
    waits: Waits<Text, RequeueTrigger>,
}

impl InFlightState {
    /// Whether there is any state of this content.
    #[must_use]
    pub fn knows(&self, name: &Text) -> bool {
        self.contents.contains_key(name)
    }

    /// Begins an attempt on this content.
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

    /// A create call with these parameters is about to be sent for this content.
    pub fn calls(&mut self, name: &Text, uid: &Text, parameters: Arc<Parameters>) {
        let start = &mut self.entry(name, uid).start;
        start.parameters = Some(parameters);
        start.uncalled = false;
    }

    /// This process is about to mark the content.
    pub fn marks(&mut self, name: &Text, uid: &Text) {
        self.entry(name, uid).start.uncalled = true;
    }

    /// The content fails; this trigger requeues it before its back-off ends.
    pub fn waits(&mut self, name: &Text, uid: &Text, trigger: RequeueTrigger) {
        self.waits.forget(name);
        // The entry ensures that the wait is dropped together with the content.
        self.entry(name, uid);
        self.waits.wait(name, trigger);
    }

    /// A trigger has occurred: returns the contents that waited for it.
    pub fn triggered(&mut self, trigger: &RequeueTrigger) -> BTreeSet<Text> {
        let names = self.waits.triggered(trigger);
        names.iter().for_each(|name| self.begins_anew(name));
        names
    }

    /// An infeasible request may have become feasible: its waits start over.
    pub fn begins_anew(&mut self, name: &Text) {
        if let Some(entry) = self.contents.get_mut(name) {
            entry.infeasible = 0;
        }
    }

    /// Takes in the end of an attempt. Returns the wait, if it is not the back-off. `there`: the
    /// content still exists.
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

    /// The content was deleted.
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
