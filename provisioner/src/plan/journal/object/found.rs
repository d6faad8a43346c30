//! An object as it is found, and what of it counts: what other processes left in it, and what people did
//! to it.
//!
//! An object is read only when it is taken over, or was changed by somebody else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::annotation::Annotation;
use super::super::intent::Intent;
use super::{Entry, HEADER, INTENT, Object, RESTORED, Stored, TERMS};
use crate::model::Text;
use crate::plan::request::PinnedRequest;

/// An object as the API server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub version: String,
    /// `metadata.annotations`
    pub annotations: BTreeMap<String, String>,
    /// What of its metadata is kept as it is.
    pub kept: KeptMetadata,
}

/// Metadata that is somebody else's: a write replaces the whole object, and must not lose it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeptMetadata {
    /// `metadata.labels`
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `metadata.ownerReferences`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<Value>,
    /// `metadata.finalizers`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// Requests that somebody took out of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// `metadata.uid` of the claim.
    pub uid: Text,
    /// What was asked for it.
    pub requests: Vec<Arc<PinnedRequest>>,
}

impl Object {
    /// Takes over what another process has left: the intents, and what is kept without being acted on, and
    /// why.
    pub(in crate::plan::journal) fn adopt(
        &mut self,
        found: Option<Found>,
        change: u64,
    ) -> (Vec<Arc<Intent>>, Vec<String>) {
        let (mut adopted, mut broken) = (Vec::new(), Vec::new());
        self.make_anew(None, change);
        let Some(mut found) = found else {
            return (adopted, broken);
        };
        if found.is_copy() {
            broken.extend(found.set_apart());
        }
        for (name, text) in intents_of(&found) {
            match read(&found, name, text) {
                Ok((intent, _)) if self.has_settled(&intent) => {}
                Ok((intent, order)) => {
                    let intent = Arc::new(intent);
                    adopted.push(Arc::clone(&intent));
                    self.put_beside(intent, order, change);
                }
                Err(error) => broken.push(format!("{name}: {error}")),
            }
        }
        self.keep(found);
        (adopted, broken)
    }

    /// Whether this process has found out what came of all that the intent says, and not written it yet.
    fn has_settled(&self, intent: &Intent) -> bool {
        let entry = self.entries.get(&intent.annotation());
        let settled = entry.filter(|entry| entry.settled);
        settled.is_some_and(|entry| intent.requests().all(|asked| entry.intent.has(asked)))
    }

    /// Takes in what another process has left of a claim, which is owed beside what this process is about to ask.
    /// Should both be too large, that is not asked, and leaves.
    fn put_beside(&mut self, left: Arc<Intent>, order: u64, change: u64) {
        let (intent, order) = match self.open(&left.annotation()) {
            None => (left, order),
            Some(wanted) => (Arc::new(wanted.intent.and(&left)), wanted.order),
        };
        let encoded = intent.encode(order);
        self.put(intent, encoded, order, change);
    }

    /// Nothing of what this process wrote is there any more.
    pub(in crate::plan::journal) fn make_anew(&mut self, found: Option<Found>, change: u64) {
        self.stored = Stored::Absent;
        self.uid.clear();
        self.durable = 0;
        self.changed = change;
        self.urgent = change;
        if let Some(found) = found {
            self.keep(found);
        }
    }

    /// Takes in what the object is, which this process has written and others may have edited: what
    /// they took out is forgotten. Returns it.
    pub(in crate::plan::journal) fn merge(&mut self, found: Found, commit: u64) -> Vec<Forgotten> {
        // It may be less than was thought, if somebody brought back what it was before.
        self.committed(commit);
        let gone = |(name, entry): &(&String, &Entry)| {
            !entry.settled && entry.first <= commit && !found.annotations.contains_key(*name)
        };
        let gone: Vec<String> = { self.entries.iter().filter(gone) }
            .map(|(name, _)| name.clone())
            .collect();
        let gone = gone.iter().filter_map(|name| self.drop_entry(name));
        let forgotten = gone.map(|entry| Forgotten {
            uid: entry.intent.uid().into(),
            requests: entry.intent.requests().cloned().collect(),
        });
        let forgotten = forgotten.collect();
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
            if !known && read(&found, name, text).is_err() {
                kept.insert(name.clone());
                // Whoever mends it needs them.
                kept.extend(
                    { found.annotations.keys() }
                        .filter(|name| {
                            name.strip_prefix(TERMS)
                                .is_some_and(|terms| text.contains(terms))
                        })
                        .cloned(),
                );
            }
        }
        let ours =
            |name: &str| name == HEADER || name.starts_with(INTENT) || name.starts_with(TERMS);
        self.size -= self.size_of_all_kept();
        self.kept = { found.annotations.into_iter() }
            .filter(|(name, _)| kept.contains(name) || !ours(name))
            .map(|(name, text)| (name.clone(), Annotation::new(name, text)))
            .collect();
        self.size += self.size_of_all_kept();
        self.metadata = found.kept;
        self.uid = found.uid;
        self.stored = Stored::Version(found.version);
    }
}

impl Found {
    /// Gives the intents names that nobody reads: their volumes may be in use where they come from, and
    /// whether they are nobody but people can find out. Returns what to tell them.
    fn set_apart(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        for (name, text) in std::mem::take(&mut self.annotations) {
            let name = match name.strip_prefix(INTENT) {
                Some(uid) => {
                    let apart = format!("{RESTORED}{uid}");
                    told.push(format!(
                        "{apart}: the Lease is from a backup or another cluster, where the volume may be in use"
                    ));
                    apart
                }
                None => name,
            };
            self.annotations.insert(name, text);
        }
        told
    }
}

fn intents_of(found: &Found) -> impl Iterator<Item = (&String, &String)> {
    let all = found.annotations.iter();
    all.filter(|(name, _)| name.starts_with(INTENT))
}

/// The intent that an annotation says, with its order.
fn read(found: &Found, name: &str, text: &str) -> Result<(Intent, u64), String> {
    let (intent, order) = Intent::decode(text, |terms| terms_of(found, terms))?;
    if intent.annotation() == name {
        Ok((intent, order))
    } else {
        Err("it is of another claim".to_owned())
    }
}

fn terms_of<'a>(found: &'a Found, name: &str) -> Option<&'a str> {
    let text = found.annotations.get(&format!("{TERMS}{name}"));
    text.map(String::as_str)
}
