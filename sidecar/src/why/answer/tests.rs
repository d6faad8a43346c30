use jiff::Timestamp;

use super::*;
use crate::why::Kind;

const S: Duration = Duration::from_secs(1);

fn now() -> Now {
    Now {
        // Behind times that tests look back to.
        instant: Instant::now() + 1_000 * S,
        timestamp: "2026-11-28T12:00:00Z".parse().unwrap(),
    }
}

fn controller(has_begun: bool) -> Controller {
    Controller {
        program: "csi-attacher",
        driver: "a.driver".to_owned(),
        leadership: Leadership {
            leads: true,
            lease: Some("kube-system/external-attacher-leader-a-driver".to_owned()),
            holder: Some("ctl-0".to_owned()),
            since: Some("2026-11-28T11:00:00.000000Z".to_owned()),
        },
        synced: vec![("volumeattachments", true), ("csinodes", false)],
        has_begun,
        missing: vec!["- {apiGroups: [\"storage.k8s.io\"], …}".to_owned()],
        link: None,
    }
}

fn attachment() -> Object {
    Object::of(Kind::Attachment, "csi-1")
}

fn key_state(stage: Stage) -> KeyState {
    KeyState {
        lane: "attach",
        stage,
        failures: 0,
        ahead: 0,
        running: 0,
        oldest_wait: Duration::ZERO,
    }
}

fn work(key_state: Option<KeyState>) -> WorkAnswer {
    WorkAnswer {
        object: attachment(),
        what: "attach",
        because: "wanted, and not attached".to_owned(),
        waits_for: Vec::new(),
        later: None,
        awaits_lists: false,
        facts: Map::new(),
        queue: "csi-attacher-va".to_owned(),
        key_state,
        running: None,
        deadline: None,
        last: None,
        next: Some("ControllerPublishVolume".to_owned()),
    }
}

fn told(work: WorkAnswer) -> EngineAnswer {
    EngineAnswer {
        uid: "uid-1".to_owned(),
        is_known: true,
        not_ours: None,
        awaits_lists: false,
        work: vec![work],
    }
}

fn answer(work: WorkAnswer, has_begun: bool, now: Now) -> Value {
    let told = told(work);
    let answers = answers(&controller(has_begun), &attachment(), Ok(&told), now);
    assert_eq!(answers.len(), 1);
    answers.into_iter().next().unwrap()
}

#[test]
fn w_3_to_7_states_and_until_when() {
    let now = now();
    let (ago, ahead) = (now.instant - 3 * S, now.instant + 4 * S);
    let far = now.instant + 60 * S;
    let class = || vec![Object::of(Kind::Class, "gold")];
    let backoff = Some(Stage::Backoff(ahead));
    let (after, none) = (Some(Stage::Later(ahead)), Vec::new);
    let rows = [
        (None, none(), None, "idle", None),
        (None, class(), None, "parked", None),
        (None, none(), Some(60 * S), "later", Some(far)),
        (Some(Stage::Idle), none(), None, "idle", None),
        (Some(Stage::Waiting(ago)), class(), None, "waiting", None),
        (Some(Stage::Running(ago)), none(), None, "running", None),
        (backoff, none(), None, "backoff", Some(ahead)),
        (backoff, class(), None, "parked", Some(ahead)),
        (backoff, none(), Some(60 * S), "later", Some(far)),
        (
            backoff,
            none(),
            Some(Duration::ZERO),
            "backoff",
            Some(ahead),
        ),
        (after, none(), None, "later", Some(ahead)),
        (after, class(), None, "later", Some(ahead)),
    ];
    for (stage, waits_for, later, state, until) in rows {
        let work = WorkAnswer {
            waits_for,
            later,
            ..work(stage.map(key_state))
        };
        let answer = answer(work, true, now);
        assert_eq!(answer["queue"]["state"], state, "{stage:?}");
        let until = until.map(|until| now.write(until));
        assert_eq!(answer["queue"]["until"], json!(until), "{stage:?}");
    }
    for (stage, state) in [
        (None, "unsynced"),
        (Some(Stage::Waiting(ago)), "unsynced"),
        (Some(Stage::Running(ago)), "running"),
    ] {
        let answer = answer(work(stage.map(key_state)), false, now);
        assert_eq!(answer["queue"]["state"], state, "{stage:?}");
    }
    let held = WorkAnswer {
        awaits_lists: true,
        ..work(None)
    };
    assert_eq!(answer(held, true, now)["queue"]["state"], "unsynced");
}

