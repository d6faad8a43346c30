//! The record of a call in doubt: when it is written, what it is worth, when it goes.

use proptest::prelude::*;

use super::*;
use crate::keys::{DOUBT_ANNOTATION, DOUBT_FINALIZER, SELECTED_NODE};
use crate::model::{BindingMode, SelectorTerm};
use crate::plan::settings::NodeDeployment;
use crate::plan::topology::{Entry, Term};

fn slow() -> World {
    World::new(|w| w.creates = vec![Err(rpc(Code::DeadlineExceeded)), Ok(answer())])
}

impl World {
    /// The process dies: its books are gone.
    fn restart(&mut self) {
        self.memory = Memory::new(Duration::from_secs(300));
    }

    fn record(&self) -> Option<&str> {
        let guarded = self.claim.has_finalizer(DOUBT_FINALIZER);
        self.claim
            .annotations
            .get(DOUBT_ANNOTATION)
            .filter(|_| guarded)
    }
}

#[test]
fn a_doubt_is_recorded_once_and_goes_with_its_settlement() {
    let mut world = slow();
    let timeout = "fail InBackground rpc error: code = DeadlineExceeded desc = boom";
    assert_eq!(world.run(), [ANNOUNCE, CREATE, "guard ns1/c1", timeout]);
    assert!(world.record().is_some());
    world.creates.insert(0, Err(rpc(Code::Aborted)));
    let aborted = "fail InBackground rpc error: code = Aborted desc = boom";
    assert_eq!(
        world.run(),
        [ANNOUNCE, CREATE, aborted],
        "the record is there already"
    );
    let mut expected = provisioned(&[CREATE]);
    expected.insert(expected.len() - 1, "settle unguard".into());
    assert_eq!(world.run(), expected);
    assert_eq!(world.claim.finalizers.len(), 0);
    assert_eq!(world.claim.annotations, claim().annotations);
}

#[test]
fn a_final_error_settles_as_well() {
    let mut world = slow();
    world.run();
    world.creates = vec![Err(rpc(Code::Internal))];
    let failed = "fail Finished rpc error: code = Internal desc = boom";
    assert_eq!(world.run(), [ANNOUNCE, CREATE, "settle unguard", failed]);
    assert_eq!(world.record(), None);
}

#[test]
fn off_never_writes_and_always_writes_before_the_first_call() {
    let mut world = slow();
    world.settings.protection = Protection::Off;
    assert!(!world.run().iter().any(|line| line.starts_with("guard")));
    assert!(
        world.memory.doubtful_claim(&world.key()).is_some(),
        "row 181: in memory as upstream"
    );
    let mut world = World::new(|w| w.settings.protection = Protection::Always);
    let mut expected = provisioned(&["guard ns1/c1", CREATE]);
    expected.insert(expected.len() - 1, "settle unguard".into());
    assert_eq!(world.run(), expected);
    let mut world = World::new(|w| {
        w.settings.protection = Protection::Always;
        w.refusals = vec![("guard", Refusal::Forbidden)];
    });
    let trace = world.run();
    assert_eq!(trace[1], "guard ns1/c1");
    assert!(
        trace[2].starts_with("fail NoChange could not protect the claim"),
        "{trace:#?}"
    );
}

#[test]
fn what_cannot_be_recorded_stays_in_memory() {
    let changes: [fn(&mut World); 2] = [
        |w| w.claim.deleting = true,
        |w| w.refusals = vec![("guard", Refusal::Forbidden)],
    ];
    for change in changes {
        let mut world = slow();
        change(&mut world);
        assert!(
            world
                .run()
                .last()
                .unwrap()
                .starts_with("fail InBackground ")
        );
        assert!(world.memory.doubtful_claim(&world.key()).is_some());
        assert_eq!(world.record(), None);
        assert_eq!(world.run().last().unwrap(), "done Provisioned");
    }
}

