//! Attempts as scripts.
//!
//! A script is an ordinary function that requests one thing after another. After each reply it is called again from
//! its beginning, with the [`Log`] of all replies so far and with the current caches. `log.x(…)?` is the reply, if
//! there is one; otherwise it leaves the function with the request to make. So a script reads like the
//! specification's list and has no state of its own, and a test can construct every prefix of a run. A crash drops
//! the log.
//!
//! A script sees its progress as follows:
//!
//! * A write shows in its object, which the caches contain as soon as the answer arrives. The script compares, and
//!   requests what is still missing; it does not see the answer. Writes to make once per attempt are found by their
//!   [purpose](Requests::Purpose). After a conflict the object is read, and the script decides on a write again.
//! * A call is made once per attempt, since its answer stays true whatever the objects say later.
//! * A Secret is read again if its reference changes.
//! * An event is sent once per attempt.

use super::call::{CallError, Calls, Makes, OneCall};
use super::request::{ApiError, Reply, Request, Requests, SecretError, Secrets, Write};

/// Most conflicts that one attempt may have on an object.
const CONFLICTS: usize = 8;

/// Why a script returns early.
pub enum Leave<R: Requests, E> {
    /// This request comes first.
    Ask(Box<Request<R>>),
    /// The attempt has ended.
    End(E),
}

/// A value, or why the script cannot continue.
pub type Flow<T, R, E> = Result<T, Leave<R, E>>;

impl<R: Requests, E> From<E> for Leave<R, E> {
    fn from(end: E) -> Self {
        Self::End(end)
    }
}

/// The next request of a script.
///
/// # Errors
/// The attempt has ended, with this result.
pub fn next<R: Requests, E>(script: Flow<E, R, E>) -> Result<Request<R>, E> {
    match script {
        Err(Leave::Ask(request)) => Ok(*request),
        Ok(end) | Err(Leave::End(end)) => Err(end),
    }
}

/// Makes the request, before anything else.
///
/// # Errors
/// The request to make.
pub fn ask<T, R: Requests, E>(request: Request<R>) -> Flow<T, R, E> {
    Err(Leave::Ask(Box::new(request)))
}

/// Makes the write, if there is one.
///
/// # Errors
/// The request to make.
pub fn write<R: Requests, E>(write: Option<Write<R>>) -> Flow<(), R, E> {
    match write {
        Some(write) => ask(Request::Write(write)),
        None => Ok(()),
    }
}

/// Calls the driver. The script finds the result with [`Log::called`].
///
/// # Errors
/// The request to make.
pub fn call<T, R: Requests, E>(call: R::Calls) -> Flow<T, R, E> {
    ask(Request::Call(call))
}

/// The values of a Secret, or the Secret that could not be read and the error.
pub type SecretRead<'a, R> = Result<&'a Secrets, (&'a <R as Requests>::Secret, &'a SecretError)>;

