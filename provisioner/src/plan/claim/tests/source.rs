//! Rows 97 to 144: snapshots, clones, other namespaces.

use jiff::Timestamp;

use super::*;
use crate::keys::{ALLOW_MODE_CHANGE, CLONE_FINALIZER, SNAPSHOT_FINALIZER, SNAPSHOT_GROUP};
use crate::model::{
    ClaimPhase, ClaimRef, Csi, DataSource, GrantFrom, GrantTo, Quantity, SnapshotRef, Source,
    VolumeMode, VolumePhase,
};

mod deleted;

fn echo(w: &mut World) {
    let mut answer = answer();
    answer.volume.as_mut().unwrap().content_source =
        Some(csi::VolumeContentSource { r#type: None });
    w.creates = vec![Ok(answer)];
}

/// The claim is restored from the snapshot `s1`.
fn snapshot(w: &mut World) {
    echo(w);
    w.driver.abilities.snapshot = true;
    w.claim.data_source = Some(DataSource {
        group: Some(SNAPSHOT_GROUP.into()),
        kind: "VolumeSnapshot".into(),
        name: "s1".into(),
        namespace: None,
    });
    w.snapshots = vec![Snapshot {
        namespace: "ns1".into(),
        name: "s1".into(),
        uid: "su".into(),
        content: Some("k1".into()),
        ready: true,
        restore_size: Some(Quantity::from_bytes(1 << 30)),
        ..Snapshot::default()
    }];
    w.contents = vec![Content {
        name: "k1".into(),
        driver: "test-driver".into(),
        snapshot: SnapshotRef {
            namespace: "ns1".into(),
            name: "s1".into(),
            uid: "su".into(),
        },
        handle: Some("sid".into()),
        ..Content::default()
    }];
}

/// Somebody deletes the source claim, this many seconds after its clone was created.
fn delete_source(w: &mut World, seconds: i64) {
    let second = |at| Timestamp::from_second(at).ok();
    w.claim.created = second(1_000);
    w.claims[0].deleting = true;
    w.claims[0].deleted = second(1_000 + seconds);
}

/// The claim is a clone of the claim `src`.
fn clone(w: &mut World) {
    echo(w);
    w.driver.abilities.clone = true;
    w.claim.data_source = Some(DataSource {
        kind: "PersistentVolumeClaim".into(),
        name: "src".into(),
        ..DataSource::default()
    });
    w.claims = vec![Claim {
        namespace: "ns1".into(),
        name: "src".into(),
        uid: "srcu".into(),
        class: Some("sc1".into()),
        volume: "pvs".into(),
        request: Some(Quantity::from_bytes(1 << 30)),
        phase: ClaimPhase::Bound,
        ..Claim::default()
    }];
    w.sources = vec![VolumeDetail {
        name: "pvs".into(),
        phase: VolumePhase::Bound,
        source: Source::Csi(Csi {
            driver: "test-driver".into(),
            handle: "hs".into(),
        }),
        claim: Some(ClaimRef {
            namespace: "ns1".into(),
            name: "src".into(),
            uid: "srcu".into(),
        }),
        ..VolumeDetail::default()
    }];
}

const GETS: [&str; 2] = ["get-snapshot ns1/s1", "get-content k1"];

/// `Ok`: the volume is made. `Err`: text of the failure, before any write.
type Row = (&'static str, fn(&mut World), Result<(), &'static str>);

fn check(base: fn(&mut World), rows: &[Row]) {
    for (row, change, expected) in rows {
        let mut world = World::new(|w| {
            base(w);
            change(w);
        });
        let trace = world.run();
        let last = trace.last().unwrap();
        match expected {
            Ok(()) => assert_eq!(last, "done Provisioned", "{row}: {trace:#?}"),
            Err(text) => {
                let (effect, text) = text.split_once(' ').unwrap();
                assert!(
                    last.starts_with(&format!("fail {effect} ")),
                    "{row}: {trace:#?}"
                );
                assert!(last.contains(text), "{row}: {last}");
                let wrote = |word| trace.iter().any(|line: &String| line.starts_with(word));
                assert!(!wrote("create") && !wrote("protect"), "{row}: {trace:#?}");
            }
        }
    }
}

#[test]
fn row_97_a_restore() {
    let mut world = World::new(snapshot);
    let create = format!("{CREATE} snapshot sid");
    let mut expected = provisioned(&[GETS[0], GETS[1], "protect ns1/s1", &create]);
    expected.insert(expected.len() - 1, "release ns1/s1".into());
    assert_eq!(world.run(), expected);
    assert!(
        !world.snapshots[0].is_protected(),
        "it loses the finalizer after"
    );
}

#[test]
fn rows_98_to_109_conditions_of_a_restore() {
    fn s(w: &mut World) -> &mut Snapshot {
        &mut w.snapshots[0]
    }
    fn k(w: &mut World) -> &mut Content {
        &mut w.contents[0]
    }
    fn source(w: &mut World) -> &mut DataSource {
        w.claim.data_source.as_mut().unwrap()
    }
    check(
        snapshot,
        &[
            (
                "98",
                |w| w.driver.abilities.snapshot = false,
                Err("Finished CREATE_DELETE_SNAPSHOT"),
            ),
            (
                "99",
                |w| source(w).group = Some("unsupported.group.io".into()),
                Err("Finished unsupported.group.io"),
            ),
            (
                "99 none",
                |w| source(w).group = None,
                Err("Finished API group"),
            ),
            (
                "100",
                |w| source(w).name = "".into(),
                Err("Finished has no name"),
            ),
            (
                "101",
                |w| w.claim.request = "512Mi".parse().ok(),
                Err("NoChange 512Mi is less than the size 1Gi"),
            ),
            (
                "101 no request",
                |w| w.claim.request = None,
                Err("NoChange requests no storage"),
            ),
            (
                "103",
                |w| {
                    s(w).restore_size = None;
                    w.claim.request = "512Mi".parse().ok();
                },
                Ok(()),
            ),
            (
                "104 missing",
                |w| w.snapshots.clear(),
                Err("NoChange snapshot ns1/s1"),
            ),
            (
                "104 not bound",
                |w| s(w).content = None,
                Err("NoChange not bound"),
            ),
            (
                "104 not ready",
                |w| s(w).ready = false,
                Err("NoChange not Ready"),
            ),
            (
                "104 content missing",
                |w| w.contents.clear(),
                Err("NoChange snapshotcontent k1"),
            ),
            (
                "105 uid",
                |w| k(w).snapshot.uid = "x".into(),
                Err("NoChange names another"),
            ),
            (
                "105 namespace",
                |w| k(w).snapshot.namespace = "x".into(),
                Err("NoChange names another"),
            ),
            (
                "105 name",
                |w| k(w).snapshot.name = "x".into(),
                Err("NoChange names another"),
            ),
            (
                "106",
                |w| k(w).driver = "other".into(),
                Err("NoChange driver other"),
            ),
            (
                "107",
                |w| k(w).handle = None,
                Err("NoChange no snapshotHandle"),
            ),
            (
                "108",
                |w| s(w).deleting = true,
                Err("NoChange being deleted"),
            ),
            (
                "108 others' finalizers",
                |w| {
                    s(w).deleting = true;
                    s(w).finalizers = list(&["x"]);
                },
                Err("NoChange being deleted"),
            ),
            (
                "109",
                |w| {
                    s(w).deleting = true;
                    s(w).finalizers = list(&["x", SNAPSHOT_FINALIZER]);
                },
                Ok(()),
            ),
        ],
    );
    let mut larger = World::new(|w| {
        snapshot(w);
        w.claim.request = "2Gi".parse().ok();
        if let Ok(answer) = &mut w.creates[0] {
            answer.volume.as_mut().unwrap().capacity_bytes = 2 << 30;
        }
    });
    assert_eq!(larger.run().last().unwrap(), "done Provisioned", "102");
}

#[test]
fn rows_110_111_117_118_writes_to_the_snapshot_that_fail() {
    use Refusal::{Conflict, Forbidden, NotFound, Unknown};
    let refused = |word: &'static str, refusal| {
        World::new(|w| {
            snapshot(w);
            w.refusals = vec![(word, refusal)];
        })
        .run()
    };
    let trace = refused("protect", Forbidden);
    assert_eq!(trace.last().unwrap(), "done Provisioned", "110");
    let trace = refused("protect", Conflict);
    let text = "fail NoChange could not add the finalizer that protects snapshot ns1/s1: no";
    assert_eq!(trace.last().unwrap(), text, "111");
    for (refusal, times) in [(NotFound, 1), (Forbidden, 1), (Conflict, 4), (Unknown, 1)] {
        let trace = refused("release", refusal);
        assert_eq!(trace.last().unwrap(), "done Provisioned", "118 {refusal:?}");
        let writes = trace.iter().filter(|line| *line == "release ns1/s1");
        assert_eq!(writes.count(), times, "118 {refusal:?}");
    }
    let mut world = World::new(|w| {
        snapshot(w);
        w.creates = vec![Err(rpc(Code::Internal))];
    });
    world.run();
    assert!(
        world.snapshots[0].is_protected(),
        "117: the sweep takes it off"
    );
}

#[test]
fn rows_112_123_143_a_driver_that_ignores_the_source() {
    for (row, base) in [("112", snapshot as fn(&mut World)), ("123", clone)] {
        let mut world = World::new(|w| {
            base(w);
            w.creates = vec![Ok(answer())];
        });
        let trace = world.run();
        assert_eq!(trace[trace.len() - 2], "discard vol-1", "{row}");
        assert!(
            trace.last().unwrap().starts_with("fail Finished "),
            "{row}: {trace:#?}"
        );
    }
    let mut small = World::new(|w| {
        clone(w);
        w.claim.request = Some(Quantity::from_bytes((1 << 30) + 1));
    });
    let trace = small.run();
    assert!(
        trace.contains(&"discard vol-1".to_owned()),
        "123: {trace:#?}"
    );
    assert!(small.claims[0].has_finalizer(CLONE_FINALIZER), "123");
}

#[test]
fn rows_113_to_116_volume_modes_of_a_restore() {
    fn modes(w: &mut World) {
        snapshot(w);
        w.contents[0].source_mode = Some(VolumeMode::Filesystem);
        w.claim.mode = Some(VolumeMode::Block);
    }
    fn allow(w: &mut World, value: &str) {
        w.contents[0].annotations = pairs(&[(ALLOW_MODE_CHANGE, value)]);
    }
    let no = Err("NoChange converting is prevented");
    check(
        modes,
        &[
            ("113", |_| {}, no),
            ("114", |w| allow(w, "true"), Ok(())),
            ("114", |w| allow(w, "1"), Ok(())),
            ("114", |w| allow(w, "T"), Ok(())),
            ("115", |w| allow(w, "false"), no),
            ("115", |w| allow(w, "yes"), no),
            ("115", |w| allow(w, "tRUE"), no),
            (
                "116 flag",
                |w| w.settings.prevent_mode_conversion = false,
                Ok(()),
            ),
            ("116 claim", |w| w.claim.mode = None, Ok(())),
            ("116 content", |w| w.contents[0].source_mode = None, Ok(())),
            (
                "the same",
                |w| w.claim.mode = Some(VolumeMode::Filesystem),
                Ok(()),
            ),
        ],
    );
}

#[test]
fn rows_119_132_a_clone() {
    let gets = ["get-claim ns1/src", "get-volume pvs"];
    let create = format!("{CREATE} volume hs");
    let mut world = World::new(clone);
    assert_eq!(
        world.run(),
        provisioned(&[gets[0], gets[1], "protect ns1/src", &create]),
        "119"
    );
    assert!(
        world.claims[0].has_finalizer(CLONE_FINALIZER),
        "119: and it stays"
    );
    let mut world = World::new(|w| {
        clone(w);
        w.claims[0].finalizers = list(&[CLONE_FINALIZER]);
    });
    assert_eq!(
        world.run(),
        provisioned(&[gets[0], gets[1], &create]),
        "132"
    );
}

#[test]
fn rows_120_to_131_conditions_of_a_clone() {
    fn src(w: &mut World) -> &mut Claim {
        &mut w.claims[0]
    }
    fn held(w: &mut World, seconds: i64) {
        src(w).finalizers = list(&[CLONE_FINALIZER]);
        delete_source(w, seconds);
    }
    fn pv(w: &mut World) -> &mut VolumeDetail {
        &mut w.sources[0]
    }
    fn bound(w: &mut World) -> &mut ClaimRef {
        w.sources[0].claim.as_mut().unwrap()
    }
    fn modes(w: &mut World, claim: Option<VolumeMode>, volume: Option<VolumeMode>) {
        w.claim.mode = claim;
        pv(w).mode = volume;
    }
    use VolumeMode::{Block, Filesystem};
    let converts = Err("NoChange cannot convert");
    check(
        clone,
        &[
            (
                "120",
                |w| w.driver.abilities.clone = false,
                Err("Finished CLONE_VOLUME"),
            ),
            ("121", |w| src(w).class = Some("sc9".into()), Ok(())),
            (
                "122",
                |w| w.claim.request = Some(Quantity::from_bytes((1 << 30) - 1)),
                Err("NoChange less than the size 1Gi"),
            ),
            (
                "124 missing",
                |w| w.claims.clear(),
                Err("NoChange PVC ns1/src"),
            ),
            (
                "124 Pending",
                |w| src(w).phase = ClaimPhase::Pending,
                Err("NoChange not bound"),
            ),
            (
                "124 Lost",
                |w| src(w).phase = ClaimPhase::Lost,
                Err("NoChange not bound"),
            ),
            (
                "124 deleting",
                |w| src(w).deleting = true,
                Err("NoChange being deleted"),
            ),
            ("229 deleting, and held for it", |w| held(w, 1), Ok(())),
            (
                "229 deleting, and perhaps before it was created",
                |w| held(w, 0),
                Err("NoChange being deleted"),
            ),
            (
                "229 deleting, before it was created",
                |w| held(w, -1),
                Err("NoChange being deleted"),
            ),
            (
                "229 deleting, and nobody knows since when",
                |w| {
                    held(w, 1);
                    src(w).deleted = None;
                },
                Err("NoChange being deleted"),
            ),
            (
                "229 deleting, and not held for it",
                |w| {
                    held(w, 1);
                    w.claim.data_source_ref = w.claim.data_source.take();
                },
                Err("NoChange being deleted"),
            ),
            (
                "125",
                |w| src(w).class = None,
                Err("NoChange ns1/src has no storageClassName"),
            ),
            (
                "125 new",
                |w| {
                    w.claim.class = None;
                    w.annotate(&[(crate::keys::BETA_STORAGE_CLASS, "sc1")]);
                },
                Err("NoChange the claim has no storageClassName"),
            ),
            (
                "126",
                |w| src(w).volume = "".into(),
                Err("NoChange no volumeName"),
            ),
            (
                "126 missing",
                |w| w.sources.clear(),
                Err("NoChange PersistentVolume pvs"),
            ),
            (
                "126 not CSI",
                |w| pv(w).source = Source::Other,
                Err("NoChange no CSI volume"),
            ),
            (
                "126 driver",
                |w| {
                    pv(w).source = Source::Csi(Csi {
                        driver: "other".into(),
                        handle: "h".into(),
                    })
                },
                Err("NoChange driver other"),
            ),
            (
                "127 nil",
                |w| pv(w).claim = None,
                Err("NoChange not bound to the PVC source"),
            ),
            (
                "127 uid",
                |w| bound(w).uid = "x".into(),
                Err("NoChange not bound to the PVC source"),
            ),
            (
                "127 namespace",
                |w| bound(w).namespace = "x".into(),
                Err("NoChange not bound to the PVC source"),
            ),
            (
                "127 name",
                |w| bound(w).name = "x".into(),
                Err("NoChange not bound to the PVC source"),
            ),
            (
                "128",
                |w| pv(w).phase = VolumePhase::Released,
                Err("NoChange is not bound"),
            ),
            (
                "128",
                |w| pv(w).phase = VolumePhase::Failed,
                Err("NoChange is not bound"),
            ),
            (
                "128",
                |w| pv(w).phase = VolumePhase::Pending,
                Err("NoChange is not bound"),
            ),
            (
                "128",
                |w| pv(w).phase = VolumePhase::Available,
                Err("NoChange is not bound"),
            ),
            ("129", |w| modes(w, Some(Block), Some(Filesystem)), converts),
            ("129 nil", |w| modes(w, Some(Block), None), converts),
            ("130", |w| modes(w, Some(Filesystem), Some(Block)), converts),
            ("130 nil", |w| modes(w, None, Some(Block)), converts),
            ("131", |w| modes(w, Some(Filesystem), None), Ok(())),
            ("131", |w| modes(w, None, None), Ok(())),
            ("131", |w| modes(w, Some(Block), Some(Block)), Ok(())),
        ],
    );
    let refused = World::new(|w| {
        clone(w);
        w.refusals = vec![("protect", Refusal::Forbidden)];
    })
    .run();
    assert!(
        refused.last().unwrap().starts_with("fail NoChange "),
        "a claim must be protected"
    );
}

/// A clone of `ns0/src`, with a ReferenceGrant.
fn foreign(w: &mut World) {
    clone(w);
    w.settings.gates.cross_namespace = true;
    w.claim.data_source = None;
    w.claim.data_source_ref = Some(DataSource {
        group: None,
        kind: "PersistentVolumeClaim".into(),
        name: "src".into(),
        namespace: Some("ns0".into()),
    });
    w.claims[0].namespace = "ns0".into();
    w.sources[0].claim.as_mut().unwrap().namespace = "ns0".into();
    w.grants = vec![Arc::new(grant())];
}

fn grant() -> Grant {
    Grant {
        namespace: "ns0".into(),
        from: Arc::new([GrantFrom {
            group: "".into(),
            kind: "PersistentVolumeClaim".into(),
            namespace: "ns1".into(),
        }]),
        to: Arc::new([GrantTo {
            group: "".into(),
            kind: "PersistentVolumeClaim".into(),
            name: None,
        }]),
    }
}

fn from(w: &mut World, change: impl FnOnce(&mut GrantFrom)) {
    let mut grant = grant();
    change(&mut Arc::make_mut(&mut grant.from)[0]);
    w.grants = vec![Arc::new(grant)];
}

fn to(w: &mut World, change: impl FnOnce(&mut GrantTo)) {
    let mut grant = grant();
    change(&mut Arc::make_mut(&mut grant.to)[0]);
    w.grants = vec![Arc::new(grant)];
}

#[test]
fn rows_134_to_142_other_namespaces() {
    fn reference(w: &mut World) -> &mut DataSource {
        w.claim.data_source_ref.as_mut().unwrap()
    }
    fn at_home(w: &mut World, namespace: Option<&str>) {
        clone(w);
        w.claim.data_source = None;
        w.grants.clear();
        w.claim.data_source_ref.as_mut().unwrap().namespace = namespace.map(Text::from);
    }
    let no = Err(
        "Finished no ReferenceGrant in the namespace of PersistentVolumeClaim ns0/src allows PersistentVolumeClaim ns1/c1",
    );
    check(
        foreign,
        &[
            (
                "134",
                |w| w.settings.gates.cross_namespace = false,
                Err("Finished CrossNamespaceVolumeDataSource"),
            ),
            ("135", |w| w.grants.clear(), no),
            ("136", |_| {}, Ok(())),
            ("137", |w| to(w, |to| to.name = Some("src".into())), Ok(())),
            (
                "137 empty",
                |w| to(w, |to| to.name = Some("".into())),
                Ok(()),
            ),
            ("138", |w| to(w, |to| to.name = Some("other".into())), no),
            ("138", |w| to(w, |to| to.group = "x".into()), no),
            ("138", |w| to(w, |to| to.kind = "VolumeSnapshot".into()), no),
            ("138", |w| from(w, |from| from.group = "x".into()), no),
            ("138", |w| from(w, |from| from.kind = "x".into()), no),
            ("138", |w| from(w, |from| from.namespace = "x".into()), no),
            (
                "138 grant in ns1",
                |w| {
                    w.grants = vec![Arc::new(Grant {
                        namespace: "ns1".into(),
                        ..grant()
                    })]
                },
                no,
            ),
            (
                "138 empty",
                |w| {
                    w.grants = vec![Arc::new(Grant {
                        from: [].into(),
                        ..grant()
                    })]
                },
                no,
            ),
            (
                "138 empty",
                |w| {
                    w.grants = vec![Arc::new(Grant {
                        to: [].into(),
                        ..grant()
                    })]
                },
                no,
            ),
            ("139", |w| reference(w).group = None, Ok(())),
            ("141", |w| at_home(w, Some("ns1")), Ok(())),
            ("141 unset", |w| at_home(w, None), Ok(())),
            ("7.1: upstream crashes", |w| at_home(w, Some("")), Ok(())),
            (
                "142",
                |w| {
                    let half = Grant {
                        to: [].into(),
                        ..grant()
                    };
                    let other = Grant {
                        from: [].into(),
                        ..grant()
                    };
                    w.grants = vec![Arc::new(half), Arc::new(other)];
                },
                no,
            ),
        ],
    );
    let failure = World::new(|w| {
        foreign(w);
        w.grants.clear();
    });
    let origin = crate::plan::source::origin(&failure.claim, &[], &failure.settings).unwrap_err();
    assert_eq!(origin.cure(), Some(RequeueTrigger::Grant("ns0".into())));
}

#[test]
fn row_140_a_snapshot_without_its_group() {
    let mut world = World::new(|w| {
        foreign(w);
        w.claim.data_source_ref.as_mut().unwrap().kind = "VolumeSnapshot".into();
        to(w, |to| {
            to.group = SNAPSHOT_GROUP.into();
            to.kind = "VolumeSnapshot".into();
        });
    });
    assert!(world.run().last().unwrap().contains("no ReferenceGrant"));
}

#[test]
fn rows_143_144_answers_about_other_namespaces() {
    let mut world = World::new(|w| {
        foreign(w);
        w.creates = vec![Ok(answer())];
    });
    let trace = world.run();
    assert!(
        trace.contains(&"discard vol-1".to_owned()),
        "143: {trace:#?}"
    );
    let mut world = World::new(|w| {
        snapshot(w);
        w.settings.gates.cross_namespace = true;
        let mut source = w.claim.data_source.take().unwrap();
        source.namespace = Some("ns0".into());
        w.claim.data_source_ref = Some(source);
        w.snapshots[0].namespace = "ns0".into();
        w.contents[0].snapshot.namespace = "ns0".into();
        to(w, |to| {
            to.group = SNAPSHOT_GROUP.into();
            to.kind = "VolumeSnapshot".into();
        });
    });
    assert_eq!(world.run().last().unwrap(), "done Provisioned", "144");
    assert!(world.snapshots[0].is_protected(), "144: until the sweep");
}

/// B-1: requests to drivers and their volumes have whole bytes.
#[test]
fn b_1_what_was_made_of_a_size_is_restored_and_cloned_with_that_size() {
    let whole = Quantity::from_bytes;
    for tenths in 1..=30_i64 {
        let text = format!("{}.{}Gi", tenths / 10, tenths % 10);
        let bytes = ((tenths << 30) + 9) / 10;
        let size: Quantity = text.parse().unwrap();
        let rows = [
            (size, whole(bytes), true),
            (size, size, true),
            (whole(bytes), size, true),
            (size, whole(bytes + 1), false),
            (whole(bytes - 1), size, false),
        ];
        for (requested, has, fits) in rows {
            for (base, made) in [
                (snapshot as fn(&mut World), bytes),
                (clone, bytes),
                (clone, bytes - 1),
            ] {
                let mut world = World::new(|w| {
                    base(w);
                    w.claim.request = Some(requested);
                    w.snapshots
                        .iter_mut()
                        .for_each(|one| one.restore_size = Some(has));
                    w.claims.iter_mut().for_each(|one| one.request = Some(has));
                    let answer = w.creates[0].as_mut().unwrap().volume.as_mut().unwrap();
                    answer.capacity_bytes = made;
                });
                let trace = world.run();
                let last = trace.last().unwrap();
                let row = format!("{text}, {requested} of {has}: {trace:#?}");
                match (fits, made == bytes) {
                    (true, true) => {
                        assert_eq!(last, "done Provisioned", "{row}");
                        let saved = &world.saved["spec"]["capacity"]["storage"];
                        assert_eq!(*saved, whole(bytes).to_string(), "{row}");
                    }
                    (true, false) => assert!(last.contains("less than requested"), "{row}"),
                    (false, _) => {
                        let sizes = [requested, has].map(|size| whole(size.value()));
                        let text = format!("size {} is less than the size {}", sizes[0], sizes[1]);
                        assert!(last.contains(&text), "{row}");
                    }
                }
            }
        }
    }
}
