//! The next step of a key.

use super::explain::Explained;
use crate::controller::reactor::Now;

/// The first request of an attempt on `key`, if it began now. Decided on a copy: whatever the reactor remembers of an
/// attempt that begins, nobody sees it.
pub fn preview<R: Explained>(
    reactor: &R,
    key: &R::Key,
    informers: &R::Informers,
    now: Now,
) -> Option<R::Request> {
    let mut copy = reactor.fork(key, informers);
    let mut attempt = copy.begin(key, informers, now);
    copy.decide(&mut attempt, informers, now)
}
