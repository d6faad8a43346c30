use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn key(name: &str) -> Key {
    Key::new(None, name).unwrap()
}

fn upserted(name: &str, old: Option<u64>, new: u64, source: Source) -> Option<Change<u64>> {
    Some(Change::Upserted {
        key: key(name),
        old: old.map(Arc::new),
        new: Arc::new(new),
        source,
    })
}

fn deleted(name: &str, old: u64) -> Change<u64> {
    Change::Deleted {
        key: key(name),
        old: Arc::new(old),
    }
}

/// A store whose records are their versions, with one object at version 10.
fn listed() -> Store<u64> {
    let mut store = Store::new();
    store.begin_list();
    let first = store.upsert(key("a"), 10, 10);
    assert_eq!(first, upserted("a", None, 10, Source::Watch));
    assert_eq!(store.finish_list(10), []);
    store
}

#[test]
fn changes_are_told_once_with_what_was_before() {
    let mut store = listed();
    assert_eq!(
        store.upsert(key("a"), 11, 11),
        upserted("a", Some(10), 11, Source::Watch)
    );
    assert_eq!(
        store.upsert(key("a"), 11, 11),
        None,
        "a relist brings it again"
    );
    assert_eq!(store.delete(key("a"), 12), Some(deleted("a", 11)));
    assert_eq!(store.delete(key("a"), 12), None);
    assert_eq!(store.len(), 0);
}

#[test]
fn a_relist_changes_in_place_and_sweeps_what_it_did_not_meet() {
    let mut store = listed();
    store.upsert(key("b"), 11, 11);
    store.upsert(key("c"), 12, 12);
    store.begin_list();
    assert_eq!(store.upsert(key("a"), 10, 10), None);
    assert_eq!(
        store.upsert(key("c"), 13, 13),
        upserted("c", Some(12), 13, Source::Watch)
    );
    assert_eq!(store.finish_list(15), [deleted("b", 11)]);
    assert_eq!(store.len(), 2);
}

#[test]
fn a_relist_that_broke_off_sweeps_nothing() {
    let mut store = listed();
    store.begin_list();
    store.begin_list();
    store.upsert(key("a"), 10, 10);
    assert_eq!(store.finish_list(15), []);
}

#[test]
fn versions_of_servers_without_etcd_are_numbers_too() {
    let mut store = listed();
    store.upsert(key("b"), 1, FIRST + 1);
    assert_eq!(store.get_versioned("b"), Some((Arc::new(1), FIRST + 1)));
    assert_eq!(store.upsert(key("b"), 2, FIRST), None, "older");
    assert_eq!(store.delete(key("b"), FIRST), None, "older");
    store.begin_list();
    assert_eq!(store.upsert(key("b"), 3, FIRST + 1), None, "known");
}

/// Every object in every cache has one.
#[test]
fn a_slot_has_no_bytes_to_spare() {
    assert_eq!(size_of::<(Key, Slot<u64>)>(), 32);
}

#[test]
fn an_object_that_became_unreadable_stays_as_it_was() {
    let mut store = listed();
    store.begin_list();
    store.keep("a");
    assert_eq!(store.finish_list(15), []);
    assert_eq!(store.get("a").map(|record| **record), Some(10));
}

#[test]
fn versions_that_are_no_numbers_are_always_news() {
    let mut store = listed();
    assert_eq!(
        store.upsert(key("a"), 1, 0),
        upserted("a", Some(10), 1, Source::Watch)
    );
    assert_eq!(
        store.upsert(key("a"), 2, 0),
        upserted("a", Some(1), 2, Source::Watch)
    );
    store.begin_write(&key("a"));
    assert_eq!(
        store.write_answered(&key("a"), 3, 0),
        upserted("a", Some(2), 3, Source::Own)
    );
    assert_eq!(
        store.upsert(key("a"), 4, 0),
        upserted("a", Some(3), 4, Source::Watch)
    );
}

#[test]
fn an_own_write_is_seen_at_once_and_its_event_is_no_news() {
    let mut store = listed();
    store.begin_write(&key("a"));
    assert_eq!(
        store.write_answered(&key("a"), 12, 12),
        upserted("a", Some(10), 12, Source::Own)
    );
    assert_eq!(
        store.upsert(key("a"), 11, 11),
        None,
        "older than what we wrote"
    );
    assert_eq!(store.get("a").map(|record| **record), Some(12));
    assert_eq!(store.upsert(key("a"), 12, 12), None);
    assert_eq!(
        store.upsert(key("a"), 13, 13),
        upserted("a", Some(12), 13, Source::Watch)
    );
}

