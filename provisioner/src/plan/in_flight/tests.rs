use csi_proto::csi::Volume;
use serde_json::Value;

use super::*;
use crate::plan::identity::Identity;
use crate::plan::pv::PvTemplate;
use crate::plan::request::PinnedRequest;

fn claim() -> Arc<Claim> {
    Arc::new(Claim {
        namespace: "ns1".into(),
        name: "c1".into(),
        uid: "u1".into(),
        ..Claim::default()
    })
}

fn key() -> ClaimKey {
    ClaimKey::of(&claim())
}

impl Asked for &str {
    fn asks_the_same(&self, other: &Self) -> bool {
        self == other
    }
}

fn books() -> InFlightState<&'static str> {
    InFlightState::new(Duration::from_secs(300))
}

fn unsaved() -> Unsaved {
    Unsaved {
        name: "pvc-u1".into(),
        object: Arc::new(Value::Null),
        identity: Identity::new(&PvTemplate::default(), "pvc-u1", &Volume::default()),
    }
}

#[test]
fn fp_9_a_request_that_is_impossible_again_waits_again() {
    let mut books = books();
    let never = || Outcome::Final {
        infeasible: Some("c".into()),
    };
    let wait = Duration::from_secs(300);
    let start = Instant::now();
    books.end(&claim(), never(), Vec::new(), start);
    assert_eq!(books.slow(&key(), Some("c"), start), wait);
    // No sweep has removed the entry before its retry.
    assert_eq!(books.slow(&key(), Some("c"), start + wait), Duration::ZERO);
    books.end(&claim(), never(), Vec::new(), start + wait);
    assert_eq!(books.slow(&key(), Some("c"), start + wait), wait);
}

#[test]
fn p_9_what_is_owed_for_a_claim_that_is_gone_is_asked_ever_more_rarely() {
    let mut books = books();
    let start = Instant::now();
    books.end(&claim(), Outcome::Owed(Arc::new("a")), Vec::new(), start);
    for (age, pause) in [
        (60, None),
        (3_000, None),
        (3_010, Some(301)),
        (12_000, Some(1_200)),
        (36_000, Some(3_600)),
        (864_000, Some(3_600)),
    ] {
        // Another attempt without an answer does not change its age.
        let now = start + Duration::from_secs(age);
        books.end(&claim(), Outcome::Owed(Arc::new("a")), Vec::new(), now);
        assert_eq!(
            books.pause(&key(), now),
            pause.map(Duration::from_secs),
            "{age} s"
        );
    }
}

#[test]
fn rows_181_182_187_188_189_only_doubt_outlives_the_claim() {
    let now = Instant::now();
    let rows: [(&str, Vec<Outcome<&str>>, bool); 9] = [
        ("181", vec![Outcome::InDoubt(Arc::new("a"))], true),
        ("182", vec![Outcome::Final { infeasible: None }], false),
        (
            "189",
            vec![Outcome::InDoubt(Arc::new("a")), Outcome::Unchanged],
            true,
        ),
        (
            "188",
            vec![
                Outcome::InDoubt(Arc::new("a")),
                Outcome::Final { infeasible: None },
            ],
            false,
        ),
        (
            "187",
            vec![Outcome::InDoubt(Arc::new("a")), Outcome::Over],
            false,
        ),
        (
            "199",
            vec![Outcome::Unsaved(Arc::new("a"), unsaved())],
            true,
        ),
        (
            "200",
            vec![Outcome::Unsaved(Arc::new("a"), unsaved()), Outcome::Over],
            false,
        ),
        ("3.4 nothing learnt", vec![Outcome::Unchanged], false),
        (
            "3.4 infeasible",
            vec![Outcome::Final {
                infeasible: Some("c".into()),
            }],
            false,
        ),
    ];
    for (row, outcomes, expected) in rows {
        let mut books = books();
        for outcome in outcomes {
            books.end(&claim(), outcome, Vec::new(), now);
        }
        assert_eq!(
            books.doubtful_claim(&key()).is_some(),
            expected,
            "row {row}"
        );
        assert_eq!(books.gone(&key()), expected, "row {row}");
        let start = books.begin(&key());
        assert_eq!(
            start.doubt.is_some(),
            expected,
            "row {row}: after it is gone"
        );
        assert_eq!(start.unsaved.is_some(), row == "199", "row {row}: object");
    }
}

