//! Section 10.2: snapshots that are created.

use sidecar::snapshot::CONTENT_BOUND;
use sidecar_testkit::sim::rest::remembered;

use super::{CREATE, CUT, READY, TAKEN, hold, joined, lines, told_first, told_later};
use crate::model::{Class, Content, SecretRef, Text};
use crate::plan::outcome::Refusal;
use crate::plan::reactor::Notice;
use crate::testing::{Bench, Server, created, pairs, snapshot, status};

fn secret(namespace: &str, name: &str) -> Option<Box<SecretRef>> {
    Some(Box::new(SecretRef {
        namespace: namespace.into(),
        name: name.into(),
    }))
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn s_31_to_36_s_38_s_39_s_46_s_47_s_53_s_72_what_is_asked_and_written() {
    const EXTRA: &str = "Create snapshot-U1 vol-1 {a: b, csi.storage.k8s.io/volumesnapshot/name: s1, \
                         csi.storage.k8s.io/volumesnapshot/namespace: ns, \
                         csi.storage.k8s.io/volumesnapshotcontent/name: snapcontent-U1} {}";
    hold(&[
        ("S-31", |_| {}, &["bc+", CREATE, TAKEN, "bc-"]),
        (
            "S-32",
            |bench| bench.content(|content| content.finalizers = ["x/y".into()].into()),
            &["bc+ F+", CREATE, TAKEN, "bc-"],
        ),
        (
            "S-33",
            |bench| bench.set(|settings| settings.name.prefix = "p".into()),
            &["bc+", "Create p-U1 vol-1 {a: b} {}", TAKEN, "bc-"],
        ),
        (
            "S-34",
            |bench| {
                bench.set(|settings| settings.name.length = Some(8));
                bench.content(|content| content.snapshot.uid = "0123abcd-4567-89ab".into());
            },
            &[
                "bc+",
                "Create snapshot-0123abcd vol-1 {a: b} {}",
                TAKEN,
                "bc-",
            ],
        ),
        (
            "S-34",
            |bench| {
                bench.set(|settings| settings.name.length = Some(12));
                bench.content(|content| content.snapshot.uid = "0123abcd-4567-89ab".into());
            },
            &[
                "bc+",
                "Create snapshot-0123abcd4567 vol-1 {a: b} {}",
                TAKEN,
                "bc-",
            ],
        ),
        (
            "S-35",
            |bench| bench.set(|settings| settings.extra_create_metadata = true),
            &["bc+", EXTRA, TAKEN, "bc-"],
        ),
        (
            "S-36",
            |bench| {
                bench.class(|class| {
                    class.parameters = pairs(&[
                        ("csi.storage.k8s.io/snapshotter-secret-name", "x"),
                        ("csi.storage.k8s.io/snapshotter-secret-namespace", "x"),
                        ("csi.storage.k8s.io/snapshotter-list-secret-name", "x"),
                        ("csi.storage.k8s.io/snapshotter-list-secret-namespace", "x"),
                        ("csi.storage.k8s.io/group-snapshotter-secret-name", "x"),
                        ("csi.storage.k8s.io/group-snapshotter-secret-namespace", "x"),
                        ("csi.storage.k8s.io/group-snapshotter-get-secret-name", "x"),
                        (
                            "csi.storage.k8s.io/group-snapshotter-get-secret-namespace",
                            "x",
                        ),
                        ("csiFoo", "bar"),
                    ]);
                });
            },
            &[
                "bc+",
                "Create snapshot-U1 vol-1 {csiFoo: bar} {}",
                TAKEN,
                "bc-",
            ],
        ),
        (
            "S-38",
            |bench| {
                bench.content(|content| content.secret = secret("ns2", "sec"));
                bench.secret("ns2", "sec");
            },
            &[
                "secret ns2/sec",
                "bc+",
                "Create snapshot-U1 vol-1 {a: b} {u: p}",
                TAKEN,
                "bc-",
            ],
        ),
        (
            // The tests of the parser show which annotations make a reference.
            "S-39",
            |bench| bench.content(|content| content.secret = None),
            &["bc+", CREATE, TAKEN, "bc-"],
        ),
        (
            "S-46",
            |bench| {
                let mut found = snapshot(true);
                found.size_bytes = 0;
                bench.answers([created(found)]);
            },
            &[
                "bc+",
                CREATE,
                r#"st {"creationTime":1767323045000000000,"readyToUse":true,"snapshotHandle":"snap-1"}"#,
                "bc-",
            ],
        ),
        (
            "S-46, negative",
            |bench| {
                let mut found = snapshot(true);
                found.size_bytes = -1;
                bench.answers([created(found)]);
            },
            &[
                "bc+",
                CREATE,
                r#"st {"creationTime":1767323045000000000,"readyToUse":true,"snapshotHandle":"snap-1"}"#,
                "bc-",
            ],
        ),
        (
            "S-47",
            |bench| {
                let mut found = snapshot(true);
                found.creation_time = None;
                bench.answers([created(found)]);
            },
            &[
                "bc+",
                CREATE,
                r#"st {"creationTime":1770091506000000000,"readyToUse":true,"restoreSize":1073741824,"snapshotHandle":"snap-1"}"#,
                "bc-",
            ],
        ),
        (
            "S-53",
            |bench| {
                bench.content(|content| {
                    content.status = Some(status(true));
                    content.being_created = true;
                });
            },
            &["bc-"],
        ),
        (
            "S-72",
            |bench| bench.content(|content| content.deleting = true),
            &["bc+", CREATE, TAKEN, "bc-"],
        ),
        (
            "S-72, held by somebody else alone",
            |bench| {
                bench.content(|content| {
                    content.deleting = true;
                    content.finalizers = ["x/y".into()].into();
                });
            },
            &[],
        ),
    ]);
}

#[test]
fn s_37_s_40_s_43_s_44_what_cannot_be_asked() {
    type Case<'a> = (&'a str, fn(&mut Bench), &'a str);
    const INPUT: &str =
        "failed to get input parameters to create snapshot for content snapcontent-U1: ";
    let rows: [Case<'_>; 4] = [
        (
            "S-37",
            |bench| {
                bench.class(|class| class.parameters = pairs(&[("csi.storage.k8s.io/foo", "x")]));
            },
            "failed to remove CSI Parameters of prefixed keys: found unknown parameter key \
             \"csi.storage.k8s.io/foo\" with reserved namespace csi.storage.k8s.io/",
        ),
        (
            "S-40",
            |bench| bench.content(|content| content.secret = secret("ns2", "")),
            &format!(
                "{INPUT}\"cannot retrieve secrets for snapshot content \\\"snapcontent-U1\\\", err: \
                 secret name or namespace not specified\""
            ),
        ),
        (
            "S-43",
            |bench| bench.content(|content| content.class = None),
            &format!("{INPUT}\"failed to take snapshot snapcontent-U1 without a snapshot class\""),
        ),
        (
            "S-44",
            |bench| bench.content(|content| content.snapshot.uid = "".into()),
            "failed to take snapshot of the volume vol-1: \"cannot create snapshot. Snapshot content \
             snapcontent-U1 not bound to a snapshot\"",
        ),
    ];
    for (row, given, message) in rows {
        let mut bench = Bench::new();
        given(&mut bench);
        assert_eq!(bench.run(), told_first(message), "{row}");
        // Neither the mark nor a call, in any attempt.
        assert_eq!(bench.next(), (1, told_later(message).to_vec()), "{row}");
        assert_eq!(bench.next(), (2, Vec::new()), "{row}");
    }
}

#[test]
fn s_41_a_secret_that_comes_later() {
    let mut bench = Bench::new();
    bench.content(|content| content.secret = secret("ns2", "sec"));
    let trace = bench.run();
    let cause = "cannot get credentials for snapshot content \\\"snapcontent-U1\\\": error getting \
                 secret sec in namespace ns2: secrets \\\"sec\\\" not found";
    let message = format!(
        "failed to get input parameters to create snapshot for content snapcontent-U1: \"{cause}\""
    );
    assert_eq!(
        trace,
        joined(&[&lines(&["secret ns2/sec"]), &told_first(&message)])
    );
    bench.secret("ns2", "sec");
    let (waited, trace) = bench.next();
    let taken = TAKEN.replace(r#","readyToUse""#, r#","error":null,"readyToUse""#);
    let call = "Create snapshot-U1 vol-1 {a: b} {u: p}";
    assert_eq!(
        (waited, trace),
        (1, lines(&["secret ns2/sec", "bc+", call, &taken, "bc-"]))
    );
    assert!(bench.rests());
}

#[test]
fn s_42_a_class_that_comes_later() {
    let mut bench = Bench::new();
    let class: Class = bench.server.classes[&Text::from("c1")].1.clone();
    bench.server.put_class(&"c1".into(), None);
    let message = "failed to get input parameters to create snapshot for content snapcontent-U1: \
                   \"volumesnapshotclass.snapshot.storage.k8s.io \\\"c1\\\" not found\"";
    assert_eq!(bench.run(), told_first(message));
    assert_eq!(bench.next(), (1, told_later(message).to_vec()));
    assert_eq!(bench.next(), (2, Vec::new()));
    assert_eq!(bench.next(), (4, Vec::new()));
    // At once, before the eight seconds are over.
    bench.server.put_class(&"c1".into(), Some(class));
    let taken = TAKEN.replace(r#","readyToUse""#, r#","error":null,"readyToUse""#);
    assert_eq!(bench.run(), lines(&["bc+", CREATE, &taken, "bc-"]));
}

#[test]
fn s_45_what_is_another_drivers() {
    type Case = (&'static str, fn(&mut Bench));
    let rows: [Case; 4] = [
        ("driver", |bench| {
            bench.content(|content| content.driver = "other".into())
        }),
        ("class", |bench| {
            bench.class(|class| class.driver = "other".into())
        }),
        ("source", |bench| {
            bench.content(|content| content.source = None)
        }),
        ("deletion", |bench| {
            bench.content(|content| {
                content.driver = "other".into();
                (content.deleting, content.being_deleted) = (true, true);
                content.status = Some(status(true));
            });
        }),
    ];
    for (row, given) in rows {
        let mut bench = Bench::new();
        given(&mut bench);
        assert!(bench.run().is_empty() && bench.rests(), "S-45 {row}");
    }
    // A class that is recreated under this name may belong to this driver.
    let mut bench = Bench::new();
    bench.class(|class| class.driver = "other".into());
    assert!(bench.run().is_empty());
    bench.class(|class| class.driver = crate::testing::DRIVER.into());
    assert_eq!(bench.run(), lines(&["bc+", CREATE, TAKEN, "bc-"]));
}

#[test]
fn s_48_an_answer_without_id() {
    for answer in [
        created(csi_proto::csi::Snapshot::default()),
        crate::testing::Answer::Created(Default::default()),
    ] {
        let mut bench = Bench::new();
        bench.answers([answer]);
        let message = "failed to take snapshot of the volume vol-1: \"the driver answered without a \
                       snapshot id\"";
        let trace = bench.run();
        assert_eq!(
            trace,
            joined(&[&lines(&["bc+", CREATE]), &told_first(message)])
        );
        let (_, content) = &bench.server.contents[&Text::from("snapcontent-U1")];
        assert!(
            content.being_created && content.handle().is_none(),
            "the mark stays"
        );
        let (waited, trace) = bench.next();
        let taken = TAKEN.replace(r#","readyToUse""#, r#","error":null,"readyToUse""#);
        assert_eq!((waited, trace), (1, lines(&[CREATE, &taken, "bc-"])));
    }
}

#[test]
fn s_49_s_50_polling_costs_one_call() {
    let mut bench = Bench::new();
    let mut larger = snapshot(true);
    larger.size_bytes = 7 << 30;
    bench.answers([
        created(snapshot(false)),
        created(snapshot(false)),
        created(larger),
    ]);
    assert_eq!(bench.run(), lines(&["bc+", CREATE, CUT, "bc-"]));
    assert_eq!(
        bench.next(),
        (1, lines(&[CREATE])),
        "no request to the API server"
    );
    assert_eq!(
        bench.next(),
        (2, lines(&[CREATE, READY])),
        "the first size stays"
    );
    assert!(bench.rests());
}

#[test]
fn s_51_intervals_of_polling() {
    let mut bench = Bench::new();
    bench.answers((0..13).map(|_| created(snapshot(false))));
    bench.run();
    let waits: Vec<u64> = (0..12).map(|_| bench.next().0).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
}

#[test]
fn s_52_what_is_ready_is_left_alone() {
    let mut bench = Bench::new();
    bench.content(|content| content.status = Some(status(true)));
    assert!(bench.run().is_empty());
    assert!(bench.resync().is_empty(), "resync");
    // The snapshotter does not even read labels and annotations of others.
    bench.content(|content| content.finalizers = [CONTENT_BOUND.into(), "x/y".into()].into());
    assert!(bench.run().is_empty() && bench.rests());
}

/// Another program's change between the cached object and the patch.
fn meddle(change: fn(&mut Content)) -> Bench {
    let mut bench = Bench::new();
    let meddle = move |server: &mut Server| {
        server.change(&"snapcontent-U1".into(), change);
    };
    bench.meddling = Some((false, Box::new(meddle)));
    bench
}

#[test]
fn s_55_s_56_what_others_write_meanwhile_survives() {
    let foreign = |content: &mut Content| {
        content.finalizers = [CONTENT_BOUND.into(), "x/y".into()].into();
    };
    let deleted = |content: &mut Content| content.being_deleted = true;
    for (row, change) in [("S-55", foreign as fn(&mut Content)), ("S-56", deleted)] {
        let mut bench = meddle(change);
        let trace = bench.run();
        let expected = [
            "bc+",
            "refused Conflict",
            "read",
            "bc+",
            CREATE,
            TAKEN,
            "bc-",
        ];
        assert_eq!(trace, lines(&expected), "{row}");
        let (_, mut content) = bench.server.contents[&Text::from("snapcontent-U1")].clone();
        let before = content.clone();
        change(&mut content);
        assert_eq!(content, before, "{row}");
    }
}

#[test]
fn s_57_a_status_that_is_not_written() {
    // Unknown whether the patch was applied: the content is read, and the driver responds as
    // before.
    let mut bench = Bench::new();
    bench.refusals.push_back((true, Refusal::Unknown));
    assert_eq!(
        bench.run(),
        lines(&["bc+", CREATE, TAKEN, "refused Unknown"])
    );
    assert_eq!(bench.next(), (1, lines(&["read", CREATE, TAKEN, "bc-"])));
    // Another program has written: the driver's response remains valid.
    let mut bench = Bench::new();
    bench.refusals.push_back((true, Refusal::Conflict));
    let expected = [
        "bc+",
        CREATE,
        TAKEN,
        "refused Conflict",
        "read",
        TAKEN,
        "bc-",
    ];
    assert_eq!(bench.run(), lines(&expected));
}

#[test]
fn s_58_a_content_that_was_taken_away() {
    let mut bench = Bench::new();
    let gone = |server: &mut Server| server.put(&"snapcontent-U1".into(), None);
    bench.meddling = Some((true, Box::new(gone)));
    let expected = ["bc+", CREATE, TAKEN, "refused NotFound"];
    assert_eq!(bench.run(), lines(&expected), "no DeleteSnapshot");
    let lost = |notice: &Notice| matches!(notice, Notice::Lost(_, handle) if **handle == *"snap-1");
    assert!(bench.notices.iter().any(lost), "{:?}", bench.notices);
    let left = remembered(bench.snapshotter.in_flight(), &Default::default(), &[]);
    assert!(bench.rests() && left.is_empty());
}

#[test]
fn s_59_a_mark_that_is_refused() {
    let mut bench = Bench::new();
    bench.refusals.push_back((false, Refusal::Other));
    let message = "failed to add VolumeSnapshotBeingCreated annotation on the content \
                   snapcontent-U1: \"simulated\"";
    let trace = bench.run();
    assert_eq!(
        trace,
        joined(&[&lines(&["bc+", "refused Other"]), &told_first(message)])
    );
    let (waited, trace) = bench.next();
    let taken = TAKEN.replace(r#","readyToUse""#, r#","error":null,"readyToUse""#);
    assert_eq!((waited, trace), (1, lines(&["bc+", CREATE, &taken, "bc-"])));
}

/// Row S-125: a driver has forgotten the recorded snapshot, and the ready one is another.
#[test]
fn i_5_s_125_a_stored_handle_stays_and_is_not_ready_by_another() {
    let mut bench = Bench::new();
    bench.content(|content| content.status = Some(status(false)));
    let mut other = snapshot(true);
    other.snapshot_id = "snap-2".into();
    bench.answers([created(other)]);
    let message = "failed to take snapshot of the volume vol-1: \"the driver answered with snap-2, and with \
                   snap-1 before\"";
    let expected = joined(&[&lines(&[CREATE]), &told_later(message)]);
    assert_eq!(bench.run(), expected);
    // The forgotten snapshot is deleted by its recorded handle.
    bench.content(|content| (content.deleting, content.being_deleted) = (true, true));
    assert_eq!(bench.run()[0], "Delete snap-1 {}");
}
