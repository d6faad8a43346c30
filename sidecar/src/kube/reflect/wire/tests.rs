use proptest::prelude::*;

use super::*;

const NODES: Resource = Resource {
    group: "",
    version: "v1",
    plural: "nodes",
    metadata_only: true,
};
const ATTACHMENTS: Resource = Resource::new("storage.k8s.io", "v1", "volumeattachments");

#[test]
fn requests_as_the_api_server_reads_them() {
    let timeout = Duration::from_secs(321);
    let scope = Scope::all(ATTACHMENTS);
    assert_eq!(
        scope.uri(&Ask::Stream, None, timeout),
        "/apis/storage.k8s.io/v1/volumeattachments?watch=true&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=321"
    );
    assert_eq!(
        scope.uri(&Ask::Page(None), Some(100), timeout),
        "/apis/storage.k8s.io/v1/volumeattachments?limit=100"
    );
    let whole = Scope {
        labels: "a=b".to_owned(),
        ..Scope::all(ATTACHMENTS)
    };
    assert_eq!(
        whole.uri(&Ask::Page(None), None, timeout),
        "/apis/storage.k8s.io/v1/volumeattachments?resourceVersion=&labelSelector=a%3Db"
    );
    let scope = Scope {
        resource: NODES,
        namespace: Some("a b".to_owned()),
        labels: "x in (y,z),!w".to_owned(),
        fields: "spec.nodeName=n1".to_owned(),
        relist: false,
    };
    assert_eq!(
        scope.uri(&Ask::Page(Some("to/ken=&".to_owned())), Some(100), timeout),
        "/api/v1/namespaces/a%20b/nodes?limit=100&continue=to%2Fken%3D%26\
         &labelSelector=x%20in%20%28y%2Cz%29%2C%21w&fieldSelector=spec.nodeName%3Dn1"
    );
    assert_eq!(
        Scope::all(NODES).uri(&Ask::Watch("7".to_owned()), None, timeout),
        "/api/v1/nodes?watch=true&allowWatchBookmarks=true&timeoutSeconds=321&resourceVersion=7"
    );
}

#[test]
fn only_metadata_are_asked_for_where_they_suffice() {
    let nodes = Scope::all(NODES);
    assert!(
        nodes
            .accept(&Ask::Page(None))
            .contains("as=PartialObjectMetadataList;")
    );
    assert!(
        nodes
            .accept(&Ask::Stream)
            .contains("as=PartialObjectMetadata;")
    );
    assert_eq!(
        Scope::all(ATTACHMENTS).accept(&Ask::Stream),
        "application/json"
    );
}

fn lines(pieces: &[&[u8]]) -> Vec<String> {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for piece in pieces {
        let mut input = *piece;
        while let Some(line) = lines.next(&mut input) {
            found.push(String::from_utf8_lossy(line).trim_end().to_owned());
        }
    }
    found
}

#[test]
fn lines_come_out_whole_however_they_come_in() {
    assert_eq!(
        lines(&[b"one\ntwo\nth", b"r", b"ee\n", b"", b"\n", b"rest"]),
        ["one", "two", "three", ""]
    );
}

#[test]
fn a_line_that_is_too_long_is_passed_over() {
    let long = vec![b'x'; LONGEST_LINE / 2 + 1];
    let pieces: [&[u8]; 6] = [b"one\n", &long, &long, &long, b"tail\ntwo\n", b"three\n"];
    assert_eq!(lines(&pieces), ["one", "", "two", "three"]);
    let whole = [long.clone(), long, b"\nnext\n".to_vec()].concat();
    assert_eq!(lines(&[&whole]), ["", "next"]);
}

#[test]
fn e_15_a_line_that_is_too_long_is_told_once() {
    let long = vec![b'x'; LONGEST_LINE / 2 + 1];
    let mut lines = Lines::default();
    let mut told = Vec::new();
    for piece in [
        &long[..],
        &long,
        &long,
        &long,
        &long,
        b"tail\ntwo\n",
        b"three\n",
    ] {
        let mut input = piece;
        while lines.next(&mut input).is_some() {}
        told.push(lines.passed_over());
    }
    assert_eq!(told, [false, true, false, false, false, false, false]);
}

#[test]
fn a_large_line_does_not_keep_its_memory() {
    let (mut reader, large) = (
        Lines::default(),
        [vec![b'x'; 1 << 20], b"\n".to_vec()].concat(),
    );
    let mut input: &[u8] = &large;
    assert!(reader.next(&mut input).is_some());
    assert!(reader.next(&mut input).is_none());
    assert!(reader.buffer.capacity() <= ORDINARY_LINE);
}

