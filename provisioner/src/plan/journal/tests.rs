use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::model::{Claim, DataSource};
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::pv::{ForClaim, PvTemplate, SecretName, SecretRefs};
use crate::plan::request::{ContentSource, PinnedRequest, Secrets};

mod closed;
mod deleted;
mod earlier;
mod kept;
mod neighbour;
mod parts;
mod restored;
mod sizes;
mod turns;

/// The API server's Leases: version and content, with compare-and-swap.
#[derive(Default)]
struct Server {
    version: u64,
    objects: BTreeMap<String, (u64, Value)>,
}

fn error(refusal: Refusal) -> Answer {
    let message = "simulated".into();
    Answer::Failed(ApiError { message, refusal })
}

impl Server {
    fn apply(&mut self, journal: &Journal, request: &Request) -> Answer {
        match request {
            Request::Read(number) => Answer::Found(self.found(&journal.name(*number))),
            Request::Write(write) => {
                let held = self
                    .objects
                    .get(&write.name)
                    .map(|(held, _)| held.to_string());
                match (&write.version, held) {
                    (None, Some(_)) => return error(Refusal::AlreadyExists),
                    (Some(_), None) => return error(Refusal::NotFound),
                    (wanted, held) if *wanted != held => return error(Refusal::Conflict),
                    _ => {}
                }
                self.version += 1;
                let mut body = serde_json::to_value(write.body("ns")).unwrap();
                let uid = match self.objects.get(&write.name) {
                    Some((_, before)) => before["metadata"]["uid"].as_str().unwrap().to_owned(),
                    None => format!("uid-{:032}", self.version),
                };
                body["metadata"]["uid"] = uid.as_str().into();
                let version = self.version;
                self.objects.insert(write.name.clone(), (version, body));
                let version = version.to_string();
                Answer::Written { version, uid }
            }
        }
    }

    fn found(&self, name: &str) -> Option<Found> {
        let (version, body) = self.objects.get(name)?;
        let annotations = &body["metadata"]["annotations"];
        Some(Found {
            uid: body["metadata"]["uid"].as_str().unwrap().to_owned(),
            version: version.to_string(),
            annotations: serde_json::from_value(annotations.clone()).unwrap(),
            kept: serde_json::from_value(body["metadata"].clone()).unwrap(),
        })
    }

    /// Somebody edits the annotations of an object.
    fn edit(&mut self, name: &str, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
        self.version += 1;
        let (version, body) = self.objects.get_mut(name).unwrap();
        *version = self.version;
        change(body["metadata"]["annotations"].as_object_mut().unwrap());
    }

    /// Recreates all objects from a backup.
    fn restore(&mut self) {
        for (version, body) in self.objects.values_mut() {
            self.version += 1;
            *version = self.version;
            body["metadata"]["uid"] = format!("uid-{version:032}").into();
        }
    }

    fn annotation(&self, name: &str, annotation: &str) -> Option<String> {
        self.found(name)?.annotations.remove(annotation)
    }

    fn holds(&self, uid: &str) -> bool {
        let name = format!("{INTENT}{uid}");
        self.objects
            .values()
            .any(|(_, body)| !body["metadata"]["annotations"][&name].is_null())
    }

    fn bytes(&self) -> Vec<usize> {
        let size = |body: &Value| {
            let all = body["metadata"]["annotations"].as_object().unwrap();
            let size = |(name, text): (&String, &Value)| name.len() + text.as_str().unwrap().len();
            all.iter().map(size).sum()
        };
        self.objects.values().map(|(_, body)| size(body)).collect()
    }
}

fn owner(holder: &str) -> Owner {
    Owner {
        lease: "d".into(),
        driver: "d".into(),
        node: String::new(),
        holder: holder.into(),
        labels: Vec::new(),
    }
}

fn request(uid: &str) -> PinnedRequest {
    PinnedRequest {
        name: format!("pvc-{uid}"),
        pv_template: PvTemplate {
            claim: ForClaim {
                namespace: "ns".into(),
                name: uid.into(),
                uid: uid.into(),
                ..ForClaim::default()
            },
            ..PvTemplate::default()
        },
        ..PinnedRequest::default()
    }
}

