//! Section 10.6, the gate `VolumeSnapshotTopology`: requisite and accessible topologies of snapshots.

use csi_proto::csi::{Snapshot, Topology};
use tonic::Code;

use super::{CREATE, CUT, READY, TAKEN, joined, lines, told_first};
use crate::model;
use crate::testing::{Bench, created, fails, listed, pre_provisioned, snapshot};

const WISH: &str = r#"[{"matchLabelExpressions":[{"key":"zone","values":["b","a"]}]}]"#;
const THERE: &str = r#"[{"zone":"a"}]"#;

/// The gate is on, and the content has these allowed topologies.
fn wishing(allowed: Option<&str>) -> Bench {
    let mut bench = Bench::new();
    bench.set(|settings| settings.topology = true);
    bench.content(|content| {
        content.topology = allowed.map(|allowed| {
            Box::new(model::Topology {
                allowed: Some(allowed.into()),
                accessible: None,
            })
        });
    });
    bench
}

fn at(zone: &str, ready: bool) -> Snapshot {
    Snapshot {
        accessible_topology: vec![Topology {
            segments: [("zone".to_owned(), zone.to_owned())].into(),
        }],
        ..snapshot(ready)
    }
}

fn asked() -> String {
    format!("{CREATE} at {{zone: a}} {{zone: b}} best {{zone: a}} {{zone: b}}")
}

#[test]
fn s_113_without_the_gate() {
    let mut bench = wishing(Some(WISH));
    bench.set(|settings| settings.topology = false);
    bench.answers([created(at("a", true))]);
    assert_eq!(bench.run(), lines(&["bc+", CREATE, TAKEN, "bc-"]), "S-113");
    let mut bench = wishing(Some("nonsense"));
    bench.set(|settings| settings.topology = false);
    assert_eq!(bench.run(), lines(&["bc+", CREATE, TAKEN, "bc-"]), "S-113");
}

#[test]
fn s_114_what_the_driver_is_asked_for() {
    let mut bench = wishing(Some(WISH));
    bench.answers([
        fails(Code::Unavailable, "x"),
        created(snapshot(false)),
        created(snapshot(true)),
    ]);
    let first = bench.run();
    assert_eq!(first[..2], lines(&["bc+", &asked()]), "S-114");
    let second = bench.next().1;
    let settled = CUT.replace(r#""readyToUse":false,"#, "");
    let expected = lines(&[&asked(), &settled, "bc-"]);
    assert_eq!(second, expected, "S-114: a retry");
    let third = bench.next().1;
    let ready = READY.replace('{', r#"{"error":null,"#);
    assert_eq!(third, lines(&[&asked(), &ready]), "S-114: a poll");
    let mut bench = wishing(Some("[]"));
    assert_eq!(bench.run(), lines(&["bc+", CREATE, TAKEN, "bc-"]), "7.2");
}

#[test]
fn s_115_a_driver_that_knows_no_topology() {
    let mut bench = wishing(Some(WISH));
    bench.driver.abilities.topology = false;
    bench.answers([created(snapshot(false))]);
    let ignored = "E SnapshotTopologyIgnored: CSI driver test.csi.driver does not announce \
                   SNAPSHOT_ACCESSIBILITY_CONSTRAINTS: the snapshot is taken wherever the driver takes it";
    let expected = lines(&[ignored, "bc+", CREATE, CUT, "bc-"]);
    assert_eq!(bench.run(), expected, "S-115");
    assert_eq!(bench.next().1, lines(&[CREATE, READY]), "S-115: once");
}

#[test]
fn s_116_where_it_is() {
    let there = format!("topology {THERE}");
    let mut bench = wishing(None);
    bench.answers([created(at("a", true))]);
    let expected = lines(&["bc+", CREATE, &there, TAKEN, "bc-"]);
    assert_eq!(bench.run(), expected, "S-116");
    assert_eq!(bench.resync(), lines(&[]), "S-116");
    // Written before the snapshot is ready, and only once.
    let mut bench = wishing(None);
    bench.answers([created(at("a", false)), created(at("a", true))]);
    let expected = lines(&["bc+", CREATE, &there, CUT, "bc-"]);
    assert_eq!(bench.run(), expected, "S-116");
    assert_eq!(bench.next().1, lines(&[CREATE, READY]), "S-116");
    // W20: the process ends between the two.
    let mut bench = wishing(None);
    bench.content(|content| {
        content.being_created = true;
        content.topology = Some(Box::new(model::Topology {
            allowed: None,
            accessible: Some(THERE.into()),
        }));
    });
    bench.answers([created(at("a", true))]);
    bench.restart();
    let expected = lines(&["bc+ again", CREATE, TAKEN, "bc-"]);
    assert_eq!(bench.run(), expected, "S-116, W20");
    // A response without topology removes nothing.
    let mut bench = wishing(None);
    bench.answers([created(at("a", false)), created(snapshot(true))]);
    bench.run();
    assert_eq!(bench.next().1, lines(&[CREATE, READY]), "7.2");
    // A pre-provisioned snapshot.
    let mut bench = Bench::empty(crate::plan::Settings {
        topology: true,
        ..crate::plan::Settings::default()
    });
    bench.server.put(&"pp".into(), Some(pre_provisioned()));
    bench.answers([listed(&["snap-9"], "", |found| {
        found.accessible_topology = at("a", true).accessible_topology;
    })]);
    let found = bench.run();
    assert_eq!(found[..2], lines(&["List snap-9 {}", &there]), "7.2");
    assert!(found[2].starts_with("st "), "7.2: {found:?}");
}

#[test]
fn s_117_a_wish_that_nobody_understands() {
    let mut bench = wishing(Some("[{}]"));
    let lines = bench.run();
    assert_eq!(lines.len(), 2, "S-117: no mark, no call: {lines:?}");
    assert!(lines[0].starts_with("st "), "S-117: {lines:?}");
    let text = "E SnapshotCreationFailed: Failed to create snapshot: failed to take snapshot of the \
                volume vol-1: \"annotation csi-sidecars.io/snapshot-allowed-topologies of the content \
                snapcontent-U1 is no list of topology terms: ";
    assert!(lines[1].starts_with(text), "S-117: {lines:?}");
}

#[test]
fn s_118_nothing_can_be_cut_there_now() {
    let mut bench = wishing(Some(WISH));
    bench.answers([fails(Code::ResourceExhausted, "no zone")]);
    let text = "failed to take snapshot of the volume vol-1: \"rpc error: code = ResourceExhausted desc \
                = no zone\"";
    let expected = joined(&[&lines(&["bc+", &asked()]), &told_first(text)]);
    assert_eq!(bench.run(), expected, "S-118");
    let (wait, again) = bench.next();
    assert_eq!((wait, &again[0]), (1, &asked()), "S-118: the mark stays");
}