#[test]
fn a_call_in_doubt_is_repeated_with_what_it_was_made() {
    let (mut books, now) = (books(), Instant::now());
    let later = now + Duration::from_secs(9);
    books.end(
        &claim(),
        Outcome::InDoubt(Arc::new("first")),
        Vec::new(),
        now,
    );
    books.end(&claim(), Outcome::Unchanged, Vec::new(), later);
    let doubt = books.begin(&key()).doubt.unwrap();
    let first = doubt.pinned.unwrap();
    assert_eq!((*first, doubt.since), ("first", now));
    books.end(&claim(), Outcome::InDoubt(first), Vec::new(), later);
    assert_eq!(
        books.begin(&key()).doubt.unwrap().since,
        now,
        "since the first time"
    );
    assert_eq!(books.doubts().count(), 1);
}

#[test]
fn row_186_an_infeasible_request_waits_unless_its_class_is_replaced() {
    let (mut books, now) = (books(), Instant::now());
    let after = |seconds| now + Duration::from_secs(seconds);
    let infeasible = || Outcome::Final {
        infeasible: Some("class-1".into()),
    };
    books.end(&claim(), infeasible(), Vec::new(), now);
    books.end(&claim(), infeasible(), Vec::new(), after(100));
    let mut slow = |class, seconds| books.slow(&key(), class, after(seconds)).as_secs();
    assert_eq!(slow(Some("class-1"), 299), 1, "not refreshed");
    assert_eq!(slow(None, 299), 1, "class not found");
    assert_eq!(slow(Some("class-1"), 300), 0);
    assert_eq!(slow(Some("class-2"), 10), 0, "another class");
    assert_eq!(slow(Some("class-1"), 10), 0, "forgotten");
}

#[test]
fn the_slow_set_is_swept_and_forgets_claims_that_are_gone() {
    let (mut books, now) = (books(), Instant::now());
    let infeasible = || Outcome::Final {
        infeasible: Some("class-1".into()),
    };
    books.end(&claim(), infeasible(), Vec::new(), now);
    books.sweep(now + Duration::from_secs(301));
    books.end(
        &claim(),
        infeasible(),
        Vec::new(),
        now + Duration::from_secs(301),
    );
    let later = now + Duration::from_secs(400);
    assert_eq!(
        books.slow(&key(), None, later).as_secs(),
        201,
        "added anew after the sweep"
    );
    books.gone(&key());
    assert_eq!(books.slow(&key(), None, later), Duration::ZERO);
}

#[test]
fn a_running_call_keeps_its_claim() {
    let (mut books, now) = (books(), Instant::now());
    books.calling(&claim());
    assert!(books.is_busy(&key()));
    assert_eq!(books.busy_claims().count(), 1);
    assert!(books.gone(&key()), "work goes on");
    books.end(&claim(), Outcome::Over, Vec::new(), now);
    assert!(!books.is_busy(&key()));
    assert!(!books.gone(&key()));
    assert_eq!(books.busy_claims().count(), 0);
}

#[test]
fn a_claim_of_the_same_name_is_another_one() {
    let (mut books, now) = (books(), Instant::now());
    books.end(&claim(), Outcome::InDoubt(Arc::new("p")), Vec::new(), now);
    let renewed = Claim {
        uid: "u2".into(),
        ..(*claim()).clone()
    };
    assert!(books.begin(&ClaimKey::of(&renewed)).doubt.is_none());
    assert_eq!(ClaimKey::of(&renewed).namespace(), "ns1");
}

