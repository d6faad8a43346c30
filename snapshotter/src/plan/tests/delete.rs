//! Section 10.5: snapshots that are deleted.

use sidecar::snapshot::CONTENT_BOUND;
use tonic::Code;

use super::{CLEARED, CREATE, CUT, hold, lines};
use crate::model::{Content, Policy, SecretRef, Status, Text};
use crate::plan::Settings;
use crate::plan::outcome::Refusal;
use crate::testing::{Bench, Server, fails, pre_provisioned, refused, status};

const DELETE: &str = "Delete snap-1 {}";

fn goes(content: &mut Content) {
    content.status = Some(status(true));
    (content.deleting, content.being_deleted) = (true, true);
}

/// The fixture's content with a VolumeSnapshot that is being deleted.
fn going(change: impl FnOnce(&mut Content)) -> Bench {
    let mut bench = Bench::new();
    bench.content(|content| {
        goes(content);
        change(content);
    });
    bench
}

fn left(bench: &Bench) -> Option<&Content> {
    let content = bench.server.contents.get(&Text::from("snapcontent-U1"));
    content.map(|(_, content)| content)
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn s_87_s_89_to_92_s_95_s_100_s_102_s_103_what_goes_and_what_stays() {
    hold(&[
        (
            "S-89",
            |bench| {
                bench.content(|content| {
                    goes(content);
                    content.policy = Policy::Retain;
                });
            },
            &["F-"],
        ),
        (
            "S-90",
            |bench| {
                bench.content(|content| {
                    content.policy = Policy::Retain;
                    content.status = Some(status(true));
                });
                bench.content(|content| content.policy = Policy::Delete);
                bench.content(goes);
            },
            &[DELETE, CLEARED, "F-"],
        ),
        (
            "S-91",
            |bench| {
                bench.content(|content| {
                    content.deleting = true;
                    content.status = Some(status(true));
                });
            },
            &[],
        ),
        (
            "S-92",
            |bench| {
                bench.content(|content| {
                    content.being_deleted = true;
                    content.status = Some(status(true));
                });
            },
            &[],
        ),
        (
            "S-95",
            |bench| {
                bench.content(|content| {
                    goes(content);
                    content.status = Some(Status {
                        ready: Some(false),
                        error: Some("x".into()),
                        ..Status::default()
                    });
                });
            },
            &["F-"],
        ),
        (
            "S-95, never attempted",
            |bench| {
                bench.content(|content| {
                    goes(content);
                    content.status = None;
                });
            },
            &["F-"],
        ),
        (
            "S-100",
            |bench| {
                bench.content(|content| {
                    goes(content);
                    content.status.as_mut().unwrap().group = Some("g1".into());
                });
            },
            &["F-"],
        ),
        (
            "S-102",
            |bench| {
                bench.server.put_class(&"c1".into(), None);
                bench.content(goes);
            },
            &[DELETE, CLEARED, "F-"],
        ),
        (
            "S-103",
            |bench| {
                bench.content(|content| {
                    (content.being_deleted, content.policy) = (true, Policy::Retain);
                    content.status = Some(status(false));
                });
            },
            &[],
        ),
    ]);
    let mut bench = going(|_| {});
    assert_eq!(bench.run(), lines(&[DELETE, CLEARED, "F-"]), "S-87");
    assert!(left(&bench).is_none() && bench.rests(), "S-87");
}

#[test]
fn s_87_the_secret_of_a_deletion() {
    let mut bench = going(|content| {
        content.secret = Some(Box::new(SecretRef {
            namespace: "ns2".into(),
            name: "sec".into(),
        }));
    });
    bench.secret("ns2", "sec");
    let expected = ["secret ns2/sec", "Delete snap-1 {u: p}", CLEARED, "F-"];
    assert_eq!(bench.run(), lines(&expected));
}

#[test]
fn s_88_somebody_else_holds_it() {
    let mut bench = going(|content| {
        content.finalizers = [CONTENT_BOUND.into(), "x/y".into()].into();
    });
    assert_eq!(bench.run(), lines(&[DELETE, CLEARED, "F-"]));
    let held = left(&bench).unwrap();
    assert_eq!(*held.finalizers, ["x/y".into()]);
    assert!(bench.resync().is_empty(), "not a second time");
    bench.content(|content| content.finalizers = [].into());
    assert!(bench.run().is_empty() && left(&bench).is_none());
}

#[test]
fn both_entries_of_the_finalizer_go() {
    let mut bench = going(|content| {
        content.finalizers = [CONTENT_BOUND.into(), CONTENT_BOUND.into()].into();
    });
    assert_eq!(bench.run(), lines(&[DELETE, CLEARED, "F-"]));
    assert!(left(&bench).is_none());
}

fn found(change: impl FnOnce(&mut Content)) -> Bench {
    let mut bench = Bench::empty(Settings::default());
    let mut content = pre_provisioned();
    content.deleting = true;
    change(&mut content);
    bench.server.put(&"snapcontent-U1".into(), Some(content));
    bench
}

#[test]
fn s_93_s_94_what_was_there_before() {
    const GONE: &str =
        r#"st {"creationTime":null,"readyToUse":null,"restoreSize":null,"snapshotHandle":null}"#;
    let mut bench = found(|content| {
        content.finalizers = ["x/y".into()].into();
        content.status = Some(Status {
            handle: Some("snap-9".into()),
            ..status(true)
        });
    });
    assert_eq!(bench.run(), lines(&["Delete snap-9 {}", GONE]), "S-93");
    assert!(bench.resync().is_empty(), "S-93");
    // The content was never bound, so its snapshot is not deleted.
    let mut bench = found(|content| content.finalizers = ["x/y".into()].into());
    assert!(bench.run().is_empty(), "S-93, never looked up");
    let bound = |content: &mut Content| {
        content.finalizers = [CONTENT_BOUND.into()].into();
        content.snapshot.uid = "U9".into();
        content.being_deleted = true;
    };
    let mut bench = found(bound);
    assert_eq!(bench.run(), lines(&["Delete snap-9 {}", "F-"]), "S-94");
    // The snapshot was never found, and is deleted all the same.
    let mut bench = found(|content| {
        bound(content);
        content.status = Some(Status {
            ready: Some(false),
            error: Some("x".into()),
            ..Status::default()
        });
    });
    let expected = ["Delete snap-9 {}", r#"st {"readyToUse":null}"#, "F-"];
    assert_eq!(bench.run(), lines(&expected), "S-94, with an error");
}

#[test]
fn s_96_s_97_what_the_driver_does_not_delete() {
    for (row, code, name) in [
        ("S-96", Code::FailedPrecondition, "FailedPrecondition"),
        ("S-97", Code::NotFound, "NotFound"),
    ] {
        let mut bench = going(|_| {});
        bench.answers([fails(code, "in use"), fails(code, "in use")]);
        let event = format!(
            "E SnapshotDeleteError: Failed to delete snapshot: rpc error: code = {name} desc = in use"
        );
        assert_eq!(bench.run(), lines(&[DELETE, &event]), "{row}");
        assert_eq!(bench.next(), (1, lines(&[DELETE, &event])), "{row}");
        assert!(left(&bench).unwrap().is_protected(), "{row}");
        assert_eq!(bench.next(), (2, lines(&[DELETE, CLEARED, "F-"])), "{row}");
    }
}

#[test]
fn s_98_a_secret_that_comes_later() {
    let mut bench = going(|content| {
        content.secret = Some(Box::new(SecretRef {
            namespace: "ns2".into(),
            name: "sec".into(),
        }));
    });
    let event = "E SnapshotDeleteError: Failed to get snapshot credentials: cannot get credentials \
                 for snapshot content \"snapcontent-U1\": error getting secret sec in namespace ns2: \
                 secrets \"sec\" not found";
    assert_eq!(bench.run(), lines(&["secret ns2/sec", event]));
    bench.secret("ns2", "sec");
    let expected = ["secret ns2/sec", "Delete snap-1 {u: p}", CLEARED, "F-"];
    assert_eq!(bench.next(), (1, lines(&expected)));
}

#[test]
fn s_99_a_status_that_is_not_cleared() {
    let mut bench = going(|_| {});
    bench.refusals.push_back((true, Refusal::Conflict));
    let expected = [DELETE, CLEARED, "refused Conflict", "read", CLEARED, "F-"];
    assert_eq!(bench.run(), lines(&expected), "read and written again");
    // Nor after a missing response, or a refusal.
    for (refusal, told) in [
        (Refusal::Unknown, None),
        (
            Refusal::Other,
            Some(
                "E SnapshotDeleteError: Failed to clear content status: error updating status for \
                 volume snapshot content snapcontent-U1: simulated",
            ),
        ),
    ] {
        let mut bench = going(|_| {});
        bench.refusals.push_back((true, refusal));
        let refused = format!("refused {refusal:?}");
        let mut expected = vec![DELETE, CLEARED, &refused];
        expected.extend(told);
        assert_eq!(bench.run(), lines(&expected));
        let (_, trace) = bench.next();
        let again: Vec<&str> = match refusal {
            Refusal::Unknown => vec!["read", CLEARED, "F-"],
            Refusal::NotFound
            | Refusal::Forbidden
            | Refusal::AlreadyExists
            | Refusal::Conflict
            | Refusal::Other => vec![CLEARED, "F-"],
        };
        assert_eq!(trace, lines(&again));
    }
    assert_eq!(refused(Refusal::Other).message, "simulated");
}

#[test]
fn s_101_a_finalizer_that_came_meanwhile_survives() {
    let mut bench = going(|content| content.policy = Policy::Retain);
    let meddle = |server: &mut Server| {
        server.change(&"snapcontent-U1".into(), |content| {
            content.finalizers = ["x/y".into(), CONTENT_BOUND.into()].into();
        });
    };
    bench.meddling = Some((false, Box::new(meddle)));
    let expected = ["F-", "refused Conflict", "read", "F-"];
    assert_eq!(bench.run(), lines(&expected));
    assert_eq!(*left(&bench).unwrap().finalizers, ["x/y".into()]);
}

/// The VolumeSnapshot is deleted before the failure of its creation is in the status.
#[test]
fn a_finalizer_that_stays_is_tried_again_after_a_back_off() {
    let mut bench = Bench::new();
    bench.server.put_class(&"c1".into(), None);
    let meddle = |server: &mut Server| {
        server.change(&"snapcontent-U1".into(), |content| {
            (content.deleting, content.being_deleted) = (true, true);
        });
    };
    bench.meddling = Some((true, Box::new(meddle)));
    // Once more since the content has changed, then after the back-off.
    bench.refusals.extend([(false, Refusal::Other); 2]);
    let tried = ["F-", "refused Other"];
    let expected = ["refused Conflict", "read"]
        .into_iter()
        .chain([tried; 2].concat());
    let expected: Vec<&str> = expected.collect();
    assert_eq!(bench.run()[1..], lines(&expected));
    assert_eq!(bench.next(), (2, lines(&["F-"])));
    assert!(left(&bench).is_none() && bench.rests());
}

#[test]
fn s_103_polling_ends_when_nobody_wants_it_any_more() {
    let mut bench = Bench::new();
    let unready = || crate::testing::created(crate::testing::snapshot(false));
    bench.answers([unready(), unready()]);
    bench.content(|content| content.policy = Policy::Retain);
    assert_eq!(bench.run(), lines(&["bc+", CREATE, CUT, "bc-"]));
    bench.content(|content| content.being_deleted = true);
    assert!(bench.run().is_empty());
    assert!(bench.rests());
}
