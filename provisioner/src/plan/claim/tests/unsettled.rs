//! Row J-4: a refusal after a call without an answer proves nothing about that call.

use super::*;
use crate::keys::SELECTED_NODE;
use crate::model::{ClaimPhase, Csi, Reclaim, Source, VolumePhase};
use crate::plan::topology::Entry;
use sidecar::rpc_code::{self, Finality};

/// The first call had no answer; these are the answers to the next ones.
fn outcome_unknown(more: Vec<Result<CreateVolumeResponse, RpcError>>) -> World {
    let mut world = World::new(|w| w.creates = vec![Err(rpc(Code::DeadlineExceeded))]);
    world.run();
    world.creates = more;
    world
}

fn refused_once() -> World {
    let mut world = outcome_unknown(vec![Err(rpc(Code::Unknown)), Ok(answer())]);
    world.run();
    world
}

fn existing_pv(handle: &str) -> VolumeDetail {
    VolumeDetail {
        name: format!("pvc-{U}").into(),
        source: Source::Csi(Csi {
            driver: "test-driver".into(),
            handle: handle.into(),
        }),
        phase: VolumePhase::Bound,
        reclaim: Reclaim::Delete,
        ..VolumeDetail::default()
    }
}

fn compare() -> String {
    format!("compare pvc-{U}")
}

#[test]
fn j_4_only_words_that_are_impossible_end_a_doubt() {
    let impossible = [Code::InvalidArgument, Code::OutOfRange, Code::Unimplemented];
    let is_final = |code: &Code| rpc_code::finality(*code) != Finality::InDoubt;
    let codes = rpc_code::ALL.into_iter().skip(1).filter(is_final);
    for code in codes {
        let mut world = outcome_unknown(vec![Err(rpc(code))]);
        world.run();
        let ends = impossible.contains(&code);
        assert_eq!(world.journal.is_none(), ends, "{code:?}");
        assert_eq!(world.in_flight.is_busy(&world.key()), !ends, "{code:?}");
        let mut world = outcome_unknown(vec![Err(rpc(code))]);
        world.restart();
        world.run();
        assert!(world.journal.is_some(), "{code:?}, maybe of another driver");
        let mut world = World::new(|w| {
            w.parameters(&[
                ("csi.storage.k8s.io/secret-name", "sec"),
                ("csi.storage.k8s.io/secret-namespace", "ns"),
            ]);
            w.secrets.insert("ns/sec".into(), Some(Secrets::new()));
            w.creates = vec![Err(rpc(Code::DeadlineExceeded)), Err(rpc(code))];
        });
        world.run();
        world.run();
        assert!(world.journal.is_some(), "{code:?}, maybe of other values");
    }
}

#[test]
fn j_4_something_else_may_be_asked_and_what_is_owed_stays() {
    let mut world = refused_once();
    world.parameters(&[("a", "b")]);
    let trace = world.run();
    assert!(trace[1].contains("a=b") || trace[1] != CREATE, "{trace:#?}");
    assert_eq!(trace.last().unwrap(), "done Provisioned");
    let unsettled = world.journal.clone().unwrap();
    assert_eq!(
        (unsettled.asked.is_none(), unsettled.unsettled.len()),
        (true, 1)
    );
    // The unsettled request is not repeated before the claim is bound; then any process that leads repeats it.
    world.sources = vec![existing_pv("vol-1")];
    assert_eq!(world.run(), ["done Exists"]);
    assert!(world.journal.is_some());
    world.restart();
    world.gone = true;
    assert_eq!(world.run(), [CREATE, &compare(), "done Settled"]);
    assert!(world.journal.is_none());
}

