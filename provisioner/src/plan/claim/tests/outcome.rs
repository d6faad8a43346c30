//! Rows 163, 173 and 181 to 200: the driver's answers, and their consequences.

use super::*;
use crate::keys::{ALPHA_SELECTED_NODE, SELECTED_NODE};
use crate::model::{Csi, Source};
use crate::plan::topology::Entry;
use sidecar::rpc_code;

fn failing(code: Code) -> World {
    World::new(|w| w.creates = vec![Err(rpc(code))])
}

/// Topology, with a selected node `n1` in `zone=z1`.
fn with_topology(w: &mut World) {
    w.driver.abilities.topology = true;
    let node = Text::from("n1");
    w.topology.set_labels(&node, Some(pairs(&[("zone", "z1")])));
    w.topology.set_driver(&node, Entry::Keys(list(&["zone"])));
    w.annotate(&[(SELECTED_NODE, "n1")]);
}

const PLACED: &str =
    "create pvc-U 1073741824 [mount( ) SINGLE_NODE_WRITER] requisite zone=z1 preferred zone=z1";

#[test]
fn rows_181_to_183_every_code() {
    for code in rpc_code::ALL.into_iter().skip(1) {
        let expected = match code {
            Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted => {
                "InBackground"
            }
            Code::InvalidArgument => "Infeasible",
            _ => "Finished",
        };
        let mut world = failing(code);
        let trace = world.run();
        let last = trace.last().unwrap();
        assert!(
            last.starts_with(&format!("fail {expected} rpc error: code = ")),
            "{last}"
        );
        let unanswered = expected == "InBackground";
        let known = world.in_flight.pending_claim(&world.key()).is_some();
        assert_eq!(known, unanswered, "181, 182: {code:?}");
        assert_eq!(world.journal.is_some(), unanswered, "{code:?}");
    }
}

#[test]
fn rows_184_185_the_node_is_full() {
    let full = || {
        World::new(|w| {
            with_topology(w);
            w.creates = vec![Err(rpc(Code::ResourceExhausted))];
        })
    };
    let text = "rpc error: code = ResourceExhausted desc = boom";
    let mut world = full();
    let reschedule = format!("fail Reschedule {text}");
    assert_eq!(
        world.run(),
        [ANNOUNCE, PLACED, "unselect", &reschedule],
        "184"
    );
    assert_eq!(world.claim.selected_node(), "", "184");
    let mut world = full();
    world.refusals = vec![("unselect", Refusal::Conflict)];
    let finished = format!("fail Finished {text}");
    assert_eq!(
        world.run(),
        [ANNOUNCE, PLACED, "unselect", &finished],
        "185"
    );
    let mut world = full();
    world.refusals = vec![("unselect", Refusal::NotFound)];
    assert_eq!(
        world.run().last(),
        Some(&finished),
        "a claim that is gone is not looked at again at once"
    );
    let mut world = full();
    world.claim.annotations = pairs(&[
        (crate::keys::STORAGE_PROVISIONER, "test-driver"),
        (ALPHA_SELECTED_NODE, "n1"),
    ]);
    assert_eq!(
        world.run().last(),
        Some(&finished),
        "3.4: the annotation is absent"
    );
    let mut world = full();
    world.settings.gates.topology = false;
    assert_eq!(world.run().last(), Some(&finished), "183, 176");
    let mut world = full();
    world.gone = true;
    assert_eq!(world.run(), ["done NotOurs"]);
}

#[test]
fn row_169_the_selected_node_is_gone() {
    let mut world = World::new(|w| {
        with_topology(w);
        w.annotate(&[(SELECTED_NODE, "gone")]);
    });
    let trace = world.run();
    assert_eq!(trace[..2], [ANNOUNCE, "unselect"]);
    assert!(trace[2].starts_with("fail Reschedule "), "{trace:#?}");
    assert_eq!(world.claim.selected_node(), "");
}

