//! One of the journal's objects: what it is to contain, and what is known of what it contains.
//!
//! Separate from the journal, which is several of these and knows who may write them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::FRESH;
use super::header::Header;
use super::intent::{Encoded, Intent, fnv1a};
use crate::model::Text;
use crate::plan::outcome::ApiError;

/// Annotation that says whose journal it is, and how far it was written.
pub const HEADER: &str = "csi-sidecars.io/journal";
/// What the names of intents' annotations begin with; the claim's UID follows.
pub const INTENT: &str = "intent.csi-sidecars.io/";
/// What the names of annotations begin with that have the terms of a topology.
pub const TERMS: &str = "terms.csi-sidecars.io/";

/// Room that is kept for the header.
const FOR_HEADER: usize = 512;

/// An object as the API server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// `metadata.resourceVersion`
    pub version: String,
    /// `metadata.annotations`
    pub annotations: BTreeMap<String, String>,
    /// `metadata.labels`, as they are.
    pub labels: Value,
}

/// One intent in the object.
pub(super) struct Entry {
    pub(super) intent: Arc<Intent>,
    encoded: Encoded,
    /// The change with which it came.
    pub(super) since: u64,
    /// It leaves with the next commit.
    pub(super) settled: bool,
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
    /// Annotations of others, and intents that cannot be read.
    kept: BTreeMap<String, String>,
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
            kept: BTreeMap::new(),
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

