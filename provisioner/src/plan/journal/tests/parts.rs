//! A claim's entry that outgrows its object, row J-13.

use super::*;

const HALF: usize = 130 * 1024;

fn asked(uid: &str, key: &str, bytes: usize) -> Arc<PinnedRequest> {
    let parameters = [(key.to_owned(), "x".repeat(bytes))].into();
    Arc::new(PinnedRequest {
        parameters,
        ..request(uid)
    })
}

fn with_unsettled(asked: &Arc<PinnedRequest>, unsettled: &[&Arc<PinnedRequest>]) -> Intent {
    let unsettled = unsettled
        .iter()
        .map(|unsettled| Arc::clone(unsettled))
        .collect();
    Intent::with_unsettled(&Claim::default(), Some(Arc::clone(asked)), unsettled)
}

fn only_unsettled(unsettled: &[&Arc<PinnedRequest>]) -> Intent {
    let unsettled = unsettled
        .iter()
        .map(|unsettled| Arc::clone(unsettled))
        .collect();
    Intent::with_unsettled(&Claim::default(), None, unsettled)
}

fn adopted(server: &mut Server, holder: &str) -> Vec<Intent> {
    let adopted = open(server, holder).adopted();
    adopted.iter().map(|intent| (**intent).clone()).collect()
}

/// Two requests of a claim that fit into no object together.
#[test]
fn j_13_what_is_asked_next_goes_into_another_object() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let [first, second] = ["a", "b"].map(|key| asked("u", key, HALF));
    one.intend(with_unsettled(&first, &[]), start()).unwrap();
    run(&mut one, &mut server, false).unwrap();
    one.amend(&only_unsettled(&[&first]));
    run(&mut one, &mut server, true).unwrap();
    assert!(one.may_call("u", start(), false));
    let ticket = one
        .intend(with_unsettled(&second, &[&first]), start())
        .unwrap();
    assert_eq!(one.state(ticket, start(), false), None);
    assert!(
        !one.may_call("u", start(), false),
        "not with the first one's word"
    );
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(one.state(ticket, start(), false), Some(Ok(())));
    assert!(one.may_call("u", start(), false));
    assert!(server.bytes().iter().all(|bytes| *bytes <= LIMIT));
    assert_eq!(
        adopted(&mut server, "two"),
        [with_unsettled(&second, &[&first])]
    );
}

#[test]
fn j_13_a_successor_asks_what_was_asked_last_wherever_it_is() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let [first, second] = ["a", "b"].map(|key| asked("u", key, HALF));
    one.intend(with_unsettled(&first, &[]), start()).unwrap();
    one.intend(with_unsettled(&second, &[&first]), start())
        .unwrap();
    run(&mut one, &mut server, false).unwrap();
    // Neither object was updated to say that the first request is only unsettled.
    assert_eq!(
        adopted(&mut server, "two"),
        [with_unsettled(&second, &[&first])]
    );
    let mut three = open(&mut server, "three");
    let ticket = three
        .intend(with_unsettled(&first, &[&second]), start())
        .unwrap();
    assert_eq!(
        three.state(ticket, start(), false),
        None,
        "it must be said first"
    );
    run(&mut three, &mut server, false).unwrap();
    assert_eq!(three.state(ticket, start(), false), Some(Ok(())));
    assert_eq!(
        adopted(&mut server, "four"),
        [with_unsettled(&first, &[&second])]
    );
    let mut five = open(&mut server, "five");
    // Repeating unsettled requests needs no new write.
    let ticket = five
        .intend(only_unsettled(&[&first, &second]), start())
        .unwrap();
    assert_eq!(five.state(ticket, start(), false), Some(Ok(())));
    // The second request is settled first, then the first one.
    five.amend(&only_unsettled(&[&first]));
    run(&mut five, &mut server, true).unwrap();
    assert_eq!(adopted(&mut server, "six"), [only_unsettled(&[&first])]);
    let mut seven = open(&mut server, "seven");
    seven.settle("u");
    run(&mut seven, &mut server, true).unwrap();
    assert_eq!(adopted(&mut server, "eight"), []);
}

/// An entry that was settled a moment ago is still in its object when the next one is written.
#[test]
fn j_13_what_is_settled_and_not_yet_gone_is_not_asked_first() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let first = asked("u", "a", 100);
    let full = asked("other", "c", BUDGET - 3 * 1024);
    for one_of in [&full, &first] {
        one.intend(with_unsettled(one_of, &[]), start()).unwrap();
    }
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(server.objects.len(), 1);
    let before = server.objects["d-journal-0"].clone();
    one.settle("u");
    let large = asked("u", "b", HALF);
    one.intend(with_unsettled(&large, &[]), start()).unwrap();
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(server.objects.len(), 2);
    // As if the process had died between the two writes.
    let entry = format!("{INTENT}u");
    let stale = before.1["metadata"]["annotations"][&entry].clone();
    server.edit("d-journal-0", |all| drop(all.insert(entry, stale)));
    let found = adopted(&mut server, "two");
    let found = found.iter().find(|intent| intent.uid() == "u").unwrap();
    assert_eq!(*found, with_unsettled(&large, &[&first]));
}

