use super::super::{Reference, Severity};
use super::*;

struct Clock {
    start: Instant,
    seconds: u64,
}

impl Clock {
    fn now(&self) -> Now {
        let wall = Timestamp::from_second(1_700_000_000 + i64::try_from(self.seconds).unwrap());
        Now {
            wall: wall.unwrap(),
            instant: self.start + Duration::from_secs(self.seconds),
        }
    }
}

fn correlator() -> (Correlator, Clock) {
    let source = Source {
        component: "external-attacher d".to_owned(),
        host: "host-a".to_owned(),
    };
    let clock = Clock {
        start: Instant::now(),
        seconds: 0,
    };
    (Correlator::new(source), clock)
}

fn event(name: &str, message: &str) -> Event {
    Event {
        about: Reference {
            api_version: "v1".into(),
            kind: "PersistentVolume".into(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            ..Reference::default()
        },
        severity: Severity::Warning,
        reason: "AttachFailed",
        message: message.to_owned(),
    }
}

/// `+count` for a new event, `=count` for a higher count, `.` for nothing.
fn shape(write: Option<&Write>) -> String {
    match write {
        Some(Write::Create { body, .. }) => format!("+{}", body["count"]),
        Some(Write::Count { patch, .. }) => format!("={}", patch["count"]),
        None => ".".to_owned(),
    }
}

#[test]
fn the_first_time_it_is_an_object_as_client_go_writes_it() {
    let (mut correlator, clock) = correlator();
    let Some(Write::Create { namespace, body }) =
        correlator.take(&event("pv1", "boom"), clock.now())
    else {
        panic!("not created");
    };
    assert_eq!(namespace, "default");
    let want = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "PersistentVolume",
            "namespace": null, "name": "pv1", "uid": "uid-of-pv1", "resourceVersion": null},
        "type": "Warning", "reason": "AttachFailed", "message": "boom",
        "source": {"component": "external-attacher d", "host": "host-a"},
        "reportingComponent": "external-attacher d", "reportingInstance": "host-a",
        "firstTimestamp": "2023-11-14T22:13:20Z", "lastTimestamp": "2023-11-14T22:13:20Z", "count": 1,
    });
    let mut body = body;
    let name = body["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(name, format!("pv1.{:x}", 1_700_000_000_000_000_000_i128));
    body["metadata"]["name"] = want["metadata"]["name"].clone();
    assert_eq!(body, want);
}

#[test]
fn the_same_again_raises_the_count_of_the_first() {
    let (mut correlator, mut clock) = correlator();
    let first = correlator.take(&event("pv1", "boom"), clock.now());
    let Some(Write::Create { body: first, .. }) = first else {
        panic!("not created");
    };
    clock.seconds = 90;
    let Some(Write::Count {
        name, patch, body, ..
    }) = correlator.take(&event("pv1", "boom"), clock.now())
    else {
        panic!("not counted");
    };
    assert_eq!(first["metadata"]["name"], *name);
    let want = json!({"count": 2, "lastTimestamp": "2023-11-14T22:14:50Z", "message": "boom"});
    assert_eq!(patch, want);
    assert_eq!(body["firstTimestamp"], first["firstTimestamp"]);
    assert_eq!(body["count"], 2);
}

#[test]
fn object_message_and_reason_tell_events_apart() {
    let (mut correlator, clock) = correlator();
    let mut other = event("pv1", "boom");
    other.reason = "DetachFailed";
    let mut reborn = event("pv1", "boom");
    reborn.about.uid = "other".to_owned();
    let mut names = BTreeSet::new();
    for event in [
        event("pv1", "boom"),
        event("pv2", "boom"),
        event("pv1", "bang"),
        other,
        reborn,
    ] {
        let Some(Write::Create { body, .. }) = correlator.take(&event, clock.now()) else {
            panic!("{event:?}");
        };
        names.insert(body["metadata"]["name"].to_string());
    }
    assert_eq!(names.len(), 5);
}

#[test]
fn an_object_has_25_events_and_then_one_in_five_minutes() {
    let (mut correlator, mut clock) = correlator();
    let shapes = |correlator: &mut Correlator, now: Now, count: usize| -> Vec<String> {
        let mut one = || correlator.take(&event("pv1", "boom"), now);
        (0..count).map(|_| shape(one().as_ref())).collect()
    };
    let first = shapes(&mut correlator, clock.now(), 30);
    assert_eq!(first.iter().filter(|shape| *shape != ".").count(), 25);
    assert_eq!(first[24..27], ["=25", ".", "."]);
    clock.seconds = 301;
    assert_eq!(shapes(&mut correlator, clock.now(), 2), ["=26", "."]);
    assert_eq!(
        shape(correlator.take(&event("pv2", "boom"), clock.now()).as_ref()),
        "+1"
    );
}

#[test]
fn fp_8_what_was_tried_often_does_not_use_up_what_may_be_said_of_its_failure() {
    let (mut correlator, clock) = correlator();
    let mut trying = event("pv1", "trying");
    trying.severity = Severity::Normal;
    for _ in 0..30 {
        correlator.take(&trying, clock.now());
    }
    assert_eq!(correlator.take(&trying, clock.now()), None);
    let failed = correlator.take(&event("pv1", "boom"), clock.now());
    assert_eq!(shape(failed.as_ref()), "+1");
}

#[test]
fn fp_8_what_thousands_of_objects_told_is_counted_when_it_comes_again() {
    let (mut correlator, clock) = correlator();
    let mut round = |want: &str| {
        for number in 0..4096 {
            let write = correlator.take(&event(&format!("pv{number}"), "boom"), clock.now());
            assert_eq!(shape(write.as_ref()), want);
        }
    };
    round("+1");
    round("=2");
}

#[test]
fn ten_messages_under_one_reason_become_one_event() {
    let (mut correlator, mut clock) = correlator();
    let mut writes = Vec::new();
    for number in 0..12 {
        let event = event("pv1", &format!("boom {number}"));
        writes.push(correlator.take(&event, clock.now()).unwrap());
    }
    let shapes: Vec<String> = writes.iter().map(|write| shape(Some(write))).collect();
    assert_eq!(shapes[..9], vec!["+1"; 9]);
    assert_eq!(shapes[9..], ["+1", "=2", "=3"]);
    let Write::Count { patch, .. } = &writes[11] else {
        panic!("not counted");
    };
    assert_eq!(patch["message"], "(combined from similar events): boom 11");
    clock.seconds = 700;
    let later = correlator
        .take(&event("pv1", "boom 99"), clock.now())
        .unwrap();
    assert_eq!(shape(Some(&later)), "+1");
}

#[test]
fn long_names_and_messages_are_cut_at_whole_characters() {
    let (mut correlator, clock) = correlator();
    let event = event(&"n".repeat(253), &"ü".repeat(1000));
    let Some(Write::Create { body, .. }) = correlator.take(&event, clock.now()) else {
        panic!("not created");
    };
    assert_eq!(body["metadata"]["name"].as_str().unwrap().len(), 253);
    assert_eq!(body["message"], "ü".repeat(512));
}