#[test]
fn an_own_writes_event_that_comes_before_its_answer_is_no_news_either() {
    let mut store = listed();
    store.begin_write(&key("a"));
    assert_eq!(store.upsert(key("a"), 11, 11), None, "not told yet");
    assert_eq!(store.upsert(key("a"), 12, 12), None);
    assert_eq!(store.get("a").map(|record| **record), Some(12), "but seen");
    assert_eq!(
        store.write_answered(&key("a"), 12, 12),
        upserted("a", Some(10), 12, Source::Own)
    );
}

#[test]
fn news_that_came_after_an_own_write_and_before_its_answer_are_told_as_news() {
    let mut store = listed();
    store.begin_write(&key("a"));
    store.upsert(key("a"), 12, 12);
    store.upsert(key("a"), 13, 13);
    assert_eq!(
        store.write_answered(&key("a"), 12, 12),
        upserted("a", Some(10), 13, Source::Watch)
    );
}

#[test]
fn what_came_during_an_own_write_that_failed_is_told_afterwards() {
    let mut store = listed();
    store.begin_write(&key("a"));
    store.upsert(key("a"), 11, 11);
    assert_eq!(
        store.write_failed(&key("a")),
        upserted("a", Some(10), 11, Source::Watch)
    );
    store.begin_write(&key("a"));
    assert_eq!(store.write_failed(&key("a")), None);
    assert!(store.pending.is_empty());
}

#[test]
fn a_late_answer_does_not_bring_a_deleted_object_back() {
    let mut store = listed();
    store.begin_write(&key("a"));
    store.upsert(key("a"), 11, 11);
    assert_eq!(
        store.delete(key("a"), 12),
        Some(deleted("a", 10)),
        "as it was last told"
    );
    assert_eq!(store.write_answered(&key("a"), 11, 11), None);
    assert_eq!(store.len(), 0);
}

#[test]
fn an_object_this_process_created_is_seen_at_once() {
    let mut store = listed();
    store.begin_write(&key("new"));
    assert_eq!(
        store.write_answered(&key("new"), 11, 11),
        upserted("new", None, 11, Source::Own)
    );
    assert_eq!(store.upsert(key("new"), 11, 11), None);
}

#[test]
fn an_object_created_again_after_its_deletion_is_seen() {
    let mut store = listed();
    store.begin_write(&key("a"));
    assert_eq!(store.delete(key("a"), 12), Some(deleted("a", 10)));
    assert_eq!(
        store.write_answered(&key("a"), 13, 13),
        upserted("a", None, 13, Source::Own)
    );
    assert_eq!(store.delete(key("a"), 12), None, "the deletion before it");
}

#[test]
fn what_was_written_while_a_list_was_under_way_is_neither_swept_nor_set_back() {
    let mut store = listed();
    store.begin_list();
    for name in ["a", "new"] {
        store.begin_write(&key(name));
        store.write_answered(&key(name), 20, 20);
    }
    assert_eq!(store.upsert(key("a"), 10, 10), None);
    assert_eq!(store.finish_list(15), []);
    assert_eq!(store.get("a").map(|record| **record), Some(20));
    assert_eq!(store.len(), 2);
}

#[test]
fn what_was_written_and_deleted_before_a_list_is_gone_whenever_the_answer_comes() {
    let mut store = listed();
    store.begin_write(&key("new"));
    store.begin_write(&key("late"));
    store.begin_list();
    store.write_answered(&key("new"), 12, 12);
    store.upsert(key("a"), 10, 10);
    assert_eq!(store.finish_list(15), [deleted("new", 12)]);
    assert_eq!(store.write_answered(&key("late"), 13, 13), None);
    assert_eq!(store.len(), 1);
}

