use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use sidecar::controller::reactor::{Now, Reactor};
use sidecar::controller::request::Ask as _;
use sidecar::why::preview;

use super::*;
use crate::model::{CsiNode, Volume};
use crate::plan::outcome::{ApiError, Failure, Refusal};
use crate::plan::{Driver, Informers};
use crate::testing::{
    attached, csi, csinode, deleted, driver, foreign_csinode, in_tree, list, pv, spec, va,
};

struct Known {
    attachment: Option<Attachment>,
    volume: Volume,
    node: CsiNode,
}

impl Informers for Known {
    fn driver(&self) -> Arc<Driver> {
        Arc::new(driver())
    }

    fn attachment(&self, _name: &str) -> Option<Arc<Attachment>> {
        self.attachment.clone().map(Arc::new)
    }

    fn attachments(&self) -> Vec<Arc<Attachment>> {
        self.attachment.clone().map(Arc::new).into_iter().collect()
    }

    fn volume(&self, _name: &str) -> Option<Arc<Volume>> {
        Some(Arc::new(self.volume.clone()))
    }

    fn node(&self, _name: &str) -> Option<Arc<CsiNode>> {
        Some(Arc::new(self.node.clone()))
    }
}

fn known(attachment: Option<Attachment>) -> Known {
    Known {
        attachment,
        volume: pv(),
        node: csinode("NID1"),
    }
}

fn now() -> Now {
    Now {
        instant: Instant::now(),
        timestamp: Timestamp::UNIX_EPOCH,
    }
}

fn explain(attacher: &Attacher, object: &Object, known: &Known) -> Option<Explanation<Key>> {
    attacher.explain(object, known, now())
}

fn named() -> Object {
    Object::of(Kind::Attachment, "va1")
}

#[test]
fn w_9_what_an_attachment_calls_for_and_whose_it_is() {
    let attacher = Attacher::default();
    let other = Attachment {
        attacher: "other.driver".into(),
        ..va()
    };
    let without_finalizer = Attachment {
        finalizers: list(&[]),
        ..deleted()
    };
    for (attachment, what, because) in [
        (va(), "attach", "wanted, and not attached"),
        (attached(), "attach", "attached"),
        (
            deleted(),
            "detach",
            "being deleted, and the finalizer is ours",
        ),
        (
            without_finalizer,
            "detach",
            "being deleted, and the finalizer is gone",
        ),
    ] {
        let told = explain(&attacher, &named(), &known(Some(attachment))).unwrap();
        assert!(told.is_known && told.not_ours.is_none(), "{because}");
        let work = &told.work[0];
        assert_eq!((work.what, &*work.because), (what, because));
        assert_eq!(work.key, Key::Attachment("va1".into()));
        assert_eq!(work.facts["node"], "node1");
    }
    let told = explain(&attacher, &named(), &known(Some(other))).unwrap();
    let rule = "spec.attacher is other.driver, not test.csi.driver";
    assert_eq!(told.not_ours.as_deref(), Some(rule));
    assert_eq!(told.work, []);
    let told = explain(&attacher, &named(), &known(None)).unwrap();
    assert_eq!(told, Explanation::unknown());
    let claim = Object::of(Kind::Claim, "shop/data");
    assert_eq!(explain(&attacher, &claim, &known(Some(va()))), None);
}

#[test]
fn w_7_what_a_failed_attachment_waits_for() {
    let mut attacher = Attacher::default();
    let key = Key::Attachment("va1".into());
    let failure = Failure::NoCsiNode("node1".into());
    attacher.in_flight.failed(&key, &failure);
    let told = explain(&attacher, &named(), &known(Some(va()))).unwrap();
    let node = Object::of(Kind::CsiNode, "node1");
    assert_eq!(told.work[0].waits_for, [node]);
    let failed = Failed {
        about: None,
        failure,
    };
    let text = "csinode.storage.k8s.io \"node1\" not found";
    assert_eq!(Attacher::text(&failed), text);
}