#[test]
fn who_is_triggered_is_told_once_and_who_is_gone_never() {
    let mut books = books();
    let trigger = || RequeueTrigger::Class("gold".into());
    books.wait_for(trigger(), &key());
    books.wait_for(trigger(), &key());
    assert_eq!(books.triggered(&trigger()), BTreeSet::from([key()]));
    assert!(books.triggered(&trigger()).is_empty());
    books.wait_for(trigger(), &key());
    books.gone(&key());
    assert!(books.triggered(&trigger()).is_empty());
}

#[test]
fn a_claim_waits_for_the_trigger_of_its_last_failure() {
    let mut books = books();
    let class = |name: &str| RequeueTrigger::AttributesClass(name.into());
    let awaited = |books: &InFlightState<_>| {
        let names = books.awaited_attributes_classes();
        names.map(ToString::to_string).collect::<Vec<_>>()
    };
    books.wait_for(class("gold"), &key());
    assert_eq!(awaited(&books), ["gold"]);
    books.end(&claim(), Outcome::Unchanged, Vec::new(), Instant::now());
    assert!(
        awaited(&books).is_empty(),
        "the next failure is another one"
    );
    books.wait_for(class("gold"), &key());
    books.wait_for(class("silver"), &key());
    assert_eq!(awaited(&books), ["silver"]);
    assert!(books.triggered(&class("gold")).is_empty());
    assert_eq!(books.triggered(&class("silver")), BTreeSet::from([key()]));
    assert!(awaited(&books).is_empty());
}

#[test]
fn row_294_a_volume_is_removed_once() {
    let mut books = books();
    let name = Text::from("pvc-u1");
    books.removed(&name, &"pv-uid".into());
    assert!(books.has_removed("pvc-u1", "pv-uid"));
    assert!(
        !books.has_removed("pvc-u1", "another"),
        "made anew under the same name"
    );
    books.volume_gone("pvc-u1");
    assert!(!books.has_removed("pvc-u1", "pv-uid"));
}

#[test]
fn j_4_each_request_that_is_owed_is_told_once() {
    let (mut books, now) = (books(), Instant::now());
    let [first, second] = ["a", "b"].map(Arc::new);
    assert!(!books.tells(&key(), &first), "nothing is owed");
    let owed = vec![Arc::clone(&first), Arc::clone(&second)];
    books.end(&claim(), Outcome::Over, owed, now);
    assert!(books.tells(&key(), &first) && books.tells(&key(), &second));
    assert!(!books.tells(&key(), &first) && !books.tells(&key(), &second));
    books.forget("u1", &[first]);
    assert!(books.owes("u1"), "the other one is still owed");
    books.forget("u1", &[second]);
    assert!(!books.owes("u1"));
    assert_eq!(books.left(), [""; 0]);
}

#[test]
fn j_9_what_is_taken_out_while_its_call_runs_does_not_come_back() {
    let now = Instant::now();
    let [first, second] = ["a", "b"].map(Arc::new);
    let both = || vec![Arc::clone(&first), Arc::clone(&second)];
    let taken_out = || {
        let mut books = books();
        books.end(&claim(), Outcome::Over, both(), now);
        books.calling(&claim());
        books.forget("u1", &both());
        assert!(books.owes("u1"), "what the call says is waited for");
        books
    };
    let mut refused = taken_out();
    refused.end(&claim(), Outcome::Final { infeasible: None }, both(), now);
    assert!(!refused.owes("u1"));
    assert_eq!(refused.left(), [""; 0]);
    for unanswered in [
        Outcome::Owed(Arc::clone(&first)),
        Outcome::InDoubt(Arc::clone(&first)),
    ] {
        let mut books = taken_out();
        books.end(&claim(), unanswered, vec![Arc::clone(&second)], now);
        let doubt = books.begin(&key()).doubt.unwrap();
        assert_eq!(doubt.requests().collect::<Vec<_>>(), [&first]);
    }
    let mut unchanged = taken_out();
    unchanged.end(&claim(), Outcome::Unchanged, Vec::new(), now);
    assert!(!unchanged.owes("u1"));
}

