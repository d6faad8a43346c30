//! Section 10.13, the sidecar's part: groups of snapshots.

use sidecar::snapshot::group as strings;
use tonic::Code;

use super::{joined, lines, told};
use crate::model::{Class, Content, Policy, SecretRef, Source, Text};
use crate::plan::Settings;
use crate::plan::outcome::Refusal;
use crate::testing::Answer;
use crate::testing::{
    Bench, DRIVER, GROUP, content, fails, group, group_content, group_created, group_got, pairs,
    pre_provisioned_group, status,
};

const CREATE: &str = "CreateGroup groupsnapshot-V1 vol-1+vol-2 {a: b} {}";
const GET: &str = "GetGroup grp-9 snap-8+snap-9 {}";
const FOUND: &str = r#"st {"creationTime":"2026-01-02T03:04:05Z","readyToUse":true,"volumeGroupSnapshotHandle":"grp-9"}"#;
const CLEARED: &str =
    r#"st {"creationTime":null,"readyToUse":null,"volumeGroupSnapshotHandle":null}"#;

/// Members as written; `second`: the second one is ready.
fn members(second: bool) -> String {
    format!(
        r#"[{{"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":1073741824,"snapshotHandle":"snap-1","volumeHandle":"vol-1"}},{{"creationTime":1767323045000000000,"readyToUse":{second},"snapshotHandle":"snap-2","volumeHandle":"vol-2"}}]"#
    )
}

/// The status patch after the fixture's driver has created a group.
fn cut(ready: bool) -> String {
    format!(
        r#"st {{"creationTime":"2026-01-02T03:04:05Z","readyToUse":{ready},"volumeGroupSnapshotHandle":"grp-1","volumeSnapshotInfoList":{}}}"#,
        members(ready)
    )
}

fn told_first(message: &str) -> [String; 2] {
    let message = format!("Failed to create group snapshot: {message}");
    told("GroupSnapshotCreationFailed", &message)
}

fn told_later(message: &str) -> [String; 2] {
    let message = format!("Failed to check and update group snapshot content: {message}");
    told("GroupSnapshotContentCheckandUpdateFailed", &message)
}

fn with(answers: impl IntoIterator<Item = Answer>) -> Bench {
    let mut bench = Bench::of_group();
    bench.answers(answers);
    bench
}

fn left<'a>(bench: &'a Bench, name: &str) -> Option<&'a Content> {
    let content = bench.server.contents.get(&Text::from(name));
    content.map(|(_, content)| content)
}

/// The same group under its pre-provisioned names.
fn group_9(ready: bool) -> csi_proto::csi::VolumeGroupSnapshot {
    let mut answer = group(ready);
    answer.group_snapshot_id = "grp-9".into();
    for (snapshot, id) in answer.snapshots.iter_mut().zip(["snap-8", "snap-9"]) {
        snapshot.snapshot_id = id.into();
    }
    answer
}

/// A pre-provisioned group.
fn found(change: impl FnOnce(&mut Content)) -> Bench {
    let mut bench = Bench::empty(Settings::default());
    let mut content = pre_provisioned_group();
    change(&mut content);
    bench.server.put(&"gp".into(), Some(content));
    bench
}

#[test]
fn g_2_a_group_is_cut() {
    let mut bench = Bench::of_group();
    let expected = lines(&["bc+", CREATE, &cut(true), "bc-"]);
    assert_eq!(bench.run(), expected, "G-2");
    assert!(bench.rests());
    assert_eq!(bench.resync(), lines(&[]), "G-2: nothing is left to do");
    // Like S-32: without the finalizer the first patch adds both.
    let mut bench = Bench::of_group();
    bench.group(|content| content.finalizers = [].into());
    let expected = lines(&["bc+ F+", CREATE, &cut(true), "bc-"]);
    assert_eq!(bench.run(), expected, "G-2, unprotected");
}

