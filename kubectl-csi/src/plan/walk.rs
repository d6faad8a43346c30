//! The walk from a subject through the objects behind it to the causes.
//!
//! A decision reads the objects from [`Seen`]. A missing object stops it, becomes a request, and the decision starts
//! over once the object is there: each step can be written as if everything had been read.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::index;
pub(super) use super::lookup::{Counted, Listed, Lookup, ObjectSelector, events_of, many, one};
use super::seen::{Answer, Record, Seen, Want};
use super::store::By;
use super::verdict::{Finding, PathStep, Verdict};
use crate::model::{Event, Kind, Ref};

/// Why a decision stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// An object has to be read first.
    Look,
    /// The cause was found, and the walk is to end with the first one.
    CauseFound,
}

/// A decision, or why it stopped.
pub(super) type Step<T = ()> = Result<T, Stop>;

/// One walk, with everything that it has found.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    pub(super) seen: &'a Seen,
    pub(super) now: Timestamp,
    /// Continues after the first cause.
    all: bool,
    pub(super) wants: BTreeSet<Want>,
    pub(super) causes: Vec<Finding>,
    pub(super) path: Vec<PathStep>,
    pub(super) since: Option<Timestamp>,
    pub(super) last_words: Option<String>,
    /// An object on the path has not reached its desired state.
    pub(super) unfinished: bool,
    pub(super) absent: bool,
    unseen: BTreeSet<(String, String)>,
}

impl<'a> Walk<'a> {
    /// A walk at its start.
    pub(super) fn new(seen: &'a Seen, now: Timestamp, all: bool) -> Self {
        Self {
            seen,
            now,
            all,
            wants: BTreeSet::new(),
            causes: Vec::new(),
            path: Vec::new(),
            since: None,
            last_words: None,
            unfinished: false,
            absent: false,
            unseen: BTreeSet::new(),
        }
    }

    fn note(&mut self, want: &Want, why: &str) {
        let place = match &want.namespace {
            Some(namespace) => format!(" in {namespace}"),
            None => String::new(),
        };
        let what = match &want.name {
            Some(name) => format!("{} {name}{place}", want.kind.noun()),
            None => format!("{}{place}", want.kind.plural()),
        };
        self.unseen.insert((what, why.to_owned()));
    }

    /// Requests all objects that the next steps need, so that one round reads them all.
    ///
    /// # Errors
    /// One of them has not been read yet.
    pub(super) fn expect(&mut self, wants: impl IntoIterator<Item = Want>) -> Step {
        let missing = wants.into_iter();
        let missing = missing.filter(|want| self.seen.standing(want).is_none());
        let before = self.wants.len();
        let missing: Vec<_> = missing.collect();
        self.wants.extend(missing);
        if self.wants.len() > before {
            Err(Stop::Look)
        } else {
            Ok(())
        }
    }

