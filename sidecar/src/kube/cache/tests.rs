use std::sync::Mutex;

use super::*;
use crate::kube::lean::{Meta, Object, Text};

/// An attachment for tests: its node, and whether it is kept.
#[derive(Debug, PartialEq, Eq)]
struct Node(Arc<str>);

#[derive(serde::Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    node: Option<Text<'a>>,
}

impl Object for Wire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

impl Record for Node {
    type Wire<'a> = Wire<'a>;

    fn from_wire(wire: Wire<'_>, strings: &Interner) -> Option<Self> {
        wire.node.map(|node| Self(strings.intern(&node)))
    }
}

type Told = Arc<Mutex<Vec<String>>>;

fn cache() -> (Cache<Node>, Told) {
    let told = Told::default();
    let cache = Cache::new(Interner::default(), {
        let told = Arc::clone(&told);
        move |event: Event<'_, Node>| {
            let text = match event {
                Event::Upserted {
                    key,
                    old,
                    new,
                    source,
                } => {
                    let old = old.map_or("-", |old| &*old.0);
                    format!("{key} {old}>{} {source:?}", new.0)
                }
                Event::Deleted { key, old } => format!("{key} {}>-", old.0),
                Event::Resync { key, record } => format!("{key} {}", record.0),
            };
            told.lock().unwrap().push(text);
        }
    });
    (cache, told)
}

fn json(name: &str, version: u32, node: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}"}},"node":{node}}}"#
    )
}

fn upsert<R: Record>(cache: &Cache<R>, json: &str) -> Result<(), ObjectError> {
    Sink::upsert(cache, &RawObject::new(json))
}

fn delete(cache: &Cache<Node>, json: &str) -> Result<(), ObjectError> {
    Sink::delete(cache, &RawObject::new(json))
}

fn taken(told: &Told) -> Vec<String> {
    std::mem::take(&mut *told.lock().unwrap())
}

