//! One of the journal's objects: its desired content, and its state at the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::FRESH;
use super::annotation::Annotation;
use super::header::Header;
use super::intent::{Encoded, Intent, order_of};
use crate::model::Text;
use crate::plan::outcome::ApiError;

mod found;

pub use found::{Forgotten, Found, KeptMetadata};

/// Annotation of the header: the journal's owner, and the last change that was written.
pub const HEADER: &str = "csi-sidecars.io/journal";
/// Prefix of the annotations of intents; the claim's UID follows.
pub const INTENT: &str = "intent.csi-sidecars.io/";
/// Prefix of the annotations of intents that came with a Lease from elsewhere.
pub(super) const RESTORED: &str = "restored.csi-sidecars.io/";
/// Prefix of the annotations of topology terms.
pub const TERMS: &str = "terms.csi-sidecars.io/";

/// An intent in the object, or the part of one that is in it.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) intent: Arc<Intent>,
    encoded: Encoded,
    /// Of several entries of a claim, the one with the greatest order has the current request.
    pub(super) order: u64,
    /// The change that added this entry.
    pub(super) since: u64,
    /// The change that added the first entry of the claim to this object.
    first: u64,
    /// The next commit removes this entry.
    settled: bool,
}

/// State of the object at the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Unknown: the object has to be read.
    Unread,
    /// The object does not exist.
    Absent,
    /// The object exists, and had this version when it was last seen.
    Version(String),
}

#[derive(Clone)]
pub(super) struct Object {
    /// Entries by the name of their annotation.
    entries: BTreeMap<String, Entry>,
    /// Topology terms of open entries, by the name of their annotation, with the number of entries that use them.
    terms: BTreeMap<String, (Arc<Annotation>, usize)>,
    /// Annotations of others, and intents that cannot be read with their terms; by name.
    kept: BTreeMap<String, Arc<Annotation>>,
    /// Bytes reserved for the header.
    header: usize,
    /// Bytes of all annotations that are written, with the reserved bytes.
    size: usize,
    /// Metadata that others wrote, labels and owners for example.
    metadata: KeptMetadata,
    /// `metadata.uid`; empty if it is not known.
    pub(super) uid: String,
    pub(super) stored: Stored,
    /// The object must not be written before the first object has this change.
    pub(super) after: u64,
    /// The last change of the object.
    pub(super) changed: u64,
    /// The last change that a caller waits for.
    pub(super) urgent: u64,
    /// The last change that is written even if no caller waits for it.
    pub(super) due: u64,
    /// The last change that the API server is known to have.
    pub(super) durable: u64,
    /// Failed requests in a row.
    pub(super) failures: u32,
    /// Send time of the last request whose answer showed that no other process led.
    confirmed: Option<Instant>,
    /// A caller needs a newer confirmation than that.
    pub(super) unconfirmed: bool,
    /// Answers in a row that came too late to confirm.
    pub(super) late: u32,
    /// The last change that will not be committed, with the error.
    pub(super) refused: Option<(u64, ApiError)>,
}

