//! What the answer to a step changes about an attempt.

use csi_proto::csi::{ListSnapshotsRequest, Snapshot};
use jiff::Timestamp;
use tonic::Code;

use super::{Attempt, Page};
use crate::model::SecretRef;
use crate::plan::answer::Said;
use crate::plan::outcome::{ApiError, Problem, Refusal, RpcError, Task};
use crate::plan::secret::Loaded;
use crate::plan::step::{Answer, Purpose, StatusWrite, Step, Write};

/// How often in one attempt the content may have changed under its patch.
const CONFLICTS: u8 = 8;

/// A list of more pages has no end.
const PAGES: u32 = 10_000;

impl Attempt {
    /// Takes in what came of `step`; the problem, if it fails with that.
    pub fn fold(&mut self, step: &Step, answer: Answer, now: Timestamp) -> Option<(Task, Problem)> {
        if matches!(answer, Answer::Done) {
            self.written.extend(step.writes());
        }
        match step {
            Step::Read => self.read(answer),
            Step::Patch(write, _) => self.patched(*write, answer),
            Step::PatchStatus(write, _) => self.status_patched(write, answer),
            Step::Announce(event) => {
                match &mut self.failing {
                    Some(failing) => failing.is_announced(&event.message),
                    None => self.warned = true,
                }
                None
            }
            Step::LoadSecret(purpose, secret) => self.loaded(*purpose, secret, answer),
            Step::Create(_) => self.created(answer, now),
            Step::List(request) => self.listed(request, answer, now),
            Step::Get(request) => self.got(&request.snapshot_id, answer, now),
            Step::CreateGroup(request) => {
                self.group_created(&request.source_volume_ids, answer, now)
            }
            Step::GetGroup(request) => {
                let asked = (&*request.group_snapshot_id, &*request.snapshot_ids);
                self.group_got(asked, answer, now)
            }
            Step::Delete(_) | Step::DeleteGroup(_) => {
                self.deleted |= matches!(answer, Answer::Deleted);
                (!matches!(answer, Answer::Deleted)).then(|| (Task::Delete, called(answer)))
            }
        }
    }

    fn read(&mut self, answer: Answer) -> Option<(Task, Problem)> {
        self.unread = false;
        let Answer::Refused(error) = answer else {
            return None;
        };
        // The deletion is on its way as an event.
        self.stale = true;
        Some((Task::Check, Problem::Read(error)))
    }

    /// The content has changed, or may have: whether it is read and looked at again.
    fn rereads(&mut self, error: &ApiError) -> bool {
        match error.refusal {
            Refusal::Conflict => {
                self.conflicts += 1;
                self.unread = self.conflicts < CONFLICTS;
                self.stale = !self.unread;
                self.unread
            }
            Refusal::NotFound | Refusal::Unknown => {
                self.stale = true;
                false
            }
            Refusal::Forbidden | Refusal::AlreadyExists | Refusal::Other => false,
        }
    }

    fn patched(&mut self, write: Write, answer: Answer) -> Option<(Task, Problem)> {
        let Answer::Refused(error) = answer else {
            self.uncalled &= write != Write::Unmark;
            self.owns_mark = match write {
                Write::Mark => true,
                Write::Unmark => false,
                Write::Topology(_) | Write::Release => self.owns_mark,
            };
            return None;
        };
        self.owns_mark &= error.refusal != Refusal::Unknown;
        if self.rereads(&error) {
            return None;
        }
        if let Some(failing) = &mut self.failing
            && failing.failure.task != Task::Delete
        {
            failing.could_not_unmark();
            return None;
        }
        Some((write.task(), Problem::Write(write, error)))
    }

    fn status_patched(&mut self, write: &StatusWrite, answer: Answer) -> Option<(Task, Problem)> {
        let refused = match answer {
            Answer::Refused(error) => Some(error),
            Answer::Done
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Created(_)
            | Answer::Listed(_)
            | Answer::Got(_)
            | Answer::GroupCreated(_)
            | Answer::GroupGot(_)
            | Answer::Deleted
            | Answer::Failed(_)
            | Answer::Unreachable(_) => None,
        };
        if let Some(error) = &refused
            && self.rereads(error)
        {
            return None;
        }
        let task = match write {
            StatusWrite::Fail(announcement) => {
                // Whoever cannot be told in the status is told all the same.
                if let Some(failing) = &mut self.failing {
                    failing.is_in_status(announcement);
                }
                return None;
            }
            StatusWrite::Report(task) => *task,
            StatusWrite::Clear => Task::Delete,
        };
        refused.map(|error| (task, Problem::Status(error)))
    }

    fn loaded(
        &mut self,
        purpose: Purpose,
        secret: &SecretRef,
        answer: Answer,
    ) -> Option<(Task, Problem)> {
        let annotated = purpose != Purpose::List;
        let problem = match answer {
            Answer::Secret(values) => {
                self.secret = Loaded::Values(secret.clone(), values);
                return None;
            }
            Answer::SecretNotText => Problem::SecretNotText(secret.clone(), annotated),
            Answer::Refused(error) => Problem::Secret(secret.clone(), error, annotated),
            other @ (Answer::Done
            | Answer::Created(_)
            | Answer::Listed(_)
            | Answer::Got(_)
            | Answer::GroupCreated(_)
            | Answer::GroupGot(_)
            | Answer::Deleted
            | Answer::Failed(_)
            | Answer::Unreachable(_)) => called(other),
        };
        Some((purpose.task(), problem))
    }

