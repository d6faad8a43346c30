//! Looking at objects on the way from a subject to what holds it up.
//!
//! A decision reads what it needs from what was seen. What was not looked at yet stops it, is asked for, and the decision is
//! taken again from the start: each step can be written as if everything were there.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::index;
use super::seen::{Answer, Record, Seen, Want};
use super::store::By;
use super::verdict::{Finding, Station, Verdict};
pub(super) use super::which::{Counted, Got, Listed, Which, events_of, many, one};
use crate::model::{Event, Kind, Ref};

/// Why a decision stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Something has to be looked at first.
    Look,
    /// The cause was found.
    Told,
}

/// A decision, or why it stopped.
pub(super) type Step<T = ()> = Result<T, Stop>;

/// A walk, with what was said on it.
#[derive(Debug)]
pub(super) struct Way<'a> {
    pub(super) seen: &'a Seen,
    pub(super) now: Timestamp,
    /// Go on behind the first cause.
    all: bool,
    pub(super) wants: BTreeSet<Want>,
    pub(super) causes: Vec<Finding>,
    pub(super) path: Vec<Station>,
    pub(super) since: Option<Timestamp>,
    pub(super) last_words: Option<String>,
    /// Something on the way is not as it will be.
    pub(super) unfinished: bool,
    pub(super) absent: bool,
    unseen: BTreeSet<(String, String)>,
}

impl<'a> Way<'a> {
    /// At its start.
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

    /// Asks for what is going to be needed, so that one round fetches it all.
    ///
    /// # Errors
    /// Something was not looked at yet.
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

