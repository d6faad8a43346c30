//! The state of a task between attempts, and how replies change it.

use sidecar::controller::{CallError, Calls as _};
use tonic::Code;

use super::Task;
use super::attempt::Log;
use super::expand::{Grown, required_on_node};
use super::modify;
use super::outcome::{ApiError, Finality, Refusal, classify};
use super::request::{Announcement, Call, ClaimWrite, Purpose, Reply, Write};
use crate::model::{Claim, Quantity, Text};

/// State of a claim's expansion, or of its modification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// No outcome is unknown: the driver's last response was a final error, or it was not asked for
    /// what the claim records. Lost with the process, so that after a restart the recorded request
    /// has an unknown outcome.
    pub settled: bool,
    /// This process has written the claim, so no older patch that is still on its way fits it.
    pub taken_over: bool,
    /// The driver's last response was that the volume must not be in use.
    pub in_use: bool,
    /// Events still to be sent: the claim has the driver's result, but its user has not been told.
    pub left: Option<Left>,
}

/// Events that finished work still owes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The claim's state after the last patch, whose outcome is unknown; `None` if it was applied.
    shows: Option<Shows>,
    /// Last first.
    announcements: Vec<Announcement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shows {
    Capacity(Quantity),
    /// The node has to act next.
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
    /// The next event to send, once the claim shows the result.
    pub(super) fn untold(&self, claim: &Claim) -> Option<&Announcement> {
        let left = self.left.as_ref()?;
        let done = left.shows.as_ref().is_none_or(|shows| shows.is_on(claim));
        left.announcements.last().filter(|_| done)
    }

    /// Takes in the reply to a request; `log` has the ones before it.
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

    /// Takes in the outcome of a patch of the claim.
    fn written(&mut self, what: ClaimWrite, write: &Write, error: Option<&ApiError>) {
        let refusal = error.map(|error| error.refusal);
        let marks = matches!(what, ClaimWrite::MarkResizing | ClaimWrite::MarkModifying);
        match refusal {
            None if marks || what == ClaimWrite::TakeOver => self.taken_over = true,
            None => self.taken_over &= !what.is_last(),
            Some(Refusal::Unknown) => self.taken_over = false,
            Some(_) => {}
        }
        // The mark begins something new, so the driver does not work on it before it is called,
        // even if the API server refuses the mark. Only a conflict or a missing object shows
        // nothing.
        if marks && !matches!(refusal, Some(Refusal::Conflict | Refusal::NotFound)) {
            let begun = write
                .body
                .patch()
                .pointer("/status/allocatedResourceStatuses");
            self.settled |= what == ClaimWrite::MarkModifying || begun.is_some();
        }
    }

    /// The last patch reports the driver's result, and may have been applied.
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
