//! The provisioning journal: records each CreateVolume request before the driver gets it, in Leases of the
//! provisioner's own.
//!
//! A state machine without clock, client or wait. It returns the next request to the API server and takes in the reply;
//! changes that arrive in between gather and go with the next write (group commit). The simulation runs exactly this
//! code.
//!
//! * **Fence.** Each process that begins to lead takes a greater epoch, and writes it into every object before anything
//!   else. Every write carries the `resourceVersion`. A process that finds the epoch of another one does not lead any
//!   more, whatever its clock says. All objects are read first, also those that a deleted object would have named.
//! * **Unknown outcomes.** After any failed write the object is read before it is written again; its header tells which
//!   changes it has.
//! * **Backups.** The header has the UID of its object. Intents of an object that was made from a copy are set apart:
//!   the volumes that they request may be in use in the cluster that they come from.
//! * **Late finds.** An intent that turns up after the journal was opened, in an object that no header named, is
//!   unsettled beside the current request of the same claim, and outlives the attempt that does not know of it.
//! * **Others' edits.** An intent that somebody removed is forgotten. An annotation that cannot be read is kept as it
//!   is. A deleted object is created again.
//!
//! | file | contents |
//! |---|---|
//! | `annotation` | one annotation, rendered once |
//! | `answer` | the effect of replies on the journal |
//! | `header` | the header of an object: which process leads |
//! | `intent` | one intent and its durable form |
//! | `neighbour` | journals of other nodes |
//! | `object` | one Lease |
//! | `parts` | the entries of one claim, in one object or several |
//! | `request` | requests and answers |
//! | `rival` | another process on the same journal, without leader election |

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

/// Bytes of annotations that the API server accepts: 256 KiB.
pub const LIMIT: usize = 256 * 1024;

/// Calls may be made this long after the API server showed that no other process leads. Shorter than the time between a
/// leader's renew deadline and the end of its lease, so that a process that was frozen until another one leads finds
/// out before it calls.
pub const FRESH: Duration = Duration::from_secs(4);

/// Error for answers that arrive too late to prove leadership, where no election proves it.
const SLOW: &str = "the API server takes more than 4 s to answer requests for Leases, and without \
    --leader-election nothing else shows that no other process works";

/// More objects than an etcd with its default quota holds: a header with a greater number is wrong. Calls that never
/// get an answer must not keep new claims from their volumes.
const MAX_OBJECTS: usize = 10_000;

/// Without the first object, which has the number of objects, the others are looked for until this many in a row do not
/// exist.
const PROBED_OBJECTS: usize = 64;

/// Failed requests in a row after which the waiting calls get the error.
const TRIES: u32 = 4;

/// Names a change whose commit a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    number: usize,
    change: u64,
}

/// The journal of one process.
#[derive(Clone)]
pub struct Journal {
    owner: Owner,
    epoch: u64,
    /// Number of the last change.
    change: u64,
    objects: Vec<Object>,
    /// Number of objects that were read to open the journal, from the first one on.
    read: usize,
    /// Number of objects that must be created if they do not exist, since a predecessor may still write them.
    required: usize,
    /// Number of objects that have this process's epoch, from the first one on.
    taken_over: usize,
    /// Last error of opening the journal.
    open_error: Option<ApiError>,
    /// Number of the object that comes next.
    turn: usize,
    /// Failed requests in a row, for any object.
    failures: u32,
    /// Bytes that each object reserves for its header.
    header_bytes: usize,
    /// Bytes up to which intents share an object.
    budget: usize,
    /// Greatest number of objects.
    max_objects: usize,
    /// Number of objects that are probed while the first one is missing, and behind each one that exists.
    probe_count: usize,
    /// The first object is missing, and the others are looked for.
    first_missing: bool,
    /// Calls that wait for the journal or are under way, by UID of the claim.
    calls: HashMap<String, Ticket>,
    /// Claims with intents of earlier processes when the journal was opened.
    adopted: Vec<Text>,
    /// Intents of earlier processes that have turned up since.
    late: Vec<Arc<Intent>>,
    forgotten: Vec<Forgotten>,
    broken: Vec<String>,
}

