use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::super::lane::Group;
use super::*;

const S: Duration = Duration::from_secs(1);

fn lane(name: &'static str, reserved: usize, group_limit: Option<usize>) -> LaneConfig {
    LaneConfig {
        name,
        reserved,
        group_limit,
    }
}

fn single(workers: usize) -> State<&'static str> {
    State::new(vec![lane("all", workers, None)], 0)
}

fn place(lane: usize, group: &str) -> Place {
    Place::new(lane, Group::of(group))
}

fn doubling(failures: u32) -> Duration {
    S * 2u32.pow(failures - 1)
}

fn popped<K: Clone + Eq + Hash>(state: &mut State<K>, now: Instant) -> Option<K> {
    state.advance(now);
    state.pop(now).map(|popped| popped.key)
}

fn anywhere() -> Place {
    Place::default()
}

#[test]
fn a_key_added_twice_runs_once() {
    let (mut q, t) = (single(2), Instant::now());
    assert!(q.add(&"a", anywhere(), t));
    assert!(!q.add(&"a", anywhere(), t));
    assert_eq!(popped(&mut q, t), Some("a"));
    assert_eq!(popped(&mut q, t), None);
}

#[test]
fn a_key_added_while_it_runs_runs_again_at_once_and_not_beside_itself() {
    let (mut q, t) = (single(2), Instant::now());
    q.add(&"a", anywhere(), t);
    assert_eq!(popped(&mut q, t), Some("a"));
    assert!(q.add(&"a", anywhere(), t));
    assert!(!q.add(&"a", anywhere(), t));
    assert_eq!(popped(&mut q, t), None);
    q.done(&"a", t + S);
    assert_eq!(popped(&mut q, t + S), Some("a"));
    q.done(&"a", t + S);
    assert_eq!(popped(&mut q, t + S), None);
    assert!(q.entries.is_empty());
}

#[test]
fn a_delayed_add_keeps_the_earliest_time_and_a_plain_add_does_not_cancel_it() {
    let (mut q, t) = (single(1), Instant::now());
    q.add_after(&"a", anywhere(), 5 * S, t);
    q.add_after(&"a", anywhere(), 3 * S, t);
    q.add_after(&"a", anywhere(), 4 * S, t);
    assert_eq!(q.next_due(), Some(t + 3 * S));
    q.add(&"a", anywhere(), t);
    assert_eq!(popped(&mut q, t), Some("a"));
    q.done(&"a", t);
    assert_eq!(popped(&mut q, t + 2 * S), None);
    assert_eq!(popped(&mut q, t + 3 * S), Some("a"));
    q.done(&"a", t + 3 * S);
    assert_eq!(q.next_due(), None);
    assert!(q.entries.is_empty());
}

#[test]
fn failures_back_off_and_done_forgets_them() {
    let (mut q, mut t) = (single(1), Instant::now());
    q.add(&"a", anywhere(), t);
    for expected in [1, 2, 4, 8] {
        assert_eq!(popped(&mut q, t), Some("a"));
        assert_eq!(q.retry(&"a", t, doubling).1, expected * S);
        assert_eq!(popped(&mut q, t + expected * S - S / 2), None);
        t += expected * S;
    }
    assert_eq!(popped(&mut q, t), Some("a"));
    q.done(&"a", t);
    q.add(&"a", anywhere(), t);
    assert_eq!(popped(&mut q, t), Some("a"));
    assert_eq!(q.retry(&"a", t, doubling).1, S);
}

// kubernetes/kubernetes#132805
#[test]
fn failures_of_runs_that_news_started_during_back_off_do_not_escalate_it() {
    let (mut q, t) = (single(1), Instant::now());
    q.add(&"a", anywhere(), t);
    popped(&mut q, t);
    q.retry(&"a", t, |_| 10 * S);
    for second in 1..9 {
        let now = t + second * S;
        q.add(&"a", anywhere(), now);
        assert_eq!(
            popped(&mut q, now),
            Some("a"),
            "news are looked at, at once"
        );
        assert_eq!(q.retry(&"a", now, |_| 10 * S).1, (10 - second) * S);
        assert_eq!(q.failures(&"a"), 1);
    }
    assert_eq!(popped(&mut q, t + 10 * S), Some("a"));
    q.retry(&"a", t + 10 * S, |_| 10 * S);
    assert_eq!(q.failures(&"a"), 2);
}

