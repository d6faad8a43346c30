//! Detaching: order of steps, the node id, failures, and attempts whose object changes meanwhile.

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
    let attempt = Attempt::new(&Key::Attachment("va1".into()), Start::default());
    for purpose in [Purpose::Release, Purpose::MarkDetached] {
        let gone = ApiError {
            refusal: Refusal::NotFound,
            ..forbidden()
        };
        let over = attempt.ended_by(&written(purpose, Err(gone)));
        assert_eq!(over, Some(End::Done), "row 87");
    }
}

#[test]
fn row_103_an_attach_that_turns_into_a_detach_starts_anew() {
    let world = World {
        attachment: deleted(),
        ..World::default()
    };
    let end = world.next(&Log::default(), Direction::Attach).err();
    assert_eq!(end, Some(End::Again));
}

#[test]
fn patches_that_the_server_ignores_do_not_spin() {
    let unprotected = Volume {
        finalizers: None,
        ..pv()
    };
    let rows: [(Attachment, Volume, Purpose, Failure); 3] = [
        (va(), unprotected, Purpose::Protect, Failure::ProtectIgnored),
        (va(), pv(), Purpose::Prepare, Failure::PrepareIgnored),
        (deleted(), pv(), Purpose::Release, Failure::ReleaseIgnored),
    ];
    for (attachment, volume, purpose, expected) in rows {
        let mut log = Log::default();
        if attachment.deleting {
            log.push(unpublished());
        }
        log.push(written(purpose, Ok(())));
        let direction = Direction::of(&attachment);
        let world = World {
            attachment,
            volume: Some(volume),
            ..World::default()
        };
        let end = world.next(&log, direction).err();
        assert_eq!(end, Some(End::Failed(expected)));
    }
}
