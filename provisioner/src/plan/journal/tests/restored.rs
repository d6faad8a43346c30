//! Objects that were made from a backup. Row J-21.

use super::*;

fn apart(server: &Server, name: &str, uid: &str) -> Option<String> {
    server.annotation(name, &format!("restored.csi-sidecars.io/{uid}"))
}

#[test]
fn j_21_what_comes_from_a_backup_is_set_apart_and_never_asked_for() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "u");
    run(&mut one, &mut server, false).unwrap();
    let entry = server.annotation("d-journal-0", &format!("{INTENT}u"));
    server.restore();
    for (holder, count) in [("two", 1), ("three", 0)] {
        let mut journal = open(&mut server, holder);
        assert_eq!(journal.adopted(), Vec::new(), "{holder}");
        let broken = journal.broken();
        assert_eq!(broken.len(), count, "{holder}: {broken:?}");
        assert!(!server.holds("u"));
        assert_eq!(apart(&server, "d-journal-0", "u"), entry);
        assert!(!journal.may_call("u", start(), false));
    }
    // The claim was restored as well, with its UID: a request for it now is its own.
    let mut four = open(&mut server, "four");
    intend(&mut four, "u");
    run(&mut four, &mut server, false).unwrap();
    assert!(four.may_call("u", start(), false));
    assert_eq!(uids(&open(&mut server, "five").adopted()), ["u"]);
    assert_eq!(apart(&server, "d-journal-0", "u"), entry);
}

/// Objects that were created with intents, too.
#[test]
fn j_21_every_object_says_which_one_it_is() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let large = |uid: &str| {
        let parameters = [("a".to_owned(), "b".repeat(150 * 1024))].into();
        intent(PinnedRequest {
            parameters,
            ..request(uid)
        })
    };
    for uid in ["u", "v"] {
        one.intend(large(uid), start()).unwrap();
    }
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(server.objects.len(), 2);
    for name in ["d-journal-0", "d-journal-1"] {
        let header = server.annotation(name, HEADER).unwrap();
        assert!(header.contains(r#""uid":"uid-"#), "{name}: {header}");
    }
    // Deleted, and created again with a call under way.
    server.objects.remove("d-journal-0");
    intend(&mut one, "w");
    run(&mut one, &mut server, false).unwrap();
    server.restore();
    let mut two = open(&mut server, "two");
    assert_eq!(two.adopted(), Vec::new());
    assert_eq!(two.broken().len(), 3);
}

/// The UID is written at once when an object is recreated from its own YAML under a running process.
#[test]
fn j_21_a_process_goes_on_with_an_object_that_was_replaced() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "u");
    run(&mut one, &mut server, false).unwrap();
    server.restore();
    intend(&mut one, "v");
    run(&mut one, &mut server, false).unwrap();
    assert!(one.may_call("v", start(), false));
    let header = server.annotation("d-journal-0", HEADER).unwrap();
    assert!(header.contains(&server.found("d-journal-0").unwrap().uid));
    assert_eq!(uids(&open(&mut server, "two").adopted()), ["u", "v"]);
}

/// The header names the object's UID also when the creation of an object with intents had no answer.
#[test]
fn j_21_an_object_whose_making_had_no_answer_says_which_one_it_is() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "u");
    run(&mut one, &mut server, false).unwrap();
    server.objects.clear();
    intend(&mut one, "v");
    let mut unheard = 0;
    for _ in 0..50 {
        let Some(request) = one.next(false) else {
            break;
        };
        let mut answer = server.apply(&one, &request);
        if matches!(&request, Request::Write(write) if write.version.is_none()) {
            answer = error(Refusal::Unknown);
            unheard += 1;
        }
        one.answered(&request, answer, start()).unwrap();
    }
    assert_eq!((unheard, one.next(false)), (1, None));
    let found = server.found("d-journal-0").unwrap();
    assert!(found.annotations[HEADER].contains(&found.uid));
}

/// A journal of a program that did not write UIDs yet is taken over.
#[test]
fn j_21_without_a_uid_it_is_believed() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "u");
    run(&mut one, &mut server, false).unwrap();
    server.edit("d-journal-0", |all| {
        let mut header: Value = serde_json::from_str(all[HEADER].as_str().unwrap()).unwrap();
        assert!(header.as_object_mut().unwrap().remove("uid").is_some());
        all.insert(HEADER.into(), header.to_string().into());
    });
    assert_eq!(uids(&open(&mut server, "two").adopted()), ["u"]);
}
