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
//!   All objects are read first, also those that an object which somebody deleted would have named.
//! * **Unknown outcomes.** After a write that failed in whatever way the object is read before it is
//!   written again; its header says which changes it has.
//! * **Backups.** The header has the UID of its object. Intents of an object that was made from a copy
//!   are set apart: what they ask for may be in use in the cluster that they come from.
//! * **Late finds.** What comes to light when the journal is open, in an object that none named, is owed beside
//!   what is asked for the same claim by then, and outlives the attempt that does not know of it.
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
//! | `rival` | another process, where there is no election |

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::Text;
use crate::plan::outcome::ApiError;

mod annotation;
mod answer;
mod header;
mod intent;
mod neighbour;
mod object;
mod parts;
mod request;
mod rival;

pub use intent::{Intent, Recovery};
pub use neighbour::{Neighbour, looks_at_empty, pause};
pub use object::{Forgotten, Found, HEADER, INTENT, KeptMetadata, TERMS};
pub use request::{Answer, Lost, Owner, Request, Unwritable, Verdict, Write};
pub use rival::{HEARTBEAT, Rival};

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

/// What is said of answers that come too late to prove anything, where no election proves it.
const SLOW: &str = "the API server takes more than 4 s to answer requests for Leases, and without \
    --leader-election nothing else shows that no other process works";

/// More objects than an etcd with its default quota holds: a header that says more is wrong. Calls that never
/// have an answer are to keep no new claim from its volume.
const MOST_OBJECTS: usize = 10_000;

/// When the first one, which says how many there are, is not there, others are looked for until so many in a row
/// are not there.
const SOUGHT_OBJECTS: usize = 64;

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
    /// Objects that were read to open the journal; the first ones.
    read: usize,
    /// Objects that must be made although they are not there, since a predecessor may still write them.
    named: usize,
    /// Objects that have this process's epoch; the first ones.
    taken: usize,
    /// Why the journal could not be opened the last times.
    shut: Option<ApiError>,
    /// The object whose turn it is.
    turn: usize,
    /// Requests that failed one after the other, whatever they were for.
    failures: u32,
    /// Bytes of each object that are kept for its header.
    room: usize,
    /// Bytes up to which intents share an object.
    budget: usize,
    /// More objects than there may be.
    most: usize,
    /// Objects that are looked for without the first one, and behind each that is found.
    sought: usize,
    /// They are.
    seeks: bool,
    /// Calls that wait for the journal or are under way, by UID of the claim.
    calls: HashMap<String, Ticket>,
    /// Claims of which earlier processes' intents were there when it was opened.
    adopted: Vec<Text>,
    /// What has come to light of them since.
    late: Vec<Arc<Intent>>,
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
            read: 0,
            named: 1,
            taken: 0,
            shut: None,
            turn: 0,
            failures: 0,
            room,
            budget: BUDGET,
            most: MOST_OBJECTS,
            sought: SOUGHT_OBJECTS,
            seeks: false,
            calls: HashMap::new(),
            adopted: Vec::new(),
            late: Vec::new(),
            forgotten: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Whether all of it is this process's, so that intents can be written.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.read == self.objects.len() && self.taken == self.objects.len()
    }

    /// Why no intent can be written yet; `None` if one can.
    #[must_use]
    pub fn closed(&self) -> Option<Unwritable> {
        let reason = || match &self.shut {
            Some(error) => Unwritable::Refused(error.clone()),
            None => Unwritable::Closed,
        };
        (!self.is_open()).then(reason)
    }

    /// Whether the API server has refused, or not answered, what would open the journal.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.shut.is_some() && !self.is_open()
    }

    /// Name of the object of this number.
    #[must_use]
    pub fn name(&self, number: usize) -> String {
        self.owner.object(number)
    }

    /// Intents of earlier processes that have come to light since this was asked last.
    pub fn adopted(&mut self) -> Vec<Arc<Intent>> {
        let uids: BTreeSet<Text> = std::mem::take(&mut self.adopted).into_iter().collect();
        let late = std::mem::take(&mut self.late);
        { uids.iter() }
            .filter_map(|uid| self.whole(&intent::name_of(uid)))
            .chain(late)
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
        // All are read before the first one is written: the epoch must be greater than any of theirs.
        if self.read < self.objects.len() {
            return Some(Request::Read(self.read));
        }
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
            kept: object.metadata(&self.owner.labels),
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
    ///
    /// `leads`: the election's lease says that nobody else does. That counts once the object has been looked
    /// at since the ticket was asked for, however long that took.
    pub fn state(
        &mut self,
        ticket: Ticket,
        now: Instant,
        leads: bool,
    ) -> Option<Result<(), Unwritable>> {
        let object = self.objects.get_mut(ticket.number)?;
        if object.durable >= ticket.change {
            if object.is_fresh(now) || leads && !object.unconfirmed {
                object.late = 0;
                return Some(Ok(()));
            }
            object.late += u32::from(!std::mem::replace(&mut object.unconfirmed, true));
            if object.late > TRIES {
                object.refuse(self.change, ApiError::local(SLOW));
            }
        }
        let (refused, error) = object.refused.as_ref()?;
        (*refused >= ticket.change).then(|| Err(Unwritable::Refused(error.clone())))
    }
}

#[cfg(test)]
impl Journal {
    /// The same with so little room that each intent gets an object of its own.
    pub(crate) fn crowded(self) -> Self {
        Self { budget: 0, ..self }
    }

    /// The same with fewer objects, of which all are soon looked for.
    pub(crate) fn small(self) -> Self {
        let (most, sought) = (6, 6);
        Self {
            most,
            sought,
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
