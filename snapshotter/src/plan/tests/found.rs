//! Section 10.4: pre-provisioned snapshots, and members of groups; GetSnapshot of section 10.6.

use tonic::Code;

use super::{READY, joined, lines, told, told_later};
use crate::model::{Class, Content, Member, SecretRef, Status, Text};
use crate::plan::{Membership, Settings};
use crate::testing::{
    Bench, DRIVER, content, fails, got, listed, pairs, pre_provisioned, snapshot,
};

fn found(change: impl FnOnce(&mut Content)) -> Bench {
    let mut bench = Bench::empty(Settings::default());
    let mut content = pre_provisioned();
    change(&mut content);
    bench.server.put(&"pp".into(), Some(content));
    bench
}

fn with_class(parameters: &[(&str, &str)]) -> Bench {
    let mut bench = found(|content| content.class = Some("c9".into()));
    let class = Class {
        driver: DRIVER.into(),
        parameters: pairs(parameters),
    };
    bench.server.put_class(&"c9".into(), Some(class));
    bench
}

const FOUND: &str = r#"st {"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":5,"snapshotHandle":"snap-9"}"#;
const ASSUMED: &str =
    r#"st {"creationTime":1770091506000000000,"readyToUse":true,"snapshotHandle":"snap-9"}"#;
const LIST: &str = "List snap-9 {}";