#[test]
fn g_5_g_6_g_7_g_8_what_the_driver_gets() {
    type Given = fn(&mut Bench);
    let rows: [(&str, Given, &[&str]); 5] = [
        (
            "G-5",
            |bench| bench.set(|settings| settings.extra_create_metadata = true),
            &[
                "bc+",
                "CreateGroup groupsnapshot-V1 vol-1+vol-2 {a: b, \
                 csi.storage.k8s.io/volumegroupsnapshot/name: v1, \
                 csi.storage.k8s.io/volumegroupsnapshot/namespace: ns, \
                 csi.storage.k8s.io/volumegroupsnapshotcontent/name: groupsnapcontent-V1} {}",
            ],
        ),
        (
            "G-6, S-33",
            |bench| bench.set(|settings| settings.name.prefix = "p".into()),
            &["bc+", "CreateGroup p-V1 vol-1+vol-2 {a: b} {}"],
        ),
        (
            "G-6, S-34",
            |bench| {
                bench.set(|settings| settings.name.length = Some(8));
                bench.group(|content| {
                    content.snapshot.uid = "0123abcd-4567-89ab-cdef-0123456789ab".into();
                });
            },
            &[
                "bc+",
                "CreateGroup groupsnapshot-0123abcd vol-1+vol-2 {a: b} {}",
            ],
        ),
        (
            "G-7, G-8: the annotations name it, whatever template it came of",
            |bench| {
                bench.secret("ns2", "sec");
                bench.group(|content| {
                    content.secret = Some(Box::new(SecretRef {
                        namespace: "ns2".into(),
                        name: "sec".into(),
                    }));
                });
            },
            &[
                "secret ns2/sec",
                "bc+",
                "CreateGroup groupsnapshot-V1 vol-1+vol-2 {a: b} {u: p}",
            ],
        ),
        (
            "S-36",
            |bench| {
                bench.class(|class| {
                    class.parameters = pairs(&[
                        ("a", "b"),
                        (strings::SECRET_NAME_PARAMETER, "x"),
                        (strings::SECRET_NAMESPACE_PARAMETER, "x"),
                        (strings::GET_SECRET_NAME_PARAMETER, "x"),
                        (strings::GET_SECRET_NAMESPACE_PARAMETER, "x"),
                    ]);
                });
            },
            &["bc+", CREATE],
        ),
    ];
    for (row, given, head) in rows {
        let mut bench = Bench::of_group();
        given(&mut bench);
        let expected = joined(&[&lines(head), &lines(&[&cut(true), "bc-"])]);
        assert_eq!(bench.run(), expected, "{row}");
    }
}