#[test]
fn w_4_w_5_the_whole_answer_of_a_key_that_fails() {
    let now = now();
    let step = Step {
        name: "ControllerPublishVolume".into(),
        took: Duration::from_millis(14_900),
        code: "DeadlineExceeded",
    };
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let work = WorkAnswer {
        last: Some(Last {
            ended: time("2026-11-28T11:59:56Z"),
            took: Duration::from_secs(15),
            first: time("2026-11-28T11:50:00Z"),
            failing_since: now.instant - 600 * S,
            step: Some("ControllerPublishVolume".into()),
            code: Some("DeadlineExceeded"),
            text: "rpc error: late".into(),
            steps: vec![step].into(),
        }),
        waits_for: vec![Object::of(Kind::CsiNode, "worker-3")],
        ..work(Some(KeyState {
            failures: 7,
            ahead: 412,
            running: 10,
            oldest_wait: 59 * S,
            ..key_state(Stage::Backoff(now.instant + 4 * S))
        }))
    };
    let expected = json!({
        "program": "csi-attacher",
        "driver": "a.driver",
        "leads": true,
        "lease": "kube-system/external-attacher-leader-a-driver",
        "holder": "ctl-0",
        "since": "2026-11-28T11:00:00.000000Z",
        "driverLink": null,
        "synced": {"volumeattachments": true, "csinodes": false},
        "missing": ["- {apiGroups: [\"storage.k8s.io\"], …}"],
        "subject": {"kind": "VolumeAttachment", "name": "csi-1", "uid": "uid-1"},
        "known": true,
        "ours": true,
        "notOurs": null,
        "work": "attach",
        "queue": {
            "name": "csi-attacher-va",
            "state": "parked",
            "until": "2026-11-28T12:00:04.000Z",
            "since": null,
            "lane": "attach",
            "failures": 7,
            "laneAhead": 412,
            "laneRunning": 10,
            "laneOldest": "2026-11-28T11:59:01.000Z",
        },
        "running": null,
        "last": {
            "ended": "2026-11-28T11:59:56.000Z",
            "took": "15.000s",
            "failingSince": "2026-11-28T11:50:00.000Z",
            "step": "ControllerPublishVolume",
            "code": "DeadlineExceeded",
            "text": "rpc error: late",
            "steps": [{"step": "ControllerPublishVolume", "took": "14.900s", "code": "DeadlineExceeded"}],
        },
        "waitsFor": [{"kind": "CSINode", "name": "worker-3"}],
        "facts": {},
        "next": {"step": "ControllerPublishVolume", "because": "wanted, and not attached"},
    });
    assert_eq!(answer(work, true, now), expected);
}

#[test]
fn w_4_a_running_attempt_has_its_step_and_deadline_and_no_next_step() {
    let now = now();
    let mut attempts = crate::why::AttemptLog::default();
    attempts.begins(&1, now.instant - 4 * S);
    attempts.asks(&1, "CreateVolume".to_owned(), now.instant - 3 * S);
    let work = WorkAnswer {
        running: attempts.running(&1).cloned(),
        deadline: Some(now.instant + 7 * S),
        ..work(Some(key_state(Stage::Running(now.instant - 4 * S))))
    };
    let answer = answer(work, true, now);
    let expected = json!({
        "since": "2026-11-28T11:59:56.000Z",
        "step": "CreateVolume",
        "stepSince": "2026-11-28T11:59:57.000Z",
        "deadline": "2026-11-28T12:00:07.000Z",
        "steps": [],
    });
    assert_eq!(
        (&answer["running"], &answer["next"]),
        (&expected, &Value::Null)
    );
}