#[test]
fn s_75_s_84_what_the_driver_lists() {
    let mut bench = found(|_| {});
    bench.answers([listed(&["snap-9"], "", |_| {})]);
    assert_eq!(bench.run(), lines(&[LIST, FOUND]), "S-75");
    assert!(bench.rests());
    let mut bench = found(|_| {});
    bench.answers([listed(&["snap-9"], "", |found| {
        found.group_snapshot_id = "g1".into();
    })]);
    let grouped = FOUND.replace('}', r#","volumeGroupSnapshotHandle":"g1"}"#);
    assert_eq!(bench.run(), lines(&[LIST, &grouped]), "S-84");
}

#[test]
fn s_76_s_120_what_cannot_be_looked_up_is_assumed() {
    let mut bench = found(|_| {});
    bench.driver.abilities.list = false;
    assert_eq!(bench.run(), lines(&[ASSUMED]), "S-76");
    let mut bench = found(|_| {});
    bench.driver.abilities.list = false;
    bench.driver.abilities.get = true;
    assert_eq!(bench.run(), lines(&[ASSUMED]), "S-120");
}

#[test]
fn s_77_the_secret_of_a_list() {
    let mut bench = with_class(&[
        (
            "csi.storage.k8s.io/snapshotter-list-secret-name",
            "l-${volumesnapshotcontent.name}",
        ),
        (
            "csi.storage.k8s.io/snapshotter-list-secret-namespace",
            "ns2",
        ),
    ]);
    bench.secret("ns2", "l-pp");
    bench.answers([listed(&["snap-9"], "", |_| {})]);
    let expected = ["secret ns2/l-pp", "List snap-9 {u: p}", FOUND];
    assert_eq!(bench.run(), lines(&expected));
}

#[test]
fn s_78_s_79_s_80_what_cannot_be_found() {
    let unclear = [
        (
            "csi.storage.k8s.io/snapshotter-list-secret-name",
            "${volumesnapshot.name}",
        ),
        (
            "csi.storage.k8s.io/snapshotter-list-secret-namespace",
            "ns2",
        ),
    ];
    let missing = [
        ("csi.storage.k8s.io/snapshotter-list-secret-name", "sec"),
        (
            "csi.storage.k8s.io/snapshotter-list-secret-namespace",
            "ns2",
        ),
    ];
    let listing = |answer| {
        let mut bench = found(|_| {});
        bench.answers([answer]);
        bench
    };
    for (row, mut bench, calls, message) in [
        (
            "S-78",
            with_class(&unclear),
            &[][..],
            "failed to get secret reference for snapshot content pp: error resolving value \
             \"${volumesnapshot.name}\": invalid tokens: [\"volumesnapshot.name\"]",
        ),
        (
            "3.9",
            with_class(&missing),
            &["secret ns2/sec"],
            "failed to get credentials for snapshot content pp: error getting secret sec in \
             namespace ns2: secrets \"sec\" not found",
        ),
        (
            "S-79",
            found(|content| content.class = Some("c9".into())),
            &[],
            "failed to get snapshot class c9 for snapshot content pp: \
             volumesnapshotclass.snapshot.storage.k8s.io \"c9\" not found",
        ),
        (
            "S-80",
            listing(listed(&[], "", |_| {})),
            &[LIST],
            "failed to list snapshot for content pp: \"can not find snapshot for snapshotID snap-9\"",
        ),
        (
            "S-124, other snapshots",
            listing(listed(&["other", "another"], "", |_| {})),
            &[LIST],
            "failed to list snapshot for content pp: \"can not find snapshot for snapshotID snap-9\"",
        ),
        (
            "3.9, error",
            listing(fails(Code::Internal, "x")),
            &[LIST],
            "failed to list snapshot for content pp: \"rpc error: code = Internal desc = x\"",
        ),
    ] {
        let expected = joined(&[&lines(calls), &told_later(message)]);
        assert_eq!(bench.run(), expected, "{row}");
        bench.answers([listed(&[], "", |_| {})]);
        assert_eq!(bench.next().0, 1, "{row}");
    }
}

#[test]
fn s_79_the_class_that_comes_later() {
    let mut bench = found(|content| content.class = Some("c9".into()));
    bench.run();
    let class = Class {
        driver: DRIVER.into(),
        ..Class::default()
    };
    bench.server.put_class(&"c9".into(), Some(class));
    bench.answers([listed(&["snap-9"], "", |_| {})]);
    let found = FOUND.replace(r#","readyToUse""#, r#","error":null,"readyToUse""#);
    assert_eq!(bench.run(), lines(&[LIST, &found]));
}

#[test]
fn s_81_what_is_not_ready_is_listed_again() {
    let mut bench = found(|_| {});
    bench.answers((0..3).map(|_| listed(&["snap-9"], "", |found| found.ready_to_use = false)));
    bench.answers([listed(&["snap-9"], "", |_| {})]);
    let first = FOUND.replace("true", "false");
    assert_eq!(bench.run(), lines(&[LIST, &first]));
    assert_eq!(bench.next(), (1, lines(&[LIST])));
    assert_eq!(bench.next(), (2, lines(&[LIST])));
    assert_eq!(bench.next(), (4, lines(&[LIST, READY])));
    assert!(bench.rests());
}

#[test]
fn s_82_s_83_the_entry_is_looked_for() {
    let mut bench = found(|_| {});
    bench.answers([listed(&["other", "snap-9"], "", |_| {})]);
    assert_eq!(bench.run(), lines(&[LIST, FOUND]), "S-82");
    let mut bench = found(|_| {});
    bench.answers([listed(&[], "2", |_| {}), listed(&["snap-9"], "", |_| {})]);
    assert_eq!(
        bench.run(),
        lines(&[LIST, "List snap-9 2{}", FOUND]),
        "S-83"
    );
    // A driver that returns the same page for ever.
    let mut bench = found(|_| {});
    bench.answers([listed(&[], "2", |_| {}), listed(&[], "2", |_| {})]);
    let message = "failed to list snapshot for content pp: \"can not find snapshot for snapshotID \
                   snap-9\"";
    let calls = lines(&[LIST, "List snap-9 2{}"]);
    assert_eq!(bench.run(), joined(&[&calls, &told_later(message)]));
}

fn member(change: impl FnOnce(&mut Content)) -> Bench {
    let mut bench = Bench::empty(Settings::default());
    let mut content = content();
    content.member = true;
    content.class = None;
    change(&mut content);
    bench.server.put(&"m".into(), Some(content));
    bench
}

#[test]
fn s_85_s_86_members() {
    let grouped = Status {
        handle: Some("snap-9".into()),
        group: Some("g1".into()),
        ready: Some(false),
        ..Status::default()
    };
    let mut bench = member(|content| {
        content.status = Some(grouped);
        content.secret = Some(Box::new(SecretRef {
            namespace: "ns2".into(),
            name: "sec".into(),
        }));
    });
    bench.secret("ns2", "sec");
    bench.answers([listed(&["snap-9"], "", |_| {})]);
    let ready = r#"st {"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":5}"#;
    let expected = ["secret ns2/sec", "List snap-9 {u: p}", ready];
    assert_eq!(bench.run(), lines(&expected), "S-85");
    let mut bench = member(|_| {});
    assert!(bench.run().is_empty(), "S-86");
    assert_eq!(bench.next(), (1, Vec::new()), "S-86");
    assert_eq!(bench.next(), (2, Vec::new()), "S-86");
}

#[test]
fn s_119_get_snapshot() {
    let gets = |answers: Vec<crate::testing::Answer>| {
        let mut bench = found(|_| {});
        bench.driver.abilities.list = false;
        bench.driver.abilities.get = true;
        bench.set(|settings| settings.get_snapshot = true);
        bench.answers(answers);
        bench
    };
    let mut one = snapshot(true);
    one.snapshot_id = "snap-9".into();
    one.size_bytes = 5;
    let mut bench = gets(vec![got(one)]);
    assert_eq!(bench.run(), lines(&["Get snap-9 {}", FOUND]));
    let mut bench = gets(vec![fails(Code::NotFound, "x")]);
    let message = "Failed to check and update snapshot content: failed to list snapshot for content \
                   pp: \"can not find snapshot for snapshotID snap-9\"";
    let told = told("SnapshotContentCheckandUpdateFailed", message);
    assert_eq!(bench.run(), joined(&[&lines(&["Get snap-9 {}"]), &told]));
    let mut bench = gets(vec![fails(Code::Unimplemented, "x")]);
    assert_eq!(
        bench.run(),
        lines(&["Get snap-9 {}", ASSUMED]),
        "announced, but not there"
    );
    // A driver that lists snapshots gets no GetSnapshot call.
    let mut bench = gets(vec![listed(&["snap-9"], "", |_| {})]);
    bench.driver.abilities.list = true;
    assert_eq!(bench.run(), lines(&[LIST, FOUND]));
    assert!(!bench.server.contents[&Text::from("pp")].1.being_created);
}

/// Row S-127: a member that cannot be looked up gets the report about it in its group's content.
#[test]
fn s_127_members_of_a_driver_that_does_not_list() {
    let mut bench = Bench::empty(Settings::default());
    bench.driver.abilities.list = false;
    let known = |ready| {
        Membership::Known(Member {
            handle: "snap-2".into(),
            ready: Some(ready),
            size: Some(5),
            ..Member::default()
        })
    };
    bench.member = Membership::Absent;
    let mut content = content();
    (content.member, content.class) = (true, None);
    content.status = Some(Status {
        handle: Some("snap-2".into()),
        created: Some(1),
        ready: Some(false),
        group: Some("grp-1".into()),
        ..Status::default()
    });
    bench.server.put(&"m".into(), Some(content));
    assert_eq!(bench.run(), lines(&[]), "its group is not known yet");
    bench.member = known(false);
    let size = r#"st {"restoreSize":5}"#;
    assert_eq!(bench.next(), (1, lines(&[size])));
    assert_eq!(bench.next(), (2, lines(&[])));
    bench.member = known(true);
    assert_eq!(bench.next(), (4, lines(&[READY])));
    assert!(bench.rests());
}