fn intent(prepared: PinnedRequest) -> Intent {
    Intent::new(&Claim::default(), &Arc::new(prepared))
}

fn start() -> Instant {
    Instant::now()
}

/// Sends every request that is due.
fn run(journal: &mut Journal, server: &mut Server, lazily: bool) -> Result<(), Lost> {
    for _ in 0..500 {
        let Some(request) = journal.next(lazily) else {
            return Ok(());
        };
        let answer = server.apply(journal, &request);
        journal.answered(&request, answer, start())?;
    }
    panic!("it does not end");
}

fn open(server: &mut Server, holder: &str) -> Journal {
    let mut journal = Journal::new(owner(holder));
    run(&mut journal, server, false).unwrap();
    assert!(journal.is_open());
    journal
}

fn uids(intents: &[Arc<Intent>]) -> Vec<&str> {
    intents.iter().map(|intent| intent.uid()).collect()
}

fn intend(journal: &mut Journal, uid: &str) -> Ticket {
    journal.intend(intent(request(uid)), start()).unwrap()
}

#[test]
fn a_successor_finds_what_is_durable_and_not_settled() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let tickets = ["a", "b", "c"].map(|uid| intend(&mut one, uid));
    assert_eq!(
        one.state(tickets[0], start(), false),
        None,
        "not before the write"
    );
    assert!(!one.may_call("a", start(), false));
    let writes = server.version;
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(server.version, writes + 1, "one write for all three");
    for ticket in tickets {
        assert_eq!(one.state(ticket, start(), false), Some(Ok(())));
    }
    assert!(one.may_call("a", start(), false));
    one.settle("b");
    assert_eq!(one.next(false), None, "it is not urgent");
    run(&mut one, &mut server, true).unwrap();
    let mut two = open(&mut server, "two");
    assert_eq!(uids(&two.adopted()), ["a", "c"]);
    assert_eq!(two.adopted(), Vec::new(), "told once");
}

#[test]
fn j_4_what_is_owed_is_written_with_the_next_commit_and_comes_back() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let first = Arc::new(request("u"));
    let second = Arc::new(PinnedRequest {
        parameters: [("a".to_owned(), "b".to_owned())].into(),
        ..request("u")
    });
    let claim = Claim::default();
    one.intend(Intent::new(&claim, &first), start()).unwrap();
    run(&mut one, &mut server, false).unwrap();
    one.amend(&Intent::with_unsettled(
        &claim,
        None,
        vec![Arc::clone(&first)],
    ));
    assert_eq!(one.next(false), None, "nobody waits for it");
    run(&mut one, &mut server, true).unwrap();
    let again = one.intend(Intent::new(&claim, &first), start()).unwrap();
    assert_eq!(
        one.state(again, start(), false),
        None,
        "a successor must ask it first"
    );
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(one.state(again, start(), false), Some(Ok(())));
    let both = Intent::with_unsettled(&claim, Some(Arc::clone(&second)), vec![first]);
    one.intend(both.clone(), start()).unwrap();
    run(&mut one, &mut server, false).unwrap();
    let mut two = open(&mut server, "two");
    let adopted = two.adopted();
    assert_eq!(
        adopted
            .iter()
            .map(|held| (**held).clone())
            .collect::<Vec<_>>(),
        [both]
    );
    assert_eq!(adopted[0].recovery(true, true), Recovery::Compared);
    assert_eq!(adopted[0].recovery(false, true), Recovery::Resumed);
    let alone = Intent::new(&claim, &second);
    assert_eq!(alone.recovery(true, true), Recovery::Settled);
    assert_eq!(
        alone.recovery(true, false),
        Recovery::Compared,
        "another node's"
    );
}

#[test]
fn j_6_who_does_not_lead_any_more_finds_out_before_the_call() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let known = intend(&mut one, "known");
    run(&mut one, &mut server, false).unwrap();
    let _two = open(&mut server, "two");
    let ticket = intend(&mut one, "new");
    let fenced = run(&mut one, &mut server, false);
    assert!(matches!(fenced, Err(Lost::Fenced(_, holder)) if holder == "two"));
    assert_eq!(one.state(ticket, start(), false), None);
    assert!(!server.holds("new"));
    // The call of a durable intent may be made, but only for a moment.
    assert_eq!(one.state(known, start(), false), Some(Ok(())));
    let later = start() + FRESH + FRESH;
    assert!(!one.may_call("known", later, false));
    assert_eq!(one.state(known, later, false), None);
}