#[test]
fn w_9_w_10_who_does_not_know_it_and_who_does_not_lead() {
    let now = now();
    let unknown = answers(
        &controller(true),
        &attachment(),
        Ok(&EngineAnswer::default()),
        now,
    );
    assert_eq!(unknown[0]["known"], false);
    assert_eq!(unknown[0]["queue"]["state"], "idle");
    let unlisted = EngineAnswer {
        awaits_lists: true,
        ..EngineAnswer::default()
    };
    let unlisted = answers(&controller(true), &attachment(), Ok(&unlisted), now);
    assert_eq!(unlisted[0]["queue"]["state"], "unsynced");
    let (is_known, whole) = about(&attachment(), unknown, now);
    assert!(!is_known);
    assert_eq!(
        (&whole["version"], &whole["known"], &whole["now"]),
        (&json!(2), &json!(false), &json!("2026-11-28T12:00:00.000Z"))
    );
    let other = EngineAnswer {
        uid: "uid-1".to_owned(),
        is_known: true,
        not_ours: Some("spec.attacher is other, not a.driver".to_owned()),
        ..EngineAnswer::default()
    };
    let other = answers(&controller(true), &attachment(), Ok(&other), now);
    assert_eq!(other[0]["ours"], false);
    assert_eq!(other[0]["notOurs"], "spec.attacher is other, not a.driver");
    let standby = Controller {
        leadership: Leadership {
            leads: false,
            holder: Some("ctl-1".to_owned()),
            ..Leadership::default()
        },
        ..controller(false)
    };
    let standby = answers(&standby, &attachment(), Err("standby"), now);
    assert_eq!(
        (
            &standby[0]["leads"],
            &standby[0]["holder"],
            &standby[0]["queue"]["state"]
        ),
        (&json!(false), &json!("ctl-1"), &json!("standby"))
    );
    assert!(about(&attachment(), standby, now).0);
}

#[test]
fn w_16_the_list_has_the_longest_first_and_no_more_than_asked_for() {
    let now = now();
    let row = |since: Option<u32>| Row {
        program: "csi-attacher",
        has_begun: true,
        since: since.map(|seconds| now.instant - seconds * S),
        work: work(Some(key_state(Stage::Backoff(now.instant + 4 * S)))),
    };
    let rows = vec![row(None), row(Some(5)), row(Some(500)), row(Some(50))];
    let busy = Busy {
        stages: BTreeMap::from([("backoff", 4)]),
        codes: BTreeMap::from([("Internal", 4)]),
        ..Busy::default()
    };
    let list = list(&[(controller(true), Some(busy))], rows, 3, now);
    let since: Vec<_> = { list["keys"].as_array().unwrap().iter() }
        .map(|key| key["since"].as_str().unwrap())
        .collect();
    let expected = [
        "2026-11-28T11:51:40.000Z",
        "2026-11-28T11:59:10.000Z",
        "2026-11-28T11:59:55.000Z",
    ];
    assert_eq!(since, expected);
    let totals = json!({"states": {"backoff": 4}, "codes": {"Internal": 4}});
    assert_eq!(list["controllers"][0]["totals"], totals);
}

#[test]
fn w_76_intents_have_their_claims_and_no_parameters() {
    let now = now();
    let intent = |number: usize| OpenIntent {
        claim: Object::of(Kind::Claim, &format!("shop/data-{number}")),
        uid: "uid-1".to_owned(),
        state: "open",
        volume: "pvc-1".to_owned(),
        since: Some(now.instant - 9 * S),
        leases: vec!["a-driver-journal-0".to_owned()],
    };
    let intents: Vec<_> = (0..150).map(intent).collect();
    let journal = journal(&intents, 100, now);
    assert_eq!(journal["count"], 150);
    assert_eq!(journal["intents"].as_array().unwrap().len(), 100);
    let expected = json!({
        "claim": {
            "kind": "PersistentVolumeClaim",
            "namespace": "shop",
            "name": "data-0",
            "uid": "uid-1",
        },
        "state": "open",
        "volume": "pvc-1",
        "since": "2026-11-28T11:59:51.000Z",
        "leases": ["a-driver-journal-0"],
    });
    assert_eq!(journal["intents"][0], expected);
}

#[test]
fn w_39_facts_repaint_no_terminal() {
    let facts = json!({"volume": "a\u{1b}[2J", "more": [{"deep": "\u{202e}b"}], "number": 3});
    let work = WorkAnswer {
        facts: facts.as_object().unwrap().clone(),
        ..work(None)
    };
    let answer = answer(work, true, now());
    assert_eq!(
        answer["facts"],
        json!({"volume": plain("a\u{1b}[2J"), "more": [{"deep": plain("\u{202e}b")}], "number": 3})
    );
    assert_ne!(answer["facts"], facts);
}
