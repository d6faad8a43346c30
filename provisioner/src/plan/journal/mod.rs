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
//! * **Others' edits.** An intent that somebody took out is forgotten. What cannot be read is kept
//!   as it is. An object that was deleted is made anew.
//!
//! | file | contents |
//! |---|---|
//! | `answer` | what answers mean |
//! | `header` | who leads |
//! | `intent` | one intent and its durable form |
//! | `object` | one Lease |
//! | `request` | requests and answers |

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::Text;

mod answer;
mod header;
mod intent;
mod object;
mod request;

pub use intent::{Intent, Recovery};
pub use object::{Found, HEADER, INTENT, TERMS};
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
    adopted: Vec<Arc<Intent>>,
    forgotten: Vec<Text>,
    broken: Vec<String>,
}

impl Journal {
    /// A journal of which nothing is known yet.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            epoch: 0,
            change: 0,
            objects: vec![Object::new(0)],
            taken: 0,
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
        std::mem::take(&mut self.adopted)
    }

    /// UIDs of claims whose intents somebody took out since this was asked last.
    pub fn forgotten(&mut self) -> Vec<Text> {
        std::mem::take(&mut self.forgotten)
    }

    /// What could not be read since this was asked last, and why. It is kept.
    pub fn broken(&mut self) -> Vec<String> {
        std::mem::take(&mut self.broken)
    }

    /// All intents that are not settled.
    pub fn intents(&self) -> impl Iterator<Item = &Arc<Intent>> {
        self.objects.iter().flat_map(Object::intents)
    }

    /// The next request, if one is due. What is only settled waits for another reason to write, or
    /// for `lazily`.
    #[must_use]
    pub fn next(&self, lazily: bool) -> Option<Request> {
        let first = self.objects.first()?.durable;
        let ask = |number: usize, object: &Object| match object.stored {
            Stored::Unread => Request::Read(number),
            Stored::Absent | Stored::Version(_) => Request::Write(self.write(number, object)),
        };
        if let Some(object) = self.objects.get(self.taken) {
            return Some(ask(self.taken, object));
        }
        let all = self.objects.iter().enumerate();
        { all.filter(|(_, object)| object.after <= first) }.find_map(|(number, object)| {
            let dirty = object.changed > object.durable;
            if object.urgent > object.durable || lazily && dirty {
                return Some(ask(number, object));
            }
            object.unconfirmed.then_some(Request::Read(number))
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

    /// Takes in what the driver is about to be asked; the call may be made when
    /// [`state`](Self::state) says so.
    ///
    /// # Errors
    /// It cannot be written, now or at all.
    pub fn intend(&mut self, intent: Intent, now: Instant) -> Result<Ticket, Unwritable> {
        let uid = intent.uid().to_owned();
        let change = self.bump();
        let mut all = self.objects.iter_mut().enumerate();
        let known = all.find_map(|(number, object)| object.has(&uid).then_some((number, object)));
        let Some((number, object)) = known else {
            return self.place(intent, change);
        };
        object.refused = None;
        if let Some(since) = object.holds(&intent) {
            object.look(since, now);
            let change = since;
            return Ok(Ticket { number, change });
        }
        // In another object there would be two intents for the claim for a moment.
        let encoded = intent.encode();
        match object.size_with(&intent, &encoded) {
            Some(size) if size <= LIMIT => {
                object.put(Arc::new(intent), encoded, change);
                Ok(Ticket { number, change })
            }
            Some(_) | None => Err(Unwritable::Busy),
        }
    }

    /// The first object with room gets the intent.
    fn place(&mut self, intent: Intent, change: u64) -> Result<Ticket, Unwritable> {
        let encoded = intent.encode();
        let fits = |object: &Object| {
            let most = if object.is_empty() { LIMIT } else { BUDGET };
            let size = object.size_with(&intent, &encoded);
            size.is_some_and(|size| size <= most)
        };
        let number = match self.objects.iter().position(fits) {
            Some(number) => number,
            None => self.grow(&intent, &encoded, change)?,
        };
        if let Some(object) = self.objects.get_mut(number) {
            object.refused = None;
            object.put(Arc::new(intent), encoded, change);
        }
        Ok(Ticket { number, change })
    }

    /// One object more. It is written when the first one says that there is one more, so that a
    /// successor that does not know of it yet has the first one before it is written.
    fn grow(
        &mut self,
        intent: &Intent,
        encoded: &intent::Encoded,
        change: u64,
    ) -> Result<usize, Unwritable> {
        let new = Object::new(change);
        let number = self.objects.len();
        let size = new.size_with(intent, encoded).unwrap_or(usize::MAX);
        if size > LIMIT {
            return Err(Unwritable::TooLarge(size));
        }
        if number == MOST_OBJECTS {
            return Err(Unwritable::Busy);
        }
        if let Some(first) = self.objects.first_mut() {
            first.changed = change;
            first.urgent = change;
        }
        self.objects.push(new);
        self.taken += 1;
        Ok(number)
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

    /// Whether the claim's intent is durable, and nobody else led a moment ago: nothing may be asked
    /// of the driver otherwise.
    #[must_use]
    pub fn may_call(&self, uid: &str, now: Instant) -> bool {
        let mut objects = self.objects.iter();
        objects.any(|object| object.is_durable(uid) && object.is_fresh(now))
    }

    /// This is what is in doubt for the claim from now on; it is written with the next commit.
    pub fn amend(&mut self, intent: Intent) {
        let change = self.bump();
        let all = &mut self.objects;
        let Some(object) = all.iter_mut().find(|object| object.has(intent.uid())) else {
            return;
        };
        if object.says(&intent) {
            return;
        }
        let encoded = intent.encode();
        let size = object.size_with(&intent, &encoded);
        // What is there says more than is needed.
        if size.is_some_and(|size| size <= LIMIT) {
            object.amend(Arc::new(intent), encoded, change);
        }
    }

    /// The claim's intent leaves with the next commit: its PersistentVolume is there, or the driver's
    /// last word was no.
    pub fn settle(&mut self, uid: &str) {
        let change = self.bump();
        for object in &mut self.objects {
            object.settle(uid, change);
        }
    }
}

#[cfg(test)]
mod tests;
