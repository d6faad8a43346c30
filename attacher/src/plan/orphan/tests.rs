use super::*;
use crate::testing::{attached, csinode, deleted, driver, list, pv, va};

fn orphan() -> Orphan {
    Orphan {
        attachment: "va1".into(),
        volume: Some("pv1".into()),
        node: "node1".into(),
        target: Target {
            volume: "h-pv1".into(),
            node: "NID1".into(),
        },
        secret: None,
        migrated: Migrated(false),
    }
}

fn stripped(attachment: Attachment) -> Attachment {
    Attachment {
        finalizers: list(&[]),
        ..attachment
    }
}

fn begun() -> Attachment {
    Attachment {
        attached: false,
        ..attached()
    }
}

#[test]
fn fs_20_what_an_object_that_is_gone_leaves() {
    let other = |attachment| Attachment {
        attacher: "other".into(),
        ..attachment
    };
    let rows = [
        ("never begun", va(), false),
        ("an attach under way", begun(), true),
        ("the same, finalizer taken before", stripped(begun()), true),
        ("deleted, finalizer taken", deleted(), true),
        ("detached", stripped(deleted()), false),
        (
            "attached, finalizer taken, then deleted",
            stripped(attached()),
            true,
        ),
        (
            "attached and in use for all that is known",
            attached(),
            false,
        ),
        ("another driver's", other(deleted()), false),
    ];
    for (row, attachment, expected) in rows {
        assert_eq!(leaves(&attachment, &driver()), expected, "{row}");
    }
    assert!(is_unexplained(&attached(), &driver()));
    assert!(!is_unexplained(&deleted(), &driver()));
}

#[test]
fn it_is_known_by_what_was_saved() {
    let (driver, volume, node) = (driver(), pv(), csinode("NID2"));
    let view = |attachment| View {
        driver: &driver,
        attachment,
        volume: Some(&volume),
        node: Some(&node),
    };
    let deleted = deleted();
    assert_eq!(Orphan::of(&view(&deleted)), Ok(orphan()));
    let without = Attachment {
        node_id: None,
        ..deleted.clone()
    };
    let found = Orphan::of(&view(&without)).unwrap();
    assert_eq!(&*found.target.node, "NID2");
    let lost = View {
        volume: None,
        ..view(&without)
    };
    assert_eq!(Orphan::of(&lost), Err(Failure::NoVolume("pv1".into())));
}

#[test]
fn fs_20_another_attachment_of_volume_and_node_is_not_detached_under() {
    let (driver, volume, node) = (driver(), pv(), csinode("NID1"));
    let elsewhere = Attachment {
        node: "node2".into(),
        node_id: Some("NID2".into()),
        ..attached()
    };
    let alias = Attachment {
        name: "alias".into(),
        volume: Some("pv2".into()),
        ..attached()
    };
    let held = Attachment {
        finalizers: list(&["other/fin"]),
        ..deleted()
    };
    let rows = [
        ("none", vec![], Verdict::Unpublish),
        ("not begun", vec![va()], Verdict::Wait),
        ("begun", vec![begun()], Verdict::Settled),
        ("attached", vec![attached()], Verdict::Settled),
        (
            "attached by the old one's answer",
            vec![stripped(attached())],
            Verdict::Wait,
        ),
        ("being detached", vec![deleted()], Verdict::Settled),
        ("goes, and never attaches", vec![held], Verdict::Unpublish),
        ("of another node", vec![elsewhere], Verdict::Unpublish),
        (
            "by another name of the volume",
            vec![va(), alias],
            Verdict::Settled,
        ),
    ];
    for (row, existing, expected) in rows {
        let verdicts = existing.iter().map(|attachment| {
            orphan().beside(&View {
                driver: &driver,
                attachment,
                volume: Some(&volume),
                node: (*attachment.node == *"node1").then_some(&node),
            })
        });
        assert_eq!(verdicts.max().unwrap_or_default(), expected, "{row}");
    }
}
