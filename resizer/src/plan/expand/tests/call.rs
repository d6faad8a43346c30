//! Section 16.3: the content of the request.

use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;

use super::*;
use crate::model::SecretRef;

fn request(volume: &Volume, modern: bool) -> ControllerExpandVolumeRequest {
    let mut driver = crate::testing::driver();
    driver.abilities.single_node_multi_writer = modern;
    let source = volume.csi(&driver.name).unwrap();
    request::expand((volume, source), &driver, 2 * GI, &request::Secrets::new()).unwrap()
}

#[test]
fn z_59_to_62_and_67_the_capability() {
    let mut volume = pv();
    let plain = request(&volume, false);
    let capability = plain.volume_capability.as_ref().unwrap();
    let Some(AccessType::Mount(mount)) = &capability.access_type else {
        unreachable!("z_60: a mount");
    };
    assert_eq!((&*mount.fs_type, mount.mount_flags.len()), ("", 0), "z_60");
    assert!(
        capability.access_mode.unwrap().mode() == Mode::SingleNodeWriter,
        "z_62"
    );
    assert_eq!(plain.capacity_range.unwrap().limit_bytes, 0);
    let modern = request(&volume, true).volume_capability.unwrap();
    assert!(
        modern.access_mode.unwrap().mode() == Mode::SingleNodeMultiWriter,
        "z_62"
    );
    kind(&mut volume).mount_options = list(&["noatime"]);
    kind(&mut volume).source = Source::Csi(CsiSource {
        driver: "test.csi.driver".into(),
        fs_type: "xfs".into(),
        ..CsiSource::default()
    });
    let mounted = request(&volume, false).volume_capability.unwrap();
    let Some(AccessType::Mount(mount)) = mounted.access_type else {
        unreachable!("z_59: a mount");
    };
    assert_eq!(
        (&*mount.fs_type, &*mount.mount_flags),
        ("xfs", &["noatime".to_owned()][..]),
        "z_59"
    );
    kind(&mut volume).block = true;
    kind(&mut volume).access_modes = list(&["ReadWriteMany"]);
    let block = request(&volume, true).volume_capability.unwrap();
    assert!(
        matches!(block.access_type, Some(AccessType::Block(_))),
        "z_61"
    );
    assert!(
        block.access_mode.unwrap().mode() == Mode::MultiNodeMultiWriter,
        "z_61"
    );
}

#[test]
fn z_63_access_modes_without_counterpart() {
    let mut bench = grown("2Gi");
    kind(bench.volume.as_mut().unwrap()).access_modes = list(&["ReadOnlyMany", "ReadWriteOnce"]);
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(
        only(&lines, &["W", "Exp"]),
        [
            "W VolumeResizeFailed resize volume \"pv1\" by resizer \"test.csi.driver\" failed: failed to get capabilities of volume pv1 with CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume"
        ]
    );
    assert_eq!(bench.claim.resize, Some(ResizeStatus::ControllerInProgress));
    assert_eq!(bench.claim.conditions.len(), 1);
    assert_eq!(next, Next::Backoff);
}

#[test]
fn z_64_65_the_secret() {
    let with = |name: &str| {
        let mut bench = grown("2Gi").replies(&[Reply::Done(false)]);
        bench.secrets.insert("es", "e");
        kind(bench.volume.as_mut().unwrap()).source = Source::Csi(CsiSource {
            driver: "test.csi.driver".into(),
            expand_secret: Some(SecretRef {
                namespace: "ns".into(),
                name: name.into(),
            }),
            ..CsiSource::default()
        });
        bench
    };
    let lines = run(&mut with("es"));
    assert_eq!(
        lines[1..4],
        [
            "N Resizing External resizer is resizing volume pv1",
            "secret ns/es",
            "Exp h1 2147483648 with {\"user\": \"e\"}"
        ],
        "z_64"
    );
    let mut bench = with("nope");
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(
        only(&lines, &["W", "Exp"]),
        [
            "W VolumeResizeFailed resize volume \"pv1\" by resizer \"test.csi.driver\" failed: error getting secret nope in namespace ns: secrets \"nope\" not found"
        ],
        "z_65"
    );
    let in_progress = Some(ResizeStatus::ControllerInProgress);
    assert_eq!((bench.claim.resize, next), (in_progress, Next::Backoff));
}

#[test]
fn a_volume_without_handle_is_not_asked_for() {
    let mut bench = grown("2Gi");
    bench.volume.as_mut().unwrap().handle = "".into();
    let lines = run(&mut bench);
    assert!(only(&lines, &["W"])[0].ends_with("empty volume handle"));
}

#[test]
fn a_volume_that_outlives_its_claim_says_how_large_it_is() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(true)]);
    // Another claim has the name when the driver responds.
    bench.meanwhile = Some(|claim| claim.uid = crate::model::Uid::new("another"));
    let (lines, next) = bench.run(Kind::Expand);
    assert_eq!(
        lines[2..],
        [
            "Exp h1 2147483648",
            r#"pp {"spec":{"capacity":{"storage":"2Gi"}}}"#
        ]
    );
    assert_eq!(next, Next::Again);
    assert_eq!(bench.claim.capacity, Some(size("1Gi")), "another's claim");
}

#[test]
fn a_volume_that_another_claim_has_taken_is_left_alone() {
    let mut bench = grown("2Gi").replies(&[Reply::Done(false)]);
    bench.meanwhile = Some(|claim| claim.uid = crate::model::Uid::new("another"));
    bench.volume_meanwhile = Some(|volume| {
        volume.claim.as_mut().unwrap().uid = crate::model::Uid::new("another");
    });
    let (lines, _) = bench.run(Kind::Expand);
    assert_eq!(lines[2..], ["Exp h1 2147483648"]);
}
