//! The provisioning journal: what the driver is asked is written down before it is asked, in Leases
//! of the provisioner's own.
//!
//! A state machine without clock, client or wait. It says which request to the API server is next,
//! and is told the answer; what is told in between gathers and goes with the next one (group
//! commit). The simulation runs exactly this.
//!
//! * **Fence.** Each process that begins to lead has a greater epoch, and writes it into every object
//!   before anything else. Every write carries the `resourceVersion`. Who finds the epoch of another
//!   process is not the leader any more, whatever its clock says.
//! * **Unknown outcomes.** After a write that failed in whatever way the object is read before it is
//!   written again; its header says which changes it has.
//! * **Backups.** The header has the UID of its object. Intents of an object that was made from a copy
//!   are set apart: what they ask for may be in use in the cluster that they come from.
//! * **Others' edits.** An intent that somebody took out is forgotten. What cannot be read is kept
//!   as it is. An object that was deleted is made anew.
//!
//! | file | contents |
//! |---|---|
//! | `annotation` | what is written, rendered once |
//! | `answer` | what answers mean |
//! | `header` | who leads |
//! | `intent` | one intent and its durable form |
//! | `neighbour` | journals of other nodes |
//! | `object` | one Lease |
//! | `parts` | what is said of one claim, in one object or several |
//! | `request` | requests and answers |

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::Text;

mod annotation;
mod answer;
mod header;
mod intent;
mod neighbour;
mod object;
mod parts;
mod request;

pub use intent::{Intent, Recovery};
pub use neighbour::{Neighbour, pause};
pub use object::{Forgotten, Found, HEADER, INTENT, TERMS};
pub use request::{Answer, Lost, Owner, Request, Unwritable, Verdict, Write};

use header::Header;
use object::{Object, Stored};

/// Bytes of annotations up to which intents share an object.
pub const BUDGET: usize = 200 * 1024;

/// Bytes of annotations that the API server takes: 256 KiB.
pub const LIMIT: usize = 256 * 1024;

/// For so long after the API server showed that nobody else leads, calls may be made: less than what is
/// between a leader's renew deadline and the end of its lease, so that a process that was stopped for
/// so long that another one leads finds out before it calls.
pub const FRESH: Duration = Duration::from_secs(4);

/// More objects than anybody needs: a header that says more is wrong.
const MOST_OBJECTS: usize = 64;

/// So many requests may fail one after the other before those who wait are told.
const TRIES: u32 = 4;

/// A change to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    number: usize,
    change: u64,
}

/// The journal of one process.
pub struct Journal {
    owner: Owner,
    epoch: u64,
    /// Number of the last change.
    change: u64,
    objects: Vec<Object>,
    /// Objects that have this process's epoch; the first ones.
    taken: usize,
    /// The object whose turn it is.
    turn: usize,
    /// Requests that failed one after the other, whatever they were for.
    failures: u32,
    /// Bytes of each object that are kept for its header.
    room: usize,
    /// Calls that wait for the journal or are under way, by UID of the claim.
    calls: HashMap<String, Ticket>,
    adopted: Vec<Text>,
    forgotten: Vec<Forgotten>,
    broken: Vec<String>,
}

impl Journal {
    /// A journal of which nothing is known yet.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        let room = header::room(&owner);
        Self {
            owner,
            epoch: 0,
            change: 0,
            objects: vec![Object::new(0, room)],
            taken: 0,
            turn: 0,
            failures: 0,
            room,
            calls: HashMap::new(),
            adopted: Vec::new(),
            forgotten: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Whether all of it is this process's, so that intents can be written.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.taken == self.objects.len()
    }

    /// Name of the object of this number.
    #[must_use]
    pub fn name(&self, number: usize) -> String {
        self.owner.object(number)
    }

    /// Intents of earlier processes that have come to light since this was asked last.
    pub fn adopted(&mut self) -> Vec<Arc<Intent>> {
        let uids: BTreeSet<Text> = std::mem::take(&mut self.adopted).into_iter().collect();
        { uids.iter() }
            .filter_map(|uid| self.whole(&intent::name_of(uid)))
            .collect()
    }

    /// What somebody took out since this was asked last.
    pub fn forgotten(&mut self) -> Vec<Forgotten> {
        std::mem::take(&mut self.forgotten)
    }

    /// What could not be read since this was asked last, and why. It is kept.
    pub fn broken(&mut self) -> Vec<String> {
        std::mem::take(&mut self.broken)
    }

    /// The next request, if one is due: the objects have their turns, so that none waits for another
    /// one that is written all the time, or cannot be. What is only settled waits for another reason to
    /// write its object; with `lazily` what is settled by now is due.
    #[must_use]
    pub fn next(&mut self, lazily: bool) -> Option<Request> {
        if lazily && self.is_open() {
            for object in &mut self.objects {
                object.due = object.changed;
            }
        }
        let first = self.objects.first()?.durable;
        let ask = |number: usize, object: &Object| match object.stored {
            Stored::Unread => Request::Read(number),
            Stored::Absent | Stored::Version(_) => Request::Write(self.write(number, object)),
        };
        if let Some(object) = self.objects.get(self.taken) {
            return Some(ask(self.taken, object));
        }
        let all = self.objects.iter().enumerate();
        let (before, after): (Vec<_>, Vec<_>) = { all }
            .filter(|(_, object)| object.after <= first && object.is_wanted())
            .partition(|(number, _)| *number < self.turn);
        let (number, object) = after.into_iter().chain(before).next()?;
        Some(if object.urgent.max(object.due) > object.durable {
            ask(number, object)
        } else {
            Request::Read(number)
        })
    }

    /// Whether something is settled that the API server does not know of.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        let mut objects = self.objects.iter();
        objects.any(|object| object.changed > object.durable)
    }

    fn write(&self, number: usize, object: &Object) -> Write {
        let header = Header {
            driver: self.owner.driver.clone(),
            node: self.owner.node.clone(),
            uid: object.uid.clone(),
            epoch: self.epoch,
            holder: self.owner.holder.clone(),
            commit: self.change,
            objects: self.objects.len(),
            ..Header::default()
        };
        Write {
            number,
            name: self.name(number),
            version: match &object.stored {
                Stored::Version(version) => Some(version.clone()),
                Stored::Unread | Stored::Absent => None,
            },
            intents: object.waiting(),
            labels: object.labels().clone(),
            holder: self.owner.holder.clone(),
            annotations: object.annotations(header),
            change: self.change,
        }
    }

    fn bump(&mut self) -> u64 {
        self.change += 1;
        self.change
    }

    /// Whether the API server has the change and nobody else led a moment ago; `None` if that is not
    /// known yet.
    pub fn state(&mut self, ticket: Ticket, now: Instant) -> Option<Result<(), Unwritable>> {
        let object = self.objects.get_mut(ticket.number)?;
        if object.durable >= ticket.change {
            if object.is_fresh(now) {
                return Some(Ok(()));
            }
            object.unconfirmed = true;
        }
        let (refused, error) = object.refused.as_ref()?;
        (*refused >= ticket.change).then(|| Err(Unwritable::Refused(error.clone())))
    }
}

#[cfg(test)]
mod tests;