#[test]
fn row_186_an_impossible_request() {
    let mut world = failing(Code::InvalidArgument);
    let failure = Failure::Call(rpc(Code::InvalidArgument));
    assert!(failure.event("sc1").contains("retries are delayed"));
    assert_eq!(
        failure.cure("sc1"),
        Some(RequeueTrigger::Class("sc1".into()))
    );
    world.run();
    let key = world.key();
    let now = Instant::now();
    assert!(world.in_flight.slow(&key, Some("class-uid"), now) > Duration::from_secs(200));
    assert_eq!(
        world.in_flight.slow(&key, Some("another"), now),
        Duration::ZERO
    );
}

#[test]
fn rows_187_to_189_the_claim_is_deleted_meanwhile() {
    let unanswered = || {
        let mut world = World::new(|w| {
            w.creates = vec![Err(rpc(Code::DeadlineExceeded)), Ok(answer())];
        });
        world.run();
        world.gone = true;
        world
    };
    let mut world = unanswered();
    let name = format!("pvc-{U}");
    // First it checks whether somebody has rescued the volume.
    let (compare, save) = (format!("compare {name}"), format!("save {name}"));
    assert_eq!(
        world.run(),
        [CREATE, &compare, &save, "done Provisioned"],
        "187: no event"
    );
    assert_eq!(world.saved["spec"]["claimRef"]["uid"], U, "187");
    let mut world = unanswered();
    world.creates = vec![Err(rpc(Code::Internal))];
    assert!(
        world.run().last().unwrap().starts_with("fail Finished "),
        "188"
    );
    assert!(
        world.in_flight.pending_claim(&world.key()).is_some(),
        "188, j_4: a refusal says nothing of the call before it"
    );
    let name = format!("pvc-{U}");
    world.creates = vec![Ok(answer())];
    let all = [
        CREATE,
        &format!("compare {name}"),
        &format!("save {name}"),
        "done Provisioned",
    ];
    assert_eq!(world.run(), all, "188");
    assert_eq!(world.run(), ["done NotOurs"], "188");
    let mut world = World::new(|w| {
        w.parameters(&[
            ("csi.storage.k8s.io/secret-name", "sec"),
            ("csi.storage.k8s.io/secret-namespace", "ns"),
        ]);
        w.secrets.insert("ns/sec".into(), Some(Secrets::new()));
        w.creates = vec![Err(rpc(Code::DeadlineExceeded)), Ok(answer())];
    });
    world.run();
    let secrets = std::mem::take(&mut world.secrets);
    world.gone = true;
    assert!(
        world.run().last().unwrap().starts_with("fail NoChange "),
        "189"
    );
    assert!(world.in_flight.pending_claim(&world.key()).is_some(), "189");
    world.secrets = secrets;
    assert_eq!(
        world.run().last().unwrap(),
        "done Provisioned",
        "189: still retried"
    );
}

#[test]
fn rows_190_to_192_capacities() {
    let sized = |bytes| {
        World::new(|w| {
            let mut answer = answer();
            answer.volume.as_mut().unwrap().capacity_bytes = bytes;
            w.creates = vec![Ok(answer)];
        })
    };
    let mut world = sized(0);
    world.run();
    assert_eq!(world.saved["spec"]["capacity"]["storage"], "1Gi", "190");
    let mut world = sized((1 << 30) - 1);
    let trace = world.run();
    assert_eq!(trace[1..3], [CREATE, "discard vol-1"], "191");
    assert!(
        trace[3].starts_with("fail Finished created volume capacity"),
        "191: {trace:#?}"
    );
    assert!(world.journal.is_none(), "fp_3: nothing is unsettled");
    let mut world = sized((1 << 30) - 1);
    world.discard = Err(rpc(Code::Internal));
    let trace = world.run();
    assert!(
        trace[3].contains("Cleanup of volume vol-1 failed, volume is orphaned"),
        "192: {trace:#?}"
    );
    let mut world = World::new(|w| w.creates = vec![Ok(CreateVolumeResponse { volume: None })]);
    assert!(
        world
            .run()
            .last()
            .unwrap()
            .starts_with("fail InBackground "),
        "9.1: upstream crashes"
    );
}

