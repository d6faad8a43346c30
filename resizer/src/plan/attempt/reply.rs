//! What the reply to a request changes about an attempt.

use serde_json::Value;

use super::{Attempt, CONFLICTS, Problem, Work};
use crate::plan::outcome::{ApiError, Failure, Refusal};
use crate::plan::request::{Called, ClaimWrite, Object, Purpose, Reply, Write};

impl Attempt {
    /// Takes in what came of a request.
    pub fn answered(&mut self, reply: Reply) {
        let taken = match reply {
            Reply::Get(Object::Claim(_), result) => {
                self.unread &= result.is_err();
                self.read(result, |doubts| doubts.claim = false)
            }
            Reply::Get(Object::Volume(_), result) => {
                self.read(result, |doubts| doubts.volume = false)
            }
            Reply::Write(write, Ok(())) => self.written(&write),
            Reply::Write(write, Err(error)) => self.refused(write, error),
            Reply::Event(event) => {
                self.told = Some(event.announcement.clone());
                match &mut self.work {
                    Work::Expand(work) => work.announced(&event.announcement),
                    Work::Modify(work) => work.announced(event.announcement),
                }
                Ok(())
            }
            Reply::Secret(secret, values) => match &mut self.work {
                Work::Expand(work) => work.secrets.take(secret, values).map_err(Problem::Cause),
                Work::Modify(work) => work.loaded(secret, values).map_err(Problem::Failure),
            },
            Reply::Call(called, _) => match (&mut self.work, called) {
                (Work::Expand(work), Called::Expand(call, result)) => {
                    work.called(&call, result).map_err(Problem::Cause)
                }
                (Work::Modify(work), Called::Modify(call, result)) => {
                    work.called(&call, result).map_err(Problem::Failure)
                }
                // Neither makes the other's calls.
                (Work::Expand(_), Called::Modify(..)) | (Work::Modify(_), Called::Expand(..)) => {
                    Ok(())
                }
            },
        };
        if let Err(problem) = taken {
            self.failing = Some(problem.into());
        }
    }

    fn written(&mut self, write: &Write) -> Result<(), Problem> {
        match (write.purpose, &mut self.failing, &mut self.work) {
            (Purpose::Claim(what), Some(failing), _) if what.is_record() => failing.recorded = true,
            (Purpose::Claim(what), _, Work::Expand(work)) => work.written(what, write.body.patch()),
            (Purpose::Claim(what), _, Work::Modify(work)) => work.written(what),
            (Purpose::Volume(what), _, Work::Expand(work)) => work.volume_written(what),
            (Purpose::Volume(_), _, Work::Modify(work)) => work.volume_written(),
        }
        Ok(())
    }

    fn refused(&mut self, write: Write, error: ApiError) -> Result<(), Problem> {
        match (write.purpose, write.object) {
            (Purpose::Claim(what), _) => {
                match &mut self.work {
                    Work::Expand(work) => work.refused(what, write.body.patch(), error.refusal),
                    Work::Modify(work) => work.refused(what, error.refusal),
                }
                self.claim_refused(what, error)
            }
            (Purpose::Volume(_), _)
                if error.refusal == Refusal::Conflict && self.conflicts < CONFLICTS =>
            {
                self.conflicts += 1;
                self.doubts.volume = true;
                Ok(())
            }
            (Purpose::Volume(what), Object::Volume(name) | Object::Claim(name)) => {
                let unsure = matches!(error.refusal, Refusal::Unknown | Refusal::Conflict);
                self.stale.volume |= unsure;
                let capacity = write.body.patch().pointer("/spec/capacity/storage");
                let capacity = capacity.and_then(Value::as_str).unwrap_or_default();
                let failure = Failure::Volume(what, name, capacity.to_owned(), error);
                Err(Problem::Failure(failure))
            }
        }
    }

    fn claim_refused(&mut self, write: ClaimWrite, error: ApiError) -> Result<(), Problem> {
        match error.refusal {
            Refusal::NotFound => {
                self.gone = true;
                return Ok(());
            }
            Refusal::Conflict if self.conflicts < CONFLICTS => {
                self.conflicts += 1;
                self.doubts.claim = true;
                return Ok(());
            }
            Refusal::Conflict | Refusal::Unknown => self.stale.claim = true,
            Refusal::Forbidden | Refusal::AlreadyExists | Refusal::Other => {}
        }
        if let Some(failing) = self.failing.as_mut().filter(|_| write.is_record()) {
            failing.recorded = true;
            failing.unrecorded = Some(error);
            return Ok(());
        }
        let failure = Failure::Claim(write, self.task.claim.clone(), error);
        Err(Problem::Failure(failure))
    }
}