    /// Whether there is an intent of the claim, be it settled.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.entries.contains_key(&name_of(uid))
    }

    /// Since which change all that the intent says is in it.
    pub(super) fn holds(&self, intent: &Intent) -> Option<u64> {
        let entry = self.entries.get(&name_of(intent.uid()))?;
        (!entry.settled && entry.intent.covers(intent)).then_some(entry.since)
    }

    /// Whether the API server has the claim's intent.
    pub(super) fn is_durable(&self, uid: &str) -> bool {
        let entry = self.entries.get(&name_of(uid));
        entry.is_some_and(|entry| !entry.settled && entry.since <= self.durable)
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

    pub(super) fn intents(&self) -> impl Iterator<Item = &Arc<Intent>> {
        let open = self.entries.values().filter(|entry| !entry.settled);
        open.map(|entry| &entry.intent)
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

    /// Bytes of all annotations if an intent were added; `None` if it cannot be, since another text
    /// has the name of its terms.
    pub(super) fn size_with(&self, intent: &Intent, encoded: &Encoded) -> Option<usize> {
        let name = name_of(intent.uid());
        let others = self.entries.iter().filter(|(other, _)| **other != name);
        let mut shared: BTreeMap<&str, &str> = BTreeMap::new();
        let mut size = FOR_HEADER + name.len() + encoded.text.len();
        let new = encoded.shared.iter();
        for (name, terms) in new.chain(
            others
                .clone()
                .flat_map(|(_, entry)| entry.encoded.shared.iter()),
        ) {
            if shared
                .insert(name, terms)
                .is_some_and(|other| *other != **terms)
            {
                return None;
            }
        }
        size += shared
            .iter()
            .map(|(name, terms)| TERMS.len() + name.len() + terms.len())
            .sum::<usize>();
        size += others
            .map(|(name, entry)| name.len() + entry.encoded.text.len())
            .sum::<usize>();
        size += self
            .kept
            .iter()
            .map(|(name, text)| name.len() + text.len())
            .sum::<usize>();
        Some(size)
    }

    pub(super) fn put(&mut self, intent: Arc<Intent>, encoded: Encoded, change: u64) {
        let entry = Entry {
            encoded,
            since: change,
            settled: false,
            intent,
        };
        self.entries.insert(name_of(entry.intent.uid()), entry);
        self.changed = change;
        self.urgent = change;
    }

    /// Whether this is what the object says, or is about to say, of the claim.
    pub(super) fn says(&self, intent: &Intent) -> bool {
        let entry = self.entries.get(&name_of(intent.uid()));
        entry.is_some_and(|entry| !entry.settled && *entry.intent == *intent)
    }

    /// The same as [`put`](Self::put), but nobody waits for it.
    pub(super) fn amend(&mut self, intent: Arc<Intent>, encoded: Encoded, change: u64) {
        let urgent = self.urgent;
        self.put(intent, encoded, change);
        self.urgent = urgent;
    }

    /// The intent leaves with the next commit.
    pub(super) fn settle(&mut self, uid: &str, change: u64) {
        let entry = self.entries.get_mut(&name_of(uid));
        if let Some(entry) = entry.filter(|entry| !entry.settled) {
            entry.settled = true;
            entry.since = change;
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
    pub(super) fn annotations(&self, header: Header) -> BTreeMap<String, String> {
        let mut all = self.kept.clone();
        all.insert(HEADER.to_owned(), header.text());
        for (name, entry) in self.entries.iter().filter(|(_, entry)| !entry.settled) {
            all.insert(name.clone(), entry.encoded.text.to_string());
            for (name, terms) in &entry.encoded.shared {
                all.insert(format!("{TERMS}{name}"), terms.to_string());
            }
        }
        all
    }

    pub(super) fn labels(&self) -> &Value {
        &self.labels
    }

    /// Nothing is in it that this process wants.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Takes over what another process has left: the intents, and what cannot be read, and why.
    pub(super) fn adopt(
        &mut self,
        found: Option<Found>,
        change: u64,
    ) -> (Vec<Arc<Intent>>, Vec<String>) {
        let (mut adopted, mut broken) = (Vec::new(), Vec::new());
        self.make_anew(None, change);
        let Some(found) = found else {
            return (adopted, broken);
        };
        for (name, text) in intents_of(&found) {
            match Intent::decode(text, |terms| terms_of(&found, terms)) {
                // What this process wants is newer.
                Ok(_) if self.entries.contains_key(name) => {}
                Ok(intent) if name_of(intent.uid()) == *name => {
                    let encoded = intent.encode();
                    let intent = Arc::new(intent);
                    adopted.push(Arc::clone(&intent));
                    self.put(intent, encoded, change);
                }
                Ok(_) => broken.push(format!("{name}: it is of another claim")),
                Err(error) => broken.push(format!("{name}: {error}")),
            }
        }
        self.keep(found);
        (adopted, broken)
    }

    /// Nothing of what this process wrote is there any more.
    pub(super) fn make_anew(&mut self, found: Option<Found>, change: u64) {
        self.stored = Stored::Absent;
        self.durable = 0;
        self.changed = change;
        self.urgent = change;
        if let Some(found) = found {
            self.keep(found);
        }
    }

    /// Takes in what the object is, which this process has written and others may have edited: what
    /// they took out is forgotten. Returns the claims' UIDs.
    pub(super) fn merge(&mut self, found: Found, commit: u64) -> Vec<Text> {
        // It may be less than was thought, if somebody brought back what it was before.
        self.committed(commit);
        let gone = |(name, entry): &(&String, &Entry)| {
            !entry.settled && entry.since <= commit && !found.annotations.contains_key(*name)
        };
        let gone: Vec<String> = { self.entries.iter().filter(gone) }
            .map(|(name, _)| name.clone())
            .collect();
        let gone = gone.iter().filter_map(|name| self.entries.remove(name));
        let forgotten = gone.map(|entry| entry.intent.uid().into()).collect();
        self.keep(found);
        forgotten
    }

    /// Keeps what is not this process's to change.
    fn keep(&mut self, found: Found) {
        let entries = &self.entries;
        let mut kept = BTreeSet::new();
        for (name, text) in intents_of(&found) {
            // Readable ones that are not known here are settled.
            let known = entries.contains_key(name);
            if !known && let Err(_) = Intent::decode(text, |terms| terms_of(&found, terms)) {
                kept.insert(name.clone());
                // Whoever mends it needs them.
                kept.extend(
                    { found.annotations.keys() }
                        .filter(|name| {
                            { name.strip_prefix(TERMS) }.is_some_and(|terms| text.contains(terms))
                        })
                        .cloned(),
                );
            }
        }
        let ours =
            |name: &str| name == HEADER || name.starts_with(INTENT) || name.starts_with(TERMS);
        self.kept = { found.annotations.into_iter() }
            .filter(|(name, _)| kept.contains(name) || !ours(name))
            .collect();
        self.labels = found.labels;
        self.stored = Stored::Version(found.version);
    }
}

fn intents_of(found: &Found) -> impl Iterator<Item = (&String, &String)> {
    let all = found.annotations.iter();
    all.filter(|(name, _)| name.starts_with(INTENT))
}

fn terms_of<'a>(found: &'a Found, name: &str) -> Option<&'a str> {
    let text = found.annotations.get(&format!("{TERMS}{name}"));
    text.map(String::as_str)
}

/// Name of the annotation for a claim. UIDs are made by the API server and can be part of one; should
/// one day another be met, it is named after its hash.
fn name_of(uid: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = uid.as_bytes();
    let fits = bytes.len() <= 63 && bytes.iter().copied().all(plain);
    match fits && edge(bytes.first()) && edge(bytes.last()) {
        true => format!("{INTENT}{uid}"),
        false => format!("{INTENT}{:016x}", fnv1a(uid)),
    }
}