#[test]
fn row_112_the_volume_is_discarded_with_the_secret() {
    let mut world = World::new(|w| {
        w.parameters(&[
            ("csi.storage.k8s.io/secret-name", "sec"),
            ("csi.storage.k8s.io/secret-namespace", "ns"),
        ]);
        let values = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        w.secrets.insert("ns/sec".into(), Some(values));
        w.claim.request = "2Gi".parse().ok();
    });
    assert!(
        world
            .run()
            .contains(&"discard vol-1 secrets {\"k\": \"v\"}".to_owned())
    );
}

#[test]
fn rows_194_to_197_what_the_volume_says() {
    let mut world = World::new(|w| {
        let mut answer = answer();
        let context = &mut answer.volume.as_mut().unwrap().volume_context;
        context.insert("a".into(), "b".into());
        w.creates = vec![Ok(answer)];
    });
    world.run();
    let attributes =
        serde_json::json!({"a": "b", "storage.kubernetes.io/csiProvisionerIdentity": "me"});
    assert_eq!(
        world.saved["spec"]["csi"]["volumeAttributes"], attributes,
        "194"
    );
    let read_only = |modes: &[&str], flag| {
        let mut world = World::new(|w| {
            w.claim.access_modes = list(modes);
            w.settings.publish_readonly = flag;
        });
        world.run();
        world.saved["spec"]["csi"]["readOnly"] == true
    };
    assert!(read_only(&["ReadOnlyMany"], true), "196");
    assert!(!read_only(&["ReadOnlyMany"], false), "196");
    assert!(!read_only(&["ReadOnlyMany", "ReadWriteOnce"], true), "197");
}

#[test]
fn rows_199_200_the_volume_cannot_be_saved() {
    let mut world = World::new(|w| {
        w.refusals = vec![("save", Refusal::Unknown)];
    });
    let save = format!("save pvc-{U}");
    let failed = "fail InBackground error saving the PersistentVolume: no";
    assert_eq!(world.run(), [ANNOUNCE, CREATE, &save, failed], "199");
    assert_eq!(world.run(), [&save, failed], "199: no second call");
    world.gone = true;
    world.refusals.clear();
    let compare = format!("compare pvc-{U}");
    let done = "done Provisioned";
    assert_eq!(world.run(), [&compare, &save, done], "199: nobody has it");
    assert!(world.in_flight.pending_claim(&world.key()).is_none());
    let failure = Failure::Save(refused(Refusal::Unknown));
    assert!(failure.may_pass(), "199: no event of the first one");
    let mut world = World::new(|w| {
        w.refusals = vec![("save", Refusal::AlreadyExists)];
        w.sources = vec![existing_pv("vol-1")];
    });
    let succeeded = format!("event Succeeded pvc-{U}");
    let all = [
        ANNOUNCE,
        CREATE,
        &save,
        &compare,
        &succeeded,
        "done Provisioned",
    ];
    assert_eq!(world.run(), all, "200");
}

/// An existing PersistentVolume with the name of the one to be saved.
fn existing_pv(handle: &str) -> VolumeDetail {
    VolumeDetail {
        name: format!("pvc-{U}").into(),
        source: Source::Csi(Csi {
            driver: "test-driver".into(),
            handle: handle.into(),
        }),
        ..VolumeDetail::default()
    }
}

/// A PersistentVolume of another driver, which cannot refer to the volume.
fn another_driver_s() -> VolumeDetail {
    VolumeDetail {
        source: Source::Csi(Csi {
            driver: "other-driver".into(),
            handle: "vol-1".into(),
        }),
        ..existing_pv("vol-1")
    }
}