#[test]
fn events_tell_what_changed() {
    let (cache, told) = cache();
    upsert(&cache, &json("a", 1, r#""n1""#)).unwrap();
    upsert(&cache, &json("a", 2, r#""n2""#)).unwrap();
    cache.resync();
    delete(&cache, &json("a", 3, r#""n2""#)).unwrap();
    assert_eq!(
        taken(&told),
        [
            "ns/a ->n1 Watch",
            "ns/a n1>n2 Watch",
            "ns/a n2",
            "ns/a n2>-"
        ]
    );
    assert!(cache.is_empty());
}

#[test]
fn objects_that_are_not_kept_leave_the_cache() {
    let (cache, told) = cache();
    upsert(&cache, &json("a", 1, "null")).unwrap();
    assert!(cache.is_empty());
    upsert(&cache, &json("a", 2, r#""n1""#)).unwrap();
    upsert(&cache, &json("a", 3, "null")).unwrap();
    assert_eq!(taken(&told), ["ns/a ->n1 Watch", "ns/a n1>-"]);
    assert!(cache.is_empty());
}

#[test]
fn an_answer_is_taken_over_and_given_back() {
    let (cache, told) = cache();
    upsert(&cache, &json("a", 1, r#""n1""#)).unwrap();
    let key = cache.key("ns/a").unwrap();
    let write = cache.begin_write(&key);
    upsert(&cache, &json("a", 2, r#""n2""#)).unwrap();
    assert_eq!(cache.get("ns/a").unwrap().0.as_ref(), "n2");
    assert_eq!(taken(&told), ["ns/a ->n1 Watch"]);
    let now = write.answered(&json("a", 2, r#""n2""#)).unwrap().unwrap();
    assert_eq!(now.0.as_ref(), "n2");
    assert_eq!(taken(&told), ["ns/a n1>n2 Own"]);
    let write = cache.begin_write(&key);
    assert_eq!(write.answered(&json("a", 3, "null")).unwrap(), None);
    assert_eq!(taken(&told), ["ns/a n2>-"]);
}

#[test]
fn a_write_that_was_dropped_or_answered_with_nonsense_failed() {
    let (cache, told) = cache();
    upsert(&cache, &json("a", 1, r#""n1""#)).unwrap();
    let key = cache.key("ns/a").unwrap();
    for (version, answer) in [
        (2, None),
        (3, Some(json("b", 9, "null"))),
        (4, Some("[".to_owned())),
    ] {
        let write = cache.begin_write(&key);
        upsert(&cache, &json("a", version, &format!(r#""n{version}""#))).unwrap();
        match answer {
            None => drop(write),
            Some(answer) => {
                write.answered(&answer).unwrap_err();
            }
        }
    }
    let expected = [
        "ns/a ->n1 Watch",
        "ns/a n1>n2 Watch",
        "ns/a n2>n3 Watch",
        "ns/a n3>n4 Watch",
    ];
    assert_eq!(taken(&told), expected);
}

#[test]
fn a_handler_may_read_the_cache() {
    let seen = Arc::new(Mutex::new(None));
    let slot: Arc<Mutex<Option<Cache<Node>>>> = Arc::default();
    let cache = Cache::new(Interner::default(), {
        let (seen, slot) = (Arc::clone(&seen), Arc::clone(&slot));
        move |event: Event<'_, Node>| {
            if let (Event::Upserted { key, .. }, Some(cache)) = (event, &*slot.lock().unwrap()) {
                *seen.lock().unwrap() = cache.get(key.as_str());
            }
        }
    });
    *slot.lock().unwrap() = Some(cache.clone());
    upsert(&cache, &json("a", 1, r#""n1""#)).unwrap();
    assert_eq!(seen.lock().unwrap().as_ref().unwrap().0.as_ref(), "n1");
}

#[test]
fn what_is_no_object_with_a_name_is_refused() {
    let (cache, told) = cache();
    for text in [
        "",
        "null",
        "7",
        "[]",
        "{",
        "{}",
        r#"{"metadata":null}"#,
        r#"{"metadata":{"name":""}}"#,
        r#"{"metadata":{"name":5}}"#,
        r#"{"metadata":{"name":"a/b"}}"#,
        "\u{0}",
        r#"{"metadata":[]}"#,
    ] {
        assert!(upsert(&cache, text).is_err(), "{text}");
        assert!(delete(&cache, text).is_err(), "{text}");
    }
    assert_eq!(taken(&told), [""; 0]);
}

#[test]
fn huge_metadata_costs_nothing_but_its_reading() {
    let (cache, _) = cache();
    let annotations: Vec<String> = (0..20_000)
        .map(|n| format!(r#""k{n}":"{}""#, "v".repeat(50)))
        .collect();
    let text = format!(
        r#"{{"metadata":{{"name":"a","resourceVersion":"1","annotations":{{{}}},"managedFields":[{{"f":{{{}}}}}]}},"node":"n1"}}"#,
        annotations.join(","),
        annotations.join(","),
    );
    assert!(text.len() > 2 << 20);
    upsert(&cache, &text).unwrap();
    assert_eq!(cache.get("a").unwrap().0.as_ref(), "n1");
}

#[test]
fn what_is_trimmed_and_what_is_not_wanted_never_gets_in_unasked() {
    let (cache, told) = cache();
    let cache = cache
        .trimmed(|node: &mut Node| {
            if let Some((first, _)) = node.0.clone().split_once('-') {
                node.0 = first.into();
            }
        })
        .only(|node: &Node| &*node.0 != "n2");
    upsert(&cache, &json("a", 1, r#""n1-x""#)).unwrap();
    upsert(&cache, &json("b", 2, r#""n2-x""#)).unwrap();
    assert_eq!(taken(&told), ["ns/a ->n1 Watch"]);
    let key = Key::new(Some("ns"), "b").unwrap();
    let read = cache.begin_write(&key);
    let now = read.answered(&json("b", 2, r#""n2-x""#)).unwrap().unwrap();
    assert_eq!(&*now.0, "n2");
    assert_eq!(taken(&told), ["ns/b ->n2 Own"]);
}

#[test]
fn of_what_is_brought_and_not_told_the_owner_hears_the_key() {
    let (cache, told) = cache();
    let owner = Arc::new(Mutex::new(Vec::new()));
    let cache = { cache.only(|node: &Node| &*node.0 != "n2") }.passing(
        &Arc::downgrade(&owner),
        |passed: &Mutex<Vec<String>>, key: &Key| passed.lock().unwrap().push(key.to_string()),
    );
    let passed = || std::mem::take(&mut *owner.lock().unwrap());
    upsert(&cache, &json("a", 1, r#""n1""#)).unwrap();
    assert_eq!(passed(), NOTHING, "it is told");
    upsert(&cache, &json("a", 1, r#""n1""#)).unwrap();
    assert_eq!(passed(), NOTHING, "it was told");
    upsert(&cache, &json("b", 2, r#""n2""#)).unwrap();
    assert_eq!(passed(), ["ns/b"], "it is not kept");
    let read = cache.begin_write(&Key::new(Some("ns"), "b").unwrap());
    upsert(&cache, &json("b", 3, r#""n2""#)).unwrap();
    assert_eq!(passed(), ["ns/b"], "it is being asked for");
    drop(read);
    assert_eq!(passed(), NOTHING);
    let change = cache.begin_write(&Key::new(Some("ns"), "a").unwrap());
    upsert(&cache, &json("a", 4, r#""n3""#)).unwrap();
    assert_eq!(
        passed(),
        NOTHING,
        "it is known, and its change is told later"
    );
    drop(change);
    assert_eq!(taken(&told), ["ns/a ->n1 Watch", "ns/a n1>n3 Watch"]);
}

const NOTHING: [&str; 0] = [];

/// A record of which all instances share one allocation.
#[derive(Debug)]
struct Same;

impl Record for Same {
    type Wire<'a> = Wire<'a>;

    fn from_wire(_wire: Wire<'_>, _strings: &Interner) -> Option<Self> {
        Some(Self)
    }

    fn into_shared(self) -> Arc<Self> {
        static SAME: std::sync::LazyLock<Arc<Same>> = std::sync::LazyLock::new(|| Arc::new(Same));
        Arc::clone(&SAME)
    }
}

#[test]
fn records_that_are_alike_may_be_one_allocation() {
    let cache = Cache::<Same>::new(Interner::default(), |_event| {});
    upsert(&cache, &json("a", 1, "null")).unwrap();
    upsert(&cache, &json("b", 2, "null")).unwrap();
    let both = (cache.get("ns/a").unwrap(), cache.get("ns/b").unwrap());
    assert!(Arc::ptr_eq(&both.0, &both.1));
}
