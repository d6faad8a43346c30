//! Entries that cannot be read: a newer program's, or damaged ones. Row J-9.

use serde_json::json;

use super::*;

const FIRST: &str = "d-journal-0";
const NEWER: &str = r#"{"order":7,"prepared":{"name":5}}"#;

fn entry(uid: &str) -> String {
    format!("{INTENT}{uid}")
}

/// A journal in which the entry of `u` has this text.
fn unreadable(text: &str) -> Server {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "u");
    run(&mut one, &mut server, false).unwrap();
    server.edit(FIRST, |all| drop(all.insert(entry("u"), text.into())));
    server
}

#[test]
fn j_9_what_cannot_be_read_stays_beside_the_next_intent_of_its_claim() {
    for text in ["{", NEWER] {
        let mut server = unreadable(text);
        let mut two = open(&mut server, "two");
        assert_eq!(two.adopted(), Vec::new());
        let ticket = intend(&mut two, "u");
        run(&mut two, &mut server, false).unwrap();
        assert_eq!(two.state(ticket, start(), false), Some(Ok(())));
        assert!(two.may_call("u", start(), false));
        let stays = |server: &Server| server.annotation(FIRST, &entry("u")).unwrap() == text;
        assert!(stays(&server), "{text}");
        two.amend(&intent(request("u")));
        intend(&mut two, "u");
        run(&mut two, &mut server, true).unwrap();
        assert!(stays(&server), "{text}");
        // Settling later requests of the claim does not remove it, either.
        two.settle("u");
        run(&mut two, &mut server, true).unwrap();
        assert!(stays(&server), "{text}");
        assert_eq!(server.annotation("d-journal-1", &entry("u")), None);
    }
}

/// A process that can read both takes the later request for the current one.
#[test]
fn j_9_what_can_be_read_again_is_older_than_what_was_asked_since() {
    let mut server = unreadable(NEWER);
    let mut two = open(&mut server, "two");
    let since = PinnedRequest {
        class_uid: "since".into(),
        ..request("u")
    };
    two.intend(intent(since.clone()), start()).unwrap();
    run(&mut two, &mut server, false).unwrap();
    let mended = intent(request("u")).encode(7).text.text().to_owned();
    server.edit(FIRST, |all| drop(all.insert(entry("u"), mended.into())));
    let adopted = open(&mut server, "three").adopted();
    assert_eq!(adopted.len(), 1);
    assert_eq!(adopted[0].asked.as_deref(), Some(&since));
    assert_eq!(adopted[0].unsettled, [Arc::new(request("u"))]);
}

/// Fields that this program does not know would be missing when it repeats the call, and when it writes the entry.
#[test]
fn j_9_an_entry_with_what_only_a_newer_program_knows_is_kept() {
    let pointers = [
        "",
        "/prepared",
        "/prepared/blueprint",
        "/prepared/blueprint/claim",
        "/prepared/blueprint/secrets",
    ];
    for pointer in pointers {
        let mut server = unreadable("{");
        let known = intent(request("u")).encode(0).text.text().to_owned();
        let mut newer: Value = serde_json::from_str(&known).unwrap();
        newer.pointer_mut(pointer).unwrap()["later"] = "much".into();
        let newer = newer.to_string();
        server.edit(FIRST, |all| {
            drop(all.insert(entry("u"), newer.clone().into()))
        });
        let mut two = open(&mut server, "two");
        assert_eq!(two.adopted(), Vec::new(), "{pointer}");
        assert_eq!(two.broken().len(), 1, "{pointer}");
        intend(&mut two, "u");
        run(&mut two, &mut server, false).unwrap();
        two.settle("u");
        run(&mut two, &mut server, true).unwrap();
        assert_eq!(
            server.annotation(FIRST, &entry("u")).unwrap(),
            newer,
            "{pointer}"
        );
    }
}