#[test]
fn a_list_that_began_after_a_write_is_believed_even_if_the_servers_storage_was_set_back() {
    let mut store = listed();
    for name in ["a", "new"] {
        store.begin_write(&key(name));
        store.write_answered(&key(name), 20, 20);
    }
    store.begin_list();
    assert_eq!(
        store.upsert(key("a"), 5, 5),
        upserted("a", Some(20), 5, Source::Watch)
    );
    assert_eq!(store.finish_list(15), [deleted("new", 20)]);
}

#[test]
fn two_own_writes_of_one_object_may_be_under_way() {
    let mut store = listed();
    store.begin_write(&key("a"));
    store.begin_write(&key("a"));
    store.upsert(key("a"), 11, 11);
    store.upsert(key("a"), 12, 12);
    assert_eq!(
        store.write_answered(&key("a"), 11, 11),
        upserted("a", Some(10), 12, Source::Watch)
    );
    assert_eq!(
        store.upsert(key("a"), 13, 13),
        None,
        "one is still under way"
    );
    assert_eq!(
        store.write_answered(&key("a"), 12, 12),
        upserted("a", Some(12), 13, Source::Watch)
    );
    assert!(store.pending.is_empty());
}

#[test]
fn fs_18_an_own_write_says_nothing_about_other_objects() {
    let mut store = listed();
    store.upsert(key("b"), 11, 11);
    store.begin_write(&key("a"));
    assert_eq!(
        store.write_answered_unkept(&key("a"), 14),
        Some(deleted("a", 10)),
        "nothing is kept of it any more"
    );
    assert_eq!(
        store.upsert(key("c"), 12, 12),
        upserted("c", None, 12, Source::Watch)
    );
    assert_eq!(store.delete(key("b"), 13), Some(deleted("b", 11)));
}

#[test]
fn what_an_own_write_made_uninteresting_does_not_come_back_with_an_older_event() {
    let mut store = listed();
    store.begin_write(&key("a"));
    store.write_answered_unkept(&key("a"), 14);
    assert_eq!(store.upsert(key("a"), 12, 12), None);
    assert_eq!(store.upsert_with(key("a"), 14, || None::<u64>), None);
    assert_eq!(
        store.upsert(key("a"), 15, 15),
        upserted("a", None, 15, Source::Watch)
    );
}

#[test]
fn an_object_is_told_again_after_an_own_write_of_which_nothing_was_kept() {
    let mut store = listed();
    store.begin_write(&key("a"));
    store.write_answered_unkept(&key("a"), 11);
    assert_eq!(
        store.upsert(key("a"), 12, 12),
        upserted("a", None, 12, Source::Watch),
        "no write is under way"
    );
}

#[test]
fn answers_that_come_late_do_not_bring_back_what_the_watch_said_was_gone() {
    let mut store = listed();
    store.begin_write(&key("b"));
    store.begin_write(&key("b"));
    assert_eq!(store.upsert(key("b"), 12, 12), None, "told with the answer");
    assert_eq!(store.delete(key("b"), 13), None, "nobody was told of it");
    assert_eq!(store.write_answered_unkept(&key("b"), 11), None);
    assert_eq!(store.write_answered(&key("b"), 12, 12), None);
    assert_eq!(store.len(), 1);
    assert!(store.pending.is_empty());
}

#[test]
fn a_deletion_seen_before_an_own_answer_is_not_undone_by_an_event_that_comes_again() {
    let mut store = listed();
    store.upsert(key("b"), 11, 11);
    assert_eq!(store.delete(key("b"), 12), Some(deleted("b", 11)));
    assert_eq!(store.upsert(key("b"), 11, 11), None);
    for version in 13..2_000 {
        store.upsert(key("c"), version, version);
        store.delete(key("c"), version);
    }
    assert!(store.deletions.len() <= 512, "bounded");
}

/// A store that keeps no even version unless requested, listed at 10.
fn picky() -> Store<u64> {
    let mut store = Store::new().only(|version| is_wanted(*version));
    store.begin_list();
    assert_eq!(store.upsert(key("a"), 8, 8), None);
    assert_eq!(store.finish_list(10), []);
    store
}

#[test]
fn of_what_is_not_wanted_nothing_is_kept_and_nothing_forgotten() {
    let mut store = picky();
    for version in [12, 14] {
        assert_eq!(store.upsert(key("a"), version, version), None);
    }
    assert_eq!((store.len(), store.deletions.len()), (0, 0));
    assert_eq!(
        store.upsert(key("a"), 15, 15),
        upserted("a", None, 15, Source::Watch)
    );
    assert_eq!(
        store.upsert(key("a"), 16, 16),
        upserted("a", Some(15), 16, Source::Watch),
        "what was known stays known"
    );
    assert_eq!(store.delete(key("a"), 17), Some(deleted("a", 16)));
}

