//! The journal of a process that dies, and the work of its successor.

use proptest::prelude::*;

use super::*;
use crate::keys::SELECTED_NODE;
use crate::model::{BindingMode, SelectorTerm};
use crate::plan::journal::Intent;
use crate::plan::topology::Entry;

fn slow() -> World {
    World::new(|w| w.creates = vec![Err(rpc(Code::DeadlineExceeded)), Ok(answer())])
}

impl World {
    /// The process dies, and its successor reads the journal.
    pub(super) fn restart(&mut self) {
        self.in_flight = InFlightState::new(Duration::from_secs(300));
        let Some(intent) = self.journal.clone() else {
            return;
        };
        let claim = if self.gone {
            intent.claim()
        } else {
            self.claim.clone()
        };
        let Intent {
            asked, unsettled, ..
        } = intent;
        self.in_flight
            .adopt(&Arc::new(claim), asked, unsettled, Instant::now());
    }
}

#[test]
fn an_intent_stays_until_there_is_an_answer() {
    let mut world = slow();
    let timeout = "fail InBackground rpc error: code = DeadlineExceeded desc = boom";
    assert_eq!(world.run(), [ANNOUNCE, CREATE, timeout]);
    assert!(world.journal.is_some());
    assert_eq!(world.claim, claim(), "nothing of ours is on it");
    world.creates.insert(0, Err(rpc(Code::Aborted)));
    let aborted = "fail InBackground rpc error: code = Aborted desc = boom";
    assert_eq!(world.run(), [ANNOUNCE, CREATE, aborted]);
    assert!(world.journal.is_some());
    assert_eq!(world.run(), provisioned(&[CREATE]));
    assert!(world.journal.is_none());
    let mut world = slow();
    world.run();
    world.creates = vec![Err(rpc(Code::Internal))];
    let failed = "fail Finished rpc error: code = Internal desc = boom";
    assert_eq!(world.run(), [ANNOUNCE, CREATE, failed]);
    assert!(world.journal.is_some(), "a refusal proves nothing");
    world.creates = vec![Ok(answer())];
    assert_eq!(world.run(), provisioned(&[CREATE]));
    assert!(world.journal.is_none());
}

#[test]
fn off_keeps_it_in_memory_as_upstream() {
    let mut world = slow();
    world.settings.protection = Protection::Off;
    world.run();
    assert!(world.journal.is_none());
    assert!(world.in_flight.is_busy(&world.key()), "row 181");
}

#[test]
fn j_11_the_driver_is_not_asked_before_it_is_written() {
    let mut world = World::new(|w| w.unwritable = true);
    let trace = world.run();
    assert_eq!(trace[0], ANNOUNCE);
    assert!(
        trace[1].starts_with("fail NoChange CreateVolume postponed"),
        "{trace:#?}"
    );
    assert_eq!(trace.len(), 2);
    assert!(!world.in_flight.is_busy(&world.key()));
    world.unwritable = false;
    assert_eq!(world.run(), provisioned(&[CREATE]));
}

/// A missing Secret is noticed before anything is written.
#[test]
fn no_intent_without_its_secret() {
    let mut world = World::new(|w| {
        w.parameters(&[
            ("csi.storage.k8s.io/provisioner-secret-name", "s"),
            ("csi.storage.k8s.io/provisioner-secret-namespace", "n"),
        ]);
    });
    assert!(world.run().pop().unwrap().contains("error getting secret"));
    assert!(world.journal.is_none());
}

/// A driver that restarts leaves no unknown outcome for the claims that wait for it.
#[test]
fn what_was_never_sent_is_in_no_doubt() {
    let mut world = slow();
    world.unreachable = true;
    let unsent = "fail NoChange rpc error: code = Unavailable desc = boom";
    assert_eq!(world.run(), [ANNOUNCE, CREATE, unsent]);
    assert!(world.in_flight.pending_claim(&world.key()).is_none());
    assert!(world.journal.is_none());
    world.unreachable = false;
    world.run();
    world.unreachable = true;
    assert_eq!(
        world.run(),
        [ANNOUNCE, CREATE, unsent],
        "an earlier unknown outcome stays"
    );
    assert!(world.in_flight.pending_claim(&world.key()).is_some());
    assert!(world.journal.is_some());
}

/// A node in `zone=z1`, selected; the class allows `z1` and `z2`.
fn zoned(w: &mut World) {
    w.driver.abilities.topology = true;
    let node = Text::from("n1");
    w.topology.set_labels(&node, Some(pairs(&[("zone", "z1")])));
    w.topology.set_driver(&node, Entry::Keys(list(&["zone"])));
    w.annotate(&[(SELECTED_NODE, "n1")]);
    w.classes[0].binding_mode = BindingMode::WaitForFirstConsumer;
    let term: SelectorTerm = Arc::new([("zone".into(), list(&["z1", "z2"]))]);
    w.classes[0].allowed_topologies = Arc::new([term]);
}