#[test]
fn g_18_a_group_that_is_not_ready_is_asked_for_again() {
    let mut bench = with([group_created(group(false)), group_created(group(false))]);
    let first = lines(&["bc+", CREATE, &cut(false), "bc-"]);
    assert_eq!(bench.run(), first, "G-18: members from the first answer on");
    assert_eq!(bench.next(), (1, lines(&[CREATE])), "G-18");
    let members = members(true);
    let ready = format!(r#"st {{"readyToUse":true,"volumeSnapshotInfoList":{members}}}"#);
    assert_eq!(bench.next(), (2, lines(&[CREATE, &ready])), "G-18");
    assert!(bench.rests());
}

/// The controller writes the members' contents; the snapshotter looks them up until they are ready,
/// and never creates them.
#[test]
fn g_3_g_19_contents_of_members() {
    let mut bench = Bench::new();
    bench.content(|content| {
        (content.member, content.class) = (true, None);
        let mut status = status(false);
        status.group = Some("grp-1".into());
        content.status = Some(status);
    });
    let unready = |ready| {
        crate::testing::listed(&["snap-1"], "", |found| {
            found.ready_to_use = ready;
            found.group_snapshot_id = "grp-1".into();
        })
    };
    bench.answers([unready(false), unready(true)]);
    assert_eq!(bench.run(), lines(&["List snap-1 {}"]), "G-19");
    let ready = r#"st {"readyToUse":true}"#;
    assert_eq!(bench.next(), (1, lines(&["List snap-1 {}", ready])), "G-19");
    assert_eq!(bench.resync(), lines(&[]), "G-3, G-19: and it stays so");
}

/// Knowledge about members grows, and is never lost.
#[test]
fn g_19_members_stay_ready() {
    let mut bench = with([
        group_created(group(false)),
        group_created({
            let mut again = group(false);
            again.snapshots.reverse();
            for snapshot in &mut again.snapshots {
                snapshot.ready_to_use = !snapshot.ready_to_use;
                snapshot.size_bytes = 7;
            }
            again
        }),
        group_created(group(false)),
    ]);
    bench.run();
    let list = members(true).replace(
        r#""readyToUse":true,"snapshotHandle":"snap-2""#,
        r#""readyToUse":true,"restoreSize":7,"snapshotHandle":"snap-2""#,
    );
    let grown = format!(r#"st {{"volumeSnapshotInfoList":{list}}}"#);
    assert_eq!(bench.next().1, lines(&[CREATE, &grown]), "G-19");
    assert_eq!(bench.next().1, lines(&[CREATE]), "G-19");
}

#[test]
fn g_20_groups_that_are_not_cut() {
    for (code, name, stays) in [
        (Code::InvalidArgument, "InvalidArgument", false),
        (Code::Internal, "Internal", false),
        (Code::ResourceExhausted, "ResourceExhausted", true),
        (Code::Aborted, "Aborted", true),
    ] {
        let mut bench = with([fails(code, "x"), fails(code, "x"), fails(code, "x")]);
        let calls = |again: bool| {
            let mark = if again && stays { None } else { Some("bc+") };
            let unmark = (!stays).then_some("bc-");
            let all: Vec<&str> = mark.into_iter().chain([CREATE]).chain(unmark).collect();
            lines(&all)
        };
        let text = format!(
            "failed to take group snapshot of the volumes [vol-1 vol-2]: \"rpc error: code = {name} desc = x\""
        );
        let first = joined(&[&calls(false), &told_first(&text)]);
        assert_eq!(bench.run(), first, "G-20 {name}");
        let marked = left(&bench, GROUP).unwrap().being_created;
        assert_eq!(marked, stays, "G-20 {name}");
        let later = joined(&[&calls(true), &told_later(&text)]);
        assert_eq!(bench.next().1, later, "G-20 {name}");
        assert_eq!(bench.next().1, calls(true), "G-20 {name}: then silence");
    }
}

/// A response without a required field leaves the outcome unknown.
#[test]
fn g_20_half_answers() {
    let without = |change: fn(&mut csi_proto::csi::VolumeGroupSnapshot)| {
        let mut answer = group(true);
        change(&mut answer);
        group_created(answer)
    };
    for answer in [
        without(|answer| answer.group_snapshot_id.clear()),
        without(|answer| answer.snapshots.clear()),
        without(|answer| answer.snapshots[1].snapshot_id.clear()),
        Answer::GroupCreated(csi_proto::csi::CreateVolumeGroupSnapshotResponse {
            group_snapshot: None,
        }),
    ] {
        let mut bench = with([answer]);
        let text = "failed to take group snapshot of the volumes [vol-1 vol-2]: \"the driver answered \
                    without the ids of a group and of its snapshots\"";
        let expected = joined(&[&lines(&["bc+", CREATE]), &told_first(text)]);
        assert_eq!(bench.run(), expected);
        assert!(left(&bench, GROUP).unwrap().being_created);
        bench.next();
        assert_eq!(
            left(&bench, GROUP).unwrap().handle().map(|h| &**h),
            Some("grp-1")
        );
    }
}

#[test]
fn g_20_before_the_call() {
    type Row = (&'static str, fn(&mut Bench), &'static str);
    let rows: [Row; 4] = [
        (
            "no class named",
            |bench| bench.group(|content| content.class = None),
            "failed to get input parameters to create group snapshot for content groupsnapcontent-V1: \
             \"failed to take group snapshot groupsnapcontent-V1 without a group snapshot class\"",
        ),
        (
            "class missing",
            |bench| bench.server.put_class(&"g".into(), None),
            "failed to get input parameters to create group snapshot for content groupsnapcontent-V1: \
             \"volumegroupsnapshotclass.groupsnapshot.storage.k8s.io \\\"g\\\" not found\"",
        ),
        (
            "unbound",
            |bench| bench.group(|content| content.snapshot.uid = "".into()),
            "failed to take group snapshot of the volumes [vol-1 vol-2]: \"cannot create group \
             snapshot. Group snapshot content groupsnapcontent-V1 not bound to a group snapshot\"",
        ),
        (
            "secret named by nothing",
            |bench| {
                bench.group(|content| {
                    content.secret = Some(Box::new(SecretRef {
                        namespace: "ns2".into(),
                        name: "".into(),
                    }));
                });
            },
            "failed to get input parameters to create group snapshot for content groupsnapcontent-V1: \
             \"cannot retrieve secrets for group snapshot content \\\"groupsnapcontent-V1\\\", err: \
             secret name or namespace not specified\"",
        ),
    ];
    for (row, given, text) in rows {
        let mut bench = Bench::of_group();
        given(&mut bench);
        assert_eq!(bench.run(), told_first(text), "{row}");
    }
}

#[test]
fn g_21_g_22_what_goes_and_what_stays() {
    let goes = |content: &mut Content| (content.deleting, content.being_deleted) = (true, true);
    let mut bench = Bench::of_group();
    bench.run();
    bench.group(goes);
    let deletes = "DeleteGroup grp-1 snap-1+snap-2 {}";
    assert_eq!(bench.run(), lines(&[deletes, CLEARED, "F-"]), "G-21");
    assert!(left(&bench, GROUP).is_none(), "G-21");

    let mut bench = Bench::of_group();
    bench.run();
    bench.group(|content| {
        content.policy = Policy::Retain;
        content.being_deleted = true;
    });
    assert_eq!(bench.run(), lines(&[]), "G-22: it stays");
    bench.group(goes);
    assert_eq!(bench.run(), lines(&["F-"]), "G-22");

    // A member is deleted only with its group.
    let mut bench = Bench::new();
    bench.content(|content| {
        content.member = true;
        let mut status = status(true);
        status.group = Some("grp-1".into());
        content.status = Some(status);
        goes(content);
    });
    assert_eq!(bench.run(), lines(&["F-"]), "G-21: no DeleteSnapshot");

    let mut bench = Bench::of_group();
    bench.run();
    bench.group(|content| {
        goes(content);
        content.secret = Some(Box::new(SecretRef {
            namespace: "ns2".into(),
            name: "sec".into(),
        }));
    });
    let secret = "E GroupSnapshotDeleteError: Failed to get snapshot credentials: cannot get \
                  credentials for group snapshot content \"groupsnapcontent-V1\": error getting secret \
                  sec in namespace ns2: secrets \"sec\" not found";
    assert_eq!(bench.run(), lines(&["secret ns2/sec", secret]), "G-21");
    bench.secret("ns2", "sec");
    let deletes = "DeleteGroup grp-1 snap-1+snap-2 {u: p}";
    let expected = lines(&["secret ns2/sec", deletes, CLEARED, "F-"]);
    assert_eq!(bench.next().1, expected, "G-21");

    let mut bench = Bench::of_group();
    bench.run();
    bench.answers([fails(Code::FailedPrecondition, "in use")]);
    bench.group(goes);
    let refused = "E GroupSnapshotDeleteError: Failed to delete group snapshot: rpc error: code = \
                   FailedPrecondition desc = in use";
    let deletes = "DeleteGroup grp-1 snap-1+snap-2 {}";
    assert_eq!(bench.run(), lines(&[deletes, refused]), "G-21");
    // Like S-99: only the clearing is repeated.
    bench.refusals.push_back((true, Refusal::Conflict));
    let expected = lines(&[deletes, CLEARED, "refused Conflict", "read", CLEARED, "F-"]);
    assert_eq!(bench.next().1, expected, "G-21");
}

#[test]
fn g_37_after_the_group_is_deleted_or_cleared() {
    let going = |cleared: bool| {
        let mut bench = Bench::of_group();
        bench.run();
        bench.group(|content| {
            (content.deleting, content.being_deleted) = (true, true);
            let status = content.status.as_mut().unwrap();
            if cleared {
                (status.handle, status.ready, status.created) = (None, None, None);
            }
        });
        bench.restart();
        bench.run()
    };
    let again = lines(&["DeleteGroup grp-1 snap-1+snap-2 {}", CLEARED, "F-"]);
    assert_eq!(going(false), again, "G-37: deleted, not cleared");
    assert_eq!(going(true), lines(&["F-"]), "G-37: cleared");
}

#[test]
fn g_36_after_the_mark_the_answer_and_the_status() {
    let killed = |change: fn(&mut Content)| {
        let mut bench = Bench::of_group();
        bench.group(change);
        bench.restart();
        bench.run()
    };
    let marked = killed(|content| content.being_created = true);
    let expected = lines(&["bc+ again", CREATE, &cut(true), "bc-"]);
    assert_eq!(marked, expected, "G-36: the same name");
    let mut done = Bench::of_group();
    done.run();
    done.group(|content| content.being_created = true);
    done.restart();
    assert_eq!(done.run(), lines(&["bc-"]), "G-36: the status is written");
}

#[test]
fn g_27_g_28_g_30_groups_that_were_there_before() {
    let got = |ready: bool| group_got(group_9(ready));
    let mut bench = found(|_| {});
    bench.answers([got(true)]);
    assert_eq!(bench.run(), lines(&[GET, FOUND]), "G-27");
    assert!(bench.rests(), "G-27");
    bench.server.change(&"gp".into(), |content| {
        content.snapshot.uid = "V9".into();
    });
    assert_eq!(bench.run(), lines(&[]), "G-27: idle once it is ready");

    let mut bench = found(|_| {});
    bench.answers([got(false), got(false), got(true)]);
    let unready = FOUND.replace("true", "false");
    assert_eq!(bench.run(), lines(&[GET, &unready]), "G-27");
    assert_eq!(bench.next(), (1, lines(&[GET])), "G-27: no repeated write");
    let ready = r#"st {"readyToUse":true}"#;
    assert_eq!(bench.next(), (2, lines(&[GET, ready])), "G-27");

    let mut bench = found(|_| {});
    bench.answers([fails(Code::NotFound, "gone")]);
    let text = "failed to list group snapshot for group snapshot content gp: \"rpc error: code = \
                NotFound desc = gone\"";
    let expected = joined(&[&lines(&[GET]), &told_later(text)]);
    assert_eq!(bench.run(), expected, "5.6");

    // Its members are ordinary pre-provisioned contents; the driver's list assigns them to the
    // group.
    let mut bench = Bench::empty(Settings::default());
    let mut member = crate::testing::pre_provisioned();
    member.source = Some(Source::Snapshot("snap-8".into()));
    bench.server.put(&"pp".into(), Some(member));
    bench.answers([crate::testing::listed(&["snap-8"], "", |found| {
        found.group_snapshot_id = "grp-9".into();
    })]);
    let joins = r#"st {"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":5,"snapshotHandle":"snap-8","volumeGroupSnapshotHandle":"grp-9"}"#;
    assert_eq!(bench.run(), lines(&["List snap-8 {}", joins]), "G-28");

    let mut bench = found(|content| {
        content.source = Some(Source::Group(Box::default()));
        if let Some(Source::Group(named)) = &mut content.source {
            named.group = "grp-9".into();
        }
    });
    let text = "cannot list group snapshot gp. No snapshots found in the group snapshot content";
    assert_eq!(bench.run(), told_later(text), "G-30");
}

#[test]
fn g_31_the_secret_of_a_lookup() {
    let with_class = |parameters: &[(&str, &str)]| {
        let mut bench = found(|content| content.class = Some("g9".into()));
        let class = Class {
            driver: DRIVER.into(),
            parameters: pairs(parameters),
        };
        bench.server.put_class(&"g9".into(), Some(class));
        bench.secret("ns2", "l-gp");
        bench
    };
    let named = |name| {
        [
            (strings::GET_SECRET_NAME_PARAMETER, name),
            (strings::GET_SECRET_NAMESPACE_PARAMETER, "ns2"),
        ]
    };
    let mut bench = with_class(&named("l-${volumegroupsnapshotcontent.name}"));
    bench.answers([group_got(group_9(true))]);
    let get = "GetGroup grp-9 snap-8+snap-9 {u: p}";
    assert_eq!(bench.run(), lines(&["secret ns2/l-gp", get, FOUND]), "G-31");
    let mut bench = with_class(&named("${volumegroupsnapshot.name}"));
    let text = "failed to get secret reference for group snapshot content gp: error resolving value \
                \"${volumegroupsnapshot.name}\": invalid tokens: [\"volumegroupsnapshot.name\"]";
    assert_eq!(bench.run(), told_later(text), "G-31, other tokens");
    let mut bench = with_class(&[(strings::GET_SECRET_NAME_PARAMETER, "a")]);
    let text = "failed to get secret reference for group snapshot content gp: failed to get name and \
                namespace template from params: either name and namespace for GroupSnapshotterGet \
                secrets specified, Both must be specified";
    assert_eq!(bench.run(), told_later(text), "G-31, half");
}

#[test]
fn g_32_a_group_that_was_there_before_is_deleted() {
    let goes = |content: &mut Content| {
        content.finalizers = [sidecar::snapshot::GROUP_CONTENT_BOUND.into()].into();
        content.snapshot.uid = "V9".into();
        (content.deleting, content.being_deleted) = (true, true);
    };
    let deletes = "DeleteGroup grp-9 snap-8+snap-9 {}";
    let mut bench = found(|content| {
        goes(content);
        let mut status = status(true);
        (status.handle, status.size) = (Some("grp-9".into()), None);
        content.status = Some(status);
    });
    assert_eq!(bench.run(), lines(&[deletes, CLEARED, "F-"]), "G-32");
    // Like S-94: bound, and never looked up.
    let mut bench = found(goes);
    assert_eq!(bench.run(), lines(&[deletes, "F-"]), "G-32, never found");
    let mut bench = found(|content| {
        goes(content);
        content.policy = Policy::Retain;
    });
    assert_eq!(bench.run(), lines(&["F-"]), "G-32, Retain");
    // Its snapshots are unknown, and without them the driver cannot be called.
    let mut bench = found(|content| {
        goes(content);
        content.source = Some(Source::Group(Box::default()));
        let mut status = status(true);
        (status.handle, status.size) = (Some("grp-9".into()), None);
        content.status = Some(status);
    });
    let text = "E GroupSnapshotDeleteError: Failed to delete group snapshot: cannot delete group \
                snapshot content gp. No snapshots found in the group snapshot";
    assert_eq!(bench.run(), lines(&[text]), "5.5");
}

/// A content and a group content of the same name share no state.
#[test]
fn g_34_names_are_a_kinds_own() {
    let mut bench = Bench::new();
    bench.server.put(&GROUP.into(), Some(content()));
    let expected = bench.run();
    assert!(expected.iter().all(|line| !line.contains("Group")), "G-34");
    let mut bench = Bench::of_group();
    bench
        .server
        .put(&"snapcontent-U1".into(), Some(group_content()));
    let expected = bench.run();
    let single = |line: &String| line.starts_with("Create ");
    assert!(!expected.iter().any(single), "G-34: {expected:?}");
}

#[test]
fn g_38_a_driver_that_knows_no_groups() {
    let event = "E GroupSnapshotCreationFailed: CSI driver test.csi.driver does not announce \
                 CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT and is not asked about group snapshots";
    let mut bench = Bench::of_group();
    bench.driver.abilities.group = false;
    assert_eq!(bench.run(), lines(&[event]), "G-38");
    assert!(bench.rests(), "G-38: it waits for no retry");
    assert_eq!(bench.resync(), lines(&[]), "G-38: one event");
    bench.group(|content| content.policy = Policy::Retain);
    assert_eq!(bench.run(), lines(&[]), "G-38: one event");
    // The driver restarted with the capability.
    bench.driver.abilities.group = true;
    bench.driver_back();
    let expected = lines(&["bc+", CREATE, &cut(true), "bc-"]);
    assert_eq!(bench.run(), expected, "G-38");
    // Whatever needs no call is done all the same.
    bench.driver.abilities.group = false;
    bench.group(|content| (content.deleting, content.being_deleted) = (true, true));
    assert_eq!(bench.run(), lines(&["F-"]), "G-38, Retain");
}
