//! Attempts as scripts.
//!
//! A script is an ordinary function that asks for one thing after the other. It is called from its beginning again
//! after each reply, with the [`Log`] of all replies so far and with the caches as they are by then. `log.x(…)?` is the
//! reply, if there is one; otherwise it leaves the function with the request that is to be made. So a script reads like
//! the specification's list and has no state of its own, and every prefix of a run is a value that a test can make. A
//! crash drops the log.
//!
//! What has been done is read where it shows:
//!
//! * A write shows in its object, which the caches have from the moment the answer came. The script compares, and asks
//!   for what is still missing; it is not told of the answer. What must be written once per attempt is found by its
//!   [purpose](Requests::Purpose). After a conflict the object is read, and the script makes the write anew, or another.
//! * A call is made once per attempt, since its answer stays true whatever the objects say by then.
//! * A Secret that is named anew is read anew.
//! * An event is sent once per attempt.

use super::call::{CallError, Calls, Makes, OneCall};
use super::request::{ApiError, Reply, Request, Requests, SecretError, Secrets, Write};

/// How often in one attempt an object may have changed under its write.
const CONFLICTS: usize = 8;

/// Leaves a script.
pub enum Leave<R: Requests, E> {
    /// This is to be asked first.
    Ask(Request<R>),
    /// The attempt is over.
    End(E),
}

/// A value, or why the script does not go on.
pub type Flow<T, R, E> = Result<T, Leave<R, E>>;

impl<R: Requests, E> From<E> for Leave<R, E> {
    fn from(end: E) -> Self {
        Self::End(end)
    }
}

/// What a run of a script has come to: the next request.
///
/// # Errors
/// The attempt is over: says how.
pub fn next<R: Requests, E>(script: Flow<E, R, E>) -> Result<Request<R>, E> {
    match script {
        Err(Leave::Ask(request)) => Ok(request),
        Ok(end) | Err(Leave::End(end)) => Err(end),
    }
}

/// Writes this, if there is something to be written.
///
/// # Errors
/// The request.
pub fn write<R: Requests, E>(write: Option<Write<R>>) -> Flow<(), R, E> {
    match write {
        Some(write) => Err(Leave::Ask(Request::Write(write))),
        None => Ok(()),
    }
}

/// Calls the driver. The script finds the result with [`Log::called`].
///
/// # Errors
/// The request.
pub fn call<T, R: Requests, E>(call: R::Calls) -> Flow<T, R, E> {
    Err(Leave::Ask(Request::Call(call)))
}

/// The values of a Secret, or which Secret could not be read, and why.
pub type SecretRead<'a, R> = Result<&'a Secrets, (&'a <R as Requests>::Secret, &'a SecretError)>;

/// The requests of one attempt so far, and what came of them, oldest first.
pub struct Log<R: Requests>(Vec<Reply<R>>);

