//! Rows M-53, M-57 and M-64: volumes of a class of an in-tree plugin, and the PersistentVolumes that refer to them.

use super::*;
use crate::keys::STORAGE_PROVISIONER;
use crate::model::{Csi, InTree, Reclaim, VolumePhase};

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";
const VSPHERE: &str = "csi.vsphere.vmware.com";

/// A claim of a class of the plugin that `driver` replaced; the driver answers with this volume.
fn world(driver: &str, handle: &str, context: &[(&str, &str)]) -> World {
    let mut answer = answer();
    let volume = answer.volume.as_mut().unwrap();
    volume.volume_id = handle.into();
    let context = context.iter();
    volume.volume_context = context
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect();
    World::new(|w| {
        w.driver.name = driver.into();
        w.classes[0].provisioner = w.driver.plugin().unwrap().into();
        w.annotate(&[(STORAGE_PROVISIONER, driver)]);
        w.creates = vec![Ok(answer)];
    })
}

/// A call had no answer, the next one was refused, and the claim is gone.
fn unsettled(mut world: World) -> World {
    let made = std::mem::take(&mut world.creates);
    world.creates = vec![Err(rpc(Code::DeadlineExceeded))];
    world.run();
    world.creates = vec![Err(rpc(Code::Unknown))];
    world.run();
    world.creates = made;
    world.gone = true;
    world
}

fn existing_pv(driver: &'static str, csi: Result<&str, &str>) -> VolumeDetail {
    let csi = csi.map_err(Text::from).map(|handle| Csi {
        driver: driver.into(),
        handle: handle.into(),
    });
    VolumeDetail {
        name: format!("pvc-{U}").into(),
        source: Source::InTree(Box::new(InTree { driver, csi })),
        phase: VolumePhase::Bound,
        reclaim: Reclaim::Delete,
        ..VolumeDetail::default()
    }
}

#[test]
fn m_53_and_57_a_volume_that_cannot_be_saved_is_deleted_or_stays_owed() {
    let untranslatable = || world(EBS, "vol-1", &[("partition", "300")]);
    let mut fine = untranslatable();
    let trace = fine.run();
    assert_eq!(trace[..3], [ANNOUNCE, CREATE, "discard vol-1"], "M-53");
    assert!(
        trace[3].starts_with("fail Finished ") && trace.len() == 4,
        "M-53: {trace:#?}"
    );
    assert!(
        fine.journal.is_none() && fine.in_flight.left().is_empty(),
        "M-53"
    );
    let mut stuck = untranslatable();
    stuck.discard = Err(rpc(Code::Internal));
    let trace = stuck.run();
    assert!(
        trace[3].starts_with("fail InBackground "),
        "M-57: {trace:#?}"
    );
    assert!(stuck.journal.is_some(), "M-57");
    // Also after the claim is gone, and by another process.
    stuck.gone = true;
    stuck.restart();
    stuck.discard = Ok(());
    let trace = stuck.run();
    assert!(
        trace.contains(&"discard vol-1".to_owned()),
        "M-57: {trace:#?}"
    );
    assert!(stuck.journal.is_none(), "M-57");
    // The same volume of a class of the driver is not affected.
    let mut native = untranslatable();
    native.classes[0].provisioner = EBS.into();
    assert_eq!(native.run(), provisioned(&[CREATE]));
}

#[test]
fn m_64_what_is_repeated_has_the_form_that_it_had() {
    let mut repeated = world(EBS, "vol-1", &[]);
    repeated.creates.insert(0, Err(rpc(Code::DeadlineExceeded)));
    repeated.run();
    repeated.classes[0].provisioner = EBS.into();
    repeated.restart();
    assert_eq!(repeated.run().last().unwrap(), "done Provisioned");
    assert_eq!(
        repeated.saved["spec"]["awsElasticBlockStore"]["volumeID"],
        "vol-1"
    );
    assert_eq!(
        repeated.saved["metadata"]["annotations"][crate::keys::PROVISIONED_BY],
        "kubernetes.io/aws-ebs"
    );
}

