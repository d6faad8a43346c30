//! Objects that an administrator has deleted. Row J-22.

use super::*;

const ALL: [&str; 3] = ["a", "b", "c"];

/// A journal with an intent in each of three objects.
fn three(server: &mut Server) -> Journal {
    let mut one = open(server, "one").crowded();
    for uid in ALL {
        intend(&mut one, uid);
    }
    run(&mut one, server, false).unwrap();
    assert_eq!(server.objects.len(), 3);
    one
}

/// Deletes the objects whose bits are set, and returns the intents of the others.
fn delete(server: &mut Server, subset: usize) -> Vec<&'static str> {
    let is_deleted = |number: usize| subset & (1 << number) != 0;
    for number in (0..3).filter(|number| is_deleted(*number)) {
        server.objects.remove(&format!("d-journal-{number}"));
    }
    let left = ALL.iter().enumerate();
    left.filter(|(number, _)| !is_deleted(*number))
        .map(|(_, uid)| *uid)
        .collect()
}

#[test]
fn j_22_a_successor_finds_all_objects_that_are_left_and_fences_them() {
    for subset in 0..8 {
        let mut server = Server::default();
        let mut one = three(&mut server);
        let left = delete(&mut server, subset);
        let mut two = open(&mut server, "two").crowded();
        assert_eq!(uids(&two.adopted()), left, "{subset:03b}");
        // The first process cannot write any object any more.
        if !left.is_empty() {
            let held = left.iter().map(|uid| one.settle(uid)).count();
            assert_eq!(held, left.len());
            let fenced = run(&mut one, &mut server, true);
            assert!(matches!(fenced, Err(Lost::Fenced(..))), "{subset:03b}");
        }
        for uid in ["d", "e", "f", "g"] {
            let ticket = intend(&mut two, uid);
            run(&mut two, &mut server, false).unwrap();
            assert_eq!(two.state(ticket, start(), false), Some(Ok(())));
        }
        let three = open(&mut server, "three").adopted();
        let all: Vec<_> = left.into_iter().chain(["d", "e", "f", "g"]).collect();
        assert_eq!(uids(&three), all, "{subset:03b}");
    }
}

#[test]
fn j_22_a_process_that_is_up_makes_anew_what_it_writes_next() {
    for subset in 0..8 {
        let mut server = Server::default();
        let mut one = three(&mut server);
        delete(&mut server, subset);
        for uid in ALL {
            let again = intent(PinnedRequest {
                parameters: [("again".to_owned(), "b".to_owned())].into(),
                ..request(uid)
            });
            one.intend(again, start()).unwrap();
        }
        run(&mut one, &mut server, false).unwrap();
        assert_eq!(uids(&open(&mut server, "two").adopted()), ALL);
    }
}

/// Objects are looked for once if there never was a journal; if the first object exists, its count is used.
#[test]
fn j_22_objects_are_looked_for_only_without_the_first_one() {
    let reads = |server: &mut Server, holder: &str| {
        let mut journal = Journal::new(owner(holder));
        let mut reads = 0;
        while let Some(request) = journal.next(false) {
            reads += usize::from(matches!(request, Request::Read(_)));
            let answer = server.apply(&journal, &request);
            journal.answered(&request, answer, start()).unwrap();
        }
        assert!(journal.is_open());
        reads
    };
    let mut server = Server::default();
    assert_eq!(reads(&mut server, "one"), PROBED_OBJECTS);
    assert_eq!(server.objects.len(), 1, "no more are made");
    assert_eq!(reads(&mut server, "two"), 1);
    // The header of the first object belongs to another object.
    server.restore();
    assert_eq!(reads(&mut server, "three"), PROBED_OBJECTS);
}

/// A claim gets its volume although more objects than are looked for are full of calls without an answer.
#[test]
fn p_9_full_objects_keep_no_claim_from_its_volume() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one").crowded();
    let uids: Vec<String> = (0..2 * PROBED_OBJECTS)
        .map(|number| format!("u{number}"))
        .collect();
    for uid in &uids {
        let ticket = intend(&mut one, uid);
        run(&mut one, &mut server, false).unwrap();
        assert_eq!(one.state(ticket, start(), false), Some(Ok(())), "{uid}");
    }
    assert_eq!(server.objects.len(), uids.len());
    // The first object, and all but one of those that are looked for.
    for number in 0..PROBED_OBJECTS - 1 {
        server.objects.remove(&format!("d-journal-{number}"));
    }
    let left = open(&mut server, "two").adopted().len();
    assert_eq!(left, uids.len() - PROBED_OBJECTS + 1);
}

/// A journal that does not know of a third object, with an intent for claim c, which somebody restored.
fn overlooking(server: &mut Server) -> Journal {
    let mut before = open(server, "before").crowded();
    for (number, uid) in ALL.into_iter().enumerate() {
        before = open(server, &format!("before-{number}")).crowded();
        intend(&mut before, uid);
        run(&mut before, server, false).unwrap();
    }
    assert_eq!(before.epoch, 4);
    let back = server.objects.split_off("d-journal-1");
    server.objects.clear();
    let mut one = open(server, "one").crowded();
    server.objects.extend(back);
    intend(&mut one, "d");
    intend(&mut one, "e");
    let fenced = run(&mut one, server, false);
    assert!(matches!(fenced, Err(Lost::Fenced(..))));
    open(server, "two").crowded()
}

/// An object that somebody restores while the journal is open ends the process once, and not for each epoch.
#[test]
fn j_22_an_object_that_comes_back_is_taken_over_by_the_next_process() {
    let mut server = Server::default();
    let mut two = overlooking(&mut server);
    assert!(two.epoch > 4);
    assert_eq!(uids(&two.adopted()), ["b", "d"]);
    // The third object, which no header counts, is found when a third one is needed.
    intend(&mut two, "e");
    run(&mut two, &mut server, false).unwrap();
    assert_eq!(uids(&two.adopted()), ["c"]);
}

/// The current request of its claim, in the same object, does not replace it.
#[test]
fn j_22_what_comes_to_light_is_owed_beside_what_is_asked_since() {
    let mut server = Server::default();
    let mut two = overlooking(&mut server);
    two.adopted();
    let before = Arc::new(request("c"));
    let since = Arc::new(PinnedRequest {
        parameters: [("since".to_owned(), "b".to_owned())].into(),
        ..request("c")
    });
    let asked = Intent::new(&Claim::default(), &since);
    let ticket = two.intend(asked, start()).unwrap();
    run(&mut two, &mut server, false).unwrap();
    assert_eq!(two.state(ticket, start(), false), Some(Ok(())));
    let found = two.adopted();
    assert_eq!(uids(&found), ["c"]);
    assert_eq!(found[0].asked.as_ref(), Some(&before));
    let mut three = open(&mut server, "three").adopted();
    three.retain(|intent| intent.uid() == "c");
    assert_eq!(three[0].asked.as_ref(), Some(&since));
    assert_eq!(three[0].unsettled, [before]);
}
