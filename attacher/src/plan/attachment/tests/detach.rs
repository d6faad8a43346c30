//! Detaching: order of steps, the node's id, failures, and attempts whose ground changes.

#![expect(
    clippy::too_many_lines,
    reason = "tables are as long as the specification's"
)]

use super::*;
use crate::model::Pairs;

#[test]
fn detach_steps_and_their_order() {
    let start = |attachment| World {
        attachment,
        ..World::default()
    };
    let kept = r#"md {"metadata":{"finalizers":["other/fin"]}}"#;
    let with_context = Attachment {
        finalizers: list(&["other/fin", F]),
        metadata: Pairs::new(list(&["dev", "sda"])),
        ..deleted()
    };
    let failed_before = Attachment {
        detach_error: Some(Arc::new(VolumeError::default())),
        ..deleted()
    };
    let attach_failed = Attachment {
        attach_error: Some(Arc::new(VolumeError::default())),
        attached: false,
        ..deleted()
    };
    let detached = r#"st {"status":{"attached":false}}"#;
    let inline = Attachment {
        volume: None,
        inline: Some(Arc::new(spec(Source::Csi(CsiSource {
            handle: "inl".into(),
            ..csi()
        })))),
        ..deleted()
    };
    check(vec![
        ("87", start(deleted()), vec![UNPUB, RELEASE, detached]),
        (
            "88",
            start(with_context),
            vec![
                UNPUB,
                kept,
                r#"st {"status":{"attached":false,"attachmentMetadata":null}}"#,
            ],
        ),
        (
            "89",
            start(Attachment {
                finalizers: list(&[]),
                ..deleted()
            }),
            vec![],
        ),
        (
            "90",
            start(Attachment {
                attached: false,
                ..deleted()
            }),
            vec![UNPUB, RELEASE, "st {}"],
        ),
        (
            "92 cleared",
            start(failed_before),
            vec![
                UNPUB,
                RELEASE,
                r#"st {"status":{"attached":false,"detachError":null}}"#,
            ],
        ),
        (
            "98",
            World {
                volume: Some(Volume {
                    deleting: true,
                    ..pv()
                }),
                ..start(deleted())
            },
            vec![UNPUB, RELEASE, detached],
        ),
        ("101", start(attach_failed), vec![UNPUB, RELEASE, "st {}"]),
        (
            "102",
            World {
                volume: None,
                ..start(inline)
            },
            vec!["unpub inl NID1", RELEASE, detached],
        ),
        (
            "117",
            World {
                forced: true,
                ..start(Attachment {
                    finalizers: list(&[]),
                    attached: false,
                    ..deleted()
                })
            },
            vec![UNPUB],
        ),
        (
            "6.3 forced without finalizer, attached",
            World {
                forced: true,
                ..start(Attachment {
                    finalizers: list(&[]),
                    ..deleted()
                })
            },
            vec![UNPUB, detached],
        ),
    ]);
}

#[test]
fn detach_finds_the_node_id() {
    let at = |node, saved: Option<&str>| World {
        node,
        attachment: Attachment {
            node_id: saved.map(Text::from),
            ..deleted()
        },
        ..World::default()
    };
    let rows = [
        ("93", at(None, Some("ANN")), "unpub h-pv1 ANN"),
        (
            "94",
            at(Some(foreign_csinode()), Some("ANN")),
            "unpub h-pv1 ANN",
        ),
        (
            "96",
            at(Some(csinode("NID1")), Some("OLD")),
            "unpub h-pv1 NID1",
        ),
    ];
    for (row, mut world, expected) in rows {
        assert_eq!(world.run()[0], expected, "row {row}");
    }
    let text = "CSINode node1 does not contain driver test.csi.driver";
    check(vec![(
        "95",
        at(Some(foreign_csinode()), None),
        vec![&detach_error(text)],
    )]);
}

#[test]
fn detach_failures_keep_the_finalizer() {
    let start = |attachment| World {
        attachment,
        ..World::default()
    };
    let calls = |call| World {
        call,
        ..start(deleted())
    };
    check(vec![
        (
            "91",
            calls(rpc(5, "gone")),
            vec![
                UNPUB,
                &detach_error("rpc error: code = NotFound desc = gone"),
            ],
        ),
        (
            "92 timeout",
            calls(rpc(4, "context deadline exceeded")),
            vec![
                UNPUB,
                &detach_error(
                    "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
                ),
            ],
        ),
        (
            "97",
            World {
                volume: None,
                ..start(deleted())
            },
            vec![&detach_error("persistentvolume \"pv1\" not found")],
        ),
        (
            "100",
            World {
                refused: vec!["md"],
                ..start(deleted())
            },
            vec![
                UNPUB,
                RELEASE,
                &detach_error("could not mark as detached: no"),
            ],
        ),
    ]);
    let mut world = calls(rpc(5, "gone"));
    world.run();
    assert!(world.attachment.has_finalizer(F), "row 91");
}

#[test]
fn a_missing_object_ends_the_detach_quietly() {
    for kind in ["md", "st"] {
        let mut attempt = Attempt::new(&deleted(), false);
        attempt.reached = Reached::Unpublished;
        let what = match kind {
            "md" => Progress::Release,
            _ => Progress::MarkDetached,
        };
        let gone = ApiError {
            refusal: Refusal::NotFound,
            ..forbidden()
        };
        assert_eq!(attempt.written(what, Err(gone)), Ok(()), "row 87");
        let (driver, attachment) = (driver(), deleted());
        let view = View {
            driver: &driver,
            attachment: &attachment,
            volume: None,
            node: None,
        };
        assert!(matches!(attempt.decide(&view), Step::Done));
    }
}

#[test]
fn row_103_an_attach_that_turns_into_a_detach_starts_anew() {
    let (driver, volume) = (driver(), pv());
    let attempt = Attempt::new(&va(), false);
    let attachment = deleted();
    let view = View {
        driver: &driver,
        attachment: &attachment,
        volume: Some(&volume),
        node: Some(&csinode("NID1")),
    };
    assert!(matches!(attempt.decide(&view), Step::Again));
}

#[test]
fn patches_that_the_server_ignores_do_not_spin() {
    let (driver, volume) = (driver(), pv());
    let unprotected = Volume {
        finalizers: None,
        ..pv()
    };
    let rows: [(Attachment, &Volume, Progress, Failure); 3] = [
        (
            va(),
            &unprotected,
            Progress::Protect,
            Failure::ProtectIgnored,
        ),
        (va(), &volume, Progress::Prepare, Failure::PrepareIgnored),
        (
            deleted(),
            &volume,
            Progress::Release,
            Failure::ReleaseIgnored,
        ),
    ];
    for (attachment, volume, what, expected) in rows {
        let mut attempt = Attempt::new(&attachment, false);
        attempt.written(what, Ok(())).unwrap();
        let view = View {
            driver: &driver,
            attachment: &attachment,
            volume: Some(volume),
            node: Some(&csinode("NID1")),
        };
        match attempt.decide(&view) {
            Step::Fail(failure) => assert_eq!(failure, expected),
            _ => panic!("{expected}"),
        }
    }
}
