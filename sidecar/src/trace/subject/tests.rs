use super::*;

const UID: &str = "9a7c1f0e-1111-4222-8333-444455556666";
const OTHER: &str = "0b0c2a5e-6c2d-4f53-8a2e-1f5f0e6f7a10";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn o_16_o_17_and_o_25_where_an_attempt_belongs() {
    let (object, other) = (TraceId::of(UID), TraceId::of(OTHER));
    let hour = 3600;
    let again = |goal: &str| Goal::Again(goal.into());
    let expand = TraceId::of_work(UID, "provision", "2Gi");
    let annotation = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let annotated = parse_traceparent(annotation).unwrap();
    let subject = |goal, since| Subject {
        goal,
        ..Subject::new(UID, "provision", Goal::Part).since(since)
    };
    let rows = [
        (
            "a part",
            subject(Goal::Part, Some(at(0))),
            (Some(object), Some("provision"), true),
            vec![],
        ),
        (
            "the root",
            subject(Goal::Root, Some(at(0))),
            (Some(object), Some("root"), false),
            vec![],
        ),
        (
            "nobody knows since when",
            subject(Goal::Part, None),
            (Some(object), Some("provision"), true),
            vec![],
        ),
        (
            "a day ago",
            subject(Goal::Part, Some(at(-24 * hour))),
            (None, None, false),
            vec![(object, object.root())],
        ),
        (
            "waited for a day before",
            Subject {
                waited: Some(("waiting", at(-24 * hour))),
                ..subject(Goal::Root, None)
            },
            (Some(object), Some("root"), false),
            vec![],
        ),
        (
            "a goal, however late",
            subject(again("2Gi"), Some(at(-24 * hour))),
            (Some(expand), Some("root"), false),
            vec![(object, object.root())],
        ),
        (
            "linked to a claim",
            subject(Goal::Root, None).linked_to_claim_of(&format!("pvc-{OTHER}")),
            (Some(object), Some("root"), false),
            vec![(other, other.root())],
        ),
        (
            "a volume of another name",
            subject(Goal::Root, None).linked_to_claim_of("pv-of-somebody"),
            (Some(object), Some("root"), false),
            vec![],
        ),
        (
            "annotated",
            Subject {
                annotation: Some(annotation.into()),
                ..subject(Goal::Root, None)
            },
            (Some(object), Some("root"), false),
            vec![annotated],
        ),
        (
            "annotated with nonsense",
            Subject {
                annotation: Some("x".repeat(1 << 20).into()),
                ..subject(Goal::Root, None)
            },
            (Some(object), Some("root"), false),
            vec![],
        ),
    ];
    for (row, subject, (trace, work, below_root), links) in rows {
        let place = Place::of(&subject, subject.since, at(hour - 1));
        if let Some(trace) = trace {
            assert_eq!(place.trace, trace, "{row}");
        } else {
            assert!(![object, other].contains(&place.trace), "{row}");
        }
        let trace = place.trace;
        assert_eq!(place.work, work.map(|work| trace.span(work)), "{row}");
        let root = below_root.then(|| trace.root());
        assert_eq!(place.root, root, "{row}");
        assert_eq!(place.links, links, "{row}");
    }
}
