//! Attaching: order of steps, the request, validation, failures.

#![expect(
    clippy::too_many_lines,
    reason = "tables are as long as the specification's"
)]

use super::*;
use crate::model::Pairs;

#[test]
fn attach_steps_and_their_order() {
    let add_all = format!(
        r#"pvp [{{"op":"test","path":"/metadata/finalizers","value":null}},{{"op":"add","path":"/metadata/finalizers","value":["{F}"]}}]"#
    );
    let replace = format!(
        r#"pvp [{{"op":"test","path":"/metadata/finalizers","value":[]}},{{"op":"replace","path":"/metadata/finalizers","value":["{F}"]}}]"#
    );
    let append = format!(r#"pvp [{{"op":"add","path":"/metadata/finalizers/-","value":"{F}"}}]"#);
    let finalizers = |finalizers| World {
        volume: Some(Volume { finalizers, ..pv() }),
        ..World::default()
    };
    let start = |attachment| World {
        attachment,
        ..World::default()
    };
    let both = format!(
        r#"md {{"metadata":{{"annotations":{{"csi.alpha.kubernetes.io/node-id":"NID1"}},"finalizers":["other/fin","{F}"]}}}}"#
    );
    let context = BTreeMap::from([("dev".to_owned(), "sda".to_owned())]);
    check(vec![
        (
            "36",
            finalizers(None),
            vec![&add_all, PREPARE, PUB, ATTACHED],
        ),
        (
            "5.4 empty list",
            finalizers(Some(list(&[]))),
            vec![&replace, PREPARE, PUB, ATTACHED],
        ),
        (
            "37",
            finalizers(Some(list(&["kubernetes.io/pv-protection"]))),
            vec![&append, PREPARE, PUB, ATTACHED],
        ),
        ("38", World::default(), vec![PREPARE, PUB, ATTACHED]),
        (
            "39",
            start(Attachment {
                finalizers: list(&["other/fin"]),
                ..va()
            }),
            vec![&both, PUB, ATTACHED],
        ),
        (
            "40",
            start(Attachment {
                attached: false,
                ..attached()
            }),
            vec![PUB, ATTACHED],
        ),
        (
            "41",
            start(Attachment {
                attached: false,
                node_id: Some("X".into()),
                ..attached()
            }),
            vec![
                r#"md {"metadata":{"annotations":{"csi.alpha.kubernetes.io/node-id":"NID1"}}}"#,
                PUB,
                ATTACHED,
            ],
        ),
        (
            "42",
            World {
                call: Ok(context),
                ..World::default()
            },
            vec![
                PREPARE,
                PUB,
                r#"st {"status":{"attached":true,"attachmentMetadata":{"dev":"sda"}}}"#,
            ],
        ),
        ("43", start(attached()), vec![]),
        (
            "44",
            start(Attachment {
                node_id: Some("tampered".into()),
                ..attached()
            }),
            vec![],
        ),
        (
            "45",
            start(Attachment {
                attached: false,
                ..attached()
            }),
            vec![PUB, ATTACHED],
        ),
        (
            "115 forced, nothing changes",
            World {
                forced: true,
                ..start(attached())
            },
            vec![PUB, "st {}"],
        ),
    ]);
}

#[test]
fn publish_request_follows_the_volume() {
    let block = with_spec(|spec| {
        spec.block = true;
        spec.access_modes = list(&["ReadWriteMany"]);
        spec.mount_options = list(&["noatime"]);
    });
    let attributes = Pairs::new(list(&["k", "v"]));
    let rows = vec![
        (
            "46",
            with_csi(|csi| csi.read_only = true),
            "ro=false mount( []) SINGLE_NODE_WRITER",
        ),
        (
            "47",
            ability(with_csi(|csi| csi.read_only = true), |can| {
                can.readonly = true
            }),
            "ro=true mount( []) SINGLE_NODE_WRITER",
        ),
        (
            "48",
            World {
                driver: Driver {
                    default_fs_type: "ext4".into(),
                    ..driver()
                },
                ..World::default()
            },
            "ro=false mount(ext4 []) SINGLE_NODE_WRITER",
        ),
        (
            "49",
            World::default(),
            "ro=false mount( []) SINGLE_NODE_WRITER",
        ),
        (
            "50",
            {
                let mut world = with_csi(|csi| csi.fs_type = "xfs".into());
                world.volume.as_mut().unwrap().spec.mount_options = list(&["noatime", "ro"]);
                world
            },
            "ro=false mount(xfs [noatime,ro]) SINGLE_NODE_WRITER",
        ),
        ("51", block, "ro=false block MULTI_NODE_MULTI_WRITER"),
        (
            "52",
            ability(World::default(), |can| can.single_node_multi_writer = true),
            "ro=false mount( []) SINGLE_NODE_MULTI_WRITER",
        ),
        (
            "53 with",
            ability(with_modes(&["ReadWriteOncePod"]), |can| {
                can.single_node_multi_writer = true
            }),
            "ro=false mount( []) SINGLE_NODE_SINGLE_WRITER",
        ),
        (
            "53 without",
            with_modes(&["ReadWriteOncePod"]),
            "ro=false mount( []) SINGLE_NODE_WRITER",
        ),
        (
            "54",
            with_modes(&["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"]),
            "ro=false mount( []) MULTI_NODE_MULTI_WRITER",
        ),
        (
            "58",
            with_csi(|csi| csi.attributes = attributes),
            r#"ro=false mount( []) SINGLE_NODE_WRITER context {"k": "v"}"#,
        ),
    ];
    for (row, mut world, expected) in rows {
        let publish = format!("pub h-pv1 NID1 {expected}");
        assert_eq!(world.run(), [PREPARE, &publish, ATTACHED], "row {row}");
    }
}

#[test]
fn bad_access_modes_end_the_attempt_before_the_finalizer() {
    let pod = "Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume";
    let both = "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume";
    let rows: [(&str, &[&str], &str); 4] = [
        ("55", &["ReadOnlyMany", "ReadWriteOnce"], both),
        ("56", &["ReadWriteOncePod", "ReadWriteOnce"], pod),
        ("57", &[], "unsupported AccessMode combination: []"),
        (
            "57 unknown",
            &["Foo", "Bar"],
            "unsupported AccessMode combination: [Foo Bar]",
        ),
    ];
    for (row, modes, message) in rows {
        assert_eq!(
            with_modes(modes).run(),
            [attach_error(message)],
            "row {row}"
        );
    }
}

#[test]
fn secrets_are_read_before_the_finalizer_is_set() {
    let admin = Secrets::from([("user".to_owned(), "admin".to_owned())]);
    let missing = || ApiError {
        message: "secrets \"sec\" not found".into(),
        refusal: Refusal::NotFound,
    };
    let get = "get secret ns1/sec";
    let with = format!(r#"{PUB} secrets {{"user": "admin"}}"#);
    let unpublish = format!(r#"{UNPUB} secrets {{"user": "admin"}}"#);
    let text = "failed to load secret \"ns1/sec\": secrets \"sec\" not found";
    let not_text = "rpc error: code = Internal desc = grpc: error while marshaling: string field contains invalid UTF-8";
    check(vec![
        (
            "59",
            with_secret(Ok(Some(admin.clone())), va()),
            vec![get, PREPARE, &with, ATTACHED],
        ),
        (
            "60",
            with_secret(Ok(Some(Secrets::new())), va()),
            vec![get, PREPARE, PUB, ATTACHED],
        ),
        (
            "61",
            with_secret(Err(missing()), va()),
            vec![get, &attach_error(text)],
        ),
        (
            "62",
            with_secret(Ok(None), va()),
            vec![get, &attach_error_code(not_text, 13)],
        ),
        (
            "99",
            with_secret(Ok(Some(admin)), deleted()),
            vec![
                get,
                &unpublish,
                RELEASE,
                r#"st {"status":{"attached":false}}"#,
            ],
        ),
        (
            "99 missing",
            with_secret(Err(missing()), deleted()),
            vec![get, &detach_error(text)],
        ),
    ]);
}

#[test]
fn sources_are_checked_in_order() {
    let append = format!(r#"pvp [{{"op":"add","path":"/metadata/finalizers/-","value":"{F}"}}]"#);
    let inline = |source| Attachment {
        volume: None,
        inline: Some(Arc::new(spec(source))),
        ..va()
    };
    let start = |attachment| World {
        attachment,
        volume: None,
        ..World::default()
    };
    let other = Volume {
        finalizers: Some(list(&["a/b"])),
        spec: spec(Source::Other),
        ..pv()
    };
    let disk = |csi| Volume {
        finalizers: Some(list(&["a/b"])),
        spec: spec(in_tree("disk.csi.azure.com", csi)),
        ..pv()
    };
    let kind = "kind(Shared) is not supported in csi migration";
    let by_volume = |volume| World {
        volume: Some(volume),
        ..World::default()
    };
    let two = Attachment {
        volume: Some("pv1".into()),
        ..inline(Source::Csi(csi()))
    };
    let none = Attachment {
        volume: None,
        ..va()
    };
    let handle = CsiSource {
        handle: "inl".into(),
        ..csi()
    };
    check(vec![
        (
            "63",
            start(va()),
            vec![&attach_error("persistentvolume \"pv1\" not found")],
        ),
        (
            "64",
            by_volume(Volume {
                deleting: true,
                finalizers: None,
                ..pv()
            }),
            vec![&attach_error(
                "PersistentVolume \"pv1\" is marked for deletion",
            )],
        ),
        (
            "65",
            by_volume(other),
            vec![
                &append,
                &attach_error("pv spec contained non-csi source that was not migrated"),
            ],
        ),
        (
            "66 both",
            start(two),
            vec![&attach_error(
                "both InlineCSIVolumeSource and PersistentVolumeName specified in VA source",
            )],
        ),
        (
            "66 neither",
            start(none),
            vec![&attach_error(
                "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source",
            )],
        ),
        (
            "67",
            start(inline(Source::Csi(handle))),
            vec![
                PREPARE,
                "pub inl NID1 ro=false mount( []) SINGLE_NODE_WRITER",
                ATTACHED,
            ],
        ),
        (
            "68",
            start(inline(Source::Other)),
            vec![&attach_error("inline volume spec contains nil CSI source")],
        ),
        (
            "M-113: whatever driver replaced the plugin",
            by_volume(disk(Ok(csi()))),
            vec![
                &append,
                PREPARE,
                "pub h-pv1 NID1 ro=false mount( []) SINGLE_NODE_WRITER",
                ATTACHED,
            ],
        ),
        (
            "M-106: the volume is protected before it is translated",
            by_volume(disk(Err(kind.into()))),
            vec![
                &append,
                &attach_error(&format!("failed to translate in tree pv to CSI: {kind}")),
            ],
        ),
    ]);
}

#[test]
fn node_id_of_an_attach_is_the_csinodes_alone() {
    let saved = || Attachment {
        node_id: Some("ANN".into()),
        ..va()
    };
    let at = |node| World {
        node,
        attachment: saved(),
        ..World::default()
    };
    check(vec![
        (
            "69",
            at(None),
            vec![&attach_error("csinode.storage.k8s.io \"node1\" not found")],
        ),
        (
            "70",
            at(Some(foreign_csinode())),
            vec![&attach_error(
                "CSINode node1 does not contain driver test.csi.driver",
            )],
        ),
    ]);
}

#[test]
fn failures_are_recorded_and_cleared() {
    let refusing = |kinds: &[&'static str]| World {
        refused: kinds.to_vec(),
        ..World::default()
    };
    let mut protect = refusing(&["pvp"]);
    protect.volume = Some(Volume {
        finalizers: Some(list(&["a/b"])),
        ..pv()
    });
    let trace = protect.run();
    assert_eq!(
        trace.last().unwrap(),
        &attach_error("could not add PersistentVolume finalizer: no"),
        "row 72"
    );
    protect.refused.clear();
    let trace = protect.run();
    assert_eq!(
        trace.last().unwrap(),
        r#"st {"status":{"attachError":null,"attached":true}}"#,
        "row 72: cleared"
    );

    let calls = |call| World {
        call,
        ..World::default()
    };
    let no_codes = Driver {
        error_codes: false,
        ..driver()
    };
    let deadline = "context deadline exceeded";
    check(vec![
        (
            "73",
            refusing(&["md"]),
            vec![
                PREPARE,
                &attach_error("could not save VolumeAttachment: no"),
            ],
        ),
        (
            "74",
            calls(rpc(8, "too many")),
            vec![
                PREPARE,
                PUB,
                &attach_error_code("rpc error: code = ResourceExhausted desc = too many", 8),
            ],
        ),
        (
            "75",
            calls(rpc(3, "bad")),
            vec![
                PREPARE,
                PUB,
                &attach_error_code("rpc error: code = InvalidArgument desc = bad", 3),
            ],
        ),
        (
            "76",
            calls(rpc(4, deadline)),
            vec![
                PREPARE,
                PUB,
                &attach_error_code(
                    "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
                    4,
                ),
            ],
        ),
        (
            "77",
            World {
                driver: no_codes,
                ..calls(rpc(13, "boom"))
            },
            vec![
                PREPARE,
                PUB,
                &attach_error("rpc error: code = Internal desc = boom"),
            ],
        ),
        (
            "80",
            refusing(&["st"]),
            vec![PREPARE, PUB, ATTACHED, "log failed to mark as attached: no"],
        ),
    ]);
}

#[test]
fn row_74_finalizer_and_node_id_stay_after_a_failed_publish() {
    let mut world = World {
        call: rpc(8, "too many"),
        ..World::default()
    };
    world.run();
    assert!(world.attachment.has_finalizer(F));
    assert_eq!(world.attachment.node_id.as_deref(), Some("NID1"));
    world.call = Ok(BTreeMap::new());
    let trace = world.run();
    assert_eq!(
        trace,
        [PUB, r#"st {"status":{"attachError":null,"attached":true}}"#]
    );
}

#[test]
fn row_78_only_the_time_of_a_repeated_error_is_sent() {
    let failure = Failure::NoSource;
    let mut attachment = va();
    let first = failure.status_patch(&attachment, Direction::Attach, &driver(), TIME);
    merge(&mut attachment, &first.unwrap());
    let later = "2026-01-02T03:04:09Z";
    let again = failure.status_patch(&attachment, Direction::Attach, &driver(), later);
    assert_eq!(
        again,
        Some(json!({ "status": { "attachError": { "time": later } } }))
    );
    let same = failure.status_patch(&attachment, Direction::Attach, &driver(), TIME);
    assert_eq!(same, Some(json!({})));
}

#[test]
fn an_error_without_code_takes_the_code_away() {
    let before = VolumeError {
        message: Some("x".into()),
        time: Some(TIME.into()),
        code: Some(8),
    };
    let attachment = Attachment {
        attach_error: Some(Arc::new(before)),
        ..va()
    };
    let patch = Failure::NoSource.status_patch(&attachment, Direction::Attach, &driver(), TIME);
    assert_eq!(
        patch.unwrap()["status"]["attachError"]["errorCode"],
        Value::Null
    );
}

#[test]
fn messages_are_cut_to_what_the_api_server_accepts() {
    for text in [
        "x".repeat(3000),
        "é".repeat(3000),
        "x".to_owned() + &"日本".repeat(999),
    ] {
        let failure = Failure::Prepare(ApiError {
            message: text,
            ..forbidden()
        });
        let patch = failure
            .status_patch(&va(), Direction::Attach, &driver(), TIME)
            .unwrap();
        let message = patch["status"]["attachError"]["message"].as_str().unwrap();
        assert!(
            message.len() <= 1024 && message.len() > 1020,
            "{}",
            message.len()
        );
        assert!(failure.to_string().starts_with(message));
        let mut attachment = va();
        merge(&mut attachment, &patch);
        let again = failure.status_patch(&attachment, Direction::Attach, &driver(), TIME);
        assert_eq!(again, Some(json!({})), "the cut message equals itself");
    }
}

#[test]
fn rows_84_and_85_the_attacher_field_alone_selects_the_driver() {
    // Row 84: the attacher does not even read the source's driver. Row 85: the event filter drops
    // the object.
    let other = Attachment {
        attacher: "other".into(),
        ..va()
    };
    assert!(!crate::plan::event::is_work(None, &other, &driver()));
    assert!(crate::plan::event::is_work(None, &va(), &driver()));
}
