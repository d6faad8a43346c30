//! Several objects: they take turns, and waiting callers get errors in time.

use super::*;

/// A journal with a claim's large entry in the second object, so that the first one has space for others.
fn two_objects(server: &mut Server) -> Journal {
    let mut one = open(server, "one");
    intend(&mut one, "small");
    one.intend(large("large", BUDGET), start()).unwrap();
    run(&mut one, server, false).unwrap();
    assert_eq!(server.objects.len(), 2);
    one
}

/// Whether the second object is written while a caller always waits for the first one.
fn is_written_under_load(one: &mut Journal, server: &mut Server, lazily: bool) -> bool {
    (0..4).any(|round| {
        intend(one, &format!("load-{round}"));
        let request = one.next(lazily && round == 0).unwrap();
        let answer = server.apply(one, &request);
        one.answered(&request, answer, start()).unwrap();
        request.number() == 1
    })
}

#[test]
fn under_load_each_object_has_its_turn() {
    let mut server = Server::default();
    let mut one = two_objects(&mut server);
    let anew = large("large", BUDGET + 1);
    one.intend(anew, start()).unwrap();
    assert!(is_written_under_load(&mut one, &mut server, false));
    one.settle("large");
    assert!(is_written_under_load(&mut one, &mut server, true), "lazily");
    // An entry that was not confirmed for long.
    one.intend(large("large", BUDGET), start()).unwrap();
    run(&mut one, &mut server, false).unwrap();
    let later = start() + 2 * FRESH;
    one.intend(large("large", BUDGET), later).unwrap();
    let asked = (0..4).any(|round| {
        intend(&mut one, &format!("more-{round}"));
        let request = one.next(false).unwrap();
        let answer = server.apply(&one, &request);
        one.answered(&request, answer, later).unwrap();
        request == Request::Read(1)
    });
    assert!(asked, "it is read");
}

#[test]
fn an_object_that_cannot_be_written_holds_up_no_other() {
    let mut server = Server::default();
    let mut one = two_objects(&mut server);
    intend(&mut one, "waits");
    let ticket = one.intend(large("large", BUDGET + 1), start()).unwrap();
    for _ in 0..2 {
        let request = one.next(false).unwrap();
        let answer = match request.number() {
            0 => error(Refusal::Other),
            _ => server.apply(&one, &request),
        };
        one.answered(&request, answer, start()).unwrap();
    }
    assert_eq!(one.state(ticket, start(), false), Some(Ok(())));
}

/// After a conflict the object is read and written at once, before others change it again.
#[test]
fn what_was_read_to_be_written_is_written_next() {
    let mut server = Server::default();
    let mut one = two_objects(&mut server);
    let ticket = intend(&mut one, "a");
    one.intend(large("large", BUDGET + 1), start()).unwrap();
    server.edit("d-journal-0", |all| {
        drop(all.insert("note".into(), "x".into()))
    });
    server.edit("d-journal-1", |all| {
        drop(all.insert("note".into(), "x".into()))
    });
    let mut asked = Vec::new();
    while let Some(request) = one.next(false) {
        let answer = server.apply(&one, &request);
        asked.push((request.number(), matches!(request, Request::Read(_))));
        one.answered(&request, answer, start()).unwrap();
    }
    assert_eq!(one.state(ticket, start(), false), Some(Ok(())));
    let read = asked.iter().position(|(_, read)| *read).unwrap();
    assert_eq!(asked[read + 1], (asked[read].0, false), "{asked:?}");
}

/// The second object may be written only after the first one counts two.
#[test]
fn j_11_who_waits_for_a_new_object_is_told_when_the_first_one_fails() {
    for (refusal, tries) in [(Refusal::Forbidden, 1), (Refusal::Other, TRIES)] {
        let mut server = Server::default();
        let mut one = open(&mut server, "one");
        intend(&mut one, "small");
        run(&mut one, &mut server, false).unwrap();
        let ticket = one.intend(large("large", BUDGET), start()).unwrap();
        for _ in 0..tries {
            assert_eq!(one.state(ticket, start(), false), None);
            let request = one.next(false).unwrap();
            assert_eq!(request.number(), 0);
            one.answered(&request, error(refusal), start()).unwrap();
        }
        let refused = one.state(ticket, start(), false);
        assert!(
            matches!(refused, Some(Err(Unwritable::Refused(_)))),
            "{refusal:?}"
        );
        assert_eq!(one.next(false), None, "nobody waits any more");
        // The next try starts with the first object again, at once.
        let again = one.intend(large("large", BUDGET), start()).unwrap();
        assert_eq!(one.state(again, start(), false), None);
        run(&mut one, &mut server, false).unwrap();
        assert_eq!(
            one.state(again, start(), false),
            Some(Ok(())),
            "{refusal:?}"
        );
    }
}

/// With many objects it would take minutes until each has failed often enough by itself.
#[test]
fn j_11_in_an_outage_all_who_wait_are_told_together() {
    let mut server = Server::default();
    let mut one = two_objects(&mut server);
    let tickets = [
        intend(&mut one, "waits"),
        one.intend(large("large", BUDGET + 1), start()).unwrap(),
    ];
    for _ in 0..TRIES {
        let request = one.next(false).unwrap();
        one.answered(&request, error(Refusal::Unknown), start())
            .unwrap();
    }
    for ticket in tickets {
        let refused = one.state(ticket, start(), false);
        assert!(matches!(refused, Some(Err(Unwritable::Refused(_)))));
    }
}

/// A caller that came while the failing request was under way.
#[test]
fn who_came_too_late_to_be_told_is_not_left_waiting() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "a");
    let request = one.next(false).unwrap();
    let ticket = intend(&mut one, "b");
    one.answered(&request, error(Refusal::Forbidden), start())
        .unwrap();
    assert_eq!(one.state(ticket, start(), false), None);
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(one.state(ticket, start(), false), Some(Ok(())));
}
