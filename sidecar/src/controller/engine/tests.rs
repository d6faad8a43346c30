use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::controller::reactor::{Due, Wake};
use crate::controller::request::Ask;
use crate::queue::{Config, Place, Stage, exponential};
use crate::why::{
    Ended, EngineAnswer, Explained, Explainer, Explanation, Kind, Object, Work, WorkAnswer,
};

const BACKOFF: Duration = Duration::from_secs(1);

/// What notes and answers cost, counted and not timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    /// Copies of the reactor.
    copies: u32,
    /// Objects whose work the reactor explained.
    explained: u32,
    /// Keys whose object it named.
    objects: u32,
    /// Requests that were named.
    names: u32,
    /// Failures that became texts.
    texts: u32,
}

thread_local! {
    /// Each test runs on one thread.
    static COST: Cell<Cost> = Cell::default();
}

fn costs(add: impl FnOnce(&mut Cost)) {
    let mut cost = COST.get();
    add(&mut cost);
    COST.set(cost);
}

/// Counts down: an attempt on a key makes as many requests as its number; multiples of ten fail.
#[derive(Debug, Default)]
struct Countdown {
    begun: u32,
    ended: Vec<u32>,
}

impl Clone for Countdown {
    fn clone(&self) -> Self {
        costs(|cost| cost.copies += 1);
        Self {
            begun: self.begun,
            ended: self.ended.clone(),
        }
    }
}

struct Attempt {
    key: u32,
    left: u32,
}

fn wake(key: u32) -> Wake<u32> {
    Wake {
        queue: 0,
        key,
        place: Place::default(),
        unless_delayed: false,
    }
}

impl Ask for u32 {
    type Reply = Self;

    fn write(&self) -> Option<impl Hash> {
        None::<()>
    }

    fn is_written(_reply: &Self) -> bool {
        true
    }

    fn unsent(self, _why: String) -> Self {
        self
    }

    fn line(reply: &Self) -> String {
        reply.to_string()
    }

    fn name(&self) -> String {
        costs(|cost| cost.names += 1);
        format!("Count {self}")
    }

    fn failure(_reply: &Self) -> Option<(&'static str, String)> {
        None
    }
}

impl Reactor for Countdown {
    type Key = u32;
    type Informers = ();
    type Change<'a> = u32;
    type Attempt = Attempt;
    type Request = u32;
    type Notice = String;
    type Failure = &'static str;

    fn observe(&mut self, change: u32, _informers: &()) -> Due<u32, String> {
        Due {
            wakes: vec![wake(change)],
            notices: vec![format!("observed {change}")],
        }
    }

    fn begin(&mut self, key: &u32, _informers: &(), _now: Now) -> Attempt {
        self.begun += 1;
        let (key, left) = (*key, *key);
        Attempt { key, left }
    }

    fn decide(&mut self, attempt: &mut Attempt, _informers: &(), _now: Now) -> Option<u32> {
        (attempt.left > 0).then_some(attempt.left)
    }

    fn answered(
        &mut self,
        attempt: &mut Attempt,
        request: u32,
        _informers: &(),
    ) -> Due<u32, String> {
        assert_eq!(request, attempt.left);
        attempt.left -= 1;
        Due::default()
    }

    fn end(
        &mut self,
        attempt: Attempt,
        _informers: &(),
        _now: Now,
    ) -> (Verdict<&'static str>, Due<u32, String>) {
        self.ended.push(attempt.key);
        let times = self.ended.iter().filter(|key| **key == attempt.key).count();
        let verdict = match (attempt.key, times) {
            (10, 1) => Verdict::Retry {
                failure: "ten",
                hung: false,
            },
            (20, 1) => Verdict::After {
                delay: Duration::from_secs(60),
                failure: Some("twenty"),
            },
            _ => Verdict::Done,
        };
        let next = (attempt.key == 3).then(|| wake(4));
        let due = Due {
            wakes: next.into_iter().collect(),
            notices: Vec::new(),
        };
        (verdict, due)
    }

    fn hangs_after(&self, key: &u32, _informers: &()) -> Option<Duration> {
        (*key == 5).then_some(Duration::from_millis(10))
    }
}

#[derive(Default)]
struct World {
    requests: AtomicU32,
    said: Mutex<Vec<String>>,
}

impl World {
    fn say(&self, text: String) {
        self.said.lock().unwrap().push(text);
    }
}

impl Shell<Countdown> for World {
    fn informers(&self) -> &() {
        &()
    }