#[test]
fn an_old_confirmation_is_renewed_by_reading() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let ticket = intend(&mut one, "a");
    run(&mut one, &mut server, false).unwrap();
    let later = start() + 2 * FRESH;
    assert_eq!(one.intend(intent(request("a")), later), Ok(ticket));
    assert_eq!(one.next(false), Some(Request::Read(0)));
    let found = server.found("d-journal-0");
    one.answered(&Request::Read(0), Answer::Found(found), later)
        .unwrap();
    assert_eq!(one.state(ticket, later, false), Some(Ok(())));
    assert_eq!(one.next(true), None, "nothing was written");
}

#[test]
fn j_9_what_an_administrator_does_to_it() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    for uid in ["gone", "stays"] {
        intend(&mut one, uid);
    }
    run(&mut one, &mut server, false).unwrap();
    server.edit("d-journal-0", |all| {
        all.remove(&format!("{INTENT}gone"));
        all.insert(format!("{INTENT}broken"), "{".into());
        all.insert("note".into(), "mine".into());
    });
    let ticket = intend(&mut one, "new");
    run(&mut one, &mut server, false).unwrap();
    assert_eq!(
        one.state(ticket, start(), false),
        Some(Ok(())),
        "merged and repeated"
    );
    let forgotten = one.forgotten();
    let forgotten: Vec<&str> = forgotten.iter().map(|gone| &*gone.uid).collect();
    assert_eq!(forgotten, ["gone"]);
    assert!(!server.holds("gone") && server.holds("stays") && server.holds("new"));
    assert_eq!(
        server.annotation("d-journal-0", "note").as_deref(),
        Some("mine")
    );

    let mut two = open(&mut server, "two");
    assert_eq!(uids(&two.adopted()), ["new", "stays"], "the rest works");
    let broken = two.broken();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("intent.csi-sidecars.io/broken: it is damaged"));
    assert!(server.holds("broken"), "kept");

    server.objects.clear();
    intend(&mut two, "another");
    run(&mut two, &mut server, false).unwrap();
    assert!(
        server.holds("stays") && server.holds("another"),
        "made anew"
    );
}

#[test]
fn j_10_no_call_before_it_is_known_that_the_intent_is_durable() {
    for refusal in [Refusal::Unknown, Refusal::Other, Refusal::Conflict] {
        for applied in [false, true] {
            let mut server = Server::default();
            let mut one = open(&mut server, "one");
            let ticket = intend(&mut one, "a");
            let request = one.next(false).unwrap();
            if applied && refusal == Refusal::Unknown {
                server.apply(&one, &request);
            }
            one.answered(&request, error(refusal), start()).unwrap();
            assert_eq!(one.state(ticket, start(), false), None, "{refusal:?}");
            assert!(!one.may_call("a", start(), false));
            let before = server.version;
            run(&mut one, &mut server, false).unwrap();
            assert_eq!(
                one.state(ticket, start(), false),
                Some(Ok(())),
                "{refusal:?}"
            );
            let found_out = applied && refusal == Refusal::Unknown;
            assert_eq!(server.version == before, found_out, "written once");
        }
    }
}

#[test]
fn j_11_who_waits_is_told_when_it_is_refused() {
    let tries = [
        (Refusal::Forbidden, 1),
        (Refusal::Other, TRIES),
        (Refusal::Unknown, TRIES),
    ];
    for (refusal, tries) in tries {
        let mut server = Server::default();
        let mut one = open(&mut server, "one");
        let ticket = intend(&mut one, "a");
        for _ in 0..tries {
            assert_eq!(one.state(ticket, start(), false), None, "{refusal:?}");
            let request = one.next(false).unwrap();
            one.answered(&request, error(refusal), start()).unwrap();
        }
        let state = one.state(ticket, start(), false);
        assert!(
            matches!(state, Some(Err(Unwritable::Refused(_)))),
            "{refusal:?}"
        );
        assert_eq!(one.next(false), None, "nobody waits any more");
        let again = intend(&mut one, "a");
        assert_eq!(one.state(again, start(), false), None);
        run(&mut one, &mut server, false).unwrap();
        assert_eq!(
            one.state(again, start(), false),
            Some(Ok(())),
            "{refusal:?}"
        );
    }
}