#[test]
fn j_4_the_volume_of_what_is_owed_goes_unless_a_persistentvolume_is_its() {
    let gone = || {
        let mut world = refused_once();
        world.gone = true;
        world
    };
    let another_driver_s = || VolumeDetail {
        source: Source::Csi(Csi {
            driver: "another".into(),
            handle: "vol-1".into(),
        }),
        ..existing_pv("vol-1")
    };
    let mut world = gone();
    world.sources = vec![another_driver_s()];
    world.volumes = vec![format!("pvc-{U}")];
    let trace = world.run();
    assert_eq!(trace[..3], [CREATE, &compare(), "discard vol-1"]);
    assert!(world.journal.is_none());
    let mut world = gone();
    world.discard = Err(rpc(Code::Internal));
    world.sources = vec![another_driver_s()];
    world.run();
    assert!(world.journal.is_some(), "it is not deleted yet");
    // P-4: a PersistentVolume of this driver may refer to the volume, with another spelling.
    let mut world = gone();
    world.sources = vec![existing_pv("VOL-1")];
    world.volumes = vec![format!("pvc-{U}")];
    let trace = world.run();
    assert_eq!(trace[..2], [CREATE, &compare()]);
    assert!(trace[2].contains("nothing is deleted"), "{trace:?}");
    assert!(world.journal.is_some(), "it is still unsettled");
    // The volume is too small for the claim, but it is not deleted while a PersistentVolume refers to it.
    let mut world = gone();
    let mut small = answer();
    small.volume.as_mut().unwrap().capacity_bytes = 1;
    world.creates = vec![Ok(small)];
    world.sources = vec![existing_pv("vol-1")];
    assert_eq!(world.run(), [CREATE, &compare(), "done Settled"]);
    for leaves in [
        VolumeDetail {
            deleting: true,
            phase: VolumePhase::Available,
            ..existing_pv("vol-1")
        },
        VolumeDetail {
            phase: VolumePhase::Released,
            ..existing_pv("vol-1")
        },
    ] {
        let mut world = gone();
        world.sources = vec![leaves];
        let trace = world.run();
        assert!(trace[2].contains("is being deleted"), "{trace:#?}");
        assert!(world.journal.is_some());
    }
    // The object goes when its claim goes, maybe in years.
    let mut world = gone();
    world.sources = vec![VolumeDetail {
        deleting: true,
        phase: VolumePhase::Bound,
        ..existing_pv("vol-1")
    }];
    assert_eq!(world.run(), [CREATE, &compare(), "done Settled"]);
    let mut world = gone();
    world.refusals = vec![("compare", Refusal::Unknown)];
    world.run();
    assert!(world.journal.is_some(), "nobody knows what is there");
}

#[test]
fn j_4_a_name_that_another_volume_has() {
    let already_exists = || Err(rpc(Code::AlreadyExists));
    let mut world = refused_once();
    world.creates = vec![already_exists()];
    world.gone = true;
    world.run();
    assert!(world.journal.is_some(), "nobody says what has the name");
    world.sources = vec![existing_pv("another")];
    assert_eq!(world.run(), [CREATE, &compare(), "done Settled"]);
    assert!(world.journal.is_none());
    // While the claim exists, it gets the volume that has the name, which was made for it.
    let mut world = refused_once();
    world.parameters(&[("a", "b")]);
    world.creates = vec![already_exists(), Ok(answer())];
    assert_ne!(world.run()[1], CREATE);
    assert_eq!(world.run(), provisioned(&[CREATE]));
    assert!(world.journal.is_none());
}

#[test]
fn j_4_another_node_is_selected_although_the_first_call_is_owed() {
    let mut world = World::new(|w| {
        w.driver.abilities.topology = true;
        w.settings.strict_topology = true;
        for (node, zone) in [("n1", "z1"), ("n2", "z2")] {
            let node = Text::from(node);
            w.topology.set_labels(&node, Some(pairs(&[("zone", zone)])));
            w.topology.set_driver(&node, Entry::Keys(list(&["zone"])));
        }
        w.annotate(&[(SELECTED_NODE, "n1")]);
        w.creates = vec![
            Err(rpc(Code::DeadlineExceeded)),
            Err(rpc(Code::ResourceExhausted)),
            Err(rpc(Code::DeadlineExceeded)),
            Ok(answer()),
        ];
    });
    let first = world.run()[1].clone();
    let trace = world.run();
    assert_eq!(trace[2], "unselect", "{trace:#?}");
    assert_eq!(world.claim.selected_node(), "");
    world.annotate(&[(SELECTED_NODE, "n2")]);
    let second = world.run()[1].clone();
    assert!(first.contains("zone=z1") && second.contains("zone=z2"));
    let held = world.journal.clone().unwrap();
    assert_eq!((held.asked.is_some(), held.unsettled.len()), (true, 1));
    // The claim is deleted: both requests are repeated in turn.
    world.gone = true;
    world.creates = vec![
        Err(rpc(Code::ResourceExhausted)),
        Ok(answer()),
        Ok(answer()),
    ];
    assert_eq!(world.run()[0], first);
    let trace = world.run();
    assert_eq!((&trace[0], &trace[1]), (&second, &compare()));
    assert_eq!(trace.last().unwrap(), "done Provisioned");
    assert!(world.journal.is_some());
    world.sources = vec![existing_pv("vol-1")];
    assert_eq!(world.run(), [&first, &compare(), "done Settled"]);
    assert!(world.journal.is_none());
}