    async fn execute(&self, request: u32) -> u32 {
        why::call_begins(Duration::from_secs(1));
        self.requests.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(u64::from(request))).await;
        request
    }

    fn note(&self, notice: String) {
        self.say(notice);
    }

    fn failed(&self, key: &u32, failure: &&'static str, failures: u32, wait: Duration) {
        self.say(format!("{key} {failure} {failures} {wait:?}"));
    }
}

type Counting = Engine<Countdown, World>;

fn engine(workers: usize) -> Arc<Counting> {
    let delay = exponential(BACKOFF, BACKOFF);
    let queue = Queue::new(Config::new("countdown", workers, delay)).unwrap();
    Engine::new(Countdown::default(), vec![queue], |_| World::default())
}

fn ended(engine: &Counting) -> Vec<u32> {
    engine.reactor().ended.clone()
}

#[tokio::test(start_paused = true)]
async fn an_event_becomes_an_attempt_that_makes_every_request() {
    let engine = engine(1);
    let serving = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.serve().await }
    });
    engine.observe(3);
    sleep(BACKOFF).await;
    assert_eq!(ended(&engine), [3, 4], "the end of one woke the other");
    assert_eq!(engine.shell().requests.load(Ordering::Relaxed), 3 + 4);
    assert_eq!(*engine.shell().said.lock().unwrap(), ["observed 3"]);
    engine.shut_down();
    serving.await.unwrap();
    assert_eq!(engine.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_comes_back_after_its_back_off_or_after_its_delay() {
    let engine = engine(2);
    let serving = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.serve().await }
    });
    engine.observe(10);
    engine.observe(20);
    sleep(Duration::from_millis(900)).await;
    assert_eq!(ended(&engine), [10, 20]);
    sleep(BACKOFF).await;
    assert_eq!(ended(&engine), [10, 20, 10]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(ended(&engine), [10, 20, 10, 20]);
    let said = engine.shell().said.lock().unwrap().clone();
    assert_eq!(
        said,
        [
            "observed 10",
            "observed 20",
            "10 ten 1 1s",
            "20 twenty 0 60s"
        ]
    );
    engine.shut_down();
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_runs_at_the_shutdown_is_waited_for_and_nothing_is_begun() {
    let engine = engine(1);
    let serving = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.serve().await }
    });
    engine.observe(5);
    engine.observe(6);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(engine.running(), 1);
    engine.shut_down();
    engine.drained().await;
    serving.await.unwrap();
    assert_eq!((ended(&engine), engine.reactor().begun), (vec![5], 1));
}

#[tokio::test(start_paused = true)]
async fn what_runs_makes_no_further_request_once_nobody_serves() {
    let engine = engine(1);
    let mut serving = Box::pin(engine.serve());
    engine.observe(5);
    tokio::select! {
        () = &mut serving => unreachable!("nothing ends it"),
        () = sleep(Duration::from_millis(1)) => {}
    }
    assert_eq!(engine.shell().requests.load(Ordering::Relaxed), 1);
    // The first request has ended, and the attempt is about to send the next one.
    tokio::time::advance(Duration::from_millis(5)).await;
    drop(serving);
    sleep(BACKOFF).await;
    assert_eq!(engine.shell().requests.load(Ordering::Relaxed), 1);
    assert_eq!(ended(&engine), Vec::<u32>::new());
}

impl Explained for Countdown {
    fn explain(&self, object: &Object, _informers: &(), _now: Now) -> Option<Explanation<u32>> {
        costs(|cost| cost.explained += 1);
        let key = object.name.parse().ok()?;
        let work = Work::new(0, key, "count", "it was asked for");
        Some(Explanation::known("uid", None).with(work))
    }

    fn object(&self, key: &u32, _informers: &()) -> Object {
        costs(|cost| cost.objects += 1);
        Object::of(Kind::Volume, &key.to_string())
    }

    fn text(failure: &&'static str) -> String {
        costs(|cost| cost.texts += 1);
        (*failure).to_owned()
    }
}

fn engine_answer(explainer: &dyn Explainer, key: u32) -> EngineAnswer {
    let object = Object::of(Kind::Volume, &key.to_string());
    explainer.about(&object).unwrap().unwrap()
}

