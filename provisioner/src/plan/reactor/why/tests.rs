use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sidecar::controller::reactor::{Now, Reactor};
use sidecar::controller::request::Ask as _;
use sidecar::why::preview;

use super::*;
use crate::model::{FinalizerDue, Node, VolumeDetail};
use crate::plan::in_flight::Outcome;
use crate::plan::journal::{Journal, Owner};
use crate::plan::reactor::Change;
use crate::testing::{Known, U, claim, class, provisioner};

fn now() -> Now {
    Now {
        instant: Instant::now(),
        timestamp: Timestamp::UNIX_EPOCH,
    }
}

fn explain(provisioner: &Provisioner, known: &Known) -> Explanation<Key> {
    let object = Object::of(Kind::Claim, "ns1/c1");
    let told = provisioner.explain(&object, known, now());
    told.unwrap()
}

fn known() -> Known {
    Known {
        claim: Some(claim()),
        class: Some(class()),
        ..Known::default()
    }
}

#[test]
fn w_9_whose_claim_it_is_and_what_it_needs() {
    let provisioner = provisioner(None);
    let told = explain(&provisioner, &known());
    assert_eq!((&*told.uid, &told.not_ours), (U, &None));
    assert_eq!(told.work[0].because, "needs a volume of StorageClass sc1");
    let without_class = Known {
        class: None,
        ..known()
    };
    let told = explain(&provisioner, &without_class);
    let because = "needs a volume of StorageClass sc1, which does not exist";
    assert_eq!(told.work[0].because, because);
    let mut other = claim();
    other.annotations = [("volume.kubernetes.io/storage-provisioner", "other")]
        .into_iter()
        .collect();
    let other = Known {
        claim: Some(other),
        ..known()
    };
    let told = explain(&provisioner, &other);
    let rule = "annotation volume.kubernetes.io/storage-provisioner is other, not test-driver";
    assert_eq!(told.not_ours.as_deref(), Some(rule));
    assert_eq!(told.work, []);
    let nobody = Known {
        claim: None,
        ..known()
    };
    assert_eq!(explain(&provisioner, &nobody), Explanation::unknown());
}

#[test]
fn w_9_a_volume_of_which_only_the_name_is_kept_is_nobody_elses() {
    let owner = |of: &str| crate::model::Owner {
        provisioned_by: Some(of.into()),
        ..crate::model::Owner::default()
    };
    let finalizer = |of: &str| {
        Volume::Finalizer(Arc::new(FinalizerDue {
            owner: owner(of),
            uid: "u1".into(),
            ..FinalizerDue::default()
        }))
    };
    let deletable = |of: &str, deleting| {
        Volume::Deletable(Arc::new(VolumeDetail {
            owner: owner(of),
            uid: "u1".into(),
            deleting,
            ..VolumeDetail::default()
        }))
    };
    let (ours, other) = ("test-driver", "other");
    let foreign = Err("it is one of other, not of test-driver");
    for (volume, told) in [
        (None, None),
        (Some(Volume::NameOnly), None),
        (
            Some(finalizer(ours)),
            Some(Ok("its finalizer has to be changed")),
        ),
        (
            Some(deletable(ours, false)),
            Some(Ok("released by its claim")),
        ),
        (Some(deletable(ours, true)), Some(Ok("being deleted"))),
        (Some(finalizer(other)), Some(foreign)),
        (Some(deletable(other, false)), Some(foreign)),
    ] {
        let known = Known {
            volume,
            ..Known::default()
        };
        let object = Object::of(Kind::Volume, "pv1");
        let all = provisioner(None).explain(&object, &known, now());
        let expected = match told {
            None => Explanation::unknown(),
            Some(Ok(because)) => {
                let work = Work::new(VOLUMES, Key::Volume("pv1".into()), "delete", because);
                Explanation::known("u1", None).with(work)
            }
            Some(Err(rule)) => Explanation::known("u1", Some(rule.to_owned())),
        };
        assert_eq!(all, Some(expected));
    }
}