#[test]
fn what_was_not_wanted_is_known_once_it_was_asked_for() {
    let mut store = picky();
    store.begin_write(&key("a"));
    assert_eq!(
        store.write_answered(&key("a"), 8, 8),
        upserted("a", None, 8, Source::Own),
        "older than the list, which left it out"
    );
    store.begin_list();
    assert_eq!(store.upsert(key("a"), 8, 8), None);
    assert_eq!(store.finish_list(20), []);
    assert_eq!(
        store.upsert(key("a"), 22, 22),
        upserted("a", Some(8), 22, Source::Watch)
    );
}

#[test]
fn news_of_what_is_being_asked_for_is_no_deletion() {
    let mut store = picky();
    store.begin_write(&key("a"));
    assert_eq!(store.upsert(key("a"), 12, 12), None, "told with the answer");
    assert_eq!(
        store.write_answered(&key("a"), 8, 8),
        upserted("a", None, 12, Source::Watch)
    );
    store.begin_write(&key("b"));
    store.upsert(key("b"), 14, 14);
    assert_eq!(store.delete(key("b"), 16), None);
    assert_eq!(store.write_answered(&key("b"), 14, 14), None, "it is gone");
    assert_eq!(store.get("b"), None);
    store.begin_write(&key("c"));
    store.upsert(key("c"), 18, 18);
    assert_eq!(store.write_failed(&key("c")), None);
    assert_eq!(store.get("c"), None, "as unknown as before");
    assert_eq!(
        store.upsert(key("c"), 17, 17),
        None,
        "older, and wanted then"
    );
    assert_eq!(store.get("c"), None);
}

#[test]
fn a_list_that_had_passed_what_was_asked_for_does_not_sweep_it() {
    let mut store = picky();
    store.begin_list();
    assert_eq!(store.upsert(key("a"), 8, 8), None);
    store.begin_write(&key("a"));
    store.write_answered(&key("a"), 8, 8);
    assert_eq!(store.finish_list(20), []);
    assert_eq!(store.get("a").map(|record| **record), Some(8));
    store.begin_list();
    assert_eq!(store.finish_list(30), [deleted("a", 8)]);
}

#[test]
fn a_list_that_began_after_the_request_knows_that_it_is_gone() {
    let mut store = picky();
    store.begin_write(&key("a"));
    store.begin_list();
    assert_eq!(store.finish_list(20), []);
    assert_eq!(store.write_answered(&key("a"), 8, 8), None);
    store.begin_write(&key("a"));
    store.begin_list();
    store.write_answered(&key("a"), 8, 8);
    assert_eq!(store.finish_list(30), [deleted("a", 8)]);
}

/// The state of an object in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Kept,
    /// The object exists and is not kept.
    Unkept,
    Gone,
}

#[derive(Debug, Clone, Copy)]
enum Op {
    /// Another client changes, creates or deletes.
    Foreign(u8, Content),
    BeginWrite(u8),
    BeginRead(u8),
    /// The server executes the oldest request in flight, or refuses it.
    Commit(Option<Content>),
    /// The oldest committed request gets its response, or the response is lost.
    Answer(bool),
    /// The watch brings the next events.
    Deliver(usize),
    /// The watch repeats an event, by its position in the history.
    Again(prop::sample::Index),
    /// The watch breaks, and resumes this many events earlier.
    Resume(usize),
    Relist,
    /// The list brings its objects, with changes and responses in between, and ends.
    EndList,
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        3 => Just(Content::Kept),
        1 => Just(Content::Unkept),
        1 => Just(Content::Gone),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0u8..4;
    let commit = prop::option::weighted(0.9, content());
    prop_oneof![
        4 => (key.clone(), content()).prop_map(|(key, content)| Op::Foreign(key, content)),
        3 => key.clone().prop_map(Op::BeginWrite),
        2 => key.prop_map(Op::BeginRead),
        3 => commit.prop_map(Op::Commit),
        3 => prop::bool::weighted(0.9).prop_map(Op::Answer),
        4 => (1usize..4).prop_map(Op::Deliver),
        1 => any::<prop::sample::Index>().prop_map(Op::Again),
        1 => (1usize..6).prop_map(Op::Resume),
        1 => Just(Op::Relist),
        1 => Just(Op::EndList),
    ]
}

