//! The effect of the API server's answers on the journal.
//!
//! This decides which process leads, which changes are durable, and which edits of others count.

use std::time::Instant;

use super::header::{Headed, Header};
use super::object::{Forgotten, Found, Object, Stored};
use super::request::{Answer, Lost, Request, Verdict, Write};
use super::{Journal, TRIES, intent};
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::request::PinnedRequest;

impl Journal {
    /// Applies the answer to `request`, which was sent at `sent`.
    ///
    /// # Errors
    /// Another process leads, or the objects are no journal of this driver: nothing may be done any more.
    pub fn answered(
        &mut self,
        request: &Request,
        answer: Answer,
        sent: Instant,
    ) -> Result<Verdict, Lost> {
        self.turn = match (request, &answer) {
            // This object is written next, before somebody else changes it again.
            (Request::Read(number), Answer::Found(_)) => *number,
            (Request::Read(number), _) => number.saturating_add(1),
            (Request::Write(write), _) => write.number.saturating_add(1),
        };
        match (request, answer) {
            (Request::Read(number), Answer::Found(found)) => self.found(*number, found, sent),
            (Request::Write(write), Answer::Written { version, uid }) => {
                self.written(write, version, uid, sent);
                Ok(Verdict::Go)
            }
            (Request::Read(number), Answer::Failed(error)) => {
                let change = self.change;
                Ok(self.failed(*number, change, error))
            }
            (Request::Write(write), Answer::Failed(error)) => Ok(self.not_written(write, error)),
            // The API server answers no request with another kind of answer.
            (Request::Read(_), Answer::Written { .. }) | (Request::Write(_), Answer::Found(_)) => {
                Ok(Verdict::Go)
            }
        }
    }

    fn found(
        &mut self,
        number: usize,
        found: Option<Found>,
        sent: Instant,
    ) -> Result<Verdict, Lost> {
        let header = match &found {
            Some(found) => self.header(number, found)?,
            None => None,
        };
        let opening = number == self.taken_over || self.read < self.objects.len();
        let ours = { header.as_ref() }
            .is_some_and(|header| header.epoch == self.epoch && header.holder == self.owner.holder);
        // So far this process cannot disturb another one.
        let first = self.read < self.objects.len() || opening && number == 0;
        if let Some(header) = &header
            && !ours
            && !first
            && (header.epoch >= self.epoch || self.is_known(number))
        {
            let holder = header.holder.clone();
            return Err(Lost::Fenced(self.name(number), holder));
        }
        if first && !ours {
            self.look_for_more(number, found.as_ref(), header.as_ref());
        }
        let change = self.bump();
        let Some(object) = self.objects.get_mut(number) else {
            return Ok(Verdict::Go);
        };
        match (found, header) {
            (Some(found), Some(header)) if ours => {
                object.confirm(sent);
                if object.failures == 0 {
                    self.failures = 0;
                }
                let stale = header.uid != found.uid;
                let forgotten = object.merge(found, header.commit);
                if stale {
                    object.changed = change;
                    object.due = change;
                }
                self.forget(forgotten);
            }
            (found, header) if opening || header.is_some() => {
                if opening {
                    object.clear();
                }
                let (adopted, broken) = object.adopt(found, change);
                self.broken.extend(broken);
                if !opening {
                    self.late.extend(adopted);
                }
            }
            (found, _) => object.make_anew(found, change),
        }
        if number == self.read && self.read < self.objects.len() {
            self.read += 1;
            self.leave_out_absent();
        }
        Ok(Verdict::Go)
    }

    /// Takes the epoch and the number of objects from an object that was read first. Without the first object, the only
    /// one that always has the right number, others are looked for until several in a row do not exist: somebody may
    /// have deleted the first one only.
    fn look_for_more(&mut self, number: usize, found: Option<&Found>, header: Option<&Header>) {
        let epoch = header.map_or(0, |header| header.epoch);
        self.epoch = self.epoch.max(epoch.saturating_add(1));
        let required = header.map_or(1, |header| header.objects.clamp(1, self.max_objects));
        self.required = self.required.max(required);
        let believed = header.is_some() && !found.is_some_and(Found::is_copy);
        self.first_missing |= number == 0 && !believed;
        let known = match (number, found) {
            (0, _) if self.first_missing => self.probe_count,
            (_, Some(_)) if self.first_missing => self.required.max(number + 1 + self.probe_count),
            (_, Some(_) | None) => self.required,
        };
        let (header_bytes, known) = (self.header_bytes, known.max(self.objects.len()));
        self.objects
            .resize_with(known, || Object::new(0, header_bytes));
    }