fn large(uid: &str, bytes: usize) -> Intent {
    let parameters = [("p".to_owned(), "x".repeat(bytes))].into();
    intent(PinnedRequest {
        parameters,
        ..request(uid)
    })
}

#[test]
fn j_13_an_intent_of_200_kib_has_an_object_of_its_own() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "small");
    let tickets = ["a", "b"].map(|uid| one.intend(large(uid, BUDGET), start()).unwrap());
    run(&mut one, &mut server, false).unwrap();
    for ticket in tickets {
        assert_eq!(one.state(ticket, start(), false), Some(Ok(())));
    }
    assert_eq!(server.objects.len(), 3);
    assert!(server.bytes().iter().all(|bytes| *bytes <= LIMIT));
    let refused = one.intend(large("c", LIMIT), start());
    assert!(
        matches!(refused, Err(Unwritable::TooLarge(_))),
        "{refused:?}"
    );
    let mut two = open(&mut server, "two");
    assert_eq!(two.adopted().len(), 3);
    // The next process cannot overlook objects that this one creates now.
    one.intend(large("d", BUDGET), start()).unwrap();
    assert!(matches!(
        run(&mut one, &mut server, false),
        Err(Lost::Fenced(..))
    ));
    assert!(!server.holds("d"));
}

#[test]
fn an_object_of_a_successor_cannot_be_made_by_its_predecessor() {
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    intend(&mut one, "small");
    let ticket = one.intend(large("a", BUDGET), start()).unwrap();
    let request = one.next(false).unwrap();
    let answer = server.apply(&one, &request);
    one.answered(&request, answer, start()).unwrap();
    // The first object says that there are two; the second one is not written yet.
    assert_eq!(server.objects.len(), 1);
    let two = open(&mut server, "two");
    assert!(two.is_open());
    assert_eq!(server.objects.len(), 2);
    assert!(matches!(
        run(&mut one, &mut server, false),
        Err(Lost::Fenced(..))
    ));
    assert_eq!(one.state(ticket, start(), false), None);
}