#[test]
fn a_back_off_that_ends_during_a_premature_run_starts_anew_when_the_run_fails() {
    let (mut q, t) = (single(1), Instant::now());
    q.add(&"a", anywhere(), t);
    popped(&mut q, t);
    q.retry(&"a", t, doubling);
    q.add(&"a", anywhere(), t + S / 2);
    assert_eq!(popped(&mut q, t + S / 2), Some("a"));
    q.advance(t + 2 * S);
    assert_eq!(q.retry(&"a", t + 5 * S, doubling).1, S);
    assert_eq!(popped(&mut q, t + 5 * S), None);
    assert_eq!(popped(&mut q, t + 6 * S), Some("a"));
}

#[test]
fn success_calls_off_the_back_off_but_not_a_delayed_add() {
    let (mut q, t) = (single(1), Instant::now());
    q.add(&"a", anywhere(), t);
    popped(&mut q, t);
    q.retry(&"a", t, doubling);
    q.add_after(&"a", anywhere(), 9 * S, t);
    q.add(&"a", anywhere(), t);
    popped(&mut q, t);
    q.done(&"a", t);
    assert_eq!(q.next_due(), Some(t + 9 * S));
    assert_eq!(popped(&mut q, t + 9 * S), Some("a"));
}

#[test]
fn a_delay_that_ends_while_the_key_runs_makes_it_run_again() {
    let (mut q, t) = (single(1), Instant::now());
    q.add(&"a", anywhere(), t);
    popped(&mut q, t);
    q.add_after(&"a", anywhere(), S, t);
    assert_eq!(q.advance(t + S), 1);
    q.done(&"a", t + 2 * S);
    assert_eq!(popped(&mut q, t + 2 * S), Some("a"));
}

#[test]
fn a_resync_does_not_cut_a_back_off_short() {
    let (mut q, t) = (single(1), Instant::now());
    assert!(q.add_unless_delayed(&"a", anywhere(), t));
    popped(&mut q, t);
    q.retry(&"a", t, doubling);
    assert!(!q.add_unless_delayed(&"a", anywhere(), t));
    assert_eq!(popped(&mut q, t), None);
    assert!(q.add(&"a", anywhere(), t));
}

#[test]
fn again_after_leaves_the_failures_as_they_are() {
    let (mut q, t) = (single(1), Instant::now());
    q.add(&"a", anywhere(), t);
    popped(&mut q, t);
    q.retry(&"a", t, doubling);
    assert_eq!(popped(&mut q, t + S), Some("a"));
    q.again_after(&"a", 3 * S, t + S);
    assert_eq!(q.failures(&"a"), 1);
    assert_eq!(popped(&mut q, t + 4 * S), Some("a"));
}

#[test]
fn shut_down_hands_out_nothing_and_running_keys_may_end() {
    let (mut q, t) = (single(1), Instant::now());
    q.add(&"a", anywhere(), t);
    q.add(&"b", anywhere(), t);
    popped(&mut q, t);
    q.shut_down();
    assert!(!q.add(&"c", anywhere(), t));
    assert_eq!(popped(&mut q, t), None);
    assert_eq!(q.running(), 1);
    q.retry(&"a", t, doubling);
    assert_eq!(q.running(), 0);
}

#[test]
fn a_burst_in_one_lane_leaves_the_other_lane_its_slots() {
    let mut q = State::new(vec![lane("attach", 2, None), lane("detach", 2, None)], 1);
    let t = Instant::now();
    for key in 0..2000 {
        q.add(&key, place(1, "n"), t);
    }
    let burst: Vec<_> = std::iter::from_fn(|| popped(&mut q, t)).collect();
    assert_eq!(burst, [0, 1, 2], "its own two and the shared one");
    for key in 5000..5003 {
        q.add(&key, place(0, "n"), t);
    }
    let attaches: Vec<_> = std::iter::from_fn(|| popped(&mut q, t)).collect();
    assert_eq!(attaches, [5000, 5001]);
    q.done(&2, t);
    assert_eq!(
        popped(&mut q, t),
        Some(3),
        "lanes take turns at the shared slot"
    );
    q.done(&3, t);
    assert_eq!(popped(&mut q, t), Some(5002));
}