type Happened = (u8, u64, Content);

/// A list in progress: its objects, the length of the history, and the version.
type Listing = (BTreeMap<u8, (u64, Content)>, usize, u64);

/// An API server with its history, a watch that lags behind, and the state known to the handler.
struct World {
    store: Store<u64>,
    version: u64,
    objects: BTreeMap<u8, (u64, Content)>,
    history: Vec<Happened>,
    delivered: usize,
    list: Option<Listing>,
    /// Requests in flight, and whether they only read.
    under_way: Vec<(u8, bool)>,
    committed: Vec<(u8, Option<(u64, Content)>)>,
    told: BTreeMap<String, u64>,
    written: BTreeMap<u8, u64>,
    /// Objects that this process has requested and that exist since then.
    asked_for: BTreeSet<u8>,
}

/// Some API servers have no etcd and use nanoseconds as versions.
const FIRST: u64 = 1_753_647_547_040_015_001;

/// Whether an object is wanted changes with its version.
fn is_wanted(version: u64) -> bool {
    !version.is_multiple_of(2)
}

impl World {
    fn new(store: Store<u64>) -> Self {
        Self {
            store,
            version: FIRST,
            objects: BTreeMap::new(),
            history: Vec::new(),
            delivered: 0,
            list: None,
            under_way: Vec::new(),
            committed: Vec::new(),
            told: BTreeMap::new(),
            written: BTreeMap::new(),
            asked_for: BTreeSet::new(),
        }
    }

    fn name(number: u8) -> Key {
        key(&number.to_string())
    }

    fn tell(&mut self, change: Option<Change<u64>>) {
        match change {
            Some(Change::Upserted { key, old, new, .. }) => {
                let before = self.told.insert(key.to_string(), *new);
                assert_eq!(
                    before,
                    old.map(|old| *old),
                    "the handler was told something else"
                );
            }
            Some(Change::Deleted { key, old }) => {
                assert_eq!(self.told.remove(key.as_str()), Some(*old));
            }
            None => {}
        }
    }

    fn change(&mut self, number: u8, content: Content) -> Option<(u64, Content)> {
        self.version += 1;
        if content == Content::Gone {
            self.objects.remove(&number)?;
        } else {
            self.objects.insert(number, (self.version, content));
        }
        self.history.push((number, self.version, content));
        if content != Content::Kept {
            self.asked_for.remove(&number);
        }
        Some((self.version, content))
    }

    fn bring(&mut self, (number, version, content): Happened) {
        let name = Self::name(number);
        let change = match content {
            Content::Kept => self.store.upsert(name, version, version),
            Content::Unkept => self.store.upsert_with(name, version, || None::<u64>),
            Content::Gone => self.store.delete(name, version),
        };
        self.tell(change);
    }

    fn deliver(&mut self, count: usize) {
        for _ in 0..count {
            if self.list.is_some() {
                return;
            }
            let Some(&event) = self.history.get(self.delivered) else {
                return;
            };
            self.delivered += 1;
            self.bring(event);
        }
    }

    fn answer(&mut self, number: u8, written: Option<(u64, Content)>) {
        let name = Self::name(number);
        let change = match written {
            Some((version, content @ (Content::Kept | Content::Unkept))) => {
                let since = |&&(of, at, now): &&Happened| {
                    of == number && at > version && now != Content::Kept
                };
                if content == Content::Kept && !self.history.iter().any(|event| since(&event)) {
                    self.asked_for.insert(number);
                }
                let newest = self.written.entry(number).or_default();
                *newest = version.max(*newest);
                match content {
                    Content::Kept => self.store.write_answered(&name, version, version),
                    Content::Unkept | Content::Gone => {
                        self.store.write_answered_unkept(&name, version)
                    }
                }
            }
            // The response to a deletion is not stored: the watch reports it.
            Some((_, Content::Gone)) | None => self.store.write_failed(&name),
        };
        self.tell(change);
    }