/// An outage: hundreds of claims have an unsettled first request, and send another one.
#[test]
fn j_13_a_shared_object_that_is_full_keeps_nobody_waiting() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let uid = |number| format!("11111111-2222-3333-4444-{number:012}");
    let mut unsettled: BTreeMap<u32, Vec<Arc<PinnedRequest>>> = BTreeMap::new();
    for round in ["a", "b", "c"] {
        for number in 0..300 {
            let request = asked(&uid(number), round, 300);
            let held = unsettled.entry(number).or_default();
            let others: Vec<_> = held.iter().collect();
            let ticket = one
                .intend(with_unsettled(&request, &others), start())
                .unwrap();
            held.push(request);
            let others: Vec<_> = held.iter().collect();
            run(&mut one, &mut server, false).unwrap();
            assert_eq!(one.state(ticket, start(), false), Some(Ok(())));
            one.amend(&only_unsettled(&others));
        }
    }
    run(&mut one, &mut server, true).unwrap();
    assert!(server.bytes().iter().all(|bytes| *bytes <= LIMIT));
    let found = adopted(&mut server, "two");
    for (number, wanted) in &unsettled {
        let found = found.iter().find(|intent| intent.uid() == uid(*number));
        let found = found.unwrap();
        assert!(wanted.iter().all(|wanted| found.unsettled.contains(wanted)));
    }
    for number in 0..300 {
        one = open(&mut server, "three");
        one.settle(&uid(number));
        run(&mut one, &mut server, true).unwrap();
        if number == 3 {
            break;
        }
    }
    let found = adopted(&mut server, "four");
    assert_eq!(found.len(), 296);
}

#[test]
fn j_13_what_fits_nowhere_is_said() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one").small();
    let refused = one.intend(with_unsettled(&asked("u", "a", LIMIT), &[]), start());
    assert!(matches!(refused, Err(Unwritable::TooLarge(_))));
    let large = asked("u", "a", HALF);
    one.intend(with_unsettled(&large, &[]), start()).unwrap();
    let refused = one.intend(with_unsettled(&asked("u", "b", LIMIT), &[&large]), start());
    assert!(matches!(refused, Err(Unwritable::TooLarge(_))));
    let most = one.max_objects;
    for number in 1..most {
        let request = asked(&format!("v{number}"), "a", BUDGET);
        one.intend(with_unsettled(&request, &[]), start()).unwrap();
    }
    let refused = one.intend(with_unsettled(&asked("w", "a", BUDGET), &[]), start());
    assert_eq!(refused, Err(Unwritable::Full));
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(adopted(&mut server, "two").len(), most);
}

/// The running sums equal the bytes that are written.
#[test]
fn j_2_sizes_are_kept_as_sums() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let topology = many_nodes(5);
    for round in 0..5 {
        for number in 0..20 {
            let uid = format!("u{number}");
            match (number + round) % 4 {
                _ if round == 4 => one.settle(&uid),
                0 => one.settle(&uid),
                1 => drop(one.intend(with_topology(&uid, &topology), start()).unwrap()),
                2 => drop(
                    one.intend(with_unsettled(&asked(&uid, "a", 100), &[]), start())
                        .unwrap(),
                ),
                _ => one.amend(&only_unsettled(&[&asked(&uid, "a", 100)])),
            }
        }
        if round == 2 {
            server.edit("d-journal-0", |all| {
                all.insert("note".into(), "mine".into());
                all.insert(format!("{INTENT}broken"), "{".into());
            });
        }
        run(&mut one, &mut server, true).unwrap();
        let header = server.annotation("d-journal-0", HEADER).unwrap();
        let written = server.bytes()[0] - HEADER.len() - header.len();
        assert_eq!(one.objects[0].size(), written, "{round}");
    }
}

#[test]
fn j_2_as_many_go_together_as_are_under_way() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    assert!(!one.may_grow());
    intend(&mut one, "a");
    assert!(!one.may_grow(), "one alone does not wait");
    run(&mut one, &mut server, false).unwrap();
    intend(&mut one, "b");
    assert!(!one.may_grow(), "nor one beside another");
    intend(&mut one, "c");
    run(&mut one, &mut server, false).unwrap();
    for (uid, grows) in [("d", true), ("e", true), ("f", false)] {
        intend(&mut one, uid);
        assert_eq!(one.may_grow(), grows, "{uid}");
    }
    run(&mut one, &mut server, false).unwrap();
    for uid in ["a", "b", "c", "d", "e"] {
        assert!(one.may_grow());
        one.settle(uid);
    }
    // A call with unknown outcome is not under way, maybe for months.
    one.amend(&intent(request("f")));
    assert!(!one.may_grow(), "nobody is to come");
}

/// An annotation that does not change is rendered once.
#[test]
fn j_2_an_entry_that_stays_is_shared_by_all_writes() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "stays");
    let writes = ["a", "b"].map(|uid| {
        intend(&mut one, uid);
        let Some(Request::Write(write)) = one.next(false) else {
            panic!("nothing to write");
        };
        let request = Request::Write(write.clone());
        let answer = server.apply(&one, &request);
        one.answered(&request, answer, start()).unwrap();
        write
    });
    let held = writes.each_ref().map(|write| {
        let mut all = write.annotations().iter();
        all.find(|held| held.name().ends_with("stays")).unwrap()
    });
    assert!(Arc::ptr_eq(held[0], held[1]));
}
