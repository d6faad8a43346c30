//! Capacity of an object: never more than the API server accepts, and not much less.

use super::*;

/// An intent with topology terms of `bytes` bytes.
fn with_terms(uid: &str, value: &str, bytes: usize) -> Intent {
    use crate::plan::topology::Requirement;
    let terms = serde_json::json!({
        "terms": [{"keys": ["zone"], "count": 1, "values": [[format!("00{}", value.repeat(bytes))]]}],
        "first": 0,
    });
    let requirement: Requirement = serde_json::from_value(terms).unwrap();
    intent(PinnedRequest {
        requirement: Some(requirement),
        ..request(uid)
    })
}

fn longest() -> Owner {
    Owner {
        lease: "d".into(),
        driver: "d".repeat(63),
        node: "n".repeat(253),
        holder: "h".repeat(350),
        labels: Vec::new(),
    }
}

/// Greatest size of parameters that fits.
fn most(owner: &Owner) -> usize {
    let takes = |bytes: &usize| {
        let mut journal = Journal::new(owner.clone());
        run(&mut journal, &mut Server::default(), false).unwrap();
        journal.intend(large("u", *bytes), start()).is_ok()
    };
    let mut range = LIMIT - 2048..LIMIT;
    while range.len() > 1 {
        let middle = range.start + range.len() / 2;
        if takes(&middle) {
            range.start = middle
        } else {
            range.end = middle
        }
    }
    range.start
}

/// A thousand calls, a hundred of them at a time.
#[test]
fn p_12_a_write_has_what_is_open_and_no_more() {
    const OPEN: usize = 100;
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let mut bytes = Vec::new();
    for number in 0..1_000_usize {
        intend(&mut one, &format!("u{number:03}"));
        if let Some(settled) = number.checked_sub(OPEN) {
            one.settle(&format!("u{settled:03}"));
        }
        run(&mut one, &mut server, false).unwrap();
        bytes.push(server.bytes().iter().sum::<usize>());
    }
    let each = (bytes[OPEN - 1] - bytes[0]).div_ceil(OPEN - 1);
    let most = bytes.iter().max().unwrap();
    assert!(*most <= bytes[0] + OPEN * (each + 1), "{most}, {each} each");
}

#[test]
fn j_13_the_bound_holds_whatever_the_header_says() {
    for owner in [owner("one"), longest()] {
        let mut server = Server::default();
        let mut journal = Journal::new(owner.clone());
        run(&mut journal, &mut server, false).unwrap();
        journal.intend(large("u", most(&owner)), start()).unwrap();
        run(&mut journal, &mut server, false).unwrap();
        let bytes = server.bytes()[0];
        assert!(bytes <= LIMIT, "{bytes}");
        assert!(bytes > LIMIT - 100, "{bytes}: much more would fit");
    }
}

#[test]
fn j_13_terms_that_go_with_what_is_replaced_do_not_count() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    for value in ["a", "b"] {
        let ticket = one.intend(with_terms("u", value, BUDGET), start()).unwrap();
        run(&mut one, &mut server, false).unwrap();
        assert_eq!(one.state(ticket, start(), false), Some(Ok(())));
    }
    assert_eq!(server.objects.len(), 1, "it fits into the first one");
}

#[test]
fn j_13_terms_that_an_unreadable_entry_has_as_well_count_once() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    one.intend(with_terms("u", "a", 130 * 1024), start())
        .unwrap();
    run(&mut one, &mut server, false).unwrap();
    let name = format!("{INTENT}u");
    server.edit("d-journal-0", |all| {
        let text = all[&name]
            .as_str()
            .unwrap()
            .replace(r#""name":"pvc-u""#, r#""name":5"#);
        all.insert(name.clone(), text.into());
    });
    let mut two = open(&mut server, "two");
    assert_eq!(two.broken().len(), 1);
    two.intend(with_terms("v", "a", 130 * 1024), start())
        .unwrap();
    run(&mut two, &mut server, false).unwrap();
    assert_eq!(server.objects.len(), 1);
    let terms = |server: &Server| {
        let found = server.found("d-journal-0").unwrap();
        found
            .annotations
            .keys()
            .filter(|name| name.starts_with(TERMS))
            .count()
    };
    assert_eq!(terms(&server), 1);
    two.settle("v");
    run(&mut two, &mut server, true).unwrap();
    assert_eq!(terms(&server), 1, "whoever mends the other one needs them");
}

#[test]
fn j_13_what_is_settled_takes_no_room() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "small");
    run(&mut one, &mut server, false).unwrap();
    one.settle("small");
    one.intend(large("large", BUDGET), start()).unwrap();
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(server.objects.len(), 1);
}