    fn is_busy(&self, number: u8) -> bool {
        self.under_way.iter().any(|(busy, _)| *busy == number)
            || self.committed.iter().any(|(busy, _)| *busy == number)
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Foreign(number, content) => {
                self.change(number, content);
            }
            Op::BeginWrite(number) => {
                self.store.begin_write(&Self::name(number));
                self.under_way.push((number, false));
            }
            Op::BeginRead(number) => {
                self.store.begin_write(&Self::name(number));
                self.under_way.push((number, true));
            }
            Op::Commit(content) if !self.under_way.is_empty() => {
                let (number, reads) = self.under_way.remove(0);
                let answer = if reads {
                    content.and(self.objects.get(&number).copied())
                } else {
                    content.and_then(|content| self.change(number, content))
                };
                self.committed.push((number, answer));
            }
            Op::Answer(arrives) if !self.committed.is_empty() => {
                let (number, written) = self.committed.remove(0);
                self.answer(number, written.filter(|_| arrives));
            }
            Op::Commit(_) | Op::Answer(_) => {}
            Op::Deliver(count) => self.deliver(count),
            Op::Again(index) if self.list.is_none() && self.delivered > 0 => {
                let event = self.history[index.index(self.delivered)];
                self.bring(event);
            }
            Op::Again(_) => {}
            Op::Resume(back) => self.delivered = self.delivered.saturating_sub(back),
            Op::Relist => {
                self.store.begin_list();
                self.list = Some((self.objects.clone(), self.history.len(), self.version));
            }
            Op::EndList => self.end_list(),
        }
        for (number, version) in &self.written {
            if let Some(record) = self.store.get(&number.to_string()) {
                assert!(**record >= *version, "older than what this process wrote");
            }
        }
    }

    fn end_list(&mut self) {
        let Some((objects, until, version)) = self.list.take() else {
            return;
        };
        for (number, (seen, content)) in objects {
            self.bring((number, seen, content));
        }
        for change in self.store.finish_list(version) {
            self.tell(Some(change));
        }
        self.delivered = until;
    }

    fn finish(&mut self) {
        while !self.under_way.is_empty() {
            self.apply(Op::Commit(Some(Content::Kept)));
        }
        while !self.committed.is_empty() {
            self.apply(Op::Answer(true));
        }
        self.end_list();
        self.deliver(usize::MAX);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn fs_18_the_cache_ends_up_with_the_truth_and_never_falls_behind_own_writes(
        ops in prop::collection::vec(op(), 0..80)
    ) {
        let mut world = World::new(Store::new());
        for op in ops {
            world.apply(op);
        }
        world.finish();
        let truth: BTreeMap<String, u64> = world
            .objects
            .iter()
            .filter(|(_, (_, content))| *content == Content::Kept)
            .map(|(number, (version, _))| (number.to_string(), *version))
            .collect();
        let cached: BTreeMap<String, u64> =
            world.store.iter().map(|(key, record)| (key.to_string(), **record)).collect();
        prop_assert_eq!(&cached, &truth);
        prop_assert_eq!(&world.told, &truth);
        prop_assert!(world.store.pending.is_empty());
    }

    #[test]
    fn what_is_not_wanted_is_kept_from_the_first_request_about_it_until_it_is_gone(
        ops in prop::collection::vec(op(), 0..80)
    ) {
        let mut world = World::new(Store::new().only(|version| is_wanted(*version)));
        for op in ops {
            // Requests about one object follow one another: of two concurrent ones, a list that
            // began in between may contain either.
            let overlaps = matches!(op, Op::BeginWrite(number) | Op::BeginRead(number) if world.is_busy(number));
            if !overlaps {
                world.apply(op);
            }
        }
        world.finish();
        let there = |number: u8| {
            let (version, content) = *world.objects.get(&number)?;
            (content == Content::Kept).then_some(version)
        };
        for number in 0..4 {
            let cached = world.store.get(&number.to_string()).map(|record| **record);
            let truth = there(number);
            let needed = world.asked_for.contains(&number) || truth.is_some_and(is_wanted);
            prop_assert!(cached == truth || cached.is_none() && !needed, "{number}: {cached:?}");
            prop_assert_eq!(world.told.get(&number.to_string()).copied(), cached);
        }
        prop_assert!(world.store.pending.is_empty());
    }
}