#[test]
fn why_a_doubt_is_not_recorded_is_told() {
    let world = slow();
    let doubtful = Failure::Call(rpc(Code::DeadlineExceeded));
    let told = |change: fn(&mut World)| {
        let mut world = slow();
        change(&mut world);
        let attempt = Attempt::new(world.memory.begin(&world.key()));
        attempt.unrecorded(&world.view(&attempt), &doubtful)
    };
    assert!(
        told(|w| w.claim.deleting = true)
            .unwrap()
            .contains("being deleted")
    );
    assert!(told(|w| w.gone = true).unwrap().contains("gone"));
    assert_eq!(
        told(|w| w.claim.finalizers = list(&[DOUBT_FINALIZER])),
        None
    );
    assert_eq!(told(|w| w.settings.protection = Protection::Off), None);
    let attempt = Attempt::new(world.memory.begin(&world.key()));
    let over = Failure::Call(rpc(Code::Internal));
    assert_eq!(attempt.unrecorded(&world.view(&attempt), &over), None);
}

#[test]
fn a_record_that_cannot_be_removed_is_tried_again() {
    let mut world = slow();
    world.run();
    world.refusals = vec![("settle", Refusal::Conflict)];
    let last = world.run().pop().unwrap();
    assert!(
        last.starts_with("fail Finished could not remove the finalizer"),
        "{last}"
    );
    world.refusals.clear();
    world.claim.volume = format!("pvc-{U}").into();
    assert_eq!(world.run(), ["settle unguard", "done Exists"]);
    assert_eq!(world.record(), None);
    let mut world = slow();
    world.run();
    world.refusals = vec![("settle", Refusal::NotFound)];
    assert_eq!(
        world.run().last().unwrap(),
        "done Provisioned",
        "the claim is gone"
    );
}

/// A driver that restarts leaves no record on every claim that waits for it.
#[test]
fn what_was_never_sent_is_in_no_doubt() {
    let mut world = slow();
    world.unreachable = true;
    let unsent = "fail NoChange rpc error: code = Unavailable desc = boom";
    assert_eq!(world.run(), [ANNOUNCE, CREATE, unsent]);
    assert!(world.memory.doubtful_claim(&world.key()).is_none());
    world.unreachable = false;
    world.run();
    let record = world.record().map(str::to_owned);
    world.unreachable = true;
    assert_eq!(
        world.run(),
        [ANNOUNCE, CREATE, unsent],
        "an earlier doubt stays"
    );
    assert!(world.memory.doubtful_claim(&world.key()).is_some());
    assert_eq!(world.record(), record.as_deref());
}

/// A selected node that is full while a record is there: one update says both.
#[test]
fn row_184_with_a_record_is_one_update() {
    let mut world = World::new(|w| {
        zoned(w);
        w.creates = vec![
            Err(rpc(Code::DeadlineExceeded)),
            Err(rpc(Code::ResourceExhausted)),
        ];
    });
    world.run();
    let trace = world.run();
    assert_eq!(trace[2], "settle unguard unselect", "{trace:#?}");
    assert!(trace[3].starts_with("fail Reschedule "), "{trace:#?}");
}

/// A node in `zone=z1`, selected; the class allows `z1` and `z2`.
fn zoned(w: &mut World) {
    w.driver.abilities.topology = true;
    let node = Text::from("n1");
    w.places.set_labels(&node, Some(pairs(&[("zone", "z1")])));
    w.places.set_driver(&node, Entry::Keys(list(&["zone"])));
    w.annotate(&[(SELECTED_NODE, "n1")]);
    w.classes[0].binding_mode = BindingMode::WaitForFirstConsumer;
    let term: SelectorTerm = Arc::new([("zone".into(), list(&["z1", "z2"]))]);
    w.classes[0].allowed_topologies = Arc::new([term]);
}

