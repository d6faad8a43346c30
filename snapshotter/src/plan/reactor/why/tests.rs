use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use sidecar::controller::reactor::Now;

use super::*;
use crate::model::Class;
use crate::plan::{Driver, Informers, Settings};
use crate::testing::{content, driver, group_content, status};

struct One(Option<Content>);

impl Informers for One {
    fn driver(&self) -> Arc<Driver> {
        Arc::new(driver())
    }

    fn content(&self, _name: &Text) -> Option<Arc<Content>> {
        self.0.clone().map(Arc::new)
    }

    fn class(&self, _name: &Text) -> Option<Arc<Class>> {
        None
    }
}

fn explain(serves: Kind, kind: Of, content: Option<Content>) -> Option<Explanation<Text>> {
    let object = Object::of(kind, "snapcontent-U1");
    let now = Now {
        instant: Instant::now(),
        timestamp: Timestamp::UNIX_EPOCH,
    };
    let snapshotter = Snapshotter::new(serves, &Settings::default());
    snapshotter.explain(&object, &One(content), now)
}

#[test]
fn w_9_what_a_content_calls_for_and_whose_it_is() {
    let single = |content| explain(Kind::Single, Of::Content, Some(content)).unwrap();
    assert_eq!(single(content()).work[0].what, "create");
    let ready = Content {
        status: Some(status(true)),
        ..content()
    };
    let told = single(ready);
    assert!(told.is_known && told.work.is_empty());
    let other = Content {
        driver: "other".into(),
        ..content()
    };
    let told = single(other).not_ours;
    assert!(told.unwrap().starts_with("spec.driver is other"));
    let told = explain(Kind::Group, Of::GroupContent, Some(group_content()));
    assert_eq!(told.unwrap().work[0].what, "create");
}

#[test]
fn w_74_a_copy_has_no_failures_of_other_contents() {
    let mut snapshotter = Snapshotter::new(Kind::Single, &Settings::default());
    for name in ["c1", "c2"] {
        let in_flight = &mut snapshotter.in_flight;
        in_flight.waits(&name.into(), &"u1".into(), RequeueTrigger::Driver);
    }
    let copy = snapshotter.fork(&"c1".into(), &One(None));
    let knows = ["c1", "c2"].map(|name| copy.in_flight().knows(&name.into()));
    assert_eq!(knows, [true, false]);
}

#[test]
fn w_9_a_content_that_is_not_known_is_said_to_be_unknown() {
    let unknown = Some(Explanation::unknown());
    for (serves, kind, told) in [
        (Kind::Single, Of::Content, &unknown),
        (Kind::Group, Of::GroupContent, &unknown),
        (Kind::Single, Of::GroupContent, &None),
        (Kind::Group, Of::Content, &None),
        (Kind::Single, Of::Claim, &None),
    ] {
        assert_eq!(explain(serves, kind, None), *told, "{serves:?} {kind:?}");
    }
    let snapshotter = Snapshotter::new(Kind::Group, &Settings::default());
    let object = snapshotter.object(&"g1".into(), &One(None));
    assert_eq!(object, Object::of(Of::GroupContent, "g1"));
}