#[test]
fn a_group_whose_runs_hang_keeps_to_its_limit() {
    let mut q = State::new(vec![lane("attach", 10, Some(3))], 0);
    let t = Instant::now();
    for key in 0..100 {
        q.add(&("bad", key), place(0, "bad"), t);
    }
    q.add(&("good", 0), place(0, "good"), t);
    let running: Vec<_> = std::iter::from_fn(|| popped(&mut q, t)).collect();
    assert_eq!(running, [("bad", 0), ("good", 0), ("bad", 1), ("bad", 2)]);
    q.done(&("bad", 1), t);
    assert_eq!(popped(&mut q, t), Some(("bad", 3)));
    assert_eq!(popped(&mut q, t), None);
}

#[test]
fn groups_with_keys_that_hang_get_half_of_the_slots_together() {
    let mut q = State::new(vec![lane("a", 0, None), lane("b", 0, None)], 4);
    let t = Instant::now();
    for key in 0..8 {
        q.add(&("bad", key), place(key % 2, "bad"), t);
    }
    let running: Vec<_> = std::iter::from_fn(|| popped(&mut q, t)).collect();
    assert_eq!(running.len(), 4, "nobody knows yet");
    assert!(!q.hangs(&("bad", 7)), "it does not run");
    for key in running {
        assert!(q.hangs(&key));
        assert!(!q.hangs(&key), "no news");
        q.retry(&key, t, doubling);
    }
    let running: Vec<_> = std::iter::from_fn(|| popped(&mut q, t)).collect();
    assert_eq!(running.len(), 2, "also while what hung waits for its retry");
    for key in 0..4 {
        q.add(&("good", key), place(key % 2, "good"), t);
    }
    let others: Vec<_> = std::iter::from_fn(|| popped(&mut q, t)).collect();
    assert_eq!(others, [("good", 0), ("good", 1)]);
    q.done(&others[0], t);
    assert_eq!(popped(&mut q, t), Some(("good", 2)));
    for key in &running {
        q.done(key, t);
    }
    let next: Vec<_> = std::iter::from_fn(|| popped(&mut q, t)).collect();
    assert_eq!(next.len(), 2, "{next:?}");
}

#[test]
fn a_key_that_ends_without_hanging_again_is_like_any_other() {
    let (mut q, t) = (single(2), Instant::now());
    for key in ["x", "y", "z"] {
        q.add(&key, anywhere(), t);
    }
    assert_eq!(popped(&mut q, t), Some("x"));
    q.hangs(&"x");
    assert_eq!(popped(&mut q, t), None, "one of two slots is for others");
    q.retry(&"x", t, doubling);
    assert_eq!(popped(&mut q, t), Some("y"));
    assert_eq!(popped(&mut q, t), None);
    q.done(&"y", t);
    assert_eq!(popped(&mut q, t + S), Some("z"));
    q.done(&"z", t + S);
    assert_eq!(popped(&mut q, t + S), Some("x"));
    q.retry(&"x", t + S, doubling);
    for key in ["y", "z"] {
        q.add(&key, anywhere(), t + S);
    }
    assert_eq!(popped(&mut q, t + S), Some("y"));
    assert_eq!(popped(&mut q, t + S), Some("z"), "it failed, but at once");
}

#[test]
fn a_free_slot_goes_to_the_lane_and_the_group_that_run_least() {
    let lanes = vec![lane("a", 0, None), lane("b", 0, None)];
    let (mut q, t) = (State::new(lanes, 4), Instant::now());
    for key in ["a1", "a2", "a3", "a4", "a5", "a6"] {
        q.add(&key, place(0, "one"), t);
    }
    for _ in 0..4 {
        popped(&mut q, t);
    }
    for key in ["b1", "b2", "b3"] {
        q.add(&key, place(1, "one"), t);
    }
    q.add(&"x", place(0, "other"), t);
    q.done(&"a1", t);
    assert_eq!(popped(&mut q, t), Some("b1"));
    q.done(&"b1", t);
    assert_eq!(popped(&mut q, t), Some("b2"), "however quick it is");
    q.done(&"a2", t);
    assert_eq!(popped(&mut q, t), Some("b3"));
    q.done(&"a3", t);
    assert_eq!(popped(&mut q, t), Some("x"), "not the group that runs more");
}

#[test]
fn groups_take_turns() {
    let (mut q, t) = (State::new(vec![lane("all", 100, None)], 0), Instant::now());
    for key in ["a1", "a2", "a3", "a4", "b1", "b2", "c1"] {
        q.add(&key, place(0, &key[..1]), t);
    }
    let order: Vec<_> = std::iter::from_fn(|| popped(&mut q, t)).collect();
    assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]);
}

