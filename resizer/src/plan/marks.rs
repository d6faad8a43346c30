//! What is remembered of a task from attempt to attempt, and what replies change about it.

use sidecar::controller::{CallError, Calls as _};
use tonic::Code;

use super::Task;
use super::attempt::Log;
use super::expand::{Grown, required_on_node};
use super::modify;
use super::outcome::{ApiError, Finality, Refusal, classify};
use super::request::{Announcement, Call, ClaimWrite, Purpose, Reply, Write};
use crate::model::{Claim, Quantity, Text};

/// What is remembered of a claim's expansion, or of its modification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Nothing is in doubt: the driver's last word was a final error, or it was not asked for what
    /// the claim says. Lost with the process, so that after a restart what was asked last is in
    /// doubt.
    pub settled: bool,
    /// No patch that may still be on its way fits the claim: this process has written it since.
    pub taken_over: bool,
    /// The driver's last word was that the volume must not be in use.
    pub in_use: bool,
    /// The claim was told what the driver has done; users are not.
    pub left: Option<Left>,
}

/// What is left to be told of work that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// What the claim says then; nobody knows whether the patch that says so was applied. `None`
    /// if it was.
    shows: Option<Shows>,
    /// Last first.
    announcements: Vec<Announcement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shows {
    Capacity(Quantity),
    /// The node is next.
    OnNode,
    Class(Text),
}

impl Shows {
    fn is_on(&self, claim: &Claim) -> bool {
        match self {
            Self::Capacity(capacity) => claim.capacity().is_some_and(|held| held >= *capacity),
            Self::OnNode => claim
                .detail()
                .is_some_and(|claim| claim.is_file_system_pending()),
            Self::Class(class) => claim
                .detail()
                .is_none_or(|claim| claim.modify.is_none() && claim.current_class == *class),
        }
    }
}

impl Marks {
    /// The next event that is left to be told.
    pub(super) fn untold(&self, claim: &Claim) -> Option<&Announcement> {
        let left = self.left.as_ref()?;
        let done = left.shows.as_ref().is_none_or(|shows| shows.is_on(claim));
        left.announcements.last().filter(|_| done)
    }

    /// Takes in what came of a request, after those in the log.
    pub(super) fn learn(&mut self, task: &Task, log: &Log, reply: &Reply) {
        match reply {
            Reply::Write(write, result) => {
                if let Purpose::Claim(what) = write.purpose {
                    self.written(what, write, result.as_ref().err());
                    self.finished(what, result.as_ref().err(), task, log);
                }
            }
            Reply::Call(called, _) => match Call::outcome(called).1 {
                None => {
                    *self = Self {
                        taken_over: self.taken_over,
                        ..Self::default()
                    }
                }
                Some(CallError::Failed(error)) => {
                    self.settled = classify(task.kind, error.code) != Finality::InDoubt;
                    self.in_use = error.code == Code::FailedPrecondition;
                }
                Some(CallError::Unreachable(_)) => {}
            },
            Reply::Event(event) => {
                let left = self.left.as_mut().map(|left| &mut left.announcements);
                left.and_then(|left| left.pop_if(|next| *next == event.announcement));
                self.left.take_if(|left| left.announcements.is_empty());
            }
            Reply::Get(..) | Reply::Secret(..) => {}
        }
    }

    /// The claim was patched, or not.
    fn written(&mut self, what: ClaimWrite, write: &Write, error: Option<&ApiError>) {
        let refusal = error.map(|error| error.refusal);
        let marks = matches!(what, ClaimWrite::MarkResizing | ClaimWrite::MarkModifying);
        match refusal {
            None if marks || what == ClaimWrite::TakeOver => self.taken_over = true,
            None => self.taken_over &= !what.is_last(),
            Some(Refusal::Unknown) => self.taken_over = false,
            Some(_) => {}
        }
        // What is begun where nothing was under way the driver does not work on before it is asked,
        // whoever refuses the mark. Only an object that is not there, or another, says nothing.
        if marks && !matches!(refusal, Some(Refusal::Conflict | Refusal::NotFound)) {
            let begun = write
                .body
                .patch()
                .pointer("/status/allocatedResourceStatuses");
            self.settled |= what == ClaimWrite::MarkModifying || begun.is_some();
        }
    }

    /// The last patch of a claim says what the driver has done, and may have been applied.
    fn finished(&mut self, what: ClaimWrite, error: Option<&ApiError>, task: &Task, log: &Log) {
        let (shows, announcements) = match what {
            ClaimWrite::FinishResize | ClaimWrite::MarkPendingOnNode => {
                let grown = Grown::of(log).and_then(Result::ok);
                let told = grown.as_ref().map(Grown::announcements);
                let capacity = grown.filter(|_| what == ClaimWrite::FinishResize);
                let shows = capacity.map_or(Shows::OnNode, |grown| Shows::Capacity(grown.capacity));
                (
                    Some(shows),
                    told.unwrap_or_else(|| vec![required_on_node()]),
                )
            }
            ClaimWrite::FinishModify => {
                let Some(target) = modify::target(log) else {
                    return;
                };
                let told = modify::modified(task.name(), target);
                (Some(Shows::Class(target.clone())), vec![told])
            }
            ClaimWrite::CancelModify => (None, vec![modify::canceled()]),
            ClaimWrite::MarkResizing
            | ClaimWrite::MarkModifying
            | ClaimWrite::MarkPendingClass
            | ClaimWrite::TakeOver
            | ClaimWrite::RecordResizeError
            | ClaimWrite::RecordModifyError => return,
        };
        let shows = match error {
            None => None,
            Some(error) if error.is_unknown() && shows.is_some() => shows,
            Some(_) => return,
        };
        self.left = (!announcements.is_empty()).then_some(Left {
            shows,
            announcements,
        });
    }
}

#[cfg(test)]
mod tests;