/// The journal reports an entry that it keeps.
#[test]
fn j_9_an_entry_under_the_name_of_another_claim_is_kept() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "u");
    run(&mut one, &mut server, false).unwrap();
    server.edit(FIRST, |all| {
        let moved = all.remove(&entry("u")).unwrap();
        all.insert(entry("v"), moved);
    });
    let mut two = open(&mut server, "two");
    assert_eq!(two.broken().len(), 1);
    for uid in ["w", "v"] {
        intend(&mut two, uid);
        run(&mut two, &mut server, false).unwrap();
    }
    let kept = server.annotation(FIRST, &entry("v")).unwrap();
    assert!(kept.contains("pvc-u"), "{kept}");
}

/// Nor does it come back with the next write for its claim.
#[test]
fn j_9_what_is_taken_out_does_not_come_back() {
    for call in [false, true] {
        let mut server = Server::default();
        let mut one = open(&mut server, "one");
        intend(&mut one, "u");
        run(&mut one, &mut server, false).unwrap();
        one.amend(&Intent::with_unsettled(
            &Claim::default(),
            None,
            vec![Arc::new(request("u"))],
        ));
        if call {
            intend(&mut one, "u");
        }
        server.edit(FIRST, |all| drop(all.remove(&entry("u"))));
        run(&mut one, &mut server, true).unwrap();
        assert!(!server.holds("u"), "{call}");
        assert!(!one.may_call("u", start(), false), "{call}");
        assert_eq!(one.forgotten().len(), 1, "{call}");
    }
}

/// One of two entries of a claim is removed: the requests of the other one stay.
#[test]
fn j_9_what_another_entry_still_says_is_not_forgotten() {
    let mut server = unreadable("{");
    let mut two = open(&mut server, "two");
    intend(&mut two, "u");
    run(&mut two, &mut server, false).unwrap();
    let same = server.annotation("d-journal-1", &entry("u")).unwrap();
    server.edit(FIRST, |all| drop(all.insert(entry("u"), same.into())));
    let mut three = open(&mut server, "three");
    server.edit(FIRST, |all| drop(all.remove(&entry("u"))));
    intend(&mut three, "v");
    run(&mut three, &mut server, false).unwrap();
    assert_eq!(three.forgotten(), Vec::new());
    assert_eq!(three.leases_of("u"), ["d-journal-1"]);
    server.edit("d-journal-1", |all| drop(all.remove(&entry("u"))));
    // The journal reads the object again before a call.
    let later = start() + 2 * FRESH;
    three.intend(intent(request("u")), later).unwrap();
    run(&mut three, &mut server, false).unwrap();
    assert_eq!(three.forgotten().len(), 1);
    assert!(!server.holds("u"));
}

/// Others' metadata of the Lease survives, and the election's labels are added in any case.
#[test]
fn j_9_metadata_of_others_stays_and_the_labels_of_the_election_come() {
    let labels = vec![("team".to_owned(), "storage".to_owned())];
    let mut server = Server::default();
    let mut one = Journal::new(Owner {
        labels,
        ..owner("one")
    });
    run(&mut one, &mut server, false).unwrap();
    let metadata = |server: &Server| server.objects[FIRST].1["metadata"].clone();
    assert_eq!(metadata(&server)["labels"], json!({"team": "storage"}));
    let owners = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
    server.edit(FIRST, |_| {});
    let object = &mut server.objects.get_mut(FIRST).unwrap().1["metadata"];
    object["labels"] = json!({"mine": "a", "team": "another"});
    object["ownerReferences"] = owners.clone();
    object["finalizers"] = json!(["example.com/keep"]);
    intend(&mut one, "u");
    run(&mut one, &mut server, false).unwrap();
    assert!(server.holds("u"));
    let left = metadata(&server);
    assert_eq!(left["labels"], json!({"mine": "a", "team": "storage"}));
    assert_eq!(left["ownerReferences"], owners);
    assert_eq!(left["finalizers"], json!(["example.com/keep"]));
}