/// The class was made anew between two calls, with the same parameters: both requests are for the same volume.
#[test]
fn j_9_what_is_taken_out_is_known_by_its_words() {
    let now = Instant::now();
    let asked = |class_uid: &str| {
        Arc::new(PinnedRequest {
            class_uid: class_uid.into(),
            ..PinnedRequest::default()
        })
    };
    let taken_out = |class_uid: &str| [asked(class_uid)];
    let mut books = InFlightState::new(Duration::from_secs(300));
    books.end(&claim(), Outcome::Over, vec![asked("before")], now);
    books.calling(&claim());
    books.forget("u1", &taken_out("before"));
    // The same request was sent anew, and refused.
    let refused = Outcome::Final { infeasible: None };
    books.end(&claim(), refused, vec![asked("since")], now);
    assert!(!books.owes("u1"));
    assert_eq!(books.left(), [""; 0]);
    books.end(&claim(), Outcome::InDoubt(asked("since")), Vec::new(), now);
    books.forget("u1", &taken_out("before"));
    assert!(!books.owes("u1"));
}

#[test]
fn j_22_what_comes_to_light_during_an_attempt_outlives_it() {
    let now = Instant::now();
    let [own, other] = ["own", "other"].map(Arc::new);
    let left = |outcome: Outcome<&'static str>| {
        let mut books = books();
        assert!(books.begin(&key()).doubt.is_none());
        books.inherit(&claim(), Some(Arc::clone(&other)), Vec::new(), now);
        books.end(&claim(), outcome, Vec::new(), now);
        let doubt = books.begin(&key()).doubt.unwrap();
        // The next attempt knows of it, and may settle it.
        books.end(&claim(), Outcome::Over, Vec::new(), now);
        assert_eq!(books.left(), [""; 0]);
        (doubt.pinned, doubt.owed)
    };
    let owed = || vec![Arc::clone(&other)];
    assert_eq!(left(Outcome::Over), (None, owed()));
    assert_eq!(left(Outcome::Final { infeasible: None }), (None, owed()));
    let in_doubt = left(Outcome::InDoubt(Arc::clone(&own)));
    assert_eq!(in_doubt, (Some(Arc::clone(&own)), owed()));
    let same = left(Outcome::InDoubt(Arc::clone(&other)));
    assert_eq!(same, (Some(Arc::clone(&other)), Vec::new()), "once");
    let unchanged = left(Outcome::Unchanged);
    assert_eq!(unchanged, (Some(Arc::clone(&other)), Vec::new()));
}

#[test]
fn j_22_what_comes_to_light_is_beside_what_is_in_doubt() {
    let (mut books, now) = (books(), Instant::now());
    let [own, other] = ["own", "other"].map(Arc::new);
    books.end(
        &claim(),
        Outcome::InDoubt(Arc::clone(&own)),
        Vec::new(),
        now,
    );
    let later = now + Duration::from_secs(9);
    let owed = vec![Arc::clone(&own)];
    books.inherit(&claim(), Some(Arc::clone(&other)), owed, later);
    let doubt = books.begin(&key()).doubt.unwrap();
    assert_eq!((doubt.pinned, doubt.since), (Some(own), now));
    assert_eq!(doubt.owed, [Arc::clone(&other)]);
    // Somebody removes it from the journal.
    books.inherit(&claim(), None, vec![Arc::clone(&other)], later);
    books.forget("u1", &[other]);
    books.end(&claim(), Outcome::Over, Vec::new(), later);
    assert_eq!(books.left(), [""; 0]);
}