#[test]
fn w_6_w_7_what_it_waits_for_and_until_when() {
    let mut provisioner = provisioner(None);
    let key = ClaimKey::of(&claim());
    let infeasible = Outcome::Final {
        infeasible: Some("class-uid".into()),
    };
    let claim = Arc::new(claim());
    provisioner
        .in_flight_mut()
        .end(&claim, infeasible, Vec::new(), Instant::now());
    let class = RequeueTrigger::Class("sc1".into());
    provisioner.in_flight_mut().wait_for(class, &key);
    let told = explain(&provisioner, &known());
    let work = &told.work[0];
    assert_eq!(work.waits_for, [Object::of(Kind::Class, "sc1")]);
    let later = work.later.unwrap();
    assert!(later > Duration::from_secs(250) && later <= Duration::from_secs(300));
}

#[test]
fn w_8_w_17_w_76_an_unsettled_request_is_shown_without_its_parameters() {
    const PLANTED: &str = "planted-value";
    let owner = Owner {
        lease: "lease".to_owned(),
        driver: "test-driver".to_owned(),
        node: String::new(),
        holder: "holder".to_owned(),
        labels: Vec::new(),
    };
    let mut provisioner = provisioner(Some(Journal::new(owner)));
    let request = Arc::new(PinnedRequest {
        name: "pvc-1".to_owned(),
        parameters: BTreeMap::from([("secretParameter".to_owned(), PLANTED.to_owned())]),
        ..PinnedRequest::default()
    });
    let unknown = Outcome::Unknown(request);
    let since = Instant::now();
    provisioner
        .in_flight_mut()
        .end(&Arc::new(claim()), unknown, Vec::new(), since);
    let told = explain(&provisioner, &known());
    let unsettled = &told.work[0].facts["unsettled"];
    assert_eq!(
        (&unsettled["requests"], &unsettled["sentEarlier"]),
        (&1.into(), &0.into())
    );
    assert!(unsettled["since"].as_str().is_some());
    assert!(!format!("{told:?}").contains(PLANTED));
    let intents = provisioner.intents().unwrap();
    let [intent] = &*intents else {
        panic!("{intents:?}");
    };
    assert_eq!((intent.state, &*intent.volume), ("open", "pvc-1"));
    assert_eq!(intent.claim, Object::of(Kind::Claim, "ns1/c1"));
    assert!(!format!("{intents:?}").contains(PLANTED));
    // The claim is gone, and the call is not.
    let nobody = Known {
        claim: None,
        ..known()
    };
    let told = explain(&provisioner, &nobody);
    assert!(told.is_known);
    let because = "deleted, and a call of it has an unknown outcome";
    assert_eq!(told.work[0].because, because);
}

#[test]
fn w_14_the_next_step_is_the_one_that_follows() {
    for (known, expected) in [
        (known(), true),
        (
            Known {
                class: None,
                ..known()
            },
            false,
        ),
    ] {
        let mut provisioner = provisioner(None);
        let key = Key::Claim(ClaimKey::of(&claim()));
        let next = preview(&provisioner, &key, &known, now());
        let next = next.map(|request| request.name());
        let mut attempt = provisioner.begin(&key, &known, now());
        let first = provisioner.decide(&mut attempt, &known, now());
        assert_eq!(next, first.map(|request| request.name()));
        assert!(next.is_some() || !expected);
    }
}

fn restored(name: &str, from: &str) -> Claim {
    Claim {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        data_source: Some(crate::model::DataSource {
            group: None,
            kind: "VolumeSnapshot".into(),
            name: from.into(),
            namespace: None,
        }),
        ..claim()
    }
}

#[test]
fn w_16_an_answer_about_a_claim_goes_through_no_list() {
    for claim in [claim(), restored("c1", "s1")] {
        let known = Known {
            claim: Some(claim.clone()),
            ..known()
        };
        let provisioner = provisioner(None);
        let told = explain(&provisioner, &known);
        assert_eq!(told.work.len(), 1);
        let key = Key::Claim(ClaimKey::of(&claim));
        let _next = preview(&provisioner, &key, &known, now());
        assert_eq!(known.listed.get(), 0);
    }
}