#[test]
fn events_are_told_apart() {
    let read = |text: &'static str| Line::read(text.as_bytes()).unwrap();
    assert!(matches!(
        read(r#"{"type":"ADDED","object":{"a":1}}"#),
        Line::Upserted(r#"{"a":1}"#)
    ));
    assert!(matches!(
        read(r#"{"object":{},"type":"MODIFIED"}"#),
        Line::Upserted("{}")
    ));
    assert!(matches!(
        read(r#"{"type":"DELETED","object":{}}"#),
        Line::Deleted("{}")
    ));
    assert!(matches!(
        read(r#"{"type":"SPLENDID","object":{}}"#),
        Line::Unknown
    ));
}

#[test]
fn bookmarks_with_and_without_annotations() {
    for (metadata, version, end) in [
        (r#"{"resourceVersion":"9"}"#, "9", false),
        (r#"{"resourceVersion":"9","annotations":null}"#, "9", false),
        (
            r#"{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"9"}"#,
            "9",
            true,
        ),
        (
            r#"{"annotations":{"k8s.io/initial-events-end":"false"},"resourceVersion":"9"}"#,
            "9",
            false,
        ),
        (
            r#"{"annotations":{"k8s.io/initial-events-end":"true"}}"#,
            "",
            true,
        ),
        ("{}", "", false),
    ] {
        let text = format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{metadata}}}}}"#);
        let Line::Bookmark {
            version: found,
            initial_events_end,
        } = Line::read(text.as_bytes()).unwrap()
        else {
            panic!("{text}");
        };
        assert_eq!(
            (found.as_str(), initial_events_end),
            (version, end),
            "{text}"
        );
    }
    let bare = Line::read(br#"{"type":"BOOKMARK","object":{}}"#).unwrap();
    assert!(matches!(
        bare,
        Line::Bookmark {
            initial_events_end: false,
            ..
        }
    ));
}

#[test]
fn a_refusal_in_the_watch_is_read_as_far_as_it_goes() {
    let text = r#"{"type":"ERROR","object":{"kind":"Status","code":504,"reason":"Timeout",
        "message":"Too large resource version: 9, current: 7",
        "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"x"}],
        "retryAfterSeconds":1}}}"#;
    let Line::Refused(refusal) = Line::read(text.as_bytes()).unwrap() else {
        panic!("no refusal");
    };
    assert_eq!((refusal.code, refusal.version_too_large), (504, true));
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(1)));
    for text in ["null", "[]", r#"{"code":"x"}"#, r#"{"code":99999}"#, "{"] {
        assert_eq!(Refusal::read(text), Refusal::default(), "{text}");
    }
}

#[test]
fn pages_give_their_objects_unread() {
    let body = br#"{"kind":"PVList","metadata":{"resourceVersion":"5","continue":"t","remainingItemCount":3},
        "items":[{"metadata":{"name":"a"}}, 7, null]}"#;
    let page = Page::read(body).unwrap();
    assert_eq!(
        page.objects().collect::<Vec<_>>(),
        [r#"{"metadata":{"name":"a"}}"#, "7", "null"]
    );
    assert_eq!(
        (page.version().as_str(), page.token().as_deref()),
        ("5", Some("t"))
    );
    for body in ["{}", r#"{"items":null,"metadata":{"continue":""}}"#] {
        let page = Page::read(body.as_bytes()).unwrap();
        assert_eq!((page.objects().count(), page.token()), (0, None), "{body}");
    }
}

/// Lines in API servers' form, and others that mean the same: all are read alike.
#[test]
fn lines_are_cut_as_they_would_be_read() {
    let rows: &[(&[u8], &str)] = &[
        (
            b"{\"type\":\"ADDED\",\"object\":{\"a\":\"}\"}}\n",
            r#"upserted {"a":"}"}"#,
        ),
        (b"{\"type\":\"MODIFIED\",\"object\":{}}\n", "upserted {}"),
        (b"{\"type\":\"DELETED\",\"object\":{}}\n", "deleted {}"),
        (b"{ \"type\": \"ADDED\", \"object\": {} }\n", "upserted {}"),
        (b"{\"object\":{},\"type\":\"DELETED\"}\n", "deleted {}"),
        (
            b"{\"type\":\"ADDED\",\"object\":{\"a\":\"\xff\"}}\n",
            "unreadable",
        ),
        (b"{\"type\":\"ADDED\"}\n", "unreadable"),
    ];
    for (line, expected) in rows {
        let found = match Line::read(line) {
            Ok(Line::Upserted(object)) => format!("upserted {object}"),
            Ok(Line::Deleted(object)) => format!("deleted {object}"),
            Ok(other) => format!("{other:?}"),
            Err(_) => "unreadable".to_owned(),
        };
        assert_eq!(found, *expected, "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn truncated_json_is_an_error_and_no_more() {
    let whole = r#"{"type":"ADDED","object":{"metadata":{"name":"a","labels":{"x":"y"}}}}"#;
    for end in 0..whole.len() {
        assert!(Line::read(&whole.as_bytes()[..end]).is_err(), "{end}");
    }
    let page = r#"{"metadata":{"resourceVersion":"5"},"items":[{}]}"#;
    for end in 0..page.len() {
        assert!(Page::read(&page.as_bytes()[..end]).is_err(), "{end}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Line::read(&bytes).is_ok(), Page::read(&bytes).is_ok());
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let _ = (Refusal::read(text), version_of(text));
        }
        let mut reader = Lines::default();
        let mut input: &[u8] = &bytes;
        while reader.next(&mut input).is_some() {}
        prop_assert!(input.is_empty());
    }

    #[test]
    fn no_json_makes_reading_panic(
        kind in "ADDED|MODIFIED|DELETED|BOOKMARK|ERROR|X",
        object in r#"(\{"metadata":)?(\{"name":)?("a"|null|7|\[\]|\{\}|true)\}?\}?"#,
    ) {
        let line = format!(r#"{{"type":"{kind}","object":{object}}}"#);
        let _ = Line::read(line.as_bytes()).is_ok();
    }
}
