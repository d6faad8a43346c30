//! How the reply to a request changes an attempt.

use csi_proto::csi::{
    CreateSnapshotResponse, CreateVolumeGroupSnapshotResponse, GetSnapshotResponse,
    GetVolumeGroupSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot,
};
use jiff::Timestamp;
use sidecar::controller::CallError;
use sidecar::controller::request::SecretError;
use tonic::Code;

use super::{Attempt, Page};
use crate::plan::answer::Said;
use crate::plan::outcome::{ApiError, Problem, Refusal, Task};
use crate::plan::request::{
    Called, ContentWrite, Purpose, Reply, Secrets, StatusWrite, Use, Wanted,
};
use crate::plan::secret::Loaded;

/// Conflicts that one attempt tolerates.
const CONFLICTS: u8 = 8;

/// Pages after which a list counts as endless.
const PAGES: u32 = 10_000;

/// The task and problem, if the attempt fails.
type Taken = Result<(), (Task, Problem)>;

impl Attempt {
    /// Takes in the reply to a request; `now` is the time of its decision.
    ///
    /// # Errors
    /// The task and problem that the attempt fails with.
    pub fn answered(&mut self, reply: Reply, now: Timestamp) -> Taken {
        match reply {
            Reply::Get(_, result) => self.read(result),
            Reply::Write(write, result) => {
                if result.is_ok() {
                    self.written.extend(write.purpose.lasting());
                }
                match write.purpose {
                    Purpose::Content(what) => self.patched(what, result),
                    Purpose::Status(what) => self.status_patched(&what, result),
                }
            }
            Reply::Event(event) => {
                match &mut self.failing {
                    Some(failing) => failing.is_announced(&event.announcement.message),
                    None => self.warned = true,
                }
                Ok(())
            }
            Reply::Secret(wanted, values) => self.loaded(wanted, values),
            Reply::Call(called, _) => self.called(called, now),
        }
    }

    fn called(&mut self, called: Called, now: Timestamp) -> Taken {
        match called {
            Called::Create(_, result) => self.created(result, now),
            Called::List(call, result) => self.listed(&call, result, now),
            Called::Get(call, result) => self.got(&call.snapshot_id, result, now),
            Called::CreateGroup(call, result) => {
                self.group_created(&call.source_volume_ids, result, now)
            }
            Called::GetGroup(call, result) => {
                let asked = (&*call.group_snapshot_id, &*call.snapshot_ids);
                self.group_got(asked, result, now)
            }
            Called::Delete(_, result) => self.gone(result.map(drop)),
            Called::DeleteGroup(_, result) => self.gone(result.map(drop)),
        }
    }

    fn gone(&mut self, result: Result<(), CallError>) -> Taken {
        result.map_err(|error| (Task::Delete, error.into()))?;
        self.deleted = true;
        Ok(())
    }

    fn read(&mut self, result: Result<(), ApiError>) -> Taken {
        self.unread = false;
        result.map_err(|error| {
            // If the content was deleted, the watch will report it.
            self.stale = true;
            (Task::Check, Problem::Read(error))
        })
    }

    /// Whether the attempt reads the content again after a failed write.
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

    fn patched(&mut self, what: ContentWrite, result: Result<(), ApiError>) -> Taken {
        let Err(error) = result else {
            self.uncalled &= what != ContentWrite::Unmark;
            self.owns_mark = match what {
                ContentWrite::Mark => true,
                ContentWrite::Unmark => false,
                ContentWrite::Topology(_) | ContentWrite::Release => self.owns_mark,
            };
            return Ok(());
        };
        self.owns_mark &= error.refusal != Refusal::Unknown;
        if self.rereads(&error) {
            return Ok(());
        }
        if let Some(failing) = &mut self.failing
            && failing.failure.task != Task::Delete
        {
            failing.could_not_unmark();
            return Ok(());
        }
        Err((what.task(), Problem::Write(what, error)))
    }

