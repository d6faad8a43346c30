//! Rows 267 to 277.

use csi_proto::csi::{CapacityRange, TopologyRequirement, VolumeCapability};
use proptest::prelude::*;

use super::*;
use crate::model::{List, SelectorTerm, Text};
use crate::plan::topology::Term;

const SECOND: Duration = Duration::from_secs(1);

fn own() -> NodeDeployment {
    NodeDeployment {
        name: "foo".into(),
        immediate_binding: true,
    }
}

fn claim() -> Claim {
    Claim {
        namespace: "ns1".into(),
        name: "c1".into(),
        uid: "u".into(),
        ..Claim::default()
    }
}

fn class(allowed: &[(&str, &str)]) -> Class {
    let term = |(key, value): &(&str, &str)| -> SelectorTerm {
        let values: List = [Text::from(*value)].into();
        [(Text::from(*key), values)].into()
    };
    Class {
        allowed_topologies: allowed.iter().map(term).collect(),
        ..Class::default()
    }
}

fn topology() -> TopologyIndex {
    TopologyIndex::of_node(&"foo".into(), &Term::new([("key".into(), "foo".into())]))
}

#[test]
fn row_274_the_class_must_allow_the_node() {
    for (allowed, expected) in [
        (&[][..], true),
        (&[("key", "bar")], false),
        (&[("key", "foo")], true),
        (&[("key", "bar"), ("key", "foo")], true),
    ] {
        for strict_topology in [false, true] {
            let settings = Settings {
                strict_topology,
                ..Settings::default()
            };
            let class = class(allowed);
            let fits = fits(&claim(), &class, &own(), &settings, Some(&topology()));
            assert_eq!(fits, expected, "{allowed:?} {strict_topology}");
        }
    }
}

#[test]
fn a_driver_without_topology_fits_everywhere() {
    let class = class(&[("key", "bar")]);
    assert!(fits(&claim(), &class, &own(), &Settings::default(), None));
}

#[test]
fn row_267_the_place_is_the_own_node_s() {
    let node = Text::from("foo");
    for strict in [false, true] {
        let topology = topology();
        let input = Input {
            claim: "c1",
            node: Some(&node),
            allowed: &[],
            strict,
            immediate: true,
            topology: &topology,
        };
        let requirement = requirement(&input).unwrap();
        let requirement = requirement.unwrap().to_csi();
        assert_eq!(requirement.requisite.len(), 1);
        assert_eq!(requirement.requisite[0].segments["key"], "foo");
        assert_eq!(requirement.preferred, requirement.requisite);
    }
}

const PACE: Pace = Pace {
    base: Duration::from_secs(20),
    max: Duration::from_secs(60),
};

#[test]
fn rows_270_276_delays_grow_and_are_spread() {
    for (attempts, unit, expected) in [
        (0, 0.0, 20),
        (0, 0.5, 10),
        (1, 0.0, 40),
        (1, 0.5, 30),
        (2, 0.0, 60),
        (2, 0.25, 55),
        (31, 0.0, 60),
        (32, 0.0, 60),
        (u32::MAX, 0.0, 60),
    ] {
        assert_eq!(
            PACE.delay(attempts, unit),
            expected * SECOND,
            "{attempts} {unit}"
        );
    }
    let short = Pace {
        base: 20 * SECOND,
        max: SECOND,
    };
    assert_eq!(short.delay(0, 0.5), Duration::ZERO);
    let none = Pace {
        base: Duration::ZERO,
        max: Duration::ZERO,
    };
    assert_eq!(none.delay(5, 0.9), Duration::ZERO);
}

proptest! {
    #[test]
    fn row_270_the_first_delay_is_up_to_the_base(unit in 0.0..1.0_f64, attempts: u32) {
        let first = PACE.delay(0, unit);
        prop_assert!(first <= PACE.base);
        prop_assert!(PACE.delay(attempts, unit) <= PACE.max);
        prop_assert!(PACE.delay(attempts, unit) <= PACE.delay(attempts.saturating_add(1), unit));
        let huge = Pace { base: Duration::MAX, max: Duration::MAX };
        prop_assert!(huge.delay(attempts, 0.0) == Duration::MAX);
    }
}

#[test]
fn rows_270_to_277_a_contest() {
    let key = ClaimKey::of(&claim());
    let mut ownership_races = OwnershipRaces::default();
    let start = Instant::now();
    let look = |ownership_races: &mut OwnershipRaces, after| {
        ownership_races.look(&key, PACE, start + after * SECOND, 0.0)
    };
    // 270: it waits, even if it is looked at earlier, and then tries.
    assert_eq!(look(&mut ownership_races, 0), Turn::Wait(20 * SECOND));
    assert_eq!(look(&mut ownership_races, 5), Turn::Wait(15 * SECOND));
    assert_eq!(look(&mut ownership_races, 20), Turn::Now);
    // 272, 276: in vain, for lack of capacity or because of a conflict.
    assert_eq!(look(&mut ownership_races, 21), Turn::Wait(40 * SECOND));
    assert_eq!(look(&mut ownership_races, 70), Turn::Now);
    assert_eq!(look(&mut ownership_races, 70), Turn::Wait(60 * SECOND));
    assert_eq!(ownership_races.len(), 1);
    // 275, 277: the claim has a node, or is gone; the count starts again.
    ownership_races.end(&key);
    assert!(ownership_races.is_empty());
    assert_eq!(look(&mut ownership_races, 80), Turn::Wait(20 * SECOND));
}

fn request(bytes: i64, zones: &[&str]) -> CreateVolumeRequest {
    let topology = |zone: &&str| Topology {
        segments: [("zone".to_owned(), (*zone).to_owned())].into(),
    };
    CreateVolumeRequest {
        capacity_range: Some(CapacityRange {
            required_bytes: bytes,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![VolumeCapability::default()],
        parameters: [("tier".to_owned(), "fast".to_owned())].into(),
        accessibility_requirements: Some(TopologyRequirement {
            requisite: zones.iter().map(topology).collect(),
            preferred: Vec::new(),
        }),
        ..CreateVolumeRequest::default()
    }
}

#[test]
fn rows_270_272_room() {
    let check = CapacityCheck::new(&request(5, &["1", "2"])).unwrap();
    assert!(check.enough(6) && check.enough(5), "row 270");
    assert!(!check.enough(4) && !check.enough(-1), "row 272");
    let zones = check.questions.iter().map(|question| {
        assert_eq!(question.volume_capabilities.len(), 1);
        assert_eq!(question.parameters["tier"], "fast");
        question.accessible_topology.as_ref().unwrap().segments["zone"].as_str()
    });
    assert_eq!(zones.collect::<Vec<_>>(), ["1", "2"]);
    for requirement in [Some(TopologyRequirement::default()), None] {
        let request = CreateVolumeRequest {
            accessibility_requirements: requirement,
            ..request(5, &[])
        };
        let check = CapacityCheck::new(&request).unwrap();
        assert_eq!(check.questions.len(), 1);
        assert_eq!(check.questions[0].accessible_topology, None);
    }
    assert_eq!(CapacityCheck::new(&request(0, &["1"])), None);
    assert_eq!(CapacityCheck::new(&CreateVolumeRequest::default()), None);
}