#[test]
fn row_200_a_volume_beside_another_driver_s_persistentvolume_is_deleted() {
    let compare = format!("compare pvc-{U}");
    let mut world = World::new(|w| {
        w.refusals = vec![("save", Refusal::AlreadyExists)];
        w.sources = vec![another_driver_s()];
        w.discard = Err(rpc(Code::Internal));
        w.parameters(&[
            ("csi.storage.k8s.io/secret-name", "sec"),
            ("csi.storage.k8s.io/secret-namespace", "ns"),
        ]);
        let values = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        w.secrets.insert("ns/sec".into(), Some(values));
    });
    let discard = "discard vol-1 secrets {\"k\": \"v\"}";
    let trace = world.run();
    let [.., third, second, last] = &trace[..] else {
        panic!("{trace:?}");
    };
    assert_eq!([third, second], [&compare, discard]);
    assert!(last.contains("fail InBackground"), "{last}");
    // Whether or not the cache has the object, and whether or not the claim exists.
    world.volumes.push(format!("pvc-{U}"));
    world.gone = true;
    let secret = "get-secret ns/sec";
    let again = world.run();
    assert_eq!(again[..3], [&compare, secret, discard]);
    assert!(world.in_flight.pending_claim(&world.key()).is_some());
    world.discard = Ok(());
    let last = world.run();
    assert_eq!(last[..3], [&compare, secret, discard]);
    assert!(last[3].contains("fail Finished"), "{last:?}");
    assert!(world.in_flight.pending_claim(&world.key()).is_none());
}

/// P-4: a PersistentVolume of the driver with another handle may refer to the same volume, spelled differently.
#[test]
fn row_200_nothing_is_deleted_beside_a_persistentvolume_of_the_driver() {
    let compare = format!("compare pvc-{U}");
    let mut world = World::new(|w| {
        w.refusals = vec![("save", Refusal::AlreadyExists)];
        w.sources = vec![existing_pv("VOL-1")];
    });
    let contradicts = |trace: Vec<String>| {
        let [.., before, last] = &trace[..] else {
            panic!("{trace:?}");
        };
        assert_eq!(before, &compare, "{trace:?}");
        let says = "fail InBackground the driver returned volume vol-1";
        assert!(last.starts_with(says), "{last}");
    };
    contradicts(world.run());
    assert!(world.journal.is_some(), "the journal keeps it");
    // Also when the claim is bound to it, or is gone.
    world.volumes.push(format!("pvc-{U}"));
    contradicts(world.run());
    world.gone = true;
    contradicts(world.run());
    // Once the object is gone, the volume is saved as usual.
    world.sources.clear();
    world.volumes.clear();
    world.refusals.clear();
    assert_eq!(world.run().last().unwrap(), "done Provisioned");
    assert!(world.journal.is_none());
    assert!(
        !Failure::Contradicted {
            volume: "pv".into(),
            id: "a".into()
        }
        .concerns_users()
    );
}

/// P-11: with only a part of the UID in it, two claims may have one volume name.
#[test]
fn row_200_a_persistentvolume_of_another_claim_is_no_success() {
    let another_claim_s = || VolumeDetail {
        name: "pvc-11111111".into(),
        claim: Some(crate::model::ClaimRef {
            namespace: "ns1".into(),
            name: "c2".into(),
            uid: "11111111-0000-0000-0000-000000000000".into(),
        }),
        ..existing_pv("vol-1")
    };
    let short = |w: &mut World| {
        w.settings.volume_name_uuid_length = 8;
        w.sources = vec![another_claim_s()];
    };
    let name_in_use = |trace: &[String]| {
        let last = trace.last().unwrap();
        assert!(
            last.contains("pvc-11111111 is that of the PersistentVolume of claim ns1/c2"),
            "{trace:?}"
        );
    };
    // Both requests were sent at once, and the driver has one volume for the name.
    let mut world = World::new(|w| {
        short(w);
        w.refusals = vec![("save", Refusal::AlreadyExists)];
    });
    name_in_use(&world.run());
    // From then on the cache has the object.
    world.volumes.push("pvc-11111111".into());
    assert_eq!(world.run()[0], "compare pvc-11111111");
    // Once the other claim's object is gone, the driver's answer decides.
    world.sources.clear();
    world.volumes.clear();
    world.refusals.clear();
    let trace = world.run();
    assert!(trace[1].starts_with("create pvc-11111111"), "{trace:?}");
    assert_eq!(trace.last().unwrap(), "done Provisioned");
    // One request after the other.
    let mut world = World::new(|w| {
        short(w);
        w.volumes = vec!["pvc-11111111".into()];
    });
    let trace = world.run();
    assert_eq!(trace.len(), 2, "{trace:?}");
    name_in_use(&trace);
    // The object of the claim itself.
    world.sources[0].claim.as_mut().unwrap().uid = U.into();
    assert_eq!(world.run(), ["compare pvc-11111111", "done Exists"]);
}