#[test]
fn whose_journal_it_is() {
    let mut server = Server::default();
    open(&mut server, "one");
    server.edit("d-journal-0", |all| {
        let header = all[HEADER]
            .as_str()
            .unwrap()
            .replace("\"driver\":\"d\"", "\"driver\":\"e\"");
        all.insert(HEADER.into(), header.into());
    });
    let other = run(&mut Journal::new(owner("two")), &mut server, false);
    assert!(matches!(other, Err(Lost::Foreign(_, driver)) if driver == "e"));
    server.edit("d-journal-0", |all| {
        all.insert(HEADER.into(), r#"{"version":2}"#.into());
    });
    let later = run(&mut Journal::new(owner("two")), &mut server, false);
    assert!(matches!(later, Err(Lost::Later(_, 2))));
}

#[test]
fn names_of_objects() {
    let mut names = owner("one");
    assert_eq!(names.object(0), "d-journal-0");
    names.node = "n1.example".into();
    assert_eq!(names.object(2), "d-journal-n1.example-2");
    names.node = "n".repeat(253);
    assert!(names.object(63).len() <= 253, "{}", names.object(63).len());
    let of = |lease: &str| {
        let mut names = owner("one");
        names.lease = lease.into();
        names.object(1)
    };
    assert_eq!(of("EBS-example"), "ebs-example-journal-b4ef444c360f61d6-1");
    assert_ne!(of("EBS-example"), of("ebs-Example"));
}

/// Text of an earlier version, byte for byte: it must stay readable.
#[test]
fn the_format_is_a_contract() {
    let text = concat!(
        r#"{"prepared":{"name":"pvc-u","modes":["SINGLE_NODE_WRITER"],"parameters":{"a":"b"},"#,
        r#""source":{"snapshot":"sid"},"node":"n1","classUid":"cu","release":"s1","#,
        r#""requirement":{"terms":"t","first":0},"#,
        r#""blueprint":{"claim":{"namespace":"ns1","name":"c1","uid":"u","resourceVersion":"7"},"#,
        r#""class":"sc1","requested":5,"secrets":{"provisioner":{"name":"s","namespace":"n"}}}},"#,
        r#""source":{"kind":"VolumeSnapshot","name":"s1"}}"#,
    );
    let terms = r#"[{"keys":["zone"],"count":2,"values":[["00z1","102"]]}]"#;
    let (intent, order) = Intent::decode(text, |name| (name == "t").then_some(terms)).unwrap();
    assert_eq!(order, 0, "there was one entry for each claim");
    let prepared = intent.asked.as_ref().unwrap();
    let named = (&*prepared.name, &*prepared.node, &*prepared.class_uid);
    assert_eq!(named, ("pvc-u", "n1", "cu"));
    assert_eq!(prepared.source, Some(ContentSource::Snapshot("sid".into())));
    assert_eq!(prepared.requirement.as_ref().unwrap().requisite().len(), 2);
    assert_eq!(prepared.pv_template.claim.resource_version, "7");
    let claim = intent.claim();
    assert_eq!((&*claim.key(), &*claim.uid), ("ns1/c1", "u"));
    assert_eq!(&*claim.data_source.unwrap().name, "s1");
    assert!(Intent::decode(text, |_| None).is_err(), "without its terms");
    assert!(Intent::decode("{}", |_| None).is_err());
    let later = text.replace(r#""class":"sc1","#, r#""class":"sc1","later":1,"#);
    assert!(Intent::decode(&later, |name| (name == "t").then_some(terms)).is_err());
    let deep = format!(r#"{{"prepared":{}"#, "[".repeat(10_000));
    assert!(Intent::decode(&deep, |_| None).is_err());
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map(".{0,8}", ".{0,8}", 0..4)
}

prop_compose! {
    fn prepared()(
        (name, uid, fs_type) in (".{1,20}", ".{1,20}", ".{0,8}"),
        (parameters, mutable_parameters) in (texts(), texts()),
        source in proptest::option::of(prop_oneof![
            ".{0,8}".prop_map(ContentSource::Snapshot),
            ".{0,8}".prop_map(ContentSource::Volume),
        ]),
        (modes, release) in (proptest::collection::vec("[A-Z_]{1,8}", 0..3), proptest::option::of(".{0,8}")),
        secret in proptest::option::of((".{0,8}", ".{0,8}")),
        (requested, sourced, topology) in any::<(i64, bool, bool)>(),
    ) -> PinnedRequest {
        PinnedRequest {
            name,
            modes,
            parameters,
            mutable_parameters,
            source,
            release,
            pv_template: PvTemplate {
                fs_type,
                requested,
                sourced,
                topology,
                secrets: SecretRefs {
                    provisioner: secret.map(|(name, namespace)| SecretName { name, namespace }),
                    ..SecretRefs::default()
                },
                ..request(&uid).pv_template
            },
            ..PinnedRequest::default()
        }
    }
}

/// One action on two processes and their journal.
#[derive(Clone, Debug)]
enum Act {
    Intend(bool, u8),
    Settle(bool, u8),
    /// Sends the next request, with its fate.
    Send(bool, bool, u8),
    Remove(u8),
    Note,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (any::<bool>(), 0..4_u8).prop_map(|(who, uid)| Act::Intend(who, uid)),
        2 => (any::<bool>(), 0..4_u8).prop_map(|(who, uid)| Act::Settle(who, uid)),
        9 => (any::<bool>(), any::<bool>(), 0..6_u8).prop_map(|(who, lazy, fate)| Act::Send(who, lazy, fate)),
        1 => (0..4_u8).prop_map(Act::Remove),
        1 => Just(Act::Note),
    ]
}

proptest! {
    #[test]
    fn an_intent_comes_back_as_it_was(prepared in prepared(), name in ".{0,8}") {
        let source = Some(DataSource { kind: "VolumeSnapshot".into(), name: name.into(), ..DataSource::default() });
        let claim = Claim { data_source: source, ..Claim::default() };
        let intent = Intent::new(&claim, &Arc::new(prepared));
        let mut server = Server::default();
        let mut one = open(&mut server, "one");
        one.intend(intent.clone(), start()).unwrap();
        run(&mut one, &mut server, false).unwrap();
        let adopted = open(&mut server, "two").adopted();
        prop_assert_eq!(adopted, vec![Arc::new(intent)]);
    }

    #[test]
    fn j_18_no_value_of_a_secret_is_journaled(prepared in prepared(), value in "planted[a-z]{8}") {
        let secrets: Secrets = [("key".to_owned(), value.clone())].into();
        let prepared = Arc::new(prepared);
        let sent = format!("{:?}", prepared.request(secrets).secrets);
        prop_assert!(sent.contains(&value));
        let mut server = Server::default();
        let mut one = open(&mut server, "one");
        one.intend(Intent::new(&Claim::default(), &prepared), start()).unwrap();
        run(&mut one, &mut server, false).unwrap();
        let written = format!("{:?}", server.objects);
        prop_assert!(!written.contains(&value));
    }

    #[test]
    fn nothing_that_is_read_panics(text in r#"[\[\]{}":,a-z0-9\\]{0,60}"#, name in "[a-z./]{0,12}") {
        let annotations = [(HEADER.to_owned(), text.clone()), (format!("{INTENT}{name}"), text)];
        let found = Found { annotations: annotations.into(), ..Found::default() };
        let mut journal = Journal::new(owner("one"));
        journal.answered(&Request::Read(0), Answer::Found(Some(found)), start()).ok();
    }

    /// Two processes, of which the second one starts at some point without the first one knowing; requests that are
    /// lost, applied without an answer, or refused; administrators.
    #[test]
    fn what_may_be_called_is_found_by_the_successor(
        before in proptest::collection::vec(act(), 0..40),
        after in proptest::collection::vec(act(), 0..40),
    ) {
        let mut server = Server::default();
        let mut journals = [open(&mut server, "one"), Journal::new(owner("two"))];
        let mut lost = [false, false];
        // Calls that may be made or were made, and are not settled.
        let mut called: BTreeSet<u8> = BTreeSet::new();
        let mut adopted: Option<BTreeSet<u8>> = None;
        // Intents that an administrator has removed without the first process knowing.
        let mut removed: BTreeSet<u8> = BTreeSet::new();
        let number = |uid: &str| uid.parse::<u8>().unwrap();
        let two_begins = before.len();
        for (at, act) in before.into_iter().chain(after).enumerate() {
            let who = |second: bool| usize::from(second && at >= two_begins);
            match act {
                Act::Intend(second, uid) => {
                    let journal = &mut journals[who(second)];
                    if journal.is_open() {
                        journal.intend(intent(request(&uid.to_string())), start()).ok();
                    }
                }
                Act::Settle(second, uid) => {
                    let who = who(second);
                    if journals[who].is_open() && !lost[who] {
                        journals[who].settle(&uid.to_string());
                        called.remove(&uid);
                    }
                }
                Act::Send(second, lazily, fate) => {
                    let who = who(second);
                    if lost[who] {
                        continue;
                    }
                    let Some(request) = journals[who].next(lazily) else { continue };
                    let answer = match fate {
                        0 => error(Refusal::Unknown),
                        1 => {
                            server.apply(&journals[who], &request);
                            error(Refusal::Unknown)
                        }
                        2 => error(Refusal::Other),
                        _ => server.apply(&journals[who], &request),
                    };
                    let opened = journals[who].is_open();
                    lost[who] = journals[who].answered(&request, answer, start()).is_err();
                    if who == 1 && !opened && journals[1].is_open() {
                        adopted = Some(journals[1].adopted().iter().map(|one| number(one.uid())).collect());
                        for uid in &called {
                            prop_assert!(adopted.as_ref().unwrap().contains(uid), "{uid} is overlooked");
                        }
                    }
                }
                Act::Remove(uid) => {
                    if server.objects.contains_key("d-journal-0") {
                        server.edit("d-journal-0", |all| { all.remove(&format!("{INTENT}{uid}")); });
                        called.remove(&uid);
                        removed.insert(uid);
                    }
                }
                Act::Note => server.edit("d-journal-0", |all| { all.insert("note".into(), "x".into()); }),
            }
            for who in [0, 1] {
                for uid in 0..4_u8 {
                    let text = uid.to_string();
                    let may = !lost[who] && journals[who].is_open() && journals[who].may_call(&text, start(), false);
                    // Once the successor has read the journal, the first process can add nothing.
                    if may && who == 0 && let Some(adopted) = &adopted {
                        let old = adopted.contains(&uid) || removed.contains(&uid);
                        prop_assert!(old || !server.holds(&text), "{uid} came later");
                    } else if may && !removed.contains(&uid) && server.holds(&text) {
                        called.insert(uid);
                    }
                }
            }
        }
    }

    /// Whatever happened before: once all requests are answered, the journal comes to rest in the right state.
    #[test]
    fn it_comes_to_rest(acts in proptest::collection::vec(act(), 0..60)) {
        let mut server = Server::default();
        let mut journal = open(&mut server, "one");
        let mut wanted: BTreeSet<u8> = BTreeSet::new();
        for act in acts {
            match act {
                Act::Intend(_, uid) => {
                    journal.intend(intent(request(&uid.to_string())), start()).unwrap();
                    wanted.insert(uid);
                }
                Act::Settle(_, uid) => {
                    journal.settle(&uid.to_string());
                    wanted.remove(&uid);
                }
                Act::Send(_, lazily, fate) => {
                    let Some(request) = journal.next(lazily) else { continue };
                    let answer = match fate {
                        0 => error(Refusal::Unknown),
                        1 => {
                            server.apply(&journal, &request);
                            error(Refusal::Unknown)
                        }
                        2 => error(Refusal::Other),
                        _ => server.apply(&journal, &request),
                    };
                    journal.answered(&request, answer, start()).unwrap();
                }
                Act::Remove(_) | Act::Note => {
                    server.edit("d-journal-0", |all| { all.insert("note".into(), "x".into()); });
                }
            }
        }
        run(&mut journal, &mut server, true).unwrap();
        for uid in 0..4_u8 {
            prop_assert_eq!(server.holds(&uid.to_string()), wanted.contains(&uid));
        }
    }
}

/// The intent for a claim named `uid` where each of these nodes is a topology.
fn with_topology(uid: &str, topology: &crate::plan::topology::TopologyIndex) -> Intent {
    let input = crate::plan::topology::Input {
        claim: uid,
        node: None,
        allowed: &[],
        strict: false,
        immediate: true,
        topology,
    };
    intent(PinnedRequest {
        requirement: crate::plan::topology::requirement(&input).unwrap(),
        modes: vec!["SINGLE_NODE_WRITER".into()],
        class_uid: "11111111-2222-3333-4444-555555555555".into(),
        ..request(uid)
    })
}

/// A topology for each node.
fn many_nodes(nodes: usize) -> crate::plan::topology::TopologyIndex {
    use crate::plan::topology::{Entry, TopologyIndex};
    let key = Text::from("topology.example.com/node");
    let mut topology = TopologyIndex::default();
    for number in 0..nodes {
        let (high, low) = (number / 250, number % 250);
        let node = Text::from(format!(
            "ip-10-0-{high}-{low}.eu-central-1.compute.internal"
        ));
        let labels = [(&*key, &*node)].into_iter().collect();
        topology.set_labels(&node, Some(labels));
        topology.set_driver(&node, Entry::Keys([key.clone()].into()));
    }
    topology
}

#[test]
fn j_12_five_thousand_nodes_cost_kilobytes() {
    let topology = many_nodes(5_000);
    let mut server = Server::default();
    let mut one = open(&mut server, "one");
    let uid = |number| format!("11111111-2222-3333-4444-{number:012}");
    let written: Vec<Intent> = (0..100)
        .map(|number| with_topology(&uid(number), &topology))
        .collect();
    for intent in &written {
        one.intend(intent.clone(), start()).unwrap();
    }
    run(&mut one, &mut server, false).unwrap();
    let bytes = server.bytes();
    let single = written[0].encode(0);
    let terms = single.terms[0].text().len();
    println!(
        "{bytes:?} bytes, of which terms {terms}, an intent {}",
        single.text.text().len()
    );
    assert_eq!(bytes.len(), 1);
    assert!(bytes[0] <= BUDGET, "{bytes:?}");
    let adopted = open(&mut server, "two").adopted();
    let adopted: Vec<Intent> = adopted.iter().map(|intent| (**intent).clone()).collect();
    assert_eq!(adopted, written);
}
