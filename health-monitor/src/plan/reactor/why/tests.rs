use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sidecar::controller::reactor::{Now, Reactor};

use super::super::{Change, Failing};
use super::*;
use crate::model::Claim;
use crate::plan::{Driver, Informers, Settings};
use crate::testing::{claim, volume};

#[derive(Default)]
struct Known {
    volumes: BTreeMap<Text, Volume>,
    claim: Option<Claim>,
}

impl Informers for Known {
    fn driver(&self) -> Arc<Driver> {
        panic!("no answer depends on it")
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.get(name).cloned().map(Arc::new)
    }

    fn claim(&self, _key: &str) -> Option<Arc<Claim>> {
        self.claim.clone().map(Arc::new)
    }

    fn unhealthy(&self) -> Vec<(Text, Arc<Claim>)> {
        Vec::new()
    }
}

fn monitor(known: &mut Known, numbers: &[&str]) -> HealthMonitor {
    let mut monitor = HealthMonitor::new(Settings {
        interval: Duration::from_secs(60),
        list_interval: Duration::from_secs(300),
        workers: 10,
    });
    for number in numbers {
        let (name, new) = (Text::from(format!("pv{number}")), volume(number));
        known.volumes.insert(name.clone(), new.clone());
        let change = Change::Volume {
            name,
            old: None,
            new: Some(&new),
        };
        let _ = monitor.observe(change, known);
    }
    monitor
}

#[test]
fn w_9_a_bound_claim_is_known_by_its_volume() {
    let mut known = Known::default();
    let monitor = monitor(&mut known, &["1", "2"]);
    let now = Now {
        instant: Instant::now(),
        timestamp: Timestamp::UNIX_EPOCH,
    };
    let bound = &volume("1");
    let claims = [
        (
            Some(claim(&["Degraded Slow"])),
            &*bound.claim,
            Some(&bound.handle),
        ),
        (None, &*bound.claim, Some(&bound.handle)),
        (None, "ns/none", None),
    ];
    for (cached, key, handle) in claims {
        known.claim = cached;
        let object = Object::of(Kind::Claim, key);
        let told = monitor.explain(&object, &known, now).unwrap();
        assert_eq!(told.is_known, handle.is_some(), "{key}");
        let key = told.work.first().map(|work| work.key.clone());
        assert_eq!(key, handle.map(|handle| Key::Volume(handle.clone())));
    }
}

#[test]
fn w_74_a_copy_has_no_failures_of_other_volumes() {
    let mut known = Known::default();
    let mut monitor = monitor(&mut known, &["1", "2"]);
    for number in ["1", "2"] {
        let of = volume(number);
        let failing = Failing {
            times: 1,
            away: true,
        };
        monitor.failing.insert(of.handle.clone(), failing);
        monitor.asked.insert(of.handle);
    }
    let handle = volume("1").handle;
    let copy = monitor.fork(&Key::Volume(handle.clone()), &known);
    assert_eq!(copy.asked, [handle.clone()].into());
    assert_eq!(copy.failing.keys().collect::<Vec<_>>(), [&handle]);
}