#[test]
fn what_is_owed_is_repaid_by_a_persistentvolume_that_does_not_say_all() {
    const DISK: &str = "projects/p/zones/z/disks/d";
    const PATH: &[(&str, &str)] = &[("initialvolumefilepath", "[ds] a.vmdk")];
    let rows = [
        (
            "no project",
            GCE,
            DISK,
            &[][..],
            Ok("projects/UNSPECIFIED/zones/z/disks/d"),
            true,
        ),
        (
            "another disk",
            GCE,
            DISK,
            &[],
            Ok("projects/UNSPECIFIED/zones/z/disks/e"),
            false,
        ),
        (
            "labels were changed",
            GCE,
            DISK,
            &[],
            Err("no region"),
            true,
        ),
        ("a path", VSPHERE, "uuid", PATH, Ok("[ds] a.vmdk"), true),
        (
            "the disk was moved",
            VSPHERE,
            "uuid",
            PATH,
            Ok("[ds] b.vmdk"),
            true,
        ),
        ("no path", VSPHERE, "uuid", &[], Ok("[ds] a.vmdk"), true),
        ("the id", EBS, "vol-1", &[], Ok("vol-1"), true),
        ("another id", EBS, "vol-1", &[], Ok("vol-2"), false),
    ];
    let compare = format!("compare pvc-{U}");
    for (row, driver, handle, context, held, same) in rows {
        let mut world = unsettled(world(driver, handle, context));
        world.sources = vec![existing_pv(driver, held)];
        world.volumes = vec![format!("pvc-{U}")];
        let trace = world.run();
        let then = if same {
            "done Settled".to_owned()
        } else {
            // The path may be the same disk, spelled differently.
            format!("fail InBackground the driver returned volume {handle}")
        };
        assert_eq!(trace[1], compare, "{row}: {trace:#?}");
        assert!(trace[2].starts_with(&then), "{row}: {trace:#?}");
        assert_eq!(world.journal.is_none(), same, "{row}");
    }
    // The unsettled request was sent while the class was the driver's own, whose response has no path.
    let mut native = world(VSPHERE, "uuid", &[]);
    native.classes[0].provisioner = VSPHERE.into();
    let mut native = unsettled(native);
    native.sources = vec![existing_pv(VSPHERE, Ok("[ds] a.vmdk"))];
    native.volumes = vec![format!("pvc-{U}")];
    assert_eq!(native.run(), [CREATE, &compare, "done Settled"]);
    // Only the expected name makes it the volume's: a path under another name is another disk's.
    let mut elsewhere = unsettled(world(VSPHERE, "uuid", PATH));
    elsewhere.sources = vec![VolumeDetail {
        name: "other".into(),
        ..existing_pv(VSPHERE, Ok("[ds] b.vmdk"))
    }];
    let trace = elsewhere.run();
    assert!(trace.contains(&format!("save pvc-{U}")), "{trace:#?}");
    // Somebody has rescued the volume under another name: then an object that cannot be translated does not refer to
    // it.
    let mut world = unsettled(world(GCE, DISK, &[]));
    let other = |csi| VolumeDetail {
        name: "other".into(),
        ..existing_pv(GCE, csi)
    };
    world.sources = vec![
        other(Err("no")),
        other(Ok("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d")),
    ];
    assert_eq!(world.run(), [CREATE, &compare, "done Settled"]);
}

#[test]
fn a_volume_whose_save_had_no_answer_is_found_again() {
    const DISK: &str = "projects/p/zones/z/disks/d";
    for (held, last) in [
        ("projects/UNSPECIFIED/zones/z/disks/d", "done Provisioned"),
        (
            "projects/UNSPECIFIED/zones/z/disks/e",
            "fail InBackground the driver returned volume",
        ),
    ] {
        let mut world = world(GCE, DISK, &[]);
        world.refusals = vec![("save", Refusal::AlreadyExists)];
        world.sources = vec![existing_pv(GCE, Ok(held))];
        let trace = world.run();
        assert!(
            trace.last().unwrap().starts_with(last),
            "{held}: {trace:#?}"
        );
    }
}