/// The requests that the driver gets in this number of attempts.
fn asked(world: &mut World, attempts: usize) -> Vec<String> {
    let create = |trace: Vec<String>| trace.into_iter().find(|line| line.starts_with("create"));
    (0..attempts).filter_map(|_| create(world.run())).collect()
}

#[test]
fn j_4_today_s_request_has_its_turn_beside_what_is_owed() {
    let already_exists = || Err(rpc(Code::AlreadyExists));
    for fails in [Code::AlreadyExists, Code::FailedPrecondition] {
        let mut world = refused_once();
        world.parameters(&[("a", "b")]);
        world.creates = vec![Err(rpc(Code::DeadlineExceeded)), Err(rpc(Code::Unknown))];
        world.run();
        world.run();
        assert_eq!(world.journal.as_ref().unwrap().unsettled.len(), 2);
        world.parameters(&[("c", "d")]);
        let fails = || Err(rpc(fails));
        world.creates = vec![
            already_exists(),
            fails(),
            already_exists(),
            fails(),
            already_exists(),
            fails(),
        ];
        let asked = asked(&mut world, 5);
        let today = |line: &String| line.contains(r#""c": "d""#);
        let turns: Vec<bool> = asked.iter().map(today).collect();
        assert_eq!(turns, [true, false, true, false, true], "{asked:#?}");
        assert_ne!(asked[1], asked[3], "each unsettled request has its turn");
    }
}

#[test]
fn j_4_what_is_owed_and_cannot_be_asked_keeps_nothing_waiting() {
    let mut world = World::new(|w| {
        w.parameters(&[
            ("csi.storage.k8s.io/secret-name", "sec"),
            ("csi.storage.k8s.io/secret-namespace", "ns"),
        ]);
        w.secrets.insert("ns/sec".into(), Some(Secrets::new()));
        w.creates = vec![Err(rpc(Code::DeadlineExceeded)), Err(rpc(Code::Unknown))];
    });
    world.run();
    world.run();
    world.secrets.clear();
    world.parameters(&[("c", "d")]);
    world.creates = vec![Err(rpc(Code::AlreadyExists)), Ok(answer())];
    assert_eq!(asked(&mut world, 2).len(), 1, "its Secret is gone");
    let trace = world.run();
    assert!(trace[1].contains(r#""c": "d""#), "{trace:#?}");
    assert!(world.journal.is_some(), "still unsettled");
}

#[test]
fn j_4_a_claim_that_has_lost_its_persistentvolume_gets_no_empty_one() {
    for mut world in [refused_once(), outcome_unknown(vec![Ok(answer())])] {
        world.gone = true;
        world.owner = Some(Claim {
            volume: format!("pvc-{U}").into(),
            phase: ClaimPhase::Lost,
            ..world.claim.clone()
        });
        let trace = world.run();
        assert_eq!(trace.len(), 1, "{trace:#?}");
        assert!(trace[0].contains("has lost its PersistentVolume"));
        assert!(world.journal.is_some());
        // Another claim of the same name is no reason to wait.
        world.owner.as_mut().unwrap().uid = "another".into();
        assert_eq!(world.run().last().unwrap(), "done Provisioned");
    }
}

fn leaving() -> VolumeDetail {
    VolumeDetail {
        phase: VolumePhase::Released,
        ..existing_pv("vol-1")
    }
}

#[test]
fn j_4_no_volume_is_asked_for_while_its_persistentvolume_is_on_its_way_out() {
    for mut world in [refused_once(), outcome_unknown(vec![Ok(answer())])] {
        world.gone = true;
        world.sources = vec![leaving()];
        world.volumes = vec![format!("pvc-{U}")];
        let trace = world.run();
        assert_eq!(trace.len(), 1, "{trace:#?}");
        assert!(trace[0].contains("is being deleted"));
        assert!(world.journal.is_some());
        world.sources.clear();
        world.volumes.clear();
        assert_eq!(world.run().last().unwrap(), "done Provisioned");
    }
}

#[test]
fn row_200_a_namesake_that_is_on_its_way_out_is_waited_for() {
    let mut world = World::new(|w| {
        w.refusals = vec![("save", Refusal::AlreadyExists)];
        w.sources = vec![leaving()];
    });
    let trace = world.run();
    assert!(
        trace.last().unwrap().contains("is being deleted"),
        "{trace:#?}"
    );
    assert!(world.journal.is_some());
    // Once the object is gone, the driver's answer decides.
    world.gone = true;
    world.refusals.clear();
    world.sources.clear();
    let trace = world.run();
    assert_eq!(trace[0], CREATE);
    assert_eq!(trace.last().unwrap(), "done Provisioned");
}

/// This process knows only of its own requests that they are impossible.
#[test]
fn j_4_what_a_predecessor_asked_says_nothing_about_other_words() {
    let mut world = refused_once();
    world.restart();
    world.parameters(&[("a", "b")]);
    world.creates = vec![
        Err(rpc(Code::DeadlineExceeded)),
        Err(rpc(Code::InvalidArgument)),
    ];
    world.run();
    world.run();
    let held = world.journal.unwrap();
    assert_eq!((held.asked.is_none(), held.unsettled.len()), (true, 1));
}

#[test]
fn j_4_a_rescued_volume_is_not_saved_again_when_its_call_had_no_answer() {
    let rescue = VolumeDetail {
        name: "rescue".into(),
        ..existing_pv("vol-1")
    };
    let mut small = answer();
    small.volume.as_mut().unwrap().capacity_bytes = 1;
    for answer in [answer(), small] {
        let mut world = outcome_unknown(vec![Ok(answer)]);
        world.gone = true;
        world.sources = vec![rescue.clone()];
        assert_eq!(world.run(), [CREATE, &compare(), "done Settled"]);
        assert!(world.journal.is_none());
    }
}

/// Its PersistentVolume was rejected until somebody created one of another name.
#[test]
fn j_4_a_rescued_volume_is_not_saved_again_when_its_object_was_refused() {
    for named in [false, true] {
        let mut world = World::new(|w| w.refusals = vec![("save", Refusal::Forbidden)]);
        world.run();
        world.gone = true;
        world.refusals.clear();
        world.sources = vec![VolumeDetail {
            name: "rescue".into(),
            ..existing_pv("vol-1")
        }];
        if named {
            // The PersistentVolume of the name refers to another volume.
            world.sources.push(existing_pv("vol-2"));
            world.volumes = vec![format!("pvc-{U}")];
        }
        assert_eq!(world.run(), [&*compare(), "done Settled"], "{named}");
        assert!(world.in_flight.pending_claim(&world.key()).is_none());
    }
}

/// The claim had its PersistentVolume when the attempt began, and has lost it when the call ends.
#[test]
fn j_4_a_claim_that_loses_its_persistentvolume_during_the_call_gets_no_empty_one() {
    let mut world = refused_once();
    world.gone = true;
    world.volumes = vec![format!("pvc-{U}")];
    world.owner = Some(Claim {
        volume: format!("pvc-{U}").into(),
        phase: ClaimPhase::Lost,
        ..world.claim.clone()
    });
    let trace = world.run();
    assert!(
        trace
            .last()
            .unwrap()
            .contains("has lost its PersistentVolume"),
        "{trace:#?}"
    );
    assert!(world.journal.is_some());
}
