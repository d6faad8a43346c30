//! An object as it was read, and which parts of it count: other processes' entries, and people's edits.
//!
//! An object is read only when it is taken over, or when somebody else has changed it.

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
    /// Metadata that the next write keeps.
    pub kept: KeptMetadata,
}

/// Metadata of others: a write replaces the whole object, and must not lose it.
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

/// Requests that somebody removed from the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// `metadata.uid` of the claim.
    pub uid: Text,
    /// The removed requests.
    pub requests: Vec<Arc<PinnedRequest>>,
}

impl Object {
    /// Takes over the entries of another process. Returns the intents, and the errors of those that are kept without
    /// being acted on.
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

    /// Whether this process knows the outcome of all requests of the intent, and has not committed that yet.
    fn has_settled(&self, intent: &Intent) -> bool {
        let entry = self.entries.get(&intent.annotation());
        let settled = entry.filter(|entry| entry.settled);
        settled.is_some_and(|entry| intent.requests().all(|asked| entry.intent.has(asked)))
    }

    /// Adds another process's entry of a claim, unsettled beside the request that this process is about to send. If
    /// both together are too large, the process's own request is not sent, and leaves.
    fn put_beside(&mut self, left: Arc<Intent>, order: u64, change: u64) {
        let (intent, order) = match self.open(&left.annotation()) {
            None => (left, order),
            Some(wanted) => (Arc::new(wanted.intent.and(&left)), wanted.order),
        };
        let encoded = intent.encode(order);
        self.put(intent, encoded, order, change);
    }

    /// Resets the state: nothing that this process wrote is there any more.
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

    /// Merges the object, which this process has written and others may have edited. Forgets the requests that they
    /// removed, and returns them.
    pub(in crate::plan::journal) fn merge(&mut self, found: Found, commit: u64) -> Vec<Forgotten> {
        // The header may have an older commit than expected, if somebody restored an earlier state.
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

    /// Keeps the annotations and metadata that are not this process's to change.
    fn keep(&mut self, found: Found) {
        let entries = &self.entries;
        let mut kept = BTreeSet::new();
        for (name, text) in intents_of(&found) {
            // Readable intents without an entry here are settled.
            let known = entries.contains_key(name);
            if !known && read(&found, name, text).is_err() {
                kept.insert(name.clone());
                // Whoever repairs the intent needs its terms.
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
    /// Renames the intents so that no process acts on them: their volumes may be in use in the cluster that they come
    /// from, and only people can find out whether they are orphans. Returns the messages for the log.
    fn set_apart(&mut self) -> Vec<String> {
        let mut errors = Vec::new();
        for (name, text) in std::mem::take(&mut self.annotations) {
            let name = match name.strip_prefix(INTENT) {
                Some(uid) => {
                    let apart = format!("{RESTORED}{uid}");
                    errors.push(format!(
                        "{apart}: the Lease is from a backup or another cluster, where the volume may be in use"
                    ));
                    apart
                }
                None => name,
            };
            self.annotations.insert(name, text);
        }
        errors
    }
}

fn intents_of(found: &Found) -> impl Iterator<Item = (&String, &String)> {
    let all = found.annotations.iter();
    all.filter(|(name, _)| name.starts_with(INTENT))
}

/// The intent of an annotation, with its order.
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
