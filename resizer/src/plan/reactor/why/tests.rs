use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::controller::reactor::{Now, Reactor as _};

use super::*;
use crate::model::{AttributesClass, Claim, Volume};
use crate::plan::reactor::Change;
use crate::plan::{Driver, Informers, Settings};
use crate::testing::{NOW, claim, driver, pre_resize, pv, size};

struct Known {
    claim: Option<ClaimDetail>,
}

impl Informers for Known {
    fn driver(&self) -> Arc<Driver> {
        Arc::new(driver())
    }

    fn claim(&self, _key: &Text) -> Option<Arc<Claim>> {
        let claim = self.claim.clone()?;
        Some(Arc::new(Claim::new(claim)))
    }

    fn volume(&self, _name: &Text) -> Option<(Arc<Volume>, u64)> {
        Some((Arc::new(pv()), 1))
    }

    fn class(&self, _name: &Text) -> Option<Arc<AttributesClass>> {
        None
    }
}

fn now() -> Now {
    Now {
        instant: Instant::now(),
        timestamp: NOW.parse().unwrap(),
    }
}

fn resizer() -> Resizer {
    Resizer::new(&driver(), &Settings::default())
}

fn explain(claim: Option<ClaimDetail>) -> Explanation<Task> {
    let object = Object::of(Of::Claim, "ns/c1");
    resizer().explain(&object, &Known { claim }, now()).unwrap()
}

#[test]
fn w_9_which_tasks_a_claim_has() {
    let grows = ClaimDetail {
        request: Some(size("2Gi")),
        ..claim()
    };
    let both = ClaimDetail {
        class: "gold".into(),
        ..grows.clone()
    };
    for (claim, tasks) in [
        (claim(), &[][..]),
        (grows, &["expand"]),
        (both, &["expand", "modify"]),
    ] {
        let told = explain(Some(claim));
        let named: Vec<_> = told.work.iter().map(|work| work.what).collect();
        assert_eq!(named, tasks);
        assert!(told.is_known);
    }
    assert_eq!(explain(None), Explanation::unknown());
    let volume = Object::of(Of::Volume, "pv1");
    let nobody = Known { claim: None };
    assert_eq!(resizer().explain(&volume, &nobody, now()), None);
}

#[test]
fn a_task_that_was_not_refused_has_no_later_time() {
    let grows = ClaimDetail {
        request: Some(size("2Gi")),
        ..claim()
    };
    let told = explain(Some(grows));
    assert_eq!(told.work[0].later, None::<Duration>);
    assert_eq!(told.work[0].facts["inUse"], false);
    assert_eq!(told.work[0].because, "requests more than its capacity");
}

#[test]
fn w_11_only_the_work_whose_lists_are_not_complete_has_not_begun() {
    let both = ClaimDetail {
        request: Some(size("2Gi")),
        class: "gold".into(),
        ..claim()
    };
    let known = Known { claim: Some(both) };
    let mut resizer = resizer();
    let awaits = |resizer: &Resizer| {
        let claim = Object::of(Of::Claim, "ns/c1");
        let told = resizer.explain(&claim, &known, now()).unwrap();
        let works = told.work.into_iter();
        let works = works.map(|work| (work.what, work.awaits_lists));
        works.collect::<Vec<_>>()
    };
    assert_eq!(awaits(&resizer), [("expand", true), ("modify", true)]);
    // Pods may not be listed, and modification needs none.
    let _first = resizer.observe(Change::Listed(Kind::Modify), &known);
    assert_eq!(awaits(&resizer), [("expand", true), ("modify", false)]);
    let _later = resizer.observe(Change::Listed(Kind::Expand), &known);
    assert_eq!(awaits(&resizer), [("expand", false), ("modify", false)]);
}

#[test]
fn w_74_a_copy_has_nothing_of_other_claims() {
    let (mut resizer, known) = (resizer(), Known { claim: None });
    let annotated = Volume {
        pre_resize: pre_resize("1Gi"),
        ..pv()
    };
    let name = Text::from("pv1");
    let tasks = resizer
        .in_flight
        .volume_changed(&name, None, Some(&annotated), &driver());
    let [of] = &*tasks else {
        panic!("{tasks:?}");
    };
    let other = Task::new(Kind::Expand, &"ns/other".into());
    for (task, volume) in [(of, Some(&name)), (&other, None)] {
        let copy = resizer.fork(task, &known).in_flight;
        assert_eq!(copy.annotated(&of.claim), volume);
    }
}