    /// Looks up one object.
    ///
    /// # Errors
    /// It has not been read yet.
    pub(super) fn get<T: Record>(&mut self, namespace: &str, name: &str) -> Step<Lookup<'a, T>> {
        if let Some(object) = T::store(self.seen).get(namespace, name) {
            return Ok(Lookup::Found(object));
        }
        let want = one(&Ref::new(T::KIND, namespace, name));
        match self.seen.standing(&want) {
            Some(Answer::Whole | Answer::NotServed) => Ok(Lookup::Missing),
            Some(Answer::Refused(why)) => {
                self.note(&want, &why);
                Ok(Lookup::Unseen)
            }
            None => {
                self.wants.insert(want);
                Err(Stop::Look)
            }
        }
    }

    /// The subject itself. If it does not exist, the path says so and the walk ends; the caller handles a kind that the
    /// API server does not serve.
    ///
    /// # Errors
    /// It has not been read yet.
    pub(super) fn subject<T: Record>(&mut self, depth: usize, at: &Ref) -> Step<Option<&'a T>> {
        match self.get::<T>(&at.namespace, &at.name)? {
            Lookup::Found(object) => return Ok(Some(object)),
            Lookup::Unseen => {
                self.at(depth, at, "may not be read");
                self.unfinished = true;
            }
            Lookup::Missing => {
                self.at(depth, at, "does not exist");
                self.absent = true;
            }
        }
        Ok(None)
    }

    /// All objects of a kind in the cluster.
    ///
    /// # Errors
    /// They have not been read yet.
    pub(super) fn all<T: Record>(&mut self) -> Step<Listed<'a, T>> {
        self.list::<T>(&ObjectSelector::all())
    }

    /// The objects that a selector matches.
    ///
    /// # Errors
    /// The list has not been read yet.
    pub(super) fn list<T: Record>(&mut self, selector: &ObjectSelector) -> Step<Listed<'a, T>> {
        let whole = self.is_whole::<T>(selector)?;
        let all = T::store(self.seen).list(selector.namespace.as_deref());
        let items = all.filter(|object| selector.fits(*object)).collect();
        Ok(Listed { items, whole })
    }

    /// Those of a list with this key, without iterating over the others.
    ///
    /// # Errors
    /// The list has not been read yet.
    pub(super) fn by<T: Record>(
        &mut self,
        selector: &ObjectSelector,
        by: By,
        key: &str,
    ) -> Step<Listed<'a, T>> {
        let whole = self.is_whole::<T>(selector)?;
        let (all, _) = T::store(self.seen).by(T::KEYS, by, key);
        let items = all.filter(|object| selector.fits(*object)).collect();
        Ok(Listed { items, whole })
    }

    /// Number of objects in the cluster with this key.
    ///
    /// # Errors
    /// The list has not been read yet.
    pub(super) fn count<T: Record>(&mut self, by: By, key: &str) -> Step<Counted> {
        let whole = self.is_whole::<T>(&ObjectSelector::all())?;
        let (_, all) = T::store(self.seen).by(T::KEYS, by, key);
        Ok(Counted { all, whole })
    }

    /// The largest objects of a group, one for each set of alike ones.
    ///
    /// # Errors
    /// The list has not been read yet.
    pub(super) fn largest<T: Record>(&mut self, group: &str) -> Step<Listed<'a, T>> {
        let whole = self.is_whole::<T>(&ObjectSelector::all())?;
        let items = T::store(self.seen).largest(T::KEYS, group).collect();
        Ok(Listed { items, whole })
    }

    /// The first `most` objects with this key.
    ///
    /// # Errors
    /// The list has not been read yet.
    pub(super) fn first<T: Record>(&mut self, by: By, key: &str, most: usize) -> Step<Vec<&'a T>> {
        self.is_whole::<T>(&ObjectSelector::all())?;
        let (all, _) = T::store(self.seen).by(T::KEYS, by, key);
        Ok(all.take(most).collect())
    }

    /// Whether a whole list was read; notes why not.
    fn is_whole<T: Record>(&mut self, selector: &ObjectSelector) -> Step<bool> {
        let want = many(T::KIND, selector);
        match self.seen.standing(&want) {
            Some(Answer::Whole | Answer::NotServed) => Ok(true),
            Some(Answer::Refused(why)) => {
                self.note(&want, &why);
                Ok(false)
            }
            None => {
                self.wants.insert(want);
                Err(Stop::Look)
            }
        }
    }

    /// Whether the API server serves a kind.
    ///
    /// # Errors
    /// It was not requested yet.
    pub(super) fn is_served(&mut self, kind: Kind, namespace: &str) -> Step<bool> {
        let namespace = kind.is_namespaced().then(|| namespace.to_owned());
        let selector = ObjectSelector {
            namespace,
            fields: Vec::new(),
        };
        let want = many(kind, &selector);
        match self.seen.standing(&want) {
            Some(answer) => Ok(answer != Answer::NotServed),
            None => {
                self.wants.insert(want);
                Err(Stop::Look)
            }
        }
    }

    /// Events about an object, the newest first.
    ///
    /// # Errors
    /// They have not been read yet.
    pub(super) fn events(&mut self, about: &Ref) -> Step<Vec<&'a Event>> {
        let selector = events_of(about);
        let namespace = selector.namespace.as_deref().unwrap_or_default();
        let key = index::about(about.kind.name(), namespace, &about.name);
        let events = self.by::<Event>(&selector, By::Of, &key)?;
        let mut events = events.items;
        // Events of an earlier object with the same name do not count. Kubelet writes another UID for nodes.
        let uid = { self.seen.uid(about) }.filter(|_| about.kind != Kind::Node);
        events.retain(|event| {
            let of = &*event.involved_object.uid;
            of.is_empty() || uid.is_none_or(|uid| uid == of)
        });
        events.sort_by_key(|event| std::cmp::Reverse(event.last()));
        Ok(events)
    }

    /// Adds a step to the path.
    pub(super) fn at(&mut self, depth: usize, object: &Ref, says: impl Into<String>) {
        self.path.push(PathStep {
            depth,
            object: object.clone(),
            says: says.into(),
            cause: None,
        });
    }

    /// Adds a cause, at the last step of the path.
    ///
    /// # Errors
    /// Ends the walk, unless all causes are wanted.
    pub(super) fn tell(&mut self, finding: Finding) -> Step {
        if { self.causes.iter() }.any(|one| one.id == finding.id && one.object == finding.object) {
            return Ok(());
        }
        if let Some(last) = self.path.last_mut() {
            last.cause = last.cause.or(Some(finding.id));
        }
        self.causes.push(finding);
        if self.all {
            Ok(())
        } else {
            Err(Stop::CauseFound)
        }
    }

    /// Time since then.
    pub(super) fn ago(&self, time: Timestamp) -> SignedDuration {
        self.now.duration_since(time)
    }

    /// Whether it is at least so many seconds ago; also true for an unknown time.
    pub(super) fn is_older(&self, time: Option<Timestamp>, seconds: i64) -> bool {
        time.is_none_or(|time| self.ago(time).as_secs() >= seconds)
    }

    /// The requests that failed, and why.
    pub(super) fn unseen(self) -> BTreeSet<(String, String)> {
        self.unseen
    }

    /// The answer for `subject`, once every request is answered.
    pub(super) fn verdict(self, subject: &Ref) -> Verdict {
        use super::verdict::State;
        let fresh = self
            .since
            .is_some_and(|since| self.ago(since).as_secs() < FRESH);
        let blind = !self.unseen.is_empty();
        let state = match self.causes.first() {
            Some(first) if first.waits => State::Waits,
            Some(_) => State::Stuck,
            None if self.absent => State::Unknown,
            None if !self.unfinished => State::Fine,
            None if fresh => State::Waits,
            None if blind && self.last_words.is_none() => State::Unknown,
            None => State::Stuck,
        };
        Verdict {
            subject: subject.clone(),
            state,
            since: self.since,
            causes: self.causes,
            path: self.path,
            last_words: self.last_words,
            unseen: self.unseen.into_iter().collect(),
            controllers: Vec::new(),
            absent: self.absent,
            now: self.now,
        }
    }
}

/// Seconds within which an unfinished object counts as waiting and not as stuck: caches, queues and calls take their
/// time.
pub(super) const FRESH: i64 = 30;
