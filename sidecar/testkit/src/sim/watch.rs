//! One watch of a simulated process: the real cache's store, filled by a list part by part, then fed from
//! the server's log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sidecar::kube::cache::store::{Change, Store};
use sidecar::kube::key::Key;

use super::Dice;

type Text = Arc<str>;

/// An object and its resource version.
pub type Versioned<T> = (u64, T);

/// One kind of objects in a process.
#[derive(Debug)]
pub struct Watch<T> {
    /// The objects that the process knows.
    pub slots: Store<T>,
    /// This watch's position in the server's log.
    pub cursor: usize,
    /// Whether a list was complete once.
    pub synced: bool,
    listing: Option<Listing<T>>,
}

/// A list in progress. Work goes on meanwhile, and events wait.
#[derive(Debug)]
enum Listing<T> {
    /// The list was requested.
    Asked,
    /// The server has read the list, all at once; it arrives object by object.
    Read {
        left: VecDeque<(Text, Versioned<T>)>,
        version: u64,
    },
}

/// A part of a list.
#[derive(Debug)]
pub enum Part<T> {
    /// The server reads the objects now.
    Read,
    /// Objects arrived, with these changes.
    Arrived(Vec<Change<T>>),
    /// An object of this name arrived without a change to report.
    Passed(Text),
}

impl<T> Default for Watch<T> {
    fn default() -> Self {
        Self::over(Store::new())
    }
}

impl<T> Watch<T> {
    /// A watch without objects.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps wanted objects, and those that were requested.
    pub fn only(wanted: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        Self::over(Store::new().only(wanted))
    }

    fn over(slots: Store<T>) -> Self {
        Self {
            slots,
            cursor: 0,
            synced: false,
            listing: None,
        }
    }

    /// The record of this object.
    pub fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.slots.get(name)
    }

    /// Whether a list is in progress.
    pub fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// Requests a list of everything, in place of one in progress.
    pub fn ask_for_list(&mut self) {
        self.slots.begin_list();
        self.listing = Some(Listing::Asked);
    }

    /// Lists everything that the process keeps, in one consistent read as of `now`, all of which arrives
    /// at once.
    pub fn list<O>(
        &mut self,
        objects: &BTreeMap<Text, Versioned<O>>,
        (end, now): (usize, u64),
        keep: impl Fn(&O) -> Option<T>,
    ) -> Vec<Change<T>> {
        self.cursor = end;
        self.slots.begin_list();
        let mut changes = Vec::new();
        for (name, (version, object)) in objects {
            changes.extend(self.slots.upsert_with(key(name), *version, || keep(object)));
        }
        changes.extend(self.slots.finish_list(now));
        changes
    }

    /// Applies an event of the watch; `None` is the object's deletion.
    pub fn observe(&mut self, name: &str, object: Option<T>, version: u64) -> Option<Change<T>> {
        match object {
            Some(object) => self.slots.upsert(key(name), object, version),
            None => self.slots.delete(key(name), version),
        }
    }
}

impl<T: Clone> Watch<T> {
    /// Begins a list of everything, which is one consistent read: its parts arrive in the order of names.
    pub fn begin_list<E>(&mut self, objects: &BTreeMap<Text, Versioned<T>>, log: &[Versioned<E>]) {
        self.ask_for_list();
        let all = objects.iter();
        let all = all.map(|(name, object)| (name.clone(), object.clone()));
        self.read(all.collect(), log);
    }

    fn read<E>(&mut self, left: VecDeque<(Text, Versioned<T>)>, log: &[Versioned<E>]) {
        self.cursor = log.len();
        let version = log.last().map_or(0, |(version, _)| *version);
        self.listing = Some(Listing::Read { left, version });
    }

    /// The next changes of the list in progress, if any.
    pub fn page(&mut self) -> Vec<Change<T>> {
        match self.next_part() {
            Some(Part::Arrived(changes)) => changes,
            Some(Part::Read | Part::Passed(_)) | None => Vec::new(),
        }
    }

    /// The next part of the requested list; `None` if there is none. Its objects arrive from the last
    /// name to the first.
    pub fn go_on_listing<E>(
        &mut self,
        objects: &BTreeMap<Text, Versioned<T>>,
        log: &[Versioned<E>],
    ) -> Option<Part<T>> {
        if !matches!(self.listing, Some(Listing::Asked)) {
            return self.next_part();
        }
        let all = objects.iter().rev();
        let all = all.map(|(name, object)| (name.clone(), object.clone()));
        self.read(all.collect(), log);
        Some(Part::Read)
    }

    fn next_part(&mut self) -> Option<Part<T>> {
        let (left, version) = match &mut self.listing {
            Some(Listing::Read { left, version }) => (left, *version),
            Some(Listing::Asked) | None => return None,
        };
        let Some((name, (version, object))) = left.pop_front() else {
            self.listing = None;
            self.synced = true;
            return Some(Part::Arrived(self.slots.finish_list(version)));
        };
        Some(match self.slots.upsert(key(&name), object, version) {
            None if self.slots.is_untold(&name) => Part::Passed(name),
            change => Part::Arrived(change.into_iter().collect()),
        })
    }
}

/// Position in the log of the event that a watch brings now: the next one of its kind, to which `cursor`
/// advances; or, with `again`, perhaps one that it brought before.
pub fn next_event<E>(
    dice: &mut Dice,
    log: &[Versioned<E>],
    cursor: &mut usize,
    again: bool,
    is_of: impl Fn(&E) -> bool,
) -> Option<usize> {
    if again && *cursor > 0 && dice.one_in(4) {
        let at = dice.below(*cursor);
        return log
            .get(at)
            .is_some_and(|(_, event)| is_of(event))
            .then_some(at);
    }
    let mut left = log.iter().enumerate().skip(*cursor);
    let (at, _) = left.find(|(_, (_, event))| is_of(event))?;
    *cursor = at + 1;
    Some(at)
}

/// The cache's key of an object, whose namespace is part of `name`.
///
/// # Panics
/// If no object can have such a name.
#[must_use]
pub fn key(name: &str) -> Key {
    let key = match name.split_once('/') {
        Some((namespace, name)) => Key::new(Some(namespace), name),
        None => Key::new(None, name),
    };
    key.expect("a name of an object")
}