#[test]
fn row_199_a_volume_that_was_saved_although_the_answer_was_lost() {
    let mut world = World::new(|w| {
        w.refusals = vec![("save", Refusal::Unknown)];
    });
    world.run();
    world.volumes.push(format!("pvc-{U}"));
    world.sources = vec![existing_pv("vol-1")];
    let all = [
        format!("compare pvc-{U}"),
        format!("event Succeeded pvc-{U}"),
        "done Provisioned".to_owned(),
    ];
    assert_eq!(world.run(), all, "no second POST");
}

#[test]
fn row_173_nodes_that_vanish_do_not_change_the_request() {
    let mut world = World::new(|w| {
        with_topology(w);
        w.creates = vec![Err(rpc(Code::DeadlineExceeded)), Ok(answer())];
    });
    assert_eq!(world.run()[1], PLACED);
    world.topology = TopologyIndex::default();
    // The request is pinned as long as the claim is for that node. A class that is recreated with other parameters does
    // not change the request either.
    world.parameters(&[("a", "b")]);
    assert_eq!(world.run()[1], PLACED, "173");
}

/// P-3: a call for that node may never get an answer.
#[test]
fn j_8_a_node_that_is_gone_is_left_for_the_one_that_is_selected_now() {
    let move_node = |w: &mut World, node: &str, zone: &str| {
        let node = Text::from(node);
        w.topology.set_labels(&node, Some(pairs(&[("zone", zone)])));
        w.topology.set_driver(&node, Entry::Keys(list(&["zone"])));
    };
    for restarted in [false, true] {
        let mut world = World::new(|w| {
            with_topology(w);
            w.settings.strict_topology = true;
            w.creates = vec![Err(rpc(Code::Unavailable))];
        });
        world.run();
        move_node(&mut world, "n2", "z2");
        world.annotate(&[(SELECTED_NODE, "n2")]);
        if restarted {
            world.restart();
        }
        assert_eq!(world.run().len(), 3, "n1 is still there: it is asked again");
        assert_eq!(world.journal.as_ref().unwrap().unsettled.len(), 0);
        let node = Text::from("n1");
        world.topology.set_labels(&node, None);
        world.topology.set_driver(&node, Entry::NoCsiNode);
        world.creates = vec![Ok(answer())];
        let trace = world.run();
        assert_eq!(trace[0], "event Left n1", "{trace:#?}");
        assert_eq!(trace[1], ANNOUNCE);
        assert!(
            trace[2].ends_with("requisite zone=z2 preferred zone=z2"),
            "{trace:#?}"
        );
        assert_eq!(trace.last().unwrap(), "done Provisioned");
        // The volume that the gone node may have is found when the claim needs no volume any more.
        let held = world.journal.clone().unwrap();
        assert_eq!((held.asked.is_none(), held.unsettled.len()), (true, 1));
        world.gone = true;
        world.sources = vec![existing_pv("vol-1")];
        assert_eq!(
            world.run(),
            [PLACED, &format!("compare pvc-{U}"), "done Settled"]
        );
        assert!(world.journal.is_none());
    }
}