#[test]
fn a_waiting_key_moves_to_another_lane_and_keeps_its_age() {
    let mut q = State::new(vec![lane("attach", 1, None), lane("detach", 1, None)], 0);
    let t = Instant::now();
    q.add(&"x", place(0, "n"), t);
    q.add(&"y", place(1, "n"), t + S);
    assert!(!q.add(&"x", place(1, "n"), t + 2 * S));
    let stats: Vec<_> = q.lanes(t + 3 * S).collect();
    assert_eq!(
        stats.iter().map(|lane| lane.depth).collect::<Vec<_>>(),
        [0, 2]
    );
    assert_eq!(stats[1].oldest_wait, 3 * S);
    assert_eq!(popped(&mut q, t + 3 * S), Some("x"));
}

#[test]
fn a_key_that_moves_lanes_while_it_runs_frees_the_slot_it_took() {
    let mut q = State::new(vec![lane("attach", 1, None), lane("detach", 1, None)], 0);
    let t = Instant::now();
    q.add(&"x", place(0, "n"), t);
    popped(&mut q, t);
    q.add(&"x", place(1, "n"), t);
    q.done(&"x", t);
    assert_eq!(
        q.lanes(t)
            .map(|lane| (lane.depth, lane.running))
            .collect::<Vec<_>>(),
        [(0, 0), (1, 0)]
    );
    assert_eq!(popped(&mut q, t), Some("x"));
}

#[test]
fn a_lane_that_does_not_exist_is_the_first_and_no_lane_is_without_any_slot() {
    let mut q = State::new(vec![lane("only", 0, Some(0))], 0);
    let t = Instant::now();
    q.add(&"x", place(7, "n"), t);
    assert_eq!(popped(&mut q, t), Some("x"));
    let mut none = State::new(Vec::new(), 0);
    none.add(&"x", anywhere(), t);
    assert_eq!(popped(&mut none, t), Some("x"));
}

#[test]
fn delays_beyond_the_clocks_range_never_come_due_and_break_nothing() {
    let (mut q, t) = (single(1), Instant::now());
    q.add_after(&"a", anywhere(), Duration::MAX, t);
    q.add(&"b", anywhere(), t);
    assert_eq!(popped(&mut q, t), Some("b"));
    q.retry(&"b", t, |_| Duration::MAX);
    assert_eq!(q.next_due(), None);
    q.add(&"b", anywhere(), t);
    assert_eq!(popped(&mut q, t), Some("b"));
}

#[derive(Debug, Clone)]
enum Op {
    Add(u8, usize, u8),
    Resync(u8),
    After(u8, u32),
    Tick(u32),
    Pop,
    Done(usize),
    Retry(usize),
    Again(usize, u32),
    Hangs(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0u8..6;
    prop_oneof![
        4 => (key.clone(), 0usize..3, 0u8..3).prop_map(|(k, l, g)| Op::Add(k, l, g)),
        1 => key.clone().prop_map(Op::Resync),
        1 => (key, 0u32..5).prop_map(|(k, d)| Op::After(k, d)),
        2 => (1u32..4).prop_map(Op::Tick),
        6 => Just(Op::Pop),
        2 => any::<usize>().prop_map(Op::Done),
        2 => any::<usize>().prop_map(Op::Retry),
        1 => (any::<usize>(), 0u32..5).prop_map(|(i, d)| Op::Again(i, d)),
        1 => any::<usize>().prop_map(Op::Hangs),
    ]
}

/// A simple model of why each key must still run.
struct Model {
    state: State<u8>,
    now: Instant,
    dirty: HashSet<u8>,
    after: HashMap<u8, Instant>,
    backoff: HashMap<u8, Instant>,
    running: Vec<u8>,
}

impl Model {
    fn new() -> Self {
        let lanes = vec![lane("a", 1, Some(1)), lane("b", 1, None)];
        Self {
            state: State::new(lanes, 1),
            now: Instant::now(),
            dirty: HashSet::new(),
            after: HashMap::new(),
            backoff: HashMap::new(),
            running: Vec::new(),
        }
    }