impl Object {
    /// `header`: bytes reserved for the header.
    pub(super) fn new(after: u64, header: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            terms: BTreeMap::new(),
            kept: BTreeMap::new(),
            header,
            size: header,
            metadata: KeptMetadata::default(),
            uid: String::new(),
            stored: Stored::Unread,
            after,
            changed: 0,
            urgent: 0,
            due: 0,
            durable: 0,
            failures: 0,
            confirmed: None,
            unconfirmed: false,
            late: 0,
            refused: None,
        }
    }

    /// Order of the claim's entry, even if it is settled.
    pub(super) fn order(&self, name: &str) -> Option<u64> {
        self.entries.get(name).map(|entry| entry.order)
    }

    /// The claim's entry, unless it is settled.
    pub(super) fn open(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name).filter(|entry| !entry.settled)
    }

    /// Whether the API server has the claim's entry.
    pub(super) fn is_durable(&self, name: &str) -> bool {
        self.open(name)
            .is_some_and(|entry| entry.since <= self.durable)
    }

    /// Records that no other process led at `sent`.
    pub(super) fn confirm(&mut self, sent: Instant) {
        self.confirmed = Some(sent);
        self.unconfirmed = false;
        self.refused = None;
    }

    /// Whether a recent request has shown that no other process led.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        let confirmed = self.confirmed;
        confirmed.is_some_and(|sent| now.saturating_duration_since(sent) < FRESH)
    }

    /// A caller waits for this change, which may have been written long ago.
    pub(super) fn look(&mut self, change: u64, now: Instant) {
        self.urgent = self.urgent.max(change);
        self.unconfirmed |= !self.is_fresh(now);
    }

    /// Tells the callers that wait for changes up to this one that it will not be committed.
    pub(super) fn refuse(&mut self, change: u64, error: ApiError) {
        self.refused = Some((change, error));
        if self.urgent <= change {
            self.urgent = self.durable;
        }
        self.due = self.durable;
        self.unconfirmed = false;
        self.late = 0;
        self.failures = 0;
    }

    /// Whether a caller waits for a change that the API server does not have, or for a newer confirmation.
    pub(super) fn is_wanted(&self) -> bool {
        self.urgent.max(self.due) > self.durable || self.unconfirmed
    }

    /// Order of the claim's unreadable entry; 0 if that cannot be read either.
    pub(super) fn unread_order(&self, name: &str) -> Option<u64> {
        let kept = self.kept.get(name)?;
        Some(order_of(kept.text()).unwrap_or_default())
    }

    /// UIDs of the claims with open entries.
    pub(super) fn uids(&self) -> impl Iterator<Item = Text> {
        let open = self.entries.values().filter(|entry| !entry.settled);
        open.map(|entry| entry.intent.uid().into())
    }

    /// Number of intents that a commit of all changes would make durable.
    pub(super) fn waiting(&self) -> usize {
        let new = |entry: &&Entry| !entry.settled && entry.since > self.durable;
        self.entries.values().filter(new).count()
    }

    /// Whether all its entries are settled.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.values().all(|entry| entry.settled)
    }

    /// Bytes of all annotations with this entry in place of its claim's present one; `None` if the terms cannot be
    /// stored, since other terms have the same name.
    pub(super) fn size_with(&self, encoded: &Encoded) -> Option<usize> {
        let mut size = self.size + encoded.text.size();
        if let Some(replaced) = self.open(encoded.text.name()) {
            size -= replaced.encoded.text.size();
            for (held, _) in self.terms_only_in(&replaced.encoded, encoded) {
                size = size + self.size_of_kept(held.name()) - held.size();
            }
        }
        for (number, terms) in encoded.terms.iter().enumerate() {
            let before = encoded.terms.iter().take(number);
            let held = self.terms.get(terms.name()).map(|(held, _)| held);
            let mut same = before
                .chain(held)
                .filter(|held| held.name() == terms.name());
            match same.next() {
                Some(held) if held != terms => return None,
                Some(_) => {}
                None => size = size + terms.size() - self.size_of_kept(terms.name()),
            }
        }
        Some(size)
    }

    /// Terms that are removed when `next` replaces `replaced`, with their number of users.
    fn terms_only_in<'a>(
        &'a self,
        replaced: &'a Encoded,
        next: &'a Encoded,
    ) -> impl Iterator<Item = &'a (Arc<Annotation>, usize)> {
        let uses = |encoded: &Encoded, name: &str| {
            let all = encoded.terms.iter();
            all.filter(|terms| terms.name() == name).count()
        };
        let names: BTreeSet<&str> = replaced.terms.iter().map(|terms| terms.name()).collect();
        let held = names.into_iter().filter_map(|name| self.terms.get(name));
        held.filter(move |(held, users)| {
            *users == uses(replaced, held.name()) && uses(next, held.name()) == 0
        })
    }

    /// Bytes of the kept annotation of this name, which is not written while an own one has the name.
    fn size_of_kept(&self, name: &str) -> usize {
        self.kept.get(name).map_or(0, |kept| kept.size())
    }

    /// Bytes of all annotations that are written, without the header.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size - self.header
    }

    /// Makes this the claim's entry; a caller waits for the commit.
    pub(super) fn put(&mut self, intent: Arc<Intent>, encoded: Encoded, order: u64, change: u64) {
        self.amend(intent, encoded, order, change);
        self.urgent = change;
    }

    /// Makes this the claim's entry; no caller waits for the commit.
    pub(super) fn amend(&mut self, intent: Arc<Intent>, encoded: Encoded, order: u64, change: u64) {
        let name = encoded.text.name().to_owned();
        let first = self.open(&name).map_or(change, |before| before.first);
        self.drop_entry(&name);
        self.size += encoded.text.size();
        for terms in &encoded.terms {
            let instead = self.size_of_kept(terms.name());
            let held = self.terms.entry(terms.name().to_owned());
            let held = held.or_insert_with(|| {
                self.size = self.size + terms.size() - instead;
                (Arc::clone(terms), 0)
            });
            held.1 += 1;
        }
        let entry = Entry {
            encoded,
            order,
            since: change,
            first,
            settled: false,
            intent,
        };
        self.entries.insert(name, entry);
        self.changed = change;
    }

    /// Removes the entry, and returns it.
    fn drop_entry(&mut self, name: &str) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        if !entry.settled {
            self.leave(&entry.encoded);
        }
        Some(entry)
    }

    /// Subtracts the bytes of an entry that is not written any more, and drops its unused terms.
    fn leave(&mut self, encoded: &Encoded) {
        self.size -= encoded.text.size();
        for terms in &encoded.terms {
            let again = self.size_of_kept(terms.name());
            let Some((held, users)) = self.terms.get_mut(terms.name()) else {
                continue;
            };
            *users -= 1;
            if *users == 0 {
                self.size = self.size + again - held.size();
                self.terms.remove(terms.name());
            }
        }
    }

    /// Settles the claim's intent: the next commit removes it.
    pub(super) fn settle(&mut self, name: &str, change: u64) {
        if self.open(name).is_none() {
            return;
        }
        if let Some(entry) = self.drop_entry(name) {
            let entry = Entry {
                settled: true,
                since: change,
                ..entry
            };
            self.entries.insert(name.to_owned(), entry);
            self.changed = change;
        }
    }

    /// Records that the API server has all changes up to this one.
    pub(super) fn committed(&mut self, change: u64) {
        self.durable = change;
        self.entries
            .retain(|_, entry| !entry.settled || entry.since > change);
    }

    /// All annotations of the next write.
    pub(super) fn annotations(&self, header: Header) -> Vec<Arc<Annotation>> {
        let kept = self
            .kept
            .values()
            .filter(|kept| !self.terms.contains_key(kept.name()));
        let open = self.entries.values().filter(|entry| !entry.settled);
        let header = Annotation::new(HEADER.to_owned(), header.text());
        kept.chain(open.map(|entry| &entry.encoded.text))
            .chain(self.terms.values().map(|(terms, _)| terms))
            .cloned()
            .chain([header])
            .collect()
    }

    /// The metadata of the next write beside the annotations, with `labels` added.
    pub(super) fn metadata(&self, labels: &[(String, String)]) -> KeptMetadata {
        let mut metadata = self.metadata.clone();
        metadata.labels.extend(labels.iter().cloned());
        metadata
    }

    /// Drops all entries of this process.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.terms.clear();
        self.size = self.header + self.size_of_all_kept();
    }

    /// Bytes of the kept annotations that are written.
    fn size_of_all_kept(&self) -> usize {
        let written = self.kept.values();
        { written.filter(|kept| !self.terms.contains_key(kept.name())) }
            .map(|kept| kept.size())
            .sum()
    }
}
