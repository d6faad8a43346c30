//! A journal that cannot be opened, and one that answers too slowly. Rows J-11 and J-23.

use super::*;

fn refuse(journal: &mut Journal, refusal: Refusal) {
    let request = journal.next(false).unwrap();
    journal.answered(&request, error(refusal), start()).unwrap();
}

#[test]
fn j_11_who_asks_before_it_is_open_is_told_why() {
    for (refusal, tries) in [
        (Refusal::Forbidden, 1),
        (Refusal::NotFound, TRIES),
        (Refusal::Other, TRIES),
        (Refusal::Unknown, TRIES),
    ] {
        let mut server = Server::default();
        let mut one = Journal::new(owner("one"));
        while matches!(one.next(false), Some(Request::Read(_))) {
            let request = one.next(false).unwrap();
            let answer = server.apply(&one, &request);
            one.answered(&request, answer, start()).unwrap();
        }
        for _ in 0..tries {
            assert_eq!(one.closed(), Some(Unwritable::Closed), "{refusal:?}");
            refuse(&mut one, refusal);
        }
        assert!(one.is_refused(), "{refusal:?}");
        let refused = one.intend(intent(request("a")), start());
        assert!(
            matches!(refused, Err(Unwritable::Refused(_))),
            "{refusal:?}"
        );
        // The journal is retried without limit, and opens by itself.
        run(&mut one, &mut server, false).unwrap();
        assert_eq!((one.closed(), one.is_refused()), (None, false));
        let ticket = intend(&mut one, "a");
        run(&mut one, &mut server, false).unwrap();
        assert_eq!(one.state(ticket, start(), false), Some(Ok(())));
    }
}

/// Each answer comes after five seconds.
fn look(journal: &mut Journal, server: &mut Server, sent: Instant) -> Instant {
    while let Some(request) = journal.next(false) {
        let answer = server.apply(journal, &request);
        journal.answered(&request, answer, sent).unwrap();
    }
    sent + FRESH + Duration::from_secs(1)
}

#[test]
fn j_23_slow_answers_do_where_the_election_says_who_leads() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let ticket = intend(&mut one, "a");
    let now = look(&mut one, &mut server, start());
    assert_eq!(one.state(ticket, now, true), Some(Ok(())));
    assert!(one.may_call("a", now, true) && !one.may_call("a", now, false));
    // A repeated request has the object read, since somebody may have removed the entry.
    assert_eq!(one.intend(intent(request("a")), now), Ok(ticket));
    assert_eq!(one.state(ticket, now, true), None);
    assert_eq!(one.next(false), Some(Request::Read(0)));
    let now = look(&mut one, &mut server, now);
    assert_eq!(one.state(ticket, now, true), Some(Ok(())));
    // No call is made without a durable intent, whoever leads.
    let new = intend(&mut one, "b");
    assert_eq!(one.state(new, now, true), None);
    assert!(!one.may_call("b", now, true));
}

#[test]
fn j_23_without_an_election_who_waits_is_told_after_some_slow_answers() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let tickets = ["a", "b"].map(|uid| intend(&mut one, uid));
    let mut now = start();
    for _ in 0..=TRIES {
        now = look(&mut one, &mut server, now);
        let [first, second] = tickets.map(|ticket| one.state(ticket, now, false));
        if first.is_some() {
            for refused in [first, second] {
                assert!(
                    matches!(&refused, Some(Err(Unwritable::Refused(error))) if error.message.contains("4 s")),
                    "{refused:?}"
                );
            }
            return;
        }
    }
    panic!("nobody is told");
}