fn about(explainer: &dyn Explainer, key: u32) -> WorkAnswer {
    let told = engine_answer(explainer, key);
    told.work.into_iter().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn w_4_w_5_w_14_an_engine_says_what_runs_what_failed_and_what_comes_next() {
    let engine = engine(1);
    let explainer = engine.explained();
    let serving = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.serve().await }
    });
    assert_eq!(about(&*explainer, 10).key_state, None);
    assert_eq!(about(&*explainer, 10).next.as_deref(), Some("Count 10"));
    engine.observe(10);
    engine.observe(6);
    sleep(Duration::from_millis(1)).await;
    let (running, waiting) = (about(&*explainer, 10), about(&*explainer, 6));
    let step = running.running.unwrap().current.unwrap();
    assert_eq!((&*step.name, running.next), ("Count 10", None));
    let left = running.deadline.unwrap().duration_since(step.since);
    assert_eq!(left, Duration::from_secs(1));
    let waits = waiting.key_state.unwrap();
    assert!(matches!(waits.stage, Stage::Waiting(_)), "{waits:?}");
    assert_eq!(waiting.next.as_deref(), Some("Count 6"));
    let busy = explainer.busy(100).unwrap();
    assert_eq!(busy.under_way, BTreeMap::from([("Count".to_owned(), 1)]));
    assert_eq!(
        busy.stages,
        BTreeMap::from([("running", 1), ("waiting", 1)])
    );
    sleep(Duration::from_millis(900)).await;
    let failed = about(&*explainer, 10);
    let last = failed.last.unwrap();
    assert_eq!((&*last.text, last.code, last.steps.len()), ("ten", None, 8));
    assert_eq!(failed.key_state.unwrap().failures, 1);
    assert_eq!(about(&*explainer, 6).key_state, None, "done");
    // W-16: whoever asks changes nothing.
    let before = format!("{:?}", engine.reactor());
    for _ in 0..1_000 {
        assert!(explainer.busy(100).unwrap().rows.len() <= 1);
        about(&*explainer, 10);
    }
    assert_eq!(format!("{:?}", engine.reactor()), before);
    sleep(BACKOFF).await;
    assert_eq!(about(&*explainer, 10).last, None, "a success removes it");
    engine.shut_down();
    serving.await.unwrap();
    drop(engine);
    let object = Object::of(Kind::Volume, "10");
    assert_eq!(explainer.about(&object), Err(Ended));
}

#[tokio::test(start_paused = true)]
async fn w_16_nobody_asks_and_attempts_alone_are_noted_with_the_flag_and_nothing_without() {
    let noted = Cost {
        names: 10,
        texts: 1,
        ..Cost::default()
    };
    for (flag, expected) in [(false, Cost::default()), (true, noted)] {
        let engine = engine(1);
        let explainer = flag.then(|| engine.explained());
        let serving = tokio::spawn({
            let engine = Arc::clone(&engine);
            async move { engine.serve().await }
        });
        COST.set(Cost::default());
        engine.observe(10);
        sleep(Duration::from_millis(900)).await;
        assert_eq!(ended(&engine), [10]);
        assert_eq!(COST.take(), expected, "with the flag: {flag}");
        engine.shut_down();
        serving.await.unwrap();
        drop(explainer);
    }
}

#[test]
fn w_16_an_answer_does_the_same_work_beside_many_keys_as_beside_few() {
    let one = Cost {
        copies: 1,
        explained: 1,
        objects: 1,
        names: 1,
        texts: 0,
    };
    let list = Cost {
        objects: 100,
        ..Cost::default()
    };
    for keys in [200, 20_000] {
        let engine = engine(1);
        let explainer = engine.explained();
        for key in 1..=keys {
            engine.observe(key);
        }
        COST.set(Cost::default());
        assert_eq!(about(&*explainer, 7).next.as_deref(), Some("Count 7"));
        assert_eq!(COST.take(), one, "beside {keys} keys");
        assert_eq!(explainer.busy(100).unwrap().rows.len(), 100);
        assert_eq!(COST.take(), list, "of {keys} keys");
    }
}

#[tokio::test(start_paused = true)]
async fn w_11_work_waits_for_lists_until_the_engine_serves() {
    let engine = engine(1);
    let explainer = engine.explained();
    engine.observe(6);
    assert!(about(&*explainer, 6).awaits_lists);
    assert!(
        engine_answer(&*explainer, 7).awaits_lists,
        "nor what it does not know"
    );
    assert!(explainer.busy(100).unwrap().rows[0].1.awaits_lists);
    let serving = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.serve().await }
    });
    sleep(Duration::from_millis(1)).await;
    assert!(!about(&*explainer, 6).awaits_lists);
    assert!(!engine_answer(&*explainer, 7).awaits_lists);
    engine.shut_down();
    serving.await.unwrap();
}