#[test]
fn after_a_restart_the_same_is_asked() {
    let mut world = slow();
    zoned(&mut world);
    let first = world.run()[1].clone();
    world.restart();
    world.topology = TopologyIndex::default();
    world.claim.deleting = true;
    world.claim.version = 99;
    let trace = world.run();
    assert_eq!(trace[1], first, "row 173 across processes: {trace:#?}");
    assert_eq!(trace.last().unwrap(), "done Provisioned");
    assert_eq!(world.saved["spec"]["claimRef"]["resourceVersion"], "7");
    assert!(world.journal.is_none());
}

/// Flags, capabilities and objects have changed by then: the recorded request counts.
#[test]
fn j_8_a_successor_repeats_what_was_recorded_whatever_has_changed() {
    type Change = (&'static str, fn(&mut World));
    let changes: [Change; 9] = [
        ("flags", |w| {
            w.settings.extra_create_metadata = true;
            w.settings.volume_name_prefix = "other".into();
            w.settings.publish_readonly = true;
        }),
        ("gate", |w| w.settings.gates.topology = false),
        ("capability", |w| {
            w.driver.abilities.single_node_multi_writer = true;
        }),
        ("topology goes", |w| w.driver.abilities.topology = false),
        ("class deleted", |w| w.classes.clear()),
        ("class made anew", |w| {
            w.parameters(&[("a", "b")]);
            w.classes[0].uid = "another".into();
        }),
        ("node gone", |w| w.topology = TopologyIndex::default()),
        ("bound elsewhere", |w| w.claim.volume = "other".into()),
        ("claim gone", |w| w.gone = true),
    ];
    for (what, change) in changes {
        let mut world = slow();
        zoned(&mut world);
        let first = world.run()[1].clone();
        change(&mut world);
        world.restart();
        let trace = world.run();
        assert!(trace.contains(&first), "{what}: {trace:#?}");
        assert_eq!(trace.last().unwrap(), "done Provisioned", "{what}");
        assert_eq!(
            world.saved["metadata"]["name"],
            format!("pvc-{U}"),
            "{what}"
        );
        assert!(world.journal.is_none(), "{what}");
    }
}

/// The process died before it settled the intent.
#[test]
fn a_volume_that_exists_settles_the_intent() {
    let mut world = slow();
    world.run();
    world.restart();
    world.volumes.push(format!("pvc-{U}"));
    assert_eq!(world.run(), ["done Exists"]);
    assert!(world.journal.is_none());
}

#[test]
fn death_at_any_step_loses_nothing() {
    for most in 0..12 {
        let mut world = slow();
        zoned(&mut world);
        let (trace, died) = world.run_until(most);
        let first = trace.iter().find(|line| line.starts_with("create"));
        let first = first.cloned();
        assert!(
            first.is_none() || !died || world.journal.is_some(),
            "{most}: {trace:#?}"
        );
        if !died {
            continue;
        }
        world.restart();
        world
            .topology
            .set_labels(&"n1".into(), Some(pairs(&[("zone", "z2")])));
        let mut later = Vec::new();
        for _ in 0..3 {
            later.extend(world.run());
        }
        let second = later.iter().find(|line| line.starts_with("create"));
        if let Some(first) = first {
            assert_eq!(second, Some(&first), "{most}: {later:#?}");
        }
        let done = "done Provisioned".to_owned();
        assert!(later.contains(&done), "{most}: {later:#?}");
        assert!(world.journal.is_none(), "{most}");
    }
}

proptest! {
    /// Whatever happens in between: until the driver's final answer, each call repeats the one before.
    #[test]
    fn a_call_is_repeated_word_for_word_until_there_is_an_answer(events in proptest::collection::vec(0..7_u8, 1..14)) {
        let mut world = slow();
        zoned(&mut world);
        let mut pending: Option<String> = None;
        for event in events {
            let answer = match event {
                0 | 1 => Err(rpc(Code::DeadlineExceeded)),
                2 => Err(rpc(Code::Internal)),
                3 => Ok(answer()),
                4 => {
                    prop_assert_eq!(pending.is_some(), world.journal.is_some());
                    world.restart();
                    continue;
                }
                5 => {
                    let zone = if world.topology.terms(&list(&["zone"])).iter().any(|term| {
                        term.iter().any(|(_, value)| &**value == "z1")
                    }) { "z2" } else { "z1" };
                    world.topology.set_labels(&"n1".into(), Some(pairs(&[("zone", zone)])));
                    continue;
                }
                _ => {
                    world.gone |= world.journal.is_some();
                    continue;
                }
            };
            world.creates = vec![answer];
            let trace = world.run();
            let create = trace.iter().find(|line| line.starts_with("create ")).cloned();
            if let Some(pending) = &pending {
                prop_assert_eq!(create.as_ref(), Some(pending), "{:?}", trace);
            }
            match event {
                3 => {
                    prop_assert_eq!(trace.last().unwrap(), "done Provisioned");
                    prop_assert!(world.journal.is_none());
                    break;
                }
                // A request of unknown outcome stays unsettled, and another one may be sent.
                2 => {
                    prop_assert_eq!(world.journal.is_some(), pending.is_some());
                    if pending.is_some() || world.gone {
                        break;
                    }
                }
                _ => pending = create,
            }
        }
    }
}
