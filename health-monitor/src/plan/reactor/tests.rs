//! Interleavings that were bugs once.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::csi::volume_health::VolumeHealthEntry;
use csi_proto::csi::{
    ControllerGetVolumeHealthResponse, ControllerListVolumeHealthResponse, VolumeHealth,
};
use csi_proto::volume_condition::list_volumes_response::Entry;
use csi_proto::volume_condition::{
    ListVolumesResponse, Volume as Said, VolumeCondition, VolumeStatus,
};
use sidecar::controller::{CallError, Calls as _};
use sidecar::refusal::Refusal;
use tonic::Code;

use super::*;
use crate::model::Claim;
use crate::plan::Driver;
use crate::plan::event::Tell;
use crate::plan::request::{Call, Called, Found, Object};
use crate::testing::{claim, volume};

const LISTS: Mode = Mode::ListHealth { get: true };

/// The caches and the driver.
struct Known {
    driver: Arc<Driver>,
    volumes: BTreeMap<Text, Arc<Volume>>,
    claims: BTreeMap<Text, Arc<Claim>>,
}

impl Informers for Known {
    fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.get(name).cloned()
    }

    fn claim(&self, key: &str) -> Option<Arc<Claim>> {
        self.claims.get(key).cloned()
    }

    fn unhealthy(&self) -> Vec<(Text, Arc<Claim>)> {
        let all = self.claims.iter();
        all.filter(|(_, claim)| !claim.stored.is_empty())
            .map(|(key, claim)| (key.clone(), Arc::clone(claim)))
            .collect()
    }
}

