//! State that the process keeps besides its caches. It may be lost at any time: it saves calls and
//! waiting, and no decision about a snapshot's life depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::CallError;
use sidecar::part::only;
use sidecar::waits::Waits;
use tonic::Code;

use super::answer::Report;
use super::attempt::{Attempt, End};
use super::outcome::{ApiError, RequeueTrigger};
use super::request::{Called, ContentWrite, Parameters, Purpose, Reply};
use crate::model::{Content, Text};

/// The first wait after the driver called a request infeasible; it doubles each time.
const INFEASIBLE: Duration = Duration::from_secs(30);

/// What an attempt knows of earlier ones, and later ones of it.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The content, if it has to be read first.
    pub in_doubt: Vec<Text>,
    /// The parameters of this process's first create call for this content.
    pub parameters: Option<Arc<Parameters>>,
    /// This process has marked the content, and has not called the driver since.
    pub uncalled: bool,
    /// This process has marked the content, and no patch that removes the mark is on its way.
    pub owns_mark: bool,
    /// The driver has deleted the snapshot.
    pub deleted: bool,
    /// The driver's report that the content does not have yet.
    pub unwritten: Option<Report>,
    /// The driver's missing capability was reported.
    pub warned: bool,
    /// Number of consecutive create calls that timed out.
    pub expired: u32,
    /// Failure of the previous attempt.
    pub before: Before,
}

/// Failure of the previous attempt, to avoid repeated reports.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Whether the outcome of a write was unknown.
    pub unanswered: bool,
    /// The last event's message.
    pub announced: Option<Text>,
}

impl Start {
    /// Learns from a reply what later attempts have to know. `failing`: the attempt reports its failure.
    pub fn learn(&mut self, reply: &Reply, failing: bool) {
        match reply {
            Reply::Write(write, result) => {
                if let Purpose::Content(what) = write.purpose {
                    self.has_written(what, result.as_ref().err());
                }
            }
            Reply::Event(event) if failing => {
                self.before.announced = Some(event.announcement.message.clone());
            }
            Reply::Event(_) => self.warned = true,
            Reply::Call(called, _) => self.has_called(called),
            Reply::Get(..) | Reply::Secret(..) => {}
        }
    }

    fn has_written(&mut self, what: ContentWrite, error: Option<&ApiError>) {
        match (what, error) {
            (_, Some(error)) => self.owns_mark &= !error.is_unknown(),
            (ContentWrite::Mark, None) => self.owns_mark = true,
            (ContentWrite::Unmark, None) => (self.owns_mark, self.uncalled) = (false, false),
            (ContentWrite::Topology(_) | ContentWrite::Release, None) => {}
        }
    }

    fn has_called(&mut self, called: &Called) {
        let (parameters, error) = match called {
            Called::Create(call, result) => (&call.parameters, result.as_ref().err()),
            Called::CreateGroup(call, result) => (&call.parameters, result.as_ref().err()),
            Called::Delete(_, Ok(_)) | Called::DeleteGroup(_, Ok(_)) => {
                self.deleted = true;
                return;
            }
            Called::Delete(_, Err(_))
            | Called::DeleteGroup(_, Err(_))
            | Called::List(..)
            | Called::Get(..)
            | Called::GetGroup(..) => return,
        };
        self.uncalled = false;
        let first = || Arc::new(parameters.clone());
        self.parameters.get_or_insert_with(first);
        self.expired = match error {
            Some(CallError::Unreachable(_)) => self.expired,
            Some(CallError::Failed(error)) if error.code == Code::DeadlineExceeded => {
                self.expired.saturating_add(1)
            }
            Some(CallError::Failed(_)) | None => 0,
        };
    }
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
#[derive(Clone, Debug, Default)]
pub struct InFlightState {
    contents: BTreeMap<Text, Entry>,
    waits: Waits<Text, RequeueTrigger>,
}

impl InFlightState {
    /// The part about one content.
    #[must_use]
    pub fn about(&self, name: &Text) -> Self {
        Self {
            contents: only(self.contents.get_key_value(name)),
            waits: Waits::default(),
        }
    }

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

    /// The content fails; this trigger requeues it before its back-off ends.
    pub fn waits(&mut self, name: &Text, uid: &Text, trigger: RequeueTrigger) {
        self.waits.forget(name);
        // The entry ensures that the wait is dropped together with the content.
        self.entry(name, uid);
        self.waits.wait(name, trigger);
    }

    /// The triggers that requeue the content before its back-off ends.
    #[must_use]
    pub fn awaited(&self, name: &Text) -> &[RequeueTrigger] {
        self.waits.awaited_by(name)
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
        attempt: &Attempt,
        end: &End,
        there: bool,
        longest: Duration,
    ) -> Option<Duration> {
        let name = &attempt.name;
        if !there {
            self.forget(name);
            return None;
        }
        let entry = self.entry(name, &attempt.uid);
        entry.start = attempt.left(end);
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