#[test]
fn w_74_a_copy_has_no_requests_of_other_claims() {
    let request = |name: &str| {
        Arc::new(PinnedRequest {
            name: name.to_owned(),
            ..PinnedRequest::default()
        })
    };
    let owner = Owner {
        lease: "lease".to_owned(),
        driver: "test-driver".to_owned(),
        node: String::new(),
        holder: "holder".to_owned(),
        labels: Vec::new(),
    };
    let mut provisioner = provisioner(Some(Journal::new(owner)));
    let claims = [("c1", "s1"), ("c2", "s1"), ("c3", "s2")];
    let claims = claims.map(|(name, from)| Arc::new(restored(name, from)));
    for claim in &claims {
        let unknown = Outcome::Unknown(request(&claim.name));
        let in_flight = provisioner.in_flight_mut();
        in_flight.end(claim, unknown, Vec::new(), Instant::now());
        in_flight.wait_for(RequeueTrigger::AnyNode, &ClaimKey::of(claim));
    }
    let known = Known::default();
    let names = |key: &Key| {
        let copy = provisioner.fork(key, &known);
        let pending = copy.in_flight().pending_creates();
        let mut names: Vec<String> = pending.map(|(key, _)| key.name.to_string()).collect();
        names.sort();
        assert_eq!(copy.unrecovered(), provisioner.unrecovered());
        names
    };
    let claim = |index: usize| Key::Claim(ClaimKey::of(&claims[index]));
    assert_eq!(
        names(&claim(0)),
        ["ns1/c1", "ns1/c2"],
        "of the same snapshot"
    );
    assert_eq!(names(&claim(2)), ["ns1/c3"]);
    assert_eq!(names(&Key::Volume("pv1".into())), [""; 0]);
}

#[test]
fn w_16_a_copy_shares_the_topology_and_a_node_changes_without_a_copy() {
    let mut provisioner = provisioner(None);
    let moved_to = |zone: &str, provisioner: &mut Provisioner| {
        let node = Node {
            labels: [("zone", zone)].into_iter().collect(),
        };
        let change = Change::Node {
            name: "n1".into(),
            old: None,
            new: Some(&node),
        };
        let _due = provisioner.observe(change, &known());
        let labels = provisioner.topology().labels("n1").unwrap();
        assert_eq!(labels.get("zone"), Some(zone));
    };
    moved_to("a", &mut provisioner);
    let key = Key::Claim(ClaimKey::of(&claim()));
    let copy = provisioner.fork(&key, &known());
    assert!(Arc::ptr_eq(&copy.topology, &provisioner.topology));
    drop(copy);
    assert!(preview(&provisioner, &key, &known(), now()).is_some());
    let before = Arc::as_ptr(&provisioner.topology);
    moved_to("b", &mut provisioner);
    assert_eq!(Arc::as_ptr(&provisioner.topology), before);
    // A copy that is kept stays as it was.
    let copy = provisioner.fork(&key, &known());
    moved_to("c", &mut provisioner);
    let labels = copy.topology().labels("n1").unwrap();
    assert_eq!(labels.get("zone"), Some("b"));
}

#[test]
fn steps_name_objects_as_kubernetes_does() {
    use crate::plan::request::{Object as Asked, Request};
    for (object, name) in [
        (Asked::Volume("pv1".into()), "GET PersistentVolume pv1"),
        (
            Asked::SourceClaim("shop/data".into()),
            "GET PersistentVolumeClaim shop/data",
        ),
        (
            Asked::Owner("shop".into(), "data".into()),
            "LIST PersistentVolumeClaim shop metadata.name=data",
        ),
    ] {
        assert_eq!(Request::Get(object).name(), name);
    }
}