impl<R: Requests> Default for Log<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R> Log<R>
where
    R: Requests<Object: PartialEq, Purpose: PartialEq, Secret: PartialEq, Event: PartialEq>,
{
    /// Adds what came of the last request.
    pub fn push(&mut self, reply: Reply<R>) {
        self.0.push(reply);
    }

    /// Reads these objects, once per attempt, and whatever has changed under its write. The inner error is that of a
    /// read that failed.
    ///
    /// # Errors
    /// The request.
    pub fn read<E>(&self, in_doubt: &[R::Object]) -> Flow<Result<(), &ApiError>, R, E> {
        let is_read = |object: &&R::Object| self.reads().any(|(of, _)| of == *object);
        let unread = in_doubt.iter().find(|object| !is_read(object));
        let conflicts = self.0.iter().filter_map(conflict).count();
        let changed = self.0.last().and_then(conflict);
        match unread.or(changed.filter(|_| conflicts <= CONFLICTS)) {
            Some(object) => Err(Leave::Ask(Request::Get(object.clone()))),
            None => Ok(self.reads().try_for_each(|(_, result)| result)),
        }
    }

    /// What came of the last read of this object, if there was one.
    pub fn got(&self, object: &R::Object) -> Option<Result<(), &ApiError>> {
        let of = self.reads().filter(|(of, _)| *of == object);
        of.last().map(|(_, result)| result)
    }

    /// Objects that were read, or why not.
    pub fn reads(&self) -> impl Iterator<Item = (&R::Object, Result<(), &ApiError>)> {
        self.0.iter().filter_map(read)
    }

    /// Writes, and what came of them; but for those that were decided anew because their object had changed.
    pub fn writes(&self) -> impl Iterator<Item = (&Write<R>, Result<&R::Found, &ApiError>)> {
        let mut conflicts = 0;
        self.0.iter().filter_map(move |reply| {
            let Reply::Write(write, result) = reply else {
                return None;
            };
            conflicts += usize::from(conflict(reply).is_some());
            let anew = conflict(reply).is_some() && conflicts <= CONFLICTS;
            (!anew).then_some((write, result.as_ref()))
        })
    }

    /// What came of the last write for this purpose, if there was one.
    pub fn written(&self, purpose: &R::Purpose) -> Option<Result<&R::Found, &ApiError>> {
        let of = self.writes().filter(|(write, _)| write.purpose == *purpose);
        of.last().map(|(_, result)| result)
    }

    /// How often something was written for this purpose.
    pub fn times(&self, purpose: &R::Purpose) -> usize {
        let of = self.writes().filter(|(write, _)| write.purpose == *purpose);
        of.filter(|(_, result)| result.is_ok()).count()
    }

    /// Whether this purpose was tried, whatever came of it.
    pub fn tried(&self, purpose: &R::Purpose) -> bool {
        let tried =
            |reply: &Reply<R>| matches!(reply, Reply::Write(write, _) if write.purpose == *purpose);
        self.0.iter().any(tried)
    }

    /// Writes this, if there is something to be written, unless something was written for the same purpose.
    ///
    /// # Errors
    /// The request.
    pub fn once<E>(&self, write: impl Into<Option<Write<R>>>) -> Flow<(), R, E> {
        let is_due = |write: &Write<R>| self.times(&write.purpose) == 0;
        self::write(write.into().filter(is_due))
    }

    /// Writes this, if there is something to be written, to an object that may not keep it: not more than `most`
    /// times.
    ///
    /// # Errors
    /// The request; or it was written as often, which ends the attempt with `ignored`.
    pub fn mark<E>(
        &self,
        write: Option<Write<R>>,
        most: usize,
        ignored: impl FnOnce() -> E,
    ) -> Flow<(), R, E> {
        let is_ignored = |write: &Write<R>| self.times(&write.purpose) >= most;
        if write.as_ref().is_some_and(is_ignored) {
            return Err(Leave::End(ignored()));
        }
        self::write(write)
    }

    /// The values of the Secret, if one is named. The inner error says of which there are none, and why.
    ///
    /// # Errors
    /// The request.
    pub fn secret<E>(&self, secret: impl Into<Option<R::Secret>>) -> Flow<SecretRead<'_, R>, R, E> {
        static NONE: Secrets = Secrets::new();
        let Some(secret) = secret.into() else {
            return Ok(Ok(&NONE));
        };
        for reply in self.0.iter().rev() {
            if let Reply::Secret(of, values) = reply
                && *of == secret
            {
                return Ok(values.as_ref().map_err(|error| (of, error)));
            }
        }
        Err(Leave::Ask(Request::Secret(secret)))
    }

    /// The call of this type that the attempt has made, and what came of it.
    pub fn called<C: OneCall>(&self) -> Option<(&C, Result<&C::Response, &CallError>)>
    where
        R::Calls: Makes<C>,
    {
        self.calls().find_map(R::Calls::found)
    }

    /// All calls that the attempt has made.
    pub fn calls(&self) -> impl Iterator<Item = &<R::Calls as Calls>::Called> {
        self.0.iter().filter_map(|reply| {
            let Reply::Call(called, _) = reply else {
                return None;
            };
            Some(called)
        })
    }

    /// Sends this event, once per attempt.
    ///
    /// # Errors
    /// The request.
    pub fn tell<E>(&self, event: R::Event) -> Flow<(), R, E> {
        let told = |reply: &Reply<R>| matches!(reply, Reply::Event(told) if *told == event);
        if self.0.iter().any(told) {
            return Ok(());
        }
        Err(Leave::Ask(Request::Event(event)))
    }

    /// The objects that the next attempt must read first: those of which nobody knows whether the last write was
    /// applied, or that had changed; and those in doubt `before` that could not be read.
    pub fn in_doubt(&self, before: &[R::Object]) -> Vec<R::Object> {
        let mut in_doubt = before.to_vec();
        for reply in &self.0 {
            let (object, doubt) = match reply {
                Reply::Get(object, Ok(_)) => (object, false),
                Reply::Get(object, Err(error)) => (object, !error.is_not_found()),
                Reply::Write(write, Err(error)) if error.is_conflict() || error.is_unknown() => {
                    (&write.object, true)
                }
                Reply::Write(..) | Reply::Secret(..) | Reply::Call(..) | Reply::Event(_) => {
                    continue;
                }
            };
            in_doubt.retain(|known| known != object);
            in_doubt.extend(doubt.then(|| object.clone()));
        }
        in_doubt
    }
}

/// The object that was read, and why not.
fn read<R: Requests>(reply: &Reply<R>) -> Option<(&R::Object, Result<(), &ApiError>)> {
    let Reply::Get(object, result) = reply else {
        return None;
    };
    Some((object, result.as_ref().map(drop)))
}

/// The object that had changed under this write.
fn conflict<R: Requests>(reply: &Reply<R>) -> Option<&R::Object> {
    match reply {
        Reply::Write(write, Err(error)) if error.is_conflict() => Some(&write.object),
        Reply::Get(..)
        | Reply::Write(..)
        | Reply::Secret(..)
        | Reply::Call(..)
        | Reply::Event(_) => None,
    }
}

#[cfg(test)]
mod tests;