    /// One object.
    ///
    /// # Errors
    /// It was not looked at yet.
    pub(super) fn get<T: Record>(&mut self, namespace: &str, name: &str) -> Step<Got<'a, T>> {
        if let Some(object) = T::store(self.seen).get(namespace, name) {
            return Ok(Got::Found(object));
        }
        let want = one(&Ref::new(T::KIND, namespace, name));
        match self.seen.standing(&want) {
            Some(Answer::Whole | Answer::NotServed) => Ok(Got::Missing),
            Some(Answer::Refused(why)) => {
                self.note(&want, &why);
                Ok(Got::Unseen)
            }
            None => {
                self.wants.insert(want);
                Err(Stop::Look)
            }
        }
    }

    /// The object that is asked about. Where it is not there, the way says so and ends; a kind that the API server does
    /// not serve is the caller's.
    ///
    /// # Errors
    /// It was not looked at yet.
    pub(super) fn subject<T: Record>(&mut self, depth: usize, at: &Ref) -> Step<Option<&'a T>> {
        match self.get::<T>(&at.namespace, &at.name)? {
            Got::Found(object) => return Ok(Some(object)),
            Got::Unseen => {
                self.at(depth, at, "may not be read");
                self.unfinished = true;
            }
            Got::Missing => {
                self.at(depth, at, "does not exist");
                self.absent = true;
            }
        }
        Ok(None)
    }

    /// All of a kind in the cluster.
    ///
    /// # Errors
    /// They were not looked at yet.
    pub(super) fn all<T: Record>(&mut self) -> Step<Listed<'a, T>> {
        self.list::<T>(&Which::all())
    }

    /// A list.
    ///
    /// # Errors
    /// It was not looked at yet.
    pub(super) fn list<T: Record>(&mut self, which: &Which) -> Step<Listed<'a, T>> {
        let whole = self.is_whole::<T>(which)?;
        let all = T::store(self.seen).list(which.namespace.as_deref());
        let items = all.filter(|object| which.fits(*object)).collect();
        Ok(Listed { items, whole })
    }

    /// Those of a list that have this key, without going over the others.
    ///
    /// # Errors
    /// The list was not looked at yet.
    pub(super) fn by<T: Record>(
        &mut self,
        which: &Which,
        by: By,
        key: &str,
    ) -> Step<Listed<'a, T>> {
        let whole = self.is_whole::<T>(which)?;
        let (all, _) = T::store(self.seen).by(T::KEYS, by, key);
        let items = all.filter(|object| which.fits(*object)).collect();
        Ok(Listed { items, whole })
    }

    /// How many objects of the cluster have this key.
    ///
    /// # Errors
    /// They were not looked at yet.
    pub(super) fn count<T: Record>(&mut self, by: By, key: &str) -> Step<Counted> {
        let whole = self.is_whole::<T>(&Which::all())?;
        let (_, all) = T::store(self.seen).by(T::KEYS, by, key);
        Ok(Counted { all, whole })
    }

    /// The largest objects of a group: one for each that are alike.
    ///
    /// # Errors
    /// They were not looked at yet.
    pub(super) fn largest<T: Record>(&mut self, group: &str) -> Step<Listed<'a, T>> {
        let whole = self.is_whole::<T>(&Which::all())?;
        let items = T::store(self.seen).largest(T::KEYS, group).collect();
        Ok(Listed { items, whole })
    }

    /// The first of the objects with this key.
    ///
    /// # Errors
    /// They were not looked at yet.
    pub(super) fn first<T: Record>(&mut self, by: By, key: &str, most: usize) -> Step<Vec<&'a T>> {
        self.is_whole::<T>(&Which::all())?;
        let (all, _) = T::store(self.seen).by(T::KEYS, by, key);
        Ok(all.take(most).collect())
    }

    /// Whether a list was seen as a whole.
    fn is_whole<T: Record>(&mut self, which: &Which) -> Step<bool> {
        let want = many(T::KIND, which);
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
    /// It was not asked yet.
    pub(super) fn is_served(&mut self, kind: Kind, namespace: &str) -> Step<bool> {
        let namespace = kind.is_namespaced().then(|| namespace.to_owned());
        let which = Which {
            namespace,
            fields: Vec::new(),
        };
        let want = many(kind, &which);
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
    /// They were not looked at yet.
    pub(super) fn events(&mut self, about: &Ref) -> Step<Vec<&'a Event>> {
        let which = events_of(about);
        let namespace = which.namespace.as_deref().unwrap_or_default();
        let key = index::about(about.kind.name(), namespace, &about.name);
        let events = self.by::<Event>(&which, By::Of, &key)?;
        let mut events = events.items;
        // An earlier object of the same name has nothing to do with it. Kubelet gives nodes another uid.
        let uid = { self.seen.uid(about) }.filter(|_| about.kind != Kind::Node);
        events.retain(|event| {
            let of = &*event.involved_object.uid;
            of.is_empty() || uid.is_none_or(|uid| uid == of)
        });
        events.sort_by_key(|event| std::cmp::Reverse(event.last()));
        Ok(events)
    }

    /// A station on the way.
    pub(super) fn at(&mut self, depth: usize, object: &Ref, says: impl Into<String>) {
        self.path.push(Station {
            depth,
            object: object.clone(),
            says: says.into(),
            cause: None,
        });
    }

    /// A cause, found at the last station.
    ///
    /// # Errors
    /// One cause is enough.
    pub(super) fn tell(&mut self, finding: Finding) -> Step {
        if { self.causes.iter() }.any(|one| one.id == finding.id && one.object == finding.object) {
            return Ok(());
        }
        if let Some(last) = self.path.last_mut() {
            last.cause = last.cause.or(Some(finding.id));
        }
        self.causes.push(finding);
        if self.all { Ok(()) } else { Err(Stop::Told) }
    }

    /// How long ago that was.
    pub(super) fn ago(&self, time: Timestamp) -> SignedDuration {
        self.now.duration_since(time)
    }

    /// Whether that was so long ago; what nobody knows was long ago.
    pub(super) fn is_older(&self, time: Option<Timestamp>, seconds: i64) -> bool {
        time.is_none_or(|time| self.ago(time).as_secs() >= seconds)
    }

    /// What could not be looked at, and why.
    pub(super) fn unseen(self) -> BTreeSet<(String, String)> {
        self.unseen
    }

    /// The verdict about `subject`, once nothing has to be looked at.
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
            absent: self.absent,
            now: self.now,
        }
    }
}

/// Nobody calls what has waited for so many seconds stuck: caches, queues and calls take their time.
pub(super) const FRESH: i64 = 30;