#[test]
fn w_14_and_w_74_the_next_step_is_the_one_that_follows() {
    let rows = [
        (known(Some(va())), Some("PATCH VolumeAttachment va1")),
        (known(Some(deleted())), Some("ControllerUnpublishVolume")),
        (known(Some(attached())), None),
        (known(None), None),
        (
            Known {
                node: foreign_csinode(),
                ..known(Some(va()))
            },
            Some("PATCH VolumeAttachment va1"),
        ),
    ];
    for (known, expected) in rows {
        let (mut attacher, key) = (Attacher::default(), Key::Attachment("va1".into()));
        let before = format!("{attacher:?}");
        let next = preview(&attacher, &key, &known, now());
        let next = next.map(|request| request.name());
        assert_eq!(format!("{attacher:?}"), before, "W-74");
        let mut attempt = attacher.begin(&key, &known, now());
        let first = attacher.decide(&mut attempt, &known, now());
        assert_eq!(next, first.map(|request| request.name()));
        assert_eq!(next.as_deref(), expected);
    }
}

#[test]
fn a_volume_names_the_attachments_that_keep_it() {
    let mut attacher = Attacher::default();
    let _ = attacher.in_flight.upserted(None, &va(), &driver());
    let told = explain(
        &attacher,
        &Object::of(Kind::Volume, "pv1"),
        &known(Some(va())),
    )
    .unwrap();
    let work = &told.work[0];
    assert_eq!(work.facts["attachments"], serde_json::json!(["va1"]));
    assert_eq!((work.queue, work.what), (RELEASES, "release"));
}

#[test]
fn w_9_why_the_finalizer_of_a_volume_is_due_or_stays() {
    let rolled_back = "its plugin is not migrated to this driver any more";
    let and = |what: &str| format!("{rolled_back}, and {what}");
    // D: being deleted; F: with our finalizer; R: rolled back; N: named by a VolumeAttachment.
    for (state, because) in [
        ("DF", "being deleted, and no VolumeAttachment names it"),
        ("DFN", "being deleted, and VolumeAttachments name it"),
        ("D", "being deleted, and the finalizer is gone"),
        ("DRN", "being deleted, and the finalizer is gone"),
        (
            "FN",
            "the finalizer stays while the volume is not being deleted",
        ),
        ("FR", &*and("no VolumeAttachment names it")),
        ("FRN", &*and("VolumeAttachments name it")),
        ("", "not being deleted, and without the finalizer"),
    ] {
        let is = |what: char| state.contains(what);
        let in_tree = || spec(in_tree("test.csi.driver", Ok(csi())));
        let volume = Volume {
            deleting: is('D'),
            finalizers: is('F').then(|| list(&[crate::testing::F])),
            spec: if is('R') { in_tree() } else { pv().spec },
            ..pv()
        };
        let mut attacher = Attacher::default();
        if is('N') {
            let _ = attacher.in_flight.upserted(None, &va(), &driver());
        }
        let known = Known {
            volume,
            ..known(None)
        };
        let told = explain(&attacher, &Object::of(Kind::Volume, "pv1"), &known).unwrap();
        assert_eq!(told.work[0].because, because, "{state}");
    }
}

#[test]
fn w_74_a_copy_has_no_failures_of_other_keys() {
    let mut attacher = Attacher::default();
    let unknown = Failure::Prepare(ApiError {
        message: "no answer".into(),
        refusal: Refusal::Unknown,
    });
    let key = |number: u32| Key::Attachment(format!("va{number}").into());
    for number in 0..3 {
        let name = format!("va{number}").into();
        attacher.in_flight.begin(&name);
        attacher
            .in_flight
            .works_on(&name, Some(&format!("pv{number}").into()));
        attacher.in_flight.failed(&key(number), &unknown);
        let _ = attacher.in_flight.end(&name);
        attacher.in_flight.force(name);
    }
    let mut one = attacher.fork(&key(1), &known(None)).in_flight;
    assert_eq!(one.doubtful, [("va1".into(), Some("pv1".into()))].into());
    let start = one.begin(&"va1".into());
    assert!(start.forced && start.doubtful && !one.begin(&"va0".into()).forced);
    let volume = attacher.fork(&Key::Volume("pv2".into()), &known(None));
    let volume = volume.in_flight;
    assert!(volume.uses(&"pv2".into()) && !volume.uses(&"pv1".into()));
}