#[test]
fn after_a_restart_the_same_is_asked() {
    let mut world = slow();
    zoned(&mut world);
    world.claim.deleting = false;
    let first = world.run()[1].clone();
    world.restart();
    world.places = Places::default();
    world.claim.deleting = true;
    world.claim.version = 99;
    let trace = world.run();
    assert_eq!(trace[1], first, "row 173 across processes: {trace:#?}");
    assert_eq!(trace.last().unwrap(), "done Provisioned");
    assert_eq!(world.saved["spec"]["claimRef"]["resourceVersion"], "7");
    assert_eq!(world.record(), None);
}

/// Whoever may change a claim may write a record. What it says must follow from the cluster.
#[test]
fn a_forged_record_gets_nothing() {
    type Forgery = (&'static str, fn(&mut Prepared));
    let forgeries: &[Forgery] = &[
        ("the volume's name", |p| {
            p.name = "pvc-of-somebody-else".into()
        }),
        ("the parameters", |p| {
            drop(p.parameters.insert("path".into(), "/".into()))
        }),
        ("the attributes class's parameters", |p| {
            p.mutable_parameters.insert("iops".into(), "1".into());
        }),
        ("the data source", |p| {
            p.source = Some(super::super::request::ContentSource::Snapshot(
                "theirs".into(),
            ));
        }),
        ("the data source", |p| p.release = Some("s".into())),
        ("the Secrets", |p| {
            p.blueprint.secrets.provisioner = Some(pv::SecretName {
                name: "admin".into(),
                namespace: "kube-system".into(),
            })
        }),
        ("the Secrets", |p| {
            p.blueprint.secrets.node_stage = Some(pv::SecretName::default())
        }),
        ("the requested size", |p| p.blueprint.requested = 1 << 50),
        ("the mount options", |p| {
            p.blueprint.mount_options = vec!["suid".into()]
        }),
        ("the file system", |p| p.blueprint.fs_type = "x".into()),
        ("the access modes", |p| {
            p.modes = vec!["MULTI_NODE_MULTI_WRITER".into()]
        }),
        ("the topology", |p| p.requirement = None),
        ("the class", |p| {
            p.blueprint.reclaim_policy = Some("Retain".into())
        }),
        ("the class", |p| p.class_uid = "x".into()),
        ("the class", |p| p.blueprint.claim.name = "other".into()),
    ];
    for (part, forge) in forgeries {
        let mut world = slow();
        zoned(&mut world);
        world.run();
        world.restart();
        let mut prepared = doubt::read(world.record().unwrap(), "test-driver").unwrap();
        forge(&mut prepared);
        world.annotate(&[(DOUBT_ANNOTATION, &doubt::write("test-driver", &prepared))]);
        let trace = world.run();
        let last = trace.last().unwrap();
        assert!(
            last.starts_with("fail NoChange a volume may exist"),
            "{part}: {trace:#?}"
        );
        assert!(last.contains(&format!(" in {part}.")), "{part}: {last}");
        assert!(
            !trace.iter().any(|line| line.starts_with("create")),
            "{part}: {trace:#?}"
        );
        assert!(
            world.record().is_some(),
            "{part}: it is not removed silently"
        );
    }
}

#[test]
fn a_forged_place_must_be_one_that_the_class_allows() {
    let resumed = |zone: &str| {
        let mut world = slow();
        zoned(&mut world);
        world.run();
        world.restart();
        let forged = world.record().unwrap().replace("z1", zone);
        world.annotate(&[(DOUBT_ANNOTATION, &forged)]);
        world.run().pop().unwrap()
    };
    assert_eq!(resumed("z2"), "done Provisioned");
    assert!(resumed("z3").contains(" in the topology."));
}

#[test]
fn records_that_say_nothing() {
    let resumed = |record: Option<&str>| {
        let mut world = World::new(|w| w.claim.finalizers = list(&[DOUBT_FINALIZER]));
        if let Some(record) = record {
            world.annotate(&[(DOUBT_ANNOTATION, record)]);
        }
        let trace = world.run();
        assert!(
            world.claim.has_finalizer(DOUBT_FINALIZER)
                || trace.last().unwrap() == "done Provisioned"
        );
        trace.last().unwrap().clone()
    };
    let refused = |record, text: &str| {
        let last = resumed(record);
        assert!(
            last.starts_with("fail NoChange ") && last.contains(text),
            "{last}"
        );
    };
    refused(None, "missing");
    refused(Some(""), "damaged");
    refused(Some("[]"), "damaged");
    refused(Some(r#"{"version":2,"driver":"test-driver"}"#), "format 2");
    refused(
        Some(r#"{"version":1,"driver":"other","prepared":{}}"#),
        "driver other",
    );
    refused(Some(r#"{"version":1,"driver":"test-driver"}"#), "damaged");
    // A copy of another claim's, such as a backup brings back, is no record of this one.
    let copied =
        r#"{"version":1,"driver":"test-driver","prepared":{"blueprint":{"claim":{"uid":"x"}}}}"#;
    assert_eq!(resumed(Some(copied)), "done Provisioned");
    // The annotation alone, as well.
    let mut world = World::new(|w| w.annotate(&[(DOUBT_ANNOTATION, "[]")]));
    assert_eq!(world.run().last().unwrap(), "done Provisioned");
}

#[test]
fn a_doubt_without_its_class_waits_for_it() {
    let mut world = slow();
    world.run();
    world.restart();
    let class = world.classes.pop().unwrap();
    assert!(world.run().last().unwrap().contains("\"sc1\" not found"));
    assert!(world.record().is_some());
    world.classes.push(class);
    assert_eq!(world.run().last().unwrap(), "done Provisioned");
}

/// A settled claim whose process died before it removed the record.
#[test]
fn a_volume_that_exists_settles_the_record() {
    let mut world = slow();
    world.run();
    world.restart();
    world.volumes.push(format!("pvc-{U}"));
    assert_eq!(world.run(), ["settle unguard", "done Exists"]);
}

#[test]
fn death_at_any_step_with_protection_always_loses_nothing() {
    for most in 0..12 {
        let mut world = slow();
        world.settings.protection = Protection::Always;
        zoned(&mut world);
        let (trace, died) = world.run_until(most);
        let first = trace
            .iter()
            .find(|line| line.starts_with("create"))
            .cloned();
        assert!(
            first.is_none() || world.record().is_some(),
            "{most}: {trace:#?}"
        );
        if !died {
            continue;
        }
        world.restart();
        world
            .places
            .set_labels(&"n1".into(), Some(pairs(&[("zone", "z2")])));
        let mut later = Vec::new();
        for _ in 0..3 {
            later.extend(world.run());
        }
        let second = later.iter().find(|line| line.starts_with("create"));
        if let Some(first) = first {
            assert_eq!(second, Some(&first), "{most}: {later:#?}");
        }
        assert!(
            later.contains(&"done Provisioned".to_owned()),
            "{most}: {later:#?}"
        );
        assert_eq!(world.record(), None, "{most}");
    }
}

proptest! {
    #[test]
    fn no_content_of_the_annotation_does_harm(text in ".{0,200}") {
        let mut world = World::new(|w| {
            w.claim.finalizers = list(&[DOUBT_FINALIZER]);
            w.annotate(&[(DOUBT_ANNOTATION, &text)]);
        });
        let trace = world.run();
        prop_assert!(trace.last().unwrap().starts_with("fail NoChange "), "{trace:?}");
    }

    #[test]
    fn a_damaged_record_is_refused_or_the_same(at in 0..2000_usize, byte in 32..127_u8) {
        let mut world = slow();
        zoned(&mut world);
        let first = world.run()[1].clone();
        world.restart();
        let mut record = world.record().unwrap().as_bytes().to_vec();
        let at = at % record.len();
        record[at] = byte;
        let record = String::from_utf8(record).unwrap();
        world.annotate(&[(DOUBT_ANNOTATION, &record)]);
        let trace = world.run();
        let create = trace.iter().find(|line| line.starts_with("create "));
        // The topology may be another one that is allowed; nothing else differs.
        let but_place = |line: &str| line.split(" requisite").next().map(str::to_owned);
        prop_assert!(
            create.is_none_or(|create| but_place(create) == but_place(&first)),
            "{trace:?}"
        );
    }

    /// Whatever happens in between: until the driver's last word, each call is the one before, and
    /// the claim says so whenever the process may die.
    #[test]
    fn a_call_is_repeated_word_for_word_until_there_is_an_answer(events in proptest::collection::vec(0..7_u8, 1..14)) {
        let mut world = slow();
        zoned(&mut world);
        let mut doubt: Option<String> = None;
        for event in events {
            let answer = match event {
                0 | 1 => Err(rpc(Code::DeadlineExceeded)),
                2 => Err(rpc(Code::Internal)),
                3 => Ok(answer()),
                4 => {
                    prop_assert!(doubt.is_none() || world.record().is_some());
                    world.restart();
                    continue;
                }
                5 => {
                    let zone = if world.places.terms(&list(&["zone"])).iter().any(|term| {
                        term.iter().any(|(_, value)| &**value == "z1")
                    }) { "z2" } else { "z1" };
                    world.places.set_labels(&"n1".into(), Some(pairs(&[("zone", zone)])));
                    continue;
                }
                _ => {
                    // Once it is there, a record outlives the deletion of the claim.
                    world.claim.deleting |= world.record().is_some();
                    continue;
                }
            };
            world.creates = vec![answer];
            let trace = world.run();
            let create = trace.iter().find(|line| line.starts_with("create ")).cloned();
            if let Some(doubt) = &doubt {
                prop_assert_eq!(create.as_ref(), Some(doubt), "{:?}", trace);
            }
            match event {
                3 => {
                    prop_assert_eq!(trace.last().unwrap(), "done Provisioned");
                    prop_assert_eq!(world.record(), None);
                    break;
                }
                2 => {
                    prop_assert_eq!(world.record(), None);
                    doubt = None;
                    // A claim that is being deleted goes with its last finalizer.
                    if world.claim.deleting {
                        break;
                    }
                }
                _ => doubt = create,
            }
        }
    }
}

#[test]
fn a_record_of_another_node_is_left_to_that_node() {
    let deployed = |name: &str| NodeDeployment {
        name: name.into(),
        immediate_binding: true,
    };
    let at = |world: &mut World, name: &str| {
        let place = Term::new([(Text::from("zone"), Text::from(name))]);
        world.settings.node = Some(deployed(name));
        world.places = Places::of_node(&name.into(), &place);
    };
    let select = |world: &mut World, name: &str| {
        let others = { world.claim.annotations.iter() }.filter(|(key, _)| *key != SELECTED_NODE);
        world.claim.annotations = others.chain([(SELECTED_NODE, name)]).collect();
    };
    let mut world = slow();
    world.driver.abilities.topology = true;
    at(&mut world, "n1");
    select(&mut world, "n1");
    assert!(world.run().iter().any(|line| line.starts_with("create")));
    assert!(world.record().is_some());
    world.restart();
    at(&mut world, "n2");
    assert_eq!(world.run(), ["done NotOurs"]);
    // Wherever the claim goes meanwhile: only one knows what came of the call.
    select(&mut world, "n2");
    let told = "fail NoChange a volume may exist for this claim on node n1";
    assert!(world.run().pop().unwrap().starts_with(told));
    at(&mut world, "n1");
    assert_eq!(world.run().pop().unwrap(), "done Provisioned");
    assert_eq!(world.record(), None);
}