    fn created(&mut self, answer: Answer, now: Timestamp) -> Option<(Task, Problem)> {
        let problem = match answer {
            Answer::Created(answer) => {
                self.expired = 0;
                self.said = Said::new(answer.snapshot, now);
                if self.said.is_some() {
                    return None;
                }
                Problem::NoId
            }
            other @ (Answer::Done
            | Answer::Refused(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Listed(_)
            | Answer::Got(_)
            | Answer::GroupCreated(_)
            | Answer::GroupGot(_)
            | Answer::Deleted
            | Answer::Failed(_)
            | Answer::Unreachable(_)) => called(other),
        };
        Some((Task::Create, problem))
    }

    fn listed(
        &mut self,
        request: &ListSnapshotsRequest,
        answer: Answer,
        now: Timestamp,
    ) -> Option<(Task, Problem)> {
        let page = match answer {
            Answer::Listed(page) => page,
            other @ (Answer::Done
            | Answer::Refused(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Created(_)
            | Answer::Got(_)
            | Answer::GroupCreated(_)
            | Answer::GroupGot(_)
            | Answer::Deleted
            | Answer::Failed(_)
            | Answer::Unreachable(_)) => {
                return Some((Task::Check, called(other)));
            }
        };
        let snapshots = page.entries.into_iter().filter_map(|entry| entry.snapshot);
        let mut snapshots: Vec<Snapshot> = snapshots.collect();
        let wished = |one: &Snapshot| one.snapshot_id == request.snapshot_id;
        // Asked about one snapshot, a driver that answers with one means that, however it spells the handle.
        let whole = request.starting_token.is_empty() && page.next_token.is_empty();
        let alone = (whole && snapshots.len() == 1).then_some(0);
        let place = snapshots.iter().position(wished).or(alone);
        self.said = Said::new(place.map(|place| snapshots.swap_remove(place)), now);
        self.page = match &self.page {
            Page::Next(last, pages)
                if !page.next_token.is_empty() && page.next_token != *last && *pages < PAGES =>
            {
                Page::Next(page.next_token, pages + 1)
            }
            Page::Next(..) | Page::NoMore => Page::NoMore,
        };
        None
    }

    fn got(&mut self, handle: &str, answer: Answer, now: Timestamp) -> Option<(Task, Problem)> {
        let not_found = || Problem::NotFound(handle.into());
        let problem = match answer {
            Answer::Got(answer) => match Said::new(answer.snapshot, now) {
                Some(said) => {
                    self.said = Some(said);
                    return None;
                }
                None => Problem::NoId,
            },
            Answer::Failed(error) if error.code == Code::NotFound => not_found(),
            Answer::Failed(error) if error.code == Code::Unimplemented => {
                self.cannot_get = true;
                return None;
            }
            other @ (Answer::Done
            | Answer::Refused(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Created(_)
            | Answer::Listed(_)
            | Answer::GroupCreated(_)
            | Answer::GroupGot(_)
            | Answer::Deleted
            | Answer::Failed(_)
            | Answer::Unreachable(_)) => called(other),
        };
        Some((Task::Check, problem))
    }

    fn group_created(
        &mut self,
        volumes: &[String],
        answer: Answer,
        now: Timestamp,
    ) -> Option<(Task, Problem)> {
        let Answer::GroupCreated(answer) = answer else {
            return Some((Task::Create, called(answer)));
        };
        self.expired = 0;
        let said = Said::cut(answer.group_snapshot, volumes, now);
        self.says(Task::Create, said)
    }

    fn group_got(
        &mut self,
        asked: (&str, &[String]),
        answer: Answer,
        now: Timestamp,
    ) -> Option<(Task, Problem)> {
        let Answer::GroupGot(answer) = answer else {
            return Some((Task::Check, called(answer)));
        };
        let said = Said::looked_up(answer.group_snapshot, asked, now);
        self.says(Task::Check, said)
    }

    fn says(&mut self, task: Task, said: Result<Said, Problem>) -> Option<(Task, Problem)> {
        match said {
            Ok(said) => {
                self.said = Some(said);
                None
            }
            Err(problem) => Some((task, problem)),
        }
    }
}

/// Why a call did not bring what it was made for.
fn called(answer: Answer) -> Problem {
    match answer {
        Answer::Failed(error) => Problem::Call(error),
        Answer::Unreachable(error) => Problem::Away(error),
        Answer::Refused(error) => Problem::Read(error),
        Answer::Done
        | Answer::Secret(_)
        | Answer::SecretNotText
        | Answer::Created(_)
        | Answer::Listed(_)
        | Answer::Got(_)
        | Answer::GroupCreated(_)
        | Answer::GroupGot(_)
        | Answer::Deleted => Problem::Call(RpcError {
            code: Code::Internal,
            message: "answered with something else".to_owned(),
        }),
    }
}
