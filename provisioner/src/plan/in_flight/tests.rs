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

fn state() -> InFlightState<&'static str> {
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
    let mut state = state();
    let never = || Outcome::Final {
        infeasible: Some("c".into()),
    };
    let wait = Duration::from_secs(300);
    let start = Instant::now();
    state.end(&claim(), never(), Vec::new(), start);
    assert_eq!(state.slow(&key(), Some("c"), start), wait);
    // No sweep has removed the entry before its retry.
    assert_eq!(state.slow(&key(), Some("c"), start + wait), Duration::ZERO);
    state.end(&claim(), never(), Vec::new(), start + wait);
    assert_eq!(state.slow(&key(), Some("c"), start + wait), wait);
}

#[test]
fn p_9_what_is_owed_for_a_claim_that_is_gone_is_asked_ever_more_rarely() {
    let mut state = state();
    let start = Instant::now();
    state.end(
        &claim(),
        Outcome::Unsettled(Arc::new("a")),
        Vec::new(),
        start,
    );
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
        state.end(&claim(), Outcome::Unsettled(Arc::new("a")), Vec::new(), now);
        assert_eq!(
            state.pause(&key(), now),
            pause.map(Duration::from_secs),
            "{age} s"
        );
    }
}

#[test]
fn rows_181_182_187_188_189_only_doubt_outlives_the_claim() {
    let now = Instant::now();
    let rows: [(&str, Vec<Outcome<&str>>, bool); 9] = [
        ("181", vec![Outcome::Unknown(Arc::new("a"))], true),
        ("182", vec![Outcome::Final { infeasible: None }], false),
        (
            "189",
            vec![Outcome::Unknown(Arc::new("a")), Outcome::Unchanged],
            true,
        ),
        (
            "188",
            vec![
                Outcome::Unknown(Arc::new("a")),
                Outcome::Final { infeasible: None },
            ],
            false,
        ),
        (
            "187",
            vec![Outcome::Unknown(Arc::new("a")), Outcome::Over],
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
        let mut state = state();
        for outcome in outcomes {
            state.end(&claim(), outcome, Vec::new(), now);
        }
        assert_eq!(state.pending_claim(&key()).is_some(), expected, "row {row}");
        assert_eq!(state.gone(&key()), expected, "row {row}");
        let start = state.begin(&key());
        assert_eq!(
            start.pending.is_some(),
            expected,
            "row {row}: after it is gone"
        );
        assert_eq!(start.unsaved.is_some(), row == "199", "row {row}: object");
    }
}

#[test]
fn a_call_in_doubt_is_repeated_with_what_it_was_made() {
    let (mut state, now) = (state(), Instant::now());
    let later = now + Duration::from_secs(9);
    state.end(
        &claim(),
        Outcome::Unknown(Arc::new("first")),
        Vec::new(),
        now,
    );
    state.end(&claim(), Outcome::Unchanged, Vec::new(), later);
    let pending = state.begin(&key()).pending.unwrap();
    let first = pending.pinned.unwrap();
    assert_eq!((*first, pending.since), ("first", now));
    state.end(&claim(), Outcome::Unknown(first), Vec::new(), later);
    assert_eq!(
        state.begin(&key()).pending.unwrap().since,
        now,
        "since the first time"
    );
    assert_eq!(state.pending_creates().count(), 1);
}

#[test]
fn row_186_an_infeasible_request_waits_unless_its_class_is_replaced() {
    let (mut state, now) = (state(), Instant::now());
    let after = |seconds| now + Duration::from_secs(seconds);
    let infeasible = || Outcome::Final {
        infeasible: Some("class-1".into()),
    };
    state.end(&claim(), infeasible(), Vec::new(), now);
    state.end(&claim(), infeasible(), Vec::new(), after(100));
    let mut slow = |class, seconds| state.slow(&key(), class, after(seconds)).as_secs();
    assert_eq!(slow(Some("class-1"), 299), 1, "not refreshed");
    assert_eq!(slow(None, 299), 1, "class not found");
    assert_eq!(slow(Some("class-1"), 300), 0);
    assert_eq!(slow(Some("class-2"), 10), 0, "another class");
    assert_eq!(slow(Some("class-1"), 10), 0, "forgotten");
}

#[test]
fn the_slow_set_is_swept_and_forgets_claims_that_are_gone() {
    let (mut state, now) = (state(), Instant::now());
    let infeasible = || Outcome::Final {
        infeasible: Some("class-1".into()),
    };
    state.end(&claim(), infeasible(), Vec::new(), now);
    state.sweep(now + Duration::from_secs(301));
    state.end(
        &claim(),
        infeasible(),
        Vec::new(),
        now + Duration::from_secs(301),
    );
    let later = now + Duration::from_secs(400);
    assert_eq!(
        state.slow(&key(), None, later).as_secs(),
        201,
        "added anew after the sweep"
    );
    state.gone(&key());
    assert_eq!(state.slow(&key(), None, later), Duration::ZERO);
}

#[test]
fn a_running_call_keeps_its_claim() {
    let (mut state, now) = (state(), Instant::now());
    state.calling(&claim());
    assert!(state.is_busy(&key()));
    assert_eq!(state.busy_claims().count(), 1);
    assert!(state.gone(&key()), "work goes on");
    state.end(&claim(), Outcome::Over, Vec::new(), now);
    assert!(!state.is_busy(&key()));
    assert!(!state.gone(&key()));
    assert_eq!(state.busy_claims().count(), 0);
}

#[test]
fn a_claim_of_the_same_name_is_another_one() {
    let (mut state, now) = (state(), Instant::now());
    state.end(&claim(), Outcome::Unknown(Arc::new("p")), Vec::new(), now);
    let renewed = Claim {
        uid: "u2".into(),
        ..(*claim()).clone()
    };
    assert!(state.begin(&ClaimKey::of(&renewed)).pending.is_none());
    assert_eq!(ClaimKey::of(&renewed).namespace(), "ns1");
}

#[test]
fn who_is_triggered_is_told_once_and_who_is_gone_never() {
    let mut state = state();
    let trigger = || RequeueTrigger::Class("gold".into());
    state.wait_for(trigger(), &key());
    state.wait_for(trigger(), &key());
    assert_eq!(state.triggered(&trigger()), BTreeSet::from([key()]));
    assert!(state.triggered(&trigger()).is_empty());
    state.wait_for(trigger(), &key());
    state.gone(&key());
    assert!(state.triggered(&trigger()).is_empty());
}

#[test]
fn a_claim_waits_for_the_trigger_of_its_last_failure() {
    let mut state = state();
    let class = |name: &str| RequeueTrigger::AttributesClass(name.into());
    let awaited = |state: &InFlightState<_>| {
        let names = state.awaited_attributes_classes();
        names.map(ToString::to_string).collect::<Vec<_>>()
    };
    state.wait_for(class("gold"), &key());
    assert_eq!(awaited(&state), ["gold"]);
    state.end(&claim(), Outcome::Unchanged, Vec::new(), Instant::now());
    assert!(
        awaited(&state).is_empty(),
        "the next failure is another one"
    );
    state.wait_for(class("gold"), &key());
    state.wait_for(class("silver"), &key());
    assert_eq!(awaited(&state), ["silver"]);
    assert!(state.triggered(&class("gold")).is_empty());
    assert_eq!(state.triggered(&class("silver")), BTreeSet::from([key()]));
    assert!(awaited(&state).is_empty());
}

#[test]
fn row_294_a_volume_is_removed_once() {
    let mut state = state();
    let name = Text::from("pvc-u1");
    state.removed(&name, &"pv-uid".into());
    assert!(state.has_removed("pvc-u1", "pv-uid"));
    assert!(
        !state.has_removed("pvc-u1", "another"),
        "made anew under the same name"
    );
    state.volume_gone("pvc-u1");
    assert!(!state.has_removed("pvc-u1", "pv-uid"));
}

#[test]
fn j_4_each_request_that_is_owed_is_told_once() {
    let (mut state, now) = (state(), Instant::now());
    let [first, second] = ["a", "b"].map(Arc::new);
    assert!(
        !state.is_first_report(&key(), &first),
        "nothing is unsettled"
    );
    let unsettled = vec![Arc::clone(&first), Arc::clone(&second)];
    state.end(&claim(), Outcome::Over, unsettled, now);
    assert!(state.is_first_report(&key(), &first) && state.is_first_report(&key(), &second));
    assert!(!state.is_first_report(&key(), &first) && !state.is_first_report(&key(), &second));
    state.forget("u1", &[first]);
    assert!(
        state.has_unknown_outcome("u1"),
        "the other one is still unsettled"
    );
    state.forget("u1", &[second]);
    assert!(!state.has_unknown_outcome("u1"));
    assert_eq!(state.left(), [""; 0]);
}

#[test]
fn j_9_what_is_taken_out_while_its_call_runs_does_not_come_back() {
    let now = Instant::now();
    let [first, second] = ["a", "b"].map(Arc::new);
    let both = || vec![Arc::clone(&first), Arc::clone(&second)];
    let withdrawn = || {
        let mut state = state();
        state.end(&claim(), Outcome::Over, both(), now);
        state.calling(&claim());
        state.forget("u1", &both());
        assert!(
            state.has_unknown_outcome("u1"),
            "what the call says is waited for"
        );
        state
    };
    let mut refused = withdrawn();
    refused.end(&claim(), Outcome::Final { infeasible: None }, both(), now);
    assert!(!refused.has_unknown_outcome("u1"));
    assert_eq!(refused.left(), [""; 0]);
    for unanswered in [
        Outcome::Unsettled(Arc::clone(&first)),
        Outcome::Unknown(Arc::clone(&first)),
    ] {
        let mut state = withdrawn();
        state.end(&claim(), unanswered, vec![Arc::clone(&second)], now);
        let pending = state.begin(&key()).pending.unwrap();
        assert_eq!(pending.requests().collect::<Vec<_>>(), [&first]);
    }
    let mut unchanged = withdrawn();
    unchanged.end(&claim(), Outcome::Unchanged, Vec::new(), now);
    assert!(!unchanged.has_unknown_outcome("u1"));
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
    let withdrawn = |class_uid: &str| [asked(class_uid)];
    let mut state = InFlightState::new(Duration::from_secs(300));
    state.end(&claim(), Outcome::Over, vec![asked("before")], now);
    state.calling(&claim());
    state.forget("u1", &withdrawn("before"));
    // The same request was sent anew, and refused.
    let refused = Outcome::Final { infeasible: None };
    state.end(&claim(), refused, vec![asked("since")], now);
    assert!(!state.has_unknown_outcome("u1"));
    assert_eq!(state.left(), [""; 0]);
    state.end(&claim(), Outcome::Unknown(asked("since")), Vec::new(), now);
    state.forget("u1", &withdrawn("before"));
    assert!(!state.has_unknown_outcome("u1"));
}

#[test]
fn j_22_what_comes_to_light_during_an_attempt_outlives_it() {
    let now = Instant::now();
    let [own, other] = ["own", "other"].map(Arc::new);
    let left = |outcome: Outcome<&'static str>| {
        let mut state = state();
        assert!(state.begin(&key()).pending.is_none());
        state.adopt(&claim(), Some(Arc::clone(&other)), Vec::new(), now);
        state.end(&claim(), outcome, Vec::new(), now);
        let pending = state.begin(&key()).pending.unwrap();
        // The next attempt knows of it, and may settle it.
        state.end(&claim(), Outcome::Over, Vec::new(), now);
        assert_eq!(state.left(), [""; 0]);
        (pending.pinned, pending.unsettled)
    };
    let unsettled = || vec![Arc::clone(&other)];
    assert_eq!(left(Outcome::Over), (None, unsettled()));
    assert_eq!(
        left(Outcome::Final { infeasible: None }),
        (None, unsettled())
    );
    let unknown_outcome = left(Outcome::Unknown(Arc::clone(&own)));
    assert_eq!(unknown_outcome, (Some(Arc::clone(&own)), unsettled()));
    let same = left(Outcome::Unknown(Arc::clone(&other)));
    assert_eq!(same, (Some(Arc::clone(&other)), Vec::new()), "once");
    let unchanged = left(Outcome::Unchanged);
    assert_eq!(unchanged, (Some(Arc::clone(&other)), Vec::new()));
}

#[test]
fn j_22_what_comes_to_light_is_beside_what_is_in_doubt() {
    let (mut state, now) = (state(), Instant::now());
    let [own, other] = ["own", "other"].map(Arc::new);
    state.end(
        &claim(),
        Outcome::Unknown(Arc::clone(&own)),
        Vec::new(),
        now,
    );
    let later = now + Duration::from_secs(9);
    let unsettled = vec![Arc::clone(&own)];
    state.adopt(&claim(), Some(Arc::clone(&other)), unsettled, later);
    let pending = state.begin(&key()).pending.unwrap();
    assert_eq!((pending.pinned, pending.since), (Some(own), now));
    assert_eq!(pending.unsettled, [Arc::clone(&other)]);
    // Somebody removes it from the journal.
    state.adopt(&claim(), None, vec![Arc::clone(&other)], later);
    state.forget("u1", &[other]);
    state.end(&claim(), Outcome::Over, Vec::new(), later);
    assert_eq!(state.left(), [""; 0]);
}