/// The requests of one attempt so far, with their results, oldest first.
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
    /// Appends the last request's result.
    pub fn push(&mut self, reply: Reply<R>) {
        self.0.push(reply);
    }

    /// All requests with their results, oldest first.
    #[must_use]
    pub fn replies(&self) -> &[Reply<R>] {
        &self.0
    }

    /// Reads these objects, once per attempt, and every object whose write ended with a conflict. The inner error is
    /// that of a failed read.
    ///
    /// # Errors
    /// The request to make.
    pub fn read<E>(&self, in_doubt: &[R::Object]) -> Flow<Result<(), &ApiError>, R, E> {
        let is_read = |object: &&R::Object| self.reads().any(|(of, _)| of == *object);
        let unread = in_doubt.iter().find(|object| !is_read(object));
        let conflicts = self.0.iter().filter_map(conflict).count();
        let changed = self.0.last().and_then(conflict);
        match unread.or(changed.filter(|_| conflicts <= CONFLICTS)) {
            Some(object) => ask(Request::Get(object.clone())),
            None => Ok(self.reads().try_for_each(|(_, result)| result)),
        }
    }

    /// The result of the last read of this object, if any.
    pub fn got(&self, object: &R::Object) -> Option<Result<(), &ApiError>> {
        let of = self.reads().filter(|(of, _)| *of == object);
        of.last().map(|(_, result)| result)
    }

    /// The result of the last read of this object, unless a later write may have changed it.
    pub fn found(&self, object: &R::Object) -> Option<Result<&R::Found, &ApiError>> {
        let may_change = |result: &Result<_, ApiError>| match result {
            Ok(_) => true,
            Err(error) => error.is_unknown(),
        };
        self.0.iter().rev().find_map(|reply| match reply {
            Reply::Get(of, result) if of == object => Some(Some(result.as_ref())),
            Reply::Write(write, result) if write.object == *object && may_change(result) => {
                Some(None)
            }
            Reply::Get(..)
            | Reply::Write(..)
            | Reply::Secret(..)
            | Reply::Call(..)
            | Reply::Event(_) => None,
        })?
    }

    /// The objects read so far, with the results.
    pub fn reads(&self) -> impl Iterator<Item = (&R::Object, Result<(), &ApiError>)> {
        self.0.iter().filter_map(read)
    }

    /// Writes with their results, except those that ended with a conflict and that the script may decide on again.
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

    /// The last write and its error, if it failed and is not decided anew because its object has changed.
    pub fn refused(&self) -> Option<(&Write<R>, &ApiError)> {
        let Some(Reply::Write(of, Err(_))) = self.0.last() else {
            return None;
        };
        let (write, result) = self.writes().last()?;
        Some((write, result.err()?)).filter(|_| std::ptr::eq(write, of))
    }

    /// The result of the last write for this purpose, if any.
    pub fn written(&self, purpose: &R::Purpose) -> Option<Result<&R::Found, &ApiError>> {
        let of = self.writes().filter(|(write, _)| write.purpose == *purpose);
        of.last().map(|(_, result)| result)
    }

    /// Number of successful writes for this purpose.
    pub fn times(&self, purpose: &R::Purpose) -> usize {
        let of = self.writes().filter(|(write, _)| write.purpose == *purpose);
        of.filter(|(_, result)| result.is_ok()).count()
    }

    /// Whether a write for this purpose was tried, with any result.
    pub fn tried(&self, purpose: &R::Purpose) -> bool {
        let tried =
            |reply: &Reply<R>| matches!(reply, Reply::Write(write, _) if write.purpose == *purpose);
        self.0.iter().any(tried)
    }

    /// Makes the write, if there is one and none for the same purpose succeeded.
    ///
    /// # Errors
    /// The request to make.
    pub fn once<E>(&self, write: impl Into<Option<Write<R>>>) -> Flow<(), R, E> {
        let is_due = |write: &Write<R>| self.times(&write.purpose) == 0;
        self::write(write.into().filter(is_due))
    }

    /// Makes the write, if there is one, to an object that may not keep it: at most `most` times.
    ///
    /// # Errors
    /// The request to make; after `most` writes, `ignored`, which ends the attempt.
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

    /// The values of the Secret, if one is given. The inner error contains the Secret that could not be read.
    ///
    /// # Errors
    /// The request to make.
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
        ask(Request::Secret(secret))
    }

    /// The attempt's call of this type, with its result.
    pub fn called<C: OneCall>(&self) -> Option<(&C, Result<&C::Response, &CallError>)>
    where
        R::Calls: Makes<C>,
    {
        self.calls().find_map(R::Calls::found)
    }

    /// All calls of the attempt.
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
    /// The request to make.
    pub fn tell<E>(&self, event: R::Event) -> Flow<(), R, E> {
        let told = |reply: &Reply<R>| matches!(reply, Reply::Event(told) if *told == event);
        if self.0.iter().any(told) {
            return Ok(());
        }
        ask(Request::Event(event))
    }

    /// The objects that the next attempt must read first: those whose last write has an unknown outcome or ended
    /// with a conflict, and those of `before` that could not be read.
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

/// The object of a GET, with the result.
fn read<R: Requests>(reply: &Reply<R>) -> Option<(&R::Object, Result<(), &ApiError>)> {
    let Reply::Get(object, result) = reply else {
        return None;
    };
    Some((object, result.as_ref().map(drop)))
}

/// The object whose write ended with a conflict.
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