    fn advance(&mut self) {
        self.state.advance(self.now);
        let now = self.now;
        let due: Vec<u8> = self
            .after
            .extract_if(|_, at| *at <= now)
            .map(|(key, _)| key)
            .collect();
        self.dirty.extend(due);
        let over: Vec<u8> = self
            .backoff
            .extract_if(|_, at| *at <= now)
            .map(|(key, _)| key)
            .collect();
        for key in over {
            if !self.running.contains(&key) {
                self.dirty.insert(key);
            }
        }
    }

    fn pop(&mut self) -> Option<u8> {
        self.advance();
        let Popped { key, .. } = self.state.pop(self.now)?;
        assert!(!self.running.contains(&key), "two workers for key {key}");
        assert!(self.dirty.remove(&key), "key {key} runs for no reason");
        self.running.push(key);
        assert!(self.running.len() <= 3, "more runs than slots");
        for stats in self.state.lanes(self.now) {
            assert!(
                stats.running <= 2,
                "more runs than the lane's and the shared slot"
            );
        }
        Some(key)
    }

    fn take_running(&mut self, index: usize) -> Option<u8> {
        let len = self.running.len();
        (len > 0).then(|| self.running.swap_remove(index % len))
    }

    fn finish(&mut self, key: u8) {
        self.state.done(&key, self.now);
        self.backoff.remove(&key);
    }

    fn plan_after(&mut self, key: u8, delay: u32) {
        if delay == 0 {
            self.dirty.insert(key);
            return;
        }
        let at = self.now + delay * S;
        self.after
            .entry(key)
            .and_modify(|earliest| *earliest = at.min(*earliest))
            .or_insert(at);
    }

    fn apply(&mut self, op: &Op) {
        let now = self.now;
        match *op {
            Op::Add(key, lane, group) => {
                self.state.add(&key, place(lane, &group.to_string()), now);
                self.dirty.insert(key);
            }
            Op::Resync(key) => {
                if self.state.add_unless_delayed(&key, anywhere(), now) {
                    self.dirty.insert(key);
                }
            }
            Op::After(key, delay) => {
                self.state.add_after(&key, anywhere(), delay * S, now);
                self.plan_after(key, delay);
            }
            Op::Tick(seconds) => {
                self.now += seconds * S;
                self.advance();
            }
            Op::Pop => {
                self.pop();
            }
            Op::Done(index) => {
                if let Some(key) = self.take_running(index) {
                    self.finish(key);
                }
            }
            Op::Retry(index) => {
                if let Some(key) = self.take_running(index) {
                    let (_, wait) = self.state.retry(&key, now, |failures| failures.min(5) * S);
                    self.backoff.insert(key, now + wait);
                }
            }
            Op::Hangs(index) => {
                let len = self.running.len();
                if let Some(key) = (len > 0).then(|| self.running[index % len]) {
                    self.state.hangs(&key);
                }
            }
            Op::Again(index, delay) => {
                if let Some(key) = self.take_running(index) {
                    self.state.again_after(&key, delay * S, now);
                    self.plan_after(key, delay);
                }
            }
        }
    }

    /// Runs everything to its end; returns the keys that ran.
    fn drain(&mut self) -> HashSet<u8> {
        let mut ran = HashSet::new();
        while let Some(key) = self.take_running(0) {
            self.finish(key);
        }
        for _ in 0..10 {
            while let Some(key) = self.pop() {
                ran.insert(key);
                self.running.retain(|other| *other != key);
                self.finish(key);
            }
            self.now += S;
        }
        ran
    }
}

proptest! {
    #[test]
    fn no_key_is_lost_doubled_or_run_by_two_workers(ops in prop::collection::vec(op(), 0..120)) {
        let mut model = Model::new();
        for op in &ops {
            model.apply(op);
        }
        let running: HashSet<u8> = model.running.iter().copied().collect();
        let wanted: HashSet<u8> = model
            .dirty
            .iter()
            .chain(model.after.keys())
            .chain(model.backoff.keys().filter(|key| !running.contains(key)))
            .copied()
            .collect();
        let ran = model.drain();
        prop_assert_eq!(ran, wanted);
        prop_assert!(model.state.entries.is_empty());
        prop_assert!(model.state.timers.is_empty());
        prop_assert_eq!(model.state.running(), 0);
        for lane in &model.state.lanes {
            prop_assert_eq!((lane.depth(), lane.running(), lane.remembered_groups()), (0, 0, 0));
            prop_assert_eq!(lane.stalled(), 0);
        }
    }
}
