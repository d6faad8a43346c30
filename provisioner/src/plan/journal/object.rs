//! One of the journal's objects: what it is to contain, and what is known of what it contains.

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

/// Annotation that says whose journal it is, and how far it was written.
pub const HEADER: &str = "csi-sidecars.io/journal";
/// What the names of intents' annotations begin with; the claim's UID follows.
pub const INTENT: &str = "intent.csi-sidecars.io/";
/// What the names of intents' annotations begin with that came with a Lease from elsewhere.
pub(super) const RESTORED: &str = "restored.csi-sidecars.io/";
/// What the names of annotations begin with that have the terms of a topology.
pub const TERMS: &str = "terms.csi-sidecars.io/";

/// An intent in the object, or the part of one that is in it.
pub(super) struct Entry {
    pub(super) intent: Arc<Intent>,
    encoded: Encoded,
    /// Of several of one claim the greatest says what is asked now.
    pub(super) order: u64,
    /// The change with which it came.
    pub(super) since: u64,
    /// The change with which the first thing came that it says of the claim.
    first: u64,
    /// It leaves with the next commit.
    settled: bool,
}

/// What is known of the object at the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Nothing that could be relied on.
    Unread,
    /// It does not exist.
    Absent,
    /// It was last seen in this version.
    Version(String),
}

pub(super) struct Object {
    /// By the name of the annotation.
    entries: BTreeMap<String, Entry>,
    /// Terms of the topologies of open entries, by the name of the annotation, and of how many.
    terms: BTreeMap<String, (Arc<Annotation>, usize)>,
    /// Annotations of others, and intents that cannot be read with their terms; by name.
    kept: BTreeMap<String, Arc<Annotation>>,
    /// Room that is kept for the header.
    header: usize,
    /// Bytes of all that is written, with that room.
    size: usize,
    /// What others wrote into its metadata, labels and owners for example.
    metadata: KeptMetadata,
    /// Its `metadata.uid`, if that is known.
    pub(super) uid: String,
    pub(super) stored: Stored,
    /// It may not be written before the first object has this change.
    pub(super) after: u64,
    /// The last change of it.
    pub(super) changed: u64,
    /// The last change that somebody waits for.
    pub(super) urgent: u64,
    /// The last change that is written with no other reason.
    pub(super) due: u64,
    /// The last change that the API server is known to have.
    pub(super) durable: u64,
    /// Requests that failed one after the other.
    pub(super) failures: u32,
    /// When a request was sent whose answer showed that nobody else led.
    confirmed: Option<Instant>,
    /// That is too long ago for somebody.
    pub(super) unconfirmed: bool,
    /// Answers one after the other that came too late to prove it.
    pub(super) late: u32,
    /// Up to which change there will be no commit, and why.
    pub(super) refused: Option<(u64, ApiError)>,
}

impl Object {
    /// `header` is the room for the header.
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

    /// Order of what it says of the claim, be it settled.
    pub(super) fn order(&self, name: &str) -> Option<u64> {
        self.entries.get(name).map(|entry| entry.order)
    }

    /// What it says of the claim, unless that is settled.
    pub(super) fn open(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name).filter(|entry| !entry.settled)
    }

    /// Whether the API server has what it says of the claim.
    pub(super) fn is_durable(&self, name: &str) -> bool {
        self.open(name)
            .is_some_and(|entry| entry.since <= self.durable)
    }

    /// Nobody else led when this was sent.
    pub(super) fn confirm(&mut self, sent: Instant) {
        self.confirmed = Some(sent);
        self.unconfirmed = false;
        self.refused = None;
    }

    /// Whether nobody else led a moment ago.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        let confirmed = self.confirmed;
        confirmed.is_some_and(|sent| now.saturating_duration_since(sent) < FRESH)
    }

    /// Somebody waits for this change, which may have been written long ago.
    pub(super) fn look(&mut self, change: u64, now: Instant) {
        self.urgent = self.urgent.max(change);
        self.unconfirmed |= !self.is_fresh(now);
    }

    /// Who waits for changes up to this one waits in vain.
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

    /// Whether somebody waits for what the API server does not have, or has had for too long to rely on it.
    pub(super) fn is_wanted(&self) -> bool {
        self.urgent.max(self.due) > self.durable || self.unconfirmed
    }

    /// Order of the claim's entry that cannot be read, as far as it says.
    pub(super) fn unread_order(&self, name: &str) -> Option<u64> {
        let kept = self.kept.get(name)?;
        Some(order_of(kept.text()).unwrap_or_default())
    }

    /// UIDs of the claims of which something is said.
    pub(super) fn uids(&self) -> impl Iterator<Item = Text> {
        let open = self.entries.values().filter(|entry| !entry.settled);
        open.map(|entry| entry.intent.uid().into())
    }

    /// Intents that a commit with all changes would make durable.
    pub(super) fn waiting(&self) -> usize {
        let new = |entry: &&Entry| !entry.settled && entry.since > self.durable;
        self.entries.values().filter(new).count()
    }

    /// Whether nothing but what is kept stays in it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.values().all(|entry| entry.settled)
    }

    /// Bytes of all annotations with this one in place of what is said of its claim; `None` if it cannot
    /// be, since another text has the name of its terms.
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

    /// Terms that go when `next` comes in place of `replaced`, with their number of users.
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

    /// Bytes of what is kept under this name, which is not written while the same name is ours.
    fn size_of_kept(&self, name: &str) -> usize {
        self.kept.get(name).map_or(0, |kept| kept.size())
    }

    /// Bytes of all that is written but the header.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size - self.header
    }

    /// This is what is said of the claim from now on; somebody waits for it.
    pub(super) fn put(&mut self, intent: Arc<Intent>, encoded: Encoded, order: u64, change: u64) {
        self.amend(intent, encoded, order, change);
        self.urgent = change;
    }

    /// The same, but nobody waits for it.
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

    /// Takes the entry out of what is written, and returns it.
    fn drop_entry(&mut self, name: &str) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        if !entry.settled {
            self.leave(&entry.encoded);
        }
        Some(entry)
    }

    /// An entry is written no more.
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

    /// The intent leaves with the next commit.
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

    /// The API server has all changes up to this one.
    pub(super) fn committed(&mut self, change: u64) {
        self.durable = change;
        self.entries
            .retain(|_, entry| !entry.settled || entry.since > change);
    }

    /// All annotations as they are to be.
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

    /// What is written of its metadata beside the annotations, with these labels in any case.
    pub(super) fn metadata(&self, labels: &[(String, String)]) -> KeptMetadata {
        let mut metadata = self.metadata.clone();
        metadata.labels.extend(labels.iter().cloned());
        metadata
    }

    /// Nothing is in it that this process wants.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.terms.clear();
        self.size = self.header + self.size_of_all_kept();
    }

    /// Bytes of what is kept, as far as it is written.
    fn size_of_all_kept(&self) -> usize {
        let written = self.kept.values();
        { written.filter(|kept| !self.terms.contains_key(kept.name())) }
            .map(|kept| kept.size())
            .sum()
    }
}