/// The answer to a request.
#[derive(Clone)]
enum Answer {
    /// A single volume has these conditions.
    Health(Vec<(i32, &'static str)>),
    /// These volumes are degraded for these reasons; then the token of the next page.
    Page(Vec<(&'static str, &'static str)>, String),
    /// These volumes of an older driver are abnormal, with a message.
    Conditions(Vec<(&'static str, &'static str)>),
    /// The driver's error.
    Fails(Code),
    /// The write succeeded; the claim in the answer has conditions or not.
    Written(bool),
    /// The API server's error.
    Refused,
}

/// A health monitor that a test advances step by step.
struct Bench {
    monitor: HealthMonitor,
    known: Known,
    start: Instant,
    now: Now,
    wakes: Vec<Wake<Key>>,
    notices: Vec<Notice>,
}

impl Bench {
    /// A bench with the volumes `pvN` of these numbers and complete caches.
    fn new(mode: Mode, numbers: &[&str]) -> Self {
        let mut bench = Self::starting(mode);
        for number in numbers {
            bench.binds(&format!("pv{number}"), Some(volume(number)));
        }
        bench.observe(Change::Ready);
        bench
    }

    /// A bench whose caches are still empty.
    fn starting(mode: Mode) -> Self {
        let settings = Settings {
            interval: Duration::from_secs(60),
            list_interval: Duration::from_secs(300),
            workers: 10,
        };
        let instant = Instant::now();
        Self {
            monitor: HealthMonitor::new(settings),
            known: Known {
                driver: driver(mode),
                volumes: BTreeMap::new(),
                claims: BTreeMap::new(),
            },
            start: instant,
            now: Now {
                instant,
                timestamp: "2026-01-02T03:04:05Z".parse().unwrap(),
            },
            wakes: Vec::new(),
            notices: Vec::new(),
        }
    }

    fn observe(&mut self, change: Change<'_>) {
        let due = self.monitor.observe(change, &self.known);
        self.take(due);
    }

    /// Replaces the volume of this name.
    fn binds(&mut self, name: &str, new: Option<Volume>) {
        let name = Text::from(name);
        let old = match &new {
            Some(new) => self
                .known
                .volumes
                .insert(name.clone(), Arc::new(new.clone())),
            None => self.known.volumes.remove(&name),
        };
        self.observe(Change::Volume {
            name,
            old: old.as_deref(),
            new: new.as_ref(),
        });
    }

    /// Sets the conditions of the claim of `pvN`.
    fn has(&mut self, number: &str, stored: &[&str]) {
        let claim = Claim {
            uid: Uid::new(&format!("uid-{number}")),
            volume: format!("pv{number}").into(),
            ..claim(stored)
        };
        self.known
            .claims
            .insert(format!("ns/c{number}").into(), Arc::new(claim));
    }

    fn comes_back(&mut self, mode: Mode) {
        self.known.driver = driver(mode);
        self.observe(Change::DriverBack);
    }

    fn after(&mut self, seconds: u64) {
        self.now.instant += Duration::from_secs(seconds);
    }

    fn take(&mut self, due: Wakes) {
        self.wakes.extend(due.wakes);
        self.notices.extend(due.notices);
    }

    fn begin(&mut self, key: &Key) -> Attempt {
        self.wakes.retain(|wake| wake.key != *key);
        self.monitor.begin(key, &self.known, self.now)
    }

    fn decide(&mut self, attempt: &mut Attempt) -> Option<Request> {
        self.monitor.decide(attempt, &self.known, self.now)
    }

    fn answer(&mut self, attempt: &mut Attempt, request: Request, answer: Answer) {
        let reply = reply(request, answer);
        let due = self.monitor.answered(attempt, reply, &self.known);
        self.take(due);
    }

    fn end(&mut self, attempt: Attempt) -> Verdict<Failed> {
        let (verdict, due) = self.monitor.end(attempt, &self.known, self.now);
        self.take(due);
        verdict
    }

    /// Runs an attempt to its end. Returns its requests.
    fn finish(
        &mut self,
        mut attempt: Attempt,
        answer: impl Fn(&str) -> Answer,
    ) -> (Vec<String>, Verdict<Failed>) {
        let mut made = Vec::new();
        while let Some(request) = self.decide(&mut attempt) {
            let name = name(&request);
            made.push(name.clone());
            assert!(made.len() < 100, "{made:?}");
            self.answer(&mut attempt, request, answer(&name));
        }
        (made, self.end(attempt))
    }

    /// Runs an attempt from begin to end.
    fn works(
        &mut self,
        key: &Key,
        answer: impl Fn(&str) -> Answer,
    ) -> (Vec<String>, Verdict<Failed>) {
        let attempt = self.begin(key);
        self.finish(attempt, answer)
    }

    /// The queued volumes, and whether each one's back-off is cut short.
    fn due(&self) -> Vec<(&str, bool)> {
        let volumes = self.wakes.iter().filter_map(|wake| match &wake.key {
            Key::Volume(handle) => Some((&**handle, !wake.unless_delayed)),
            Key::Cycle => None,
        });
        volumes.collect()
    }

    /// Runs the cycle whenever it is due until `seconds` after the start.
    fn cycles_until(&mut self, seconds: u64) {
        while self.now.instant < self.start + Duration::from_secs(seconds) {
            let (_, verdict) = self.works(&Key::Cycle, |_| page(&[]));
            let Verdict::After { delay, .. } = verdict else {
                return;
            };
            self.now.instant += delay.max(Duration::from_millis(1));
        }
    }
}

fn driver(mode: Mode) -> Arc<Driver> {
    Arc::new(Driver {
        name: "test.csi.driver".to_owned(),
        mode,
    })
}

fn page(entries: &[(&'static str, &'static str)]) -> Answer {
    Answer::Page(entries.to_vec(), String::new())
}

fn key(handle: &str) -> Key {
    Key::Volume(handle.into())
}

fn name(request: &Request) -> String {
    match request {
        Request::Call(Call::ListHealth(call)) => format!("list {}", call.starting_token),
        Request::Call(Call::GetHealth(call)) => format!("get {}", call.volume_id),
        Request::Call(Call::ListConditions(_)) => "list conditions".to_owned(),
        Request::Call(Call::GetCondition(call)) => format!("get condition {}", call.volume_id),
        Request::Write(write) => match &write.object {
            Object::Claim(claim) => format!("patch {claim}"),
            Object::Events => "patch".to_owned(),
        },
        Request::Event(event) => match &event.tell {
            Tell::Abnormal(message) => format!("{}: {message}", event.claim),
            Tell::Normal => format!("{}: normal", event.claim),
        },
        Request::Get(_) => "events".to_owned(),
        Request::Secret(_) => "secret".to_owned(),
    }
}

fn statuses(conditions: Vec<(i32, &str)>) -> Vec<VolumeHealthEntry> {
    let conditions = conditions.into_iter();
    conditions
        .map(|(status, reason)| VolumeHealthEntry {
            status,
            reason: reason.to_owned(),
            message: "m".to_owned(),
        })
        .collect()
}

fn reply(request: Request, answer: Answer) -> Reply {
    let none = Duration::ZERO;
    match (request, answer) {
        (Request::Call(call), Answer::Fails(code)) => {
            let error = RpcError {
                code,
                message: "no".to_owned(),
            };
            Reply::Call(Call::failed(call, CallError::Failed(error)), none)
        }
        (Request::Call(Call::ListHealth(call)), Answer::Page(entries, next_token)) => {
            let entries = entries.into_iter().map(|(handle, reason)| VolumeHealth {
                volume_id: handle.to_owned(),
                health_statuses: statuses(vec![(1, reason)]),
            });
            let page = ControllerListVolumeHealthResponse {
                entries: entries.collect(),
                next_token,
            };
            Reply::Call(Called::ListHealth(call, Ok(page)), none)
        }
        (Request::Call(Call::GetHealth(call)), Answer::Health(conditions)) => {
            let volume_health = Some(VolumeHealth {
                volume_id: call.volume_id.clone(),
                health_statuses: statuses(conditions),
            });
            let answer = ControllerGetVolumeHealthResponse { volume_health };
            Reply::Call(Called::GetHealth(call, Ok(answer)), none)
        }
        (Request::Call(Call::ListConditions(call)), Answer::Conditions(abnormal)) => {
            let entries = ["h1", "h2"].map(|handle| {
                let message = abnormal.iter().find(|(of, _)| *of == handle);
                let condition = VolumeCondition {
                    abnormal: message.is_some(),
                    message: message.map_or("", |(_, message)| message).to_owned(),
                };
                Entry {
                    volume: Some(Said {
                        volume_id: handle.to_owned(),
                    }),
                    status: Some(VolumeStatus {
                        volume_condition: Some(condition),
                    }),
                }
            });
            let page = ListVolumesResponse {
                entries: entries.into(),
                next_token: String::new(),
            };
            Reply::Call(Called::ListConditions(call, Ok(page)), none)
        }
        (Request::Write(write), Answer::Refused) => {
            let error = ApiError {
                refusal: Refusal::Other,
                message: "an admission webhook said no".to_owned(),
            };
            Reply::Write(write, Err(error))
        }
        (Request::Write(write), Answer::Written(unhealthy)) => {
            Reply::Write(write, Ok(Found::Claim { unhealthy }))
        }
        (Request::Event(event), _) => Reply::Event(event),
        (Request::Get(object), _) => Reply::Get(object, Ok(Found::Events(Vec::new()))),
        (request, _) => panic!("no answer to {}", name(&request)),
    }
}

/// The driver restarts as another one during a query about `h1`.
fn asked_about_h1(mode: Mode) -> (Bench, Attempt, Request) {
    let mut bench = Bench::new(mode, &["1"]);
    bench.works(&Key::Cycle, |_| page(&[]));
    let mut attempt = bench.begin(&key("h1"));
    let request = bench.decide(&mut attempt).unwrap();
    assert!(name(&request).starts_with("get"), "{}", name(&request));
    (bench, attempt, request)
}

#[test]
fn h_7_an_answer_to_what_an_earlier_driver_was_asked_does_not_count() {
    let answers = [
        Answer::Fails(Code::Unimplemented),
        Answer::Fails(Code::Internal),
        Answer::Health(vec![(1, "A")]),
    ];
    for answer in answers {
        for mode in [
            Mode::GetConditions,
            Mode::GetHealth,
            LISTS,
            Mode::ListConditions,
        ] {
            let (mut bench, mut attempt, request) = asked_about_h1(Mode::GetHealth);
            bench.comes_back(mode);
            bench.answer(&mut attempt, request, answer.clone());
            let (made, verdict) = bench.finish(attempt, |_| Answer::Written(true));
            // A report from a driver with the same calls holds, whenever the query was sent.
            let holds = mode == Mode::GetHealth && matches!(answer, Answer::Health(_));
            let writes = if holds {
                vec!["patch ns/c1".to_owned()]
            } else {
                vec![]
            };
            assert_eq!((made, verdict), (writes, Verdict::Done), "{mode:?}");
            if holds {
                continue;
            }
            assert!(!bench.notices.contains(&Notice::Refuses), "{mode:?}");
            assert!(bench.monitor.failing.is_empty(), "{mode:?}");
            assert!(bench.monitor.reports.is_empty(), "H-70: {mode:?}");
            // The new driver is queried soon.
            let (made, _) = bench.works(&Key::Cycle, |name| match name {
                "list " => page(&[("h1", "A")]),
                _ => Answer::Conditions(vec![("h1", "gone")]),
            });
            if made.is_empty() {
                bench.after(60);
                bench.works(&Key::Cycle, |_| page(&[]));
            }
            assert_eq!(bench.due(), [("h1", true)], "{mode:?}");
        }
    }
}

#[test]
fn h_7_a_list_of_an_earlier_driver_does_not_count() {
    let mut bench = Bench::new(LISTS, &["1"]);
    let mut attempt = bench.begin(&Key::Cycle);
    let request = bench.decide(&mut attempt).unwrap();
    bench.comes_back(Mode::ListConditions);
    bench.answer(&mut attempt, request, page(&[("h1", "A")]));
    let (made, _) = bench.finish(attempt, |_| page(&[]));
    assert_eq!((made, bench.due()), (vec![], vec![]));
    assert!(bench.wakes.iter().any(|wake| wake.key == Key::Cycle));
}

#[test]
fn h_50_a_driver_that_is_back_before_everything_is_known_is_not_asked() {
    let mut bench = Bench::starting(LISTS);
    bench.binds("pv1", Some(volume("1")));
    bench.comes_back(Mode::GetHealth);
    assert!(bench.wakes.is_empty());
    bench.has("1", &["Degraded A"]);
    bench.observe(Change::Ready);
    bench.works(&Key::Cycle, |_| page(&[]));
    let answer = |_: &str| Answer::Health(vec![(1, "A")]);
    assert_eq!(bench.works(&key("h1"), answer).0, ["get h1"]);
}

#[test]
fn h_41_a_claim_that_has_conditions_says_nothing_of_those_that_have_none() {
    let mut bench = Bench::new(LISTS, &["1", "2"]);
    bench.has("2", &["Degraded A"]);
    let all = [("h1", "B"), ("h2", "B")];
    bench.works(&Key::Cycle, |_| page(&all));
    let (made, _) = bench.works(&key("h1"), |_| Answer::Written(false));
    assert_eq!(made, ["patch ns/c1"]);
    assert!(bench.notices.contains(&Notice::Dropped(true)));
    let (made, _) = bench.works(&key("h2"), |_| Answer::Written(true));
    assert_eq!(made, ["patch ns/c2"]);
    assert_eq!(bench.due(), []);
    assert!(!bench.notices.contains(&Notice::Kept));
    assert_eq!(
        bench.works(&key("h1"), |_| Answer::Written(false)).0,
        [""; 0]
    );
}

#[test]
fn rule_10_lists_are_tried_again_though_single_volumes_cannot_be_asked_about() {
    let mut bench = Bench::new(LISTS, &["1"]);
    let fails = |_: &str| Answer::Fails(Code::Unavailable);
    for _ in 0..3 {
        assert_eq!(bench.works(&Key::Cycle, fails).0, ["list "]);
    }
    bench.works(&Key::Cycle, fails);
    let unimplemented = |_: &str| Answer::Fails(Code::Unimplemented);
    assert_eq!(bench.works(&key("h1"), unimplemented).0, ["get h1"]);
    assert!(bench.notices.contains(&Notice::Refuses));
    let (made, verdict) = bench.works(&Key::Cycle, fails);
    let delay = Duration::from_secs(600);
    let after = Verdict::After {
        delay,
        failure: None,
    };
    assert_eq!((made, verdict), (vec![], after));
    bench.after(600);
    assert_eq!(bench.works(&Key::Cycle, fails).0, ["list "], "every 10 min");
    assert_eq!(bench.works(&Key::Cycle, fails).0, [""; 0], "every 10 min");
    bench.after(600);
    let (made, _) = bench.works(&Key::Cycle, |_| page(&[("h1", "A")]));
    assert_eq!(made, ["list "]);
    let (made, _) = bench.works(&key("h1"), |_| Answer::Written(true));
    assert_eq!(made, ["patch ns/c1"]);
}

/// Two volumes with the handle `h1`, `pv1` and `pv2`.
fn twins(mode: Mode) -> Bench {
    let mut bench = Bench::new(mode, &["1"]);
    bench.binds("pv2", Some(twin()));
    bench
}

fn twin() -> Volume {
    Volume {
        handle: "h1".into(),
        ..volume("2")
    }
}

#[test]
fn h_46_a_claim_that_cannot_be_written_holds_up_no_other() {
    for refused in ["patch ns/c1", "patch ns/c2"] {
        let mut bench = twins(LISTS);
        bench.works(&Key::Cycle, |_| page(&[("h1", "A")]));
        let answer = |name: &str| match name == refused {
            true => Answer::Refused,
            false => Answer::Written(true),
        };
        let (mut made, verdict) = bench.works(&key("h1"), answer);
        made.sort_unstable();
        assert_eq!(made, ["patch ns/c1", "patch ns/c2"], "{refused}");
        assert!(matches!(verdict, Verdict::Retry { .. }), "{refused}");
    }
}

#[test]
fn rule_11_only_another_report_cuts_a_back_off_short() {
    let mut bench = Bench::new(LISTS, &["1"]);
    bench.works(&Key::Cycle, |_| page(&[("h1", "A")]));
    assert_eq!(bench.due(), [("h1", true)]);
    bench.works(&key("h1"), |_| Answer::Refused);
    bench.works(&Key::Cycle, |_| page(&[("h1", "A")]));
    assert_eq!(bench.due(), [("h1", false)]);
    bench.wakes.clear();
    bench.works(&Key::Cycle, |_| page(&[("h1", "B")]));
    assert_eq!(bench.due(), [("h1", true)]);
}

/// Runs a cycle and returns the events it causes.
fn told(bench: &mut Bench, abnormal: &[(&'static str, &'static str)]) -> Vec<String> {
    let abnormal = abnormal.to_vec();
    bench.works(&Key::Cycle, |_| Answer::Conditions(abnormal.clone()));
    let due: Vec<Key> = bench.wakes.iter().map(|wake| wake.key.clone()).collect();
    let mut made = Vec::new();
    for key in due.into_iter().filter(|key| *key != Key::Cycle) {
        made.extend(bench.works(&key, |_| Answer::Written(true)).0);
    }
    made.sort_unstable();
    made
}

#[test]
fn h_60_to_65_each_claim_hears_what_it_has_not_heard() {
    let gone = [("h1", "gone")];
    let mut bench = Bench::new(Mode::ListConditions, &["1"]);
    assert_eq!(told(&mut bench, &gone), ["ns/c1: gone"]);
    bench.binds("pv2", Some(twin()));
    assert_eq!(told(&mut bench, &gone), ["ns/c2: gone"], "a second volume");
    assert_eq!(told(&mut bench, &gone), [""; 0]);
    let rebound = Volume {
        uid: Uid::new("another"),
        ..twin()
    };
    bench.binds("pv2", Some(rebound));
    assert_eq!(told(&mut bench, &gone), ["ns/c2: gone"], "another claim");
    bench.binds("pv2", None);
    bench.binds("pv2", Some(twin()));
    let both = ["ns/c1: normal"];
    assert_eq!(told(&mut bench, &[]), both, "only who heard of the fault");
    bench.monitor.earlier = Some(HashSet::from([Uid::new("uid-2")]));
    assert_eq!(told(&mut bench, &[]), ["ns/c2: normal"], "H-65");
    assert_eq!(told(&mut bench, &[]), [""; 0], "H-65");
}

#[test]
fn rule_7_a_list_that_takes_long_is_written_as_it_comes_and_ends_at_some_time() {
    let mut bench = Bench::new(LISTS, &["1", "2"]);
    let mut attempt = bench.begin(&Key::Cycle);
    let mut pages = 0_u64;
    while let Some(request) = bench.decide(&mut attempt) {
        pages += 1;
        let entries = match pages {
            1 => vec![("h1", "A")],
            100 => vec![("h2", "A")],
            _ => vec![],
        };
        bench.answer(
            &mut attempt,
            request,
            Answer::Page(entries, pages.to_string()),
        );
        let due = bench.due().len();
        match pages {
            ..=60 => assert_eq!(due, 0, "{pages}"),
            62 => assert_eq!(due, 1),
            100 => assert_eq!(due, 2),
            _ => {}
        }
        bench.after(1);
    }
    assert_eq!(pages, 1801);
    bench.end(attempt);
    let gap = Gap::Endless(Duration::from_secs(1801));
    assert!(bench.notices.contains(&Notice::Incomplete(gap)));
}

#[test]
fn rule_11_a_list_is_newer_than_what_was_asked_before_it() {
    let mut bench = Bench::new(LISTS, &["1"]);
    bench.has("1", &["Degraded A"]);
    bench.works(&Key::Cycle, |_| page(&[]));
    let mut attempt = bench.begin(&key("h1"));
    let request = bench.decide(&mut attempt).unwrap();
    bench.works(&Key::Cycle, |_| page(&[("h1", "B")]));
    bench.answer(&mut attempt, request, Answer::Health(vec![]));
    let request = bench.decide(&mut attempt).unwrap();
    let Request::Write(write) = &request else {
        panic!("a write");
    };
    assert_eq!(write.purpose, crate::plan::request::Purpose::Report);
    bench.answer(&mut attempt, request, Answer::Written(true));
    bench.end(attempt);
}

/// Answers all queries of these seconds. Returns how many volumes were queried, and the most queries in one second.
fn asked(bench: &mut Bench, seconds: std::ops::Range<u64>, answer: &Answer) -> (usize, usize) {
    let (mut asked, mut most) = (HashSet::new(), 0);
    for second in seconds {
        bench.cycles_until(second);
        let due = bench.wakes.iter().map(|wake| wake.key.clone());
        let due: Vec<Key> = due.filter(|key| *key != Key::Cycle).collect();
        most = most.max(due.len());
        for key in due {
            bench.works(&key, |_| answer.clone());
            asked.insert(key);
        }
    }
    (asked.len(), most)
}

#[test]
fn pace_6_volumes_that_waited_for_the_driver_are_asked_about_at_the_pace_of_others() {
    let numbers: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let mut bench = Bench::new(Mode::GetHealth, &numbers);
    let away = Answer::Fails(Code::Unavailable);
    assert_eq!(asked(&mut bench, 1..61, &away).0, 30);
    assert_eq!(bench.monitor.failing.len(), 30);
    bench.comes_back(Mode::GetHealth);
    assert_eq!(bench.due(), []);
    let (all, most) = asked(&mut bench, 61..122, &Answer::Health(vec![]));
    assert_eq!(all, 30);
    assert!(most <= 11, "{most}");
    assert!(bench.monitor.failing.is_empty());
}

#[test]
fn pace_of_single_volumes_remembers_nothing_where_lists_work() {
    let mut bench = Bench::new(LISTS, &["1"]);
    for _ in 0..3 {
        bench.works(&Key::Cycle, |_| Answer::Fails(Code::Internal));
    }
    bench.works(&Key::Cycle, |_| page(&[]));
    bench.after(600);
    bench.works(&Key::Cycle, |_| page(&[]));
    bench.binds("pv2", Some(volume("2")));
    let (pace, empty) = (format!("{:?}", bench.monitor.pace), Pace::default());
    assert_eq!(pace, format!("{empty:?}"));
}

#[test]
fn gauge_counts_nothing_where_nobody_reports_health() {
    for mode in [Mode::ListConditions, Mode::Nothing] {
        let mut bench = Bench::new(LISTS, &["1"]);
        bench.works(&Key::Cycle, |_| page(&[("h1", "A")]));
        bench.notices.clear();
        bench.comes_back(mode);
        let healthy = |notice: &Notice| matches!(notice, Notice::Health(_, now) if now.is_empty());
        assert!(bench.notices.iter().any(healthy), "{mode:?}");
    }
}

#[test]
fn rule_9_the_log_names_a_volume_with_too_many_conditions_once() {
    let mut bench = Bench::new(Mode::GetHealth, &["1"]);
    let many: Vec<(i32, &'static str)> = vec!["A", "B", "C", "D", "E", "F", "G"]
        .into_iter()
        .flat_map(|reason| [(1, reason), (2, reason), (3, reason)])
        .collect();
    for _ in 0..3 {
        bench.works(&Key::Cycle, |_| page(&[]));
        bench.works(&key("h1"), |name| match name {
            "get h1" => Answer::Health(many.clone()),
            _ => Answer::Written(true),
        });
        bench.after(60);
    }
    let surplus = |notice: &&Notice| matches!(notice, Notice::Surplus(..));
    assert_eq!(bench.notices.iter().filter(surplus).count(), 1);
}
