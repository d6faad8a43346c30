//! Finds calls of leaders that were frozen or cut off while another one took over. Pure: from the
//! driver's record and the history of lease holders.

use csi_test_driver::instrument::record::Call;

use crate::audit::{Damage, Finding};
use crate::schedule::{METHODS, SNAPSHOT_METHODS, Who};

/// A change of a lease's holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) of: Who,
    /// Nanoseconds since the epoch.
    pub(crate) from_ns: u64,
    /// The holder's identity; empty if the lease was released.
    pub(crate) holder: String,
}

/// A replica that could not renew its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Silenced {
    pub(crate) of: Who,
    /// The part of its lease identity that is its own.
    pub(crate) replica: String,
    pub(crate) pid: u32,
    /// Time of the thaw or of the cut, in nanoseconds since the epoch.
    pub(crate) since_ns: u64,
}

/// Time within which the harness notices a change of the lease.
const NOTICED_NS: u64 = 1_000_000_000;

/// All calls with an effect that such a process began while another one held the lease.
pub(crate) fn stale_calls(calls: &[Call], silenced: &[Silenced], held: &[Held]) -> Vec<Finding> {
    let mut found = Vec::new();
    for replica in silenced {
        let after = calls.iter().filter(|call| {
            call.caller == Some(replica.pid)
                && call.start_ns > replica.since_ns
                && has_effect(&call.method)
        });
        for call in after.filter(|call| is_anothers(held, replica, call.start_ns)) {
            let later_ms = (call.start_ns - replica.since_ns) / 1_000_000;
            let what = if call.name.is_empty() {
                &call.volume
            } else {
                &call.name
            };
            let object = format!(
                "{} of {what} by {} {later_ms} ms after it was thawed or cut off",
                call.method, replica.replica
            );
            found.push(Finding {
                damage: Damage::StaleCall,
                object,
            });
        }
    }
    found.sort();
    found.dedup();
    found
}

fn has_effect(method: &str) -> bool {
    let methods = METHODS.iter().chain(&SNAPSHOT_METHODS);
    methods
        .filter(|it| !it.starts_with("List"))
        .any(|it| *it == method)
}

fn is_anothers(held: &[Held], replica: &Silenced, at_ns: u64) -> bool {
    let theirs = |held: &&Held| held.of == replica.of;
    let mine = |held: &Held| held.holder.contains(&replica.replica);
    let last = held.iter().filter(theirs).rfind(|it| it.from_ns <= at_ns);
    let mut soon = { held.iter().filter(theirs) }
        .filter(|it| it.from_ns > at_ns && it.from_ns <= at_ns + NOTICED_NS);
    last.is_some_and(|it| !it.holder.is_empty() && !mine(it)) && !soon.any(mine)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn call(caller: u32, at: u64, method: &str) -> Call {
        Call {
            caller: Some(caller),
            start_ns: at * SECOND,
            method: method.to_owned(),
            ..Call::default()
        }
    }

    fn held(at: u64, holder: &str) -> Held {
        Held {
            of: Who::Attacher,
            from_ns: at * SECOND,
            holder: holder.to_owned(),
        }
    }

    fn stale(calls: &[Call], held: &[Held]) -> usize {
        let silenced = Silenced {
            of: Who::Attacher,
            replica: "csi-attacher-0".to_owned(),
            pid: 7,
            since_ns: 30 * SECOND,
        };
        stale_calls(calls, &[silenced], held).len()
    }

    #[test]
    fn a_call_while_another_one_leads_is_seen() {
        let held = [held(1, "csi-attacher-0"), held(20, "csi-attacher-1")];
        let publish = |at| call(7, at, "ControllerPublishVolume");
        assert_eq!(stale(&[publish(31), publish(32)], &held), 2);
        assert_eq!(stale(&[publish(10)], &held), 0, "before it was frozen");
        assert_eq!(stale(&[call(8, 31, "ControllerPublishVolume")], &held), 0);
        assert_eq!(stale(&[call(7, 31, "Probe")], &held), 0);
    }

    #[test]
    fn a_call_of_one_that_leads_again_is_not_meant() {
        let publish = [call(7, 41, "ControllerPublishVolume")];
        let first = [held(1, "csi-attacher-0")];
        assert_eq!(stale(&publish, &first), 0, "nobody took its place");
        let again = [held(20, "csi-attacher-1"), held(40, "csi-attacher-0")];
        assert_eq!(stale(&publish, &again), 0);
        let unnoticed = [held(20, "csi-attacher-1"), held(41, "")];
        assert_eq!(stale(&publish, &unnoticed), 0, "nobody leads");
        let other = Held {
            of: Who::Resizer,
            ..held(40, "csi-resizer-1")
        };
        assert_eq!(stale(&publish, &[held(1, "csi-attacher-0"), other]), 0);
    }
}