    fn status_patched(&mut self, what: &StatusWrite, result: Result<(), ApiError>) -> Taken {
        if let Err(error) = &result
            && self.rereads(error)
        {
            return Ok(());
        }
        let task = match what {
            StatusWrite::Fail(announcement) => {
                // A failed status write does not suppress the event.
                if let Some(failing) = &mut self.failing {
                    failing.is_in_status(announcement);
                }
                return Ok(());
            }
            StatusWrite::Report(task) => *task,
            StatusWrite::Clear => Task::Delete,
        };
        result.map_err(|error| (task, Problem::Status(error)))
    }

    fn loaded(&mut self, wanted: Wanted, values: Result<Secrets, SecretError>) -> Taken {
        let Wanted { of, secret } = wanted;
        let annotated = of != Use::List;
        let problem = match values {
            Ok(values) => {
                self.secret = Loaded::Values(secret, values);
                return Ok(());
            }
            Err(SecretError::NotText) => Problem::SecretNotText(secret, annotated),
            Err(SecretError::Unread(error)) => Problem::Secret(secret, error, annotated),
        };
        Err((of.task(), problem))
    }

    fn created(
        &mut self,
        result: Result<CreateSnapshotResponse, CallError>,
        now: Timestamp,
    ) -> Taken {
        let response = result.map_err(|error| (Task::Create, error.into()))?;
        self.expired = 0;
        self.said = Said::new(response.snapshot, now);
        if self.said.is_none() {
            return Err((Task::Create, Problem::NoId));
        }
        Ok(())
    }

    fn listed(
        &mut self,
        request: &ListSnapshotsRequest,
        result: Result<ListSnapshotsResponse, CallError>,
        now: Timestamp,
    ) -> Taken {
        let page = result.map_err(|error| (Task::Check, error.into()))?;
        let snapshots = page.entries.into_iter().filter_map(|entry| entry.snapshot);
        let mut snapshots: Vec<Snapshot> = snapshots.collect();
        let wished = |one: &Snapshot| one.snapshot_id == request.snapshot_id;
        // A driver that returns exactly one snapshot for a look-up means that one, however it spells the
        // handle.
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
        Ok(())
    }

    fn got(
        &mut self,
        handle: &str,
        result: Result<GetSnapshotResponse, CallError>,
        now: Timestamp,
    ) -> Taken {
        let problem = match result {
            Ok(response) => match Said::new(response.snapshot, now) {
                Some(said) => {
                    self.said = Some(said);
                    return Ok(());
                }
                None => Problem::NoId,
            },
            Err(CallError::Failed(error)) if error.code == Code::NotFound => {
                Problem::NotFound(handle.into())
            }
            Err(CallError::Failed(error)) if error.code == Code::Unimplemented => {
                self.cannot_get = true;
                return Ok(());
            }
            Err(error) => error.into(),
        };
        Err((Task::Check, problem))
    }

    fn group_created(
        &mut self,
        volumes: &[String],
        result: Result<CreateVolumeGroupSnapshotResponse, CallError>,
        now: Timestamp,
    ) -> Taken {
        let response = result.map_err(|error| (Task::Create, error.into()))?;
        self.expired = 0;
        let said = Said::cut(response.group_snapshot, volumes, now);
        self.says(Task::Create, said)
    }

    fn group_got(
        &mut self,
        asked: (&str, &[String]),
        result: Result<GetVolumeGroupSnapshotResponse, CallError>,
        now: Timestamp,
    ) -> Taken {
        let response = result.map_err(|error| (Task::Check, error.into()))?;
        let said = Said::looked_up(response.group_snapshot, asked, now);
        self.says(Task::Check, said)
    }

    fn says(&mut self, task: Task, said: Result<Said, Problem>) -> Taken {
        self.said = Some(said.map_err(|problem| (task, problem))?);
        Ok(())
    }
}
