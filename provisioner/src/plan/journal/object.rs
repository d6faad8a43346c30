//! One of the journal's objects: what it is to contain, and what is known of what it contains.
//!
//! Separate from the journal, which is several of these and knows who may write them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::FRESH;
use super::annotation::Annotation;
use super::header::Header;
use super::intent::{Encoded, Intent};
use crate::model::Text;
use crate::plan::outcome::ApiError;

mod found;

pub use found::{Forgotten, Found};

/// Annotation that says whose journal it is, and how far it was written.
pub const HEADER: &str = "csi-sidecars.io/journal";
/// What the names of intents' annotations begin with; the claim's UID follows.
pub const INTENT: &str = "intent.csi-sidecars.io/";
/// What the names of annotations begin with that have the terms of a topology.
pub const TERMS: &str = "terms.csi-sidecars.io/";

/// Room that is kept for the header.
const FOR_HEADER: usize = 512;

/// An intent in the object, or the part of one that is in it.
pub(super) struct Entry {
    pub(super) intent: Arc<Intent>,
    encoded: Encoded,
    /// Of several of one claim the greatest says what is asked now.
    pub(super) order: u64,
    /// The change with which it came.
    pub(super) since: u64,
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
    /// Annotations of others, and intents that cannot be read.
    kept: Vec<Arc<Annotation>>,
    /// Bytes of all that is written but the header.
    size: usize,
    labels: Value,
    pub(super) stored: Stored,
    /// It may not be written before the first object has this change.
    pub(super) after: u64,
    /// The last change of it.
    pub(super) changed: u64,
    /// The last change that somebody waits for.
    pub(super) urgent: u64,
    /// The last change that the API server is known to have.
    pub(super) durable: u64,
    /// Requests that failed one after the other.
    pub(super) failures: u32,
    /// When a request was sent whose answer showed that nobody else led.
    confirmed: Option<Instant>,
    /// That is too long ago for somebody.
    pub(super) unconfirmed: bool,
    /// Up to which change there will be no commit, and why.
    pub(super) refused: Option<(u64, ApiError)>,
}

impl Object {
    pub(super) fn new(after: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            terms: BTreeMap::new(),
            kept: Vec::new(),
            size: FOR_HEADER,
            labels: Value::Null,
            stored: Stored::Unread,
            after,
            changed: 0,
            urgent: 0,
            durable: 0,
            failures: 0,
            confirmed: None,
            unconfirmed: false,
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
        { self.open(name) }.is_some_and(|entry| entry.since <= self.durable)
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
        self.urgent = self.durable;
        self.unconfirmed = false;
        self.failures = 0;
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

    /// Whether nothing but what is kept is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all annotations with this one in place of what is said of its claim; `None` if it cannot
    /// be, since another text has the name of its terms.
    pub(super) fn size_with(&self, encoded: &Encoded) -> Option<usize> {
        let replaced = self.open(encoded.text.name());
        let replaced = replaced.map_or(0, |entry| entry.encoded.text.size());
        let mut size = self.size + encoded.text.size() - replaced;
        for (number, terms) in encoded.terms.iter().enumerate() {
            let before = encoded.terms.iter().take(number);
            let held = self.terms.get(terms.name()).map(|(held, _)| held);
            let mut same = before
                .chain(held)
                .filter(|held| held.name() == terms.name());
            match same.next() {
                Some(held) if held != terms => return None,
                Some(_) => {}
                None => size += terms.size(),
            }
        }
        Some(size)
    }

    /// Bytes of all that is written but the header.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size - FOR_HEADER
    }

    /// This is what is said of the claim from now on; somebody waits for it.
    pub(super) fn put(&mut self, intent: Arc<Intent>, encoded: Encoded, order: u64, change: u64) {
        self.amend(intent, encoded, order, change);
        self.urgent = change;
    }

    /// The same, but nobody waits for it.
    pub(super) fn amend(&mut self, intent: Arc<Intent>, encoded: Encoded, order: u64, change: u64) {
        let name = encoded.text.name().to_owned();
        self.drop_entry(&name);
        self.size += encoded.text.size();
        for terms in &encoded.terms {
            let held = self.terms.entry(terms.name().to_owned());
            let held = held.or_insert_with(|| {
                self.size += terms.size();
                (Arc::clone(terms), 0)
            });
            held.1 += 1;
        }
        let entry = Entry {
            encoded,
            order,
            since: change,
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
            let Some((held, users)) = self.terms.get_mut(terms.name()) else {
                continue;
            };
            *users -= 1;
            if *users == 0 {
                self.size -= held.size();
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
        let ours = |name: &str| self.open(name).is_some() || self.terms.contains_key(name);
        let kept = { self.kept.iter() }.filter(|kept| !ours(kept.name()));
        let open = self.entries.values().filter(|entry| !entry.settled);
        let header = Annotation::new(HEADER.to_owned(), header.text());
        kept.chain(open.map(|entry| &entry.encoded.text))
            .chain(self.terms.values().map(|(terms, _)| terms))
            .cloned()
            .chain([header])
            .collect()
    }

    pub(super) fn labels(&self) -> &Value {
        &self.labels
    }

    /// Nothing is in it that this process wants.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.terms.clear();
        self.size = FOR_HEADER + size_of_all(&self.kept);
    }
}

fn size_of_all(annotations: &[Arc<Annotation>]) -> usize {
    { annotations.iter() }
        .map(|annotation| annotation.size())
        .sum()
}