    /// Once all were looked for: drops missing objects at the end that no header counts, so that they are not created.
    fn leave_out_absent(&mut self) {
        if self.read < self.objects.len() {
            return;
        }
        while self.objects.len() > self.required && { self.objects.last() }
            .is_some_and(|last| last.stored == Stored::Absent)
        {
            self.objects.pop();
        }
        self.read = self.objects.len();
    }

    /// Forgets the removed requests that no other entry of the claim contains.
    fn forget(&mut self, withdrawn: Vec<Forgotten>) {
        for mut forgotten in withdrawn {
            let name = intent::name_of(&forgotten.uid);
            let stays =
                |asked: &PinnedRequest| self.parts(&name).any(|(_, part)| part.intent.asks(asked));
            forgotten.requests.retain(|asked| !stays(asked));
            if !forgotten.requests.is_empty() {
                self.forgotten.push(forgotten);
            }
        }
    }

    /// Whether this process has written the object before.
    fn is_known(&self, number: usize) -> bool {
        let object = self.objects.get(number);
        object.is_some_and(|object| object.durable > 0)
    }

    /// The header of an object, after checking that it is this owner's; `None` if it has none.
    fn header(&self, number: usize, found: &Found) -> Result<Option<Header>, Lost> {
        let header = match found.header() {
            Headed::Not => return Ok(None),
            Headed::Later(version) => return Err(Lost::Later(self.name(number), version)),
            Headed::By(header) => header,
        };
        if header.driver != self.owner.driver || header.node != self.owner.node {
            let whose = format!("{} {}", header.driver, header.node);
            return Err(Lost::Foreign(self.name(number), whose.trim().to_owned()));
        }
        Ok(Some(header))
    }

    fn written(&mut self, write: &Write, version: String, uid: String, sent: Instant) {
        // A new object could not contain its own UID: with intents in it, it is written again at once.
        let again = (write.version.is_none() && write.intents > 0).then(|| self.bump());
        let Some(object) = self.objects.get_mut(write.number) else {
            return;
        };
        object.uid = uid;
        object.stored = Stored::Version(version);
        object.failures = 0;
        self.failures = 0;
        self.open_error = None;
        object.committed(write.change);
        object.confirm(sent);
        if let Some(change) = again {
            object.changed = change;
            object.due = change;
        }
        if write.number == self.taken_over {
            self.taken_over += 1;
            if self.is_open() {
                let all = self.objects.iter().flat_map(Object::uids);
                self.adopted = all.collect();
            }
        }
    }

    fn not_written(&mut self, write: &Write, error: ApiError) -> Verdict {
        let moved = match error.refusal {
            Refusal::Conflict | Refusal::AlreadyExists => true,
            Refusal::NotFound => write.version.is_some(),
            Refusal::Unknown | Refusal::Forbidden | Refusal::Other => false,
        };
        if let Some(object) = self.objects.get_mut(write.number)
            && (moved || error.refusal == Refusal::Unknown)
        {
            object.stored = Stored::Unread;
            object.failures += u32::from(moved);
            // If somebody changes it all the time, the next try waits.
            if moved && object.failures < TRIES {
                return Verdict::Go;
            }
        }
        self.failed(write.number, write.change, error)
    }

    fn failed(&mut self, number: usize, change: u64, error: ApiError) -> Verdict {
        self.failures = self.failures.saturating_add(1);
        let Some(object) = self.objects.get_mut(number) else {
            return Verdict::Later(error);
        };
        object.failures += 1;
        let refused = object.failures >= TRIES || error.refusal == Refusal::Forbidden;
        // The API server fails, not just this object.
        let all = self.failures >= TRIES;
        if refused || all {
            self.open_error = Some(error.clone());
        }
        let first = self.objects.first().map_or(0, |first| first.durable);
        for (other, object) in self.objects.iter_mut().enumerate() {
            // Changes that wait for a write of the first object are refused with it.
            let blocked = number == 0 && object.after > first;
            if all || refused && (other == number || blocked) {
                object.refuse(change, error.clone());
            }
        }
        Verdict::Later(error)
    }
}
