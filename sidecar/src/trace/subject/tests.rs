use super::*;

const UID: &str = "9a7c1f0e-1111-4222-8333-444455556666";
const OTHER: &str = "0b0c2a5e-6c2d-4f53-8a2e-1f5f0e6f7a10";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn o_15_o_16_o_17_and_o_25_where_an_attempt_belongs() {
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
            subject(Goal::Root, None).linked(claim_of(&format!("pvc-{OTHER}"))),
            (Some(object), Some("root"), false),
            vec![(other, other.root())],
        ),
        (
            "a volume of another name",
            subject(Goal::Root, None).linked(claim_of("pv-of-somebody")),
            (Some(object), Some("root"), false),
            vec![],
        ),
        (
            "shown in a claim's trace",
            subject(Goal::Root, Some(at(0))).shown_in(Some(OTHER)),
            (Some(other), Some(UID), true),
            vec![],
        ),
        (
            "shown in a claim's trace, a day ago",
            subject(Goal::Root, Some(at(-24 * hour))).shown_in(Some(OTHER)),
            (None, None, false),
            vec![(other, other.span(UID))],
        ),
        (
            "again on what is shown in a claim's trace",
            subject(again("2Gi"), None).shown_in(Some(OTHER)),
            (Some(expand), Some("root"), false),
            vec![(other, other.span(UID))],
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

#[test]
fn o_18_the_object_and_its_annotation_are_linked_however_many_members_it_has() {
    let annotation = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let members = (0..2 * MOST_LINKS).map(|member| Text::from(format!("member-{member}")));
    let group = Subject {
        links: members.collect(),
        annotation: Some(annotation.into()),
        ..Subject::new(UID, "delete", Goal::Again("".into()))
    };
    let links = Place::of(&group, None, at(0)).links(&Found::default());
    let last = |place: usize| links.get(MOST_LINKS - place).unwrap();
    assert_eq!(links.len(), MOST_LINKS);
    assert_eq!(last(1).trace_id, TraceId::of(UID).0);
    assert_eq!(last(2).span_id[..2], [0xb7, 0xad]);
}
