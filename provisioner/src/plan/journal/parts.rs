//! The entries of one claim: usually a single one, in a single object.
//!
//! An entry that outgrows its object is continued in another one. An object keeps its part until it is settled, so that
//! nothing is lost while the other one is written; readers merge all parts.

use std::sync::Arc;
use std::time::Instant;

use super::intent::{Encoded, Intent, name_of};
use super::object::{Entry, Object};
use super::{Journal, LIMIT, Ticket, Unwritable};
use crate::plan::request::PinnedRequest;

impl Journal {
    /// Records the request that the driver is about to get; the call may be made when [`state`](Self::state) allows it.
    ///
    /// # Errors
    /// The intent cannot be written, now or at all.
    pub fn intend(&mut self, intent: Intent, now: Instant) -> Result<Ticket, Unwritable> {
        if let Some(closed) = self.closed() {
            return Err(closed);
        }
        let (uid, name) = (intent.uid().to_owned(), intent.annotation());
        let change = self.bump();
        let ticket = match self.held(&name, &intent) {
            Some(ticket) => {
                if let Some(object) = self.objects.get_mut(ticket.number) {
                    object.refused = None;
                    object.look(ticket.change, now);
                }
                ticket
            }
            None => self.place(&name, &intent, change)?,
        };
        self.announce(ticket.number);
        self.calls.insert(uid, ticket);
        Ok(ticket)
    }

    /// Makes the first object urgent if it does not name this object yet, which must wait for that.
    fn announce(&mut self, number: usize) {
        let after = self.objects.get(number).map_or(0, |object| object.after);
        if let Some(first) = self.objects.first_mut()
            && after > first.durable
        {
            first.urgent = first.urgent.max(after);
        }
    }

    /// The ticket of the change that completed `intent` in the journal, if all of it is there. Unsettled requests may
    /// be in any part; the current request must be the one that a successor sends first.
    fn held(&self, name: &str, intent: &Intent) -> Option<Ticket> {
        let (number, current) = self.current(name)?;
        let held = &current.intent;
        let first = intent.asked.is_none() || held.asked == intent.asked;
        let sources = held.source == intent.source && held.source_ref == intent.source_ref;
        let all = || {
            { intent.requests() }
                .all(|asked| self.parts(name).any(|(_, part)| part.intent.has(asked)))
        };
        (first && sources && all()).then_some(Ticket {
            number,
            change: current.since,
        })
    }

    /// Objects and open entries of a claim.
    pub(super) fn parts(&self, name: &str) -> impl Iterator<Item = (usize, &Entry)> {
        let all = self.objects.iter().enumerate();
        all.filter_map(move |(number, object)| Some((number, object.open(name)?)))
    }

    /// Names of the objects with an open entry of the claim of this UID.
    #[must_use]
    pub fn leases_of(&self, uid: &str) -> Vec<String> {
        let name = name_of(uid);
        { self.parts(&name) }
            .map(|(number, _)| self.name(number))
            .collect()
    }

    /// The entry with the claim's current request.
    fn current(&self, name: &str) -> Option<(usize, &Entry)> {
        self.parts(name).max_by_key(|(_, entry)| entry.order)
    }

    /// Whether the claim's intent is durable, and no other process led a moment ago: otherwise the driver must not be
    /// called.
    ///
    /// `leads`: the election's lease shows that no other process leads.
    #[must_use]
    pub fn may_call(&self, uid: &str, now: Instant, leads: bool) -> bool {
        let name = name_of(uid);
        let current = self.current(&name).map(|(number, _)| number);
        let object = current.and_then(|number| self.objects.get(number));
        object.is_some_and(|object| object.is_durable(&name) && (leads || object.is_fresh(now)))
    }

    /// The claim's intent, merged from all its parts.
    pub(super) fn whole(&self, name: &str) -> Option<Arc<Intent>> {
        let (number, current) = self.current(name)?;
        let mut others = self
            .parts(name)
            .filter(|(other, _)| *other != number)
            .peekable();
        if others.peek().is_none() {
            return Some(Arc::clone(&current.intent));
        }
        let whole = others.fold((*current.intent).clone(), |whole, (_, other)| {
            whole.and(&other.intent)
        });
        Some(Arc::new(whole))
    }