impl Journal {
    /// A journal before its first request.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        let header_bytes = header::max_bytes(&owner);
        Self {
            owner,
            epoch: 0,
            change: 0,
            objects: vec![Object::new(0, header_bytes)],
            read: 0,
            required: 1,
            taken_over: 0,
            open_error: None,
            turn: 0,
            failures: 0,
            header_bytes,
            budget: BUDGET,
            max_objects: MAX_OBJECTS,
            probe_count: PROBED_OBJECTS,
            first_missing: false,
            calls: HashMap::new(),
            adopted: Vec::new(),
            late: Vec::new(),
            forgotten: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// A journal that is [`closed`](Self::closed) for the same reason as this one, or open, and has no entries.
    #[must_use]
    pub fn without_entries(&self) -> Self {
        Self {
            objects: Vec::new(),
            read: usize::from(!self.is_open()),
            open_error: self.open_error.clone(),
            ..Self::new(self.owner.clone())
        }
    }

    /// Whether every object is read and has this process's epoch, so that intents can be written.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.read == self.objects.len() && self.taken_over == self.objects.len()
    }

    /// The reason why no intent can be written yet; `None` if one can.
    #[must_use]
    pub fn closed(&self) -> Option<Unwritable> {
        let reason = || match &self.open_error {
            Some(error) => Unwritable::Refused(error.clone()),
            None => Unwritable::Closed,
        };
        (!self.is_open()).then(reason)
    }

    /// Whether opening the journal failed: the API server refused, or did not answer.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.open_error.is_some() && !self.is_open()
    }

    /// Name of the object of this number.
    #[must_use]
    pub fn name(&self, number: usize) -> String {
        self.owner.object(number)
    }

    /// Takes the intents of earlier processes that have turned up since the last call.
    pub fn adopted(&mut self) -> Vec<Arc<Intent>> {
        let uids: BTreeSet<Text> = std::mem::take(&mut self.adopted).into_iter().collect();
        let late = std::mem::take(&mut self.late);
        { uids.iter() }
            .filter_map(|uid| self.whole(&intent::name_of(uid)))
            .chain(late)
            .collect()
    }

    /// Takes the requests that somebody removed from the journal since the last call.
    pub fn forgotten(&mut self) -> Vec<Forgotten> {
        std::mem::take(&mut self.forgotten)
    }

    /// Takes the errors of annotations that could not be read since the last call. The journal keeps these annotations.
    pub fn broken(&mut self) -> Vec<String> {
        std::mem::take(&mut self.broken)
    }

    /// The next request, if one is due. The objects take turns, so that none waits for another one that is written all
    /// the time, or cannot be written. A settled intent waits for another reason to write its object; with `lazily` it
    /// is due now.
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
        // All objects are read before the first one is written: the epoch must be greater than any of theirs.
        if self.read < self.objects.len() {
            return Some(Request::Read(self.read));
        }
        if let Some(object) = self.objects.get(self.taken_over) {
            return Some(ask(self.taken_over, object));
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

    /// Whether the API server still has intents that are settled.
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

    /// Whether the API server has the change and no other process led a moment ago; `None` if that is not known yet.
    ///
    /// `leads`: the election's lease shows that no other process leads. That counts once the object has been read since
    /// the ticket was issued, however long that took.
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
    /// The same journal with so little space that each intent gets an object of its own.
    pub(crate) fn crowded(self) -> Self {
        Self { budget: 0, ..self }
    }

    /// The same journal with few objects, which are soon all looked for.
    pub(crate) fn small(self) -> Self {
        let (max_objects, probe_count) = (6, 6);
        Self {
            max_objects,
            probe_count,
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