    /// Puts the part of the intent that no other object has into the first object with enough space: first into objects
    /// that have a part of it already, and never into one with an unreadable entry of the claim.
    fn place(&mut self, name: &str, intent: &Intent, change: u64) -> Result<Ticket, Unwritable> {
        // The API server may still have settled entries.
        let orders = self.objects.iter().map(|object| object.order(name));
        let orders: Vec<Option<u64>> = orders.collect();
        let unread = self.objects.iter().map(|object| object.unread_order(name));
        let unread: Vec<Option<u64>> = unread.collect();
        let greatest = orders.iter().chain(&unread).flatten().max();
        let next = greatest.map_or(0, |greatest| greatest.saturating_add(1));
        let known = orders.iter().chain(&unread).flatten().count();
        let has = |number: &usize| orders.get(*number).is_some_and(Option::is_some);
        for number in (0..orders.len()).filter(has) {
            let part = self.part(name, number, intent);
            let order = if known == 1 { 0 } else { next };
            let encoded = part.encode(order);
            if let Some(object) = self.objects.get_mut(number)
                && object.size_with(&encoded).is_some_and(|size| size <= LIMIT)
            {
                object.refused = None;
                object.put(Arc::new(part), encoded, order, change);
                return Ok(Ticket { number, change });
            }
        }
        let part = self.part(name, self.objects.len(), intent);
        let encoded = part.encode(next);
        let fits = |object: &Object| {
            let most = if object.is_empty() {
                LIMIT
            } else {
                self.budget
            };
            object.size_with(&encoded).is_some_and(|size| size <= most)
        };
        let none = |number: &usize| {
            let of_it = [orders.get(*number), unread.get(*number)];
            of_it.into_iter().flatten().flatten().next().is_none()
        };
        let mut others = (0..orders.len()).filter(none);
        let number = others.find(|number| self.objects.get(*number).is_some_and(fits));
        let number = match number {
            Some(number) => number,
            None => self.grow(&encoded, change)?,
        };
        if let Some(object) = self.objects.get_mut(number) {
            object.refused = None;
            object.put(Arc::new(part), encoded, next, change);
        }
        Ok(Ticket { number, change })
    }

    /// The part of `intent` for the object of this number, since the others do not have it.
    fn part(&self, name: &str, number: usize, intent: &Intent) -> Intent {
        let elsewhere = |unsettled: &&Arc<PinnedRequest>| {
            let mut others = self.parts(name).filter(|(other, _)| *other != number);
            others.any(|(_, other)| other.intent.has(unsettled))
        };
        let mut part = intent.clone();
        part.unsettled = { intent.unsettled.iter() }
            .filter(|unsettled| !elsewhere(unsettled))
            .cloned()
            .collect();
        if part.is_empty() {
            // An entry needs a request to tell its claim.
            part.unsettled.extend(intent.unsettled.last().cloned());
        }
        part
    }

    /// Adds an object. It is written once the first one counts it, so that a successor that does not know of it yet has
    /// taken the first one before it is written.
    fn grow(&mut self, encoded: &Encoded, change: u64) -> Result<usize, Unwritable> {
        let new = Object::new(change, self.header_bytes);
        let number = self.objects.len();
        let size = new.size_with(encoded).unwrap_or(usize::MAX);
        if size > LIMIT {
            return Err(Unwritable::TooLarge(size));
        }
        if number >= self.max_objects {
            return Err(Unwritable::Full);
        }
        if let Some(first) = self.objects.first_mut() {
            first.changed = change;
            first.urgent = change;
        }
        self.objects.push(new);
        self.read += 1;
        self.taken_over += 1;
        Ok(number)
    }

    /// Replaces the claim's unsettled requests by these; the next commit writes them. Entries that somebody removed by
    /// hand do not come back.
    pub fn amend(&mut self, intent: &Intent) {
        let change = self.bump();
        let name = intent.annotation();
        self.calls.remove(intent.uid());
        let mut numbers: Vec<(u64, usize)> = { self.parts(&name) }
            .map(|(number, entry)| (entry.order, number))
            .collect();
        numbers.sort_unstable();
        let Some((greatest, _)) = numbers.last().copied() else {
            return;
        };
        let asked = intent.asked.as_ref();
        let mut left: Vec<Arc<PinnedRequest>> = intent.requests().cloned().collect();
        let alone = numbers.len() == 1;
        for (order, number) in numbers.into_iter().rev() {
            let Some(object) = self.objects.get_mut(number) else {
                continue;
            };
            let Some(held) = object.open(&name).map(|entry| Arc::clone(&entry.intent)) else {
                continue;
            };
            let (mine, rest): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|request| alone || held.asks(request));
            left = rest;
            let first = asked.filter(|asked| mine.contains(asked)).cloned();
            let unsettled = mine
                .into_iter()
                .filter(|unsettled| Some(unsettled) != asked);
            let part = Intent {
                asked: first,
                unsettled: unsettled.collect(),
                ..intent.clone()
            };
            if part == *held {
                continue;
            }
            if part.is_empty() {
                object.settle(&name, change);
                continue;
            }
            // A successor sends that request first.
            let order = if part.asked.is_some() && order < greatest {
                greatest + 1
            } else {
                order
            };
            let encoded = part.encode(order);
            let size = object.size_with(&encoded);
            // The present entry says more than needed.
            if size.is_some_and(|size| size <= LIMIT) {
                object.amend(Arc::new(part), encoded, order, change);
            }
        }
    }

    /// Settles the claim's intent, since its PersistentVolume exists or the driver gave a final error: the next commit
    /// removes it.
    pub fn settle(&mut self, uid: &str) {
        let change = self.bump();
        self.calls.remove(uid);
        let name = name_of(uid);
        for object in &mut self.objects {
            object.settle(&name, change);
        }
    }

    /// Whether fewer calls wait for the journal than are under way: a call that ends may bring another one.
    #[must_use]
    pub fn may_grow(&self) -> bool {
        let waits = |ticket: &&Ticket| {
            let object = self.objects.get(ticket.number);
            object.is_some_and(|object| object.durable < ticket.change)
        };
        let waiting = self.calls.values().filter(waits).count();
        waiting < self.calls.len() - waiting
    }
}
