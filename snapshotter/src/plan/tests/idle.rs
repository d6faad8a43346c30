//! Contents that need no place in the queue.

use std::sync::Arc;

use sidecar::controller::reactor::Reactor;

use crate::model::{Class, Content, Kind, Text};
use crate::plan::reactor::{Change, Snapshotter};
use crate::plan::{Driver, Informers, Settings};
use crate::testing::{content, driver, status};

struct One(Arc<Content>);

impl Informers for One {
    fn driver(&self) -> Arc<Driver> {
        Arc::new(driver())
    }

    fn content(&self, _name: &Text) -> Option<Arc<Content>> {
        Some(Arc::clone(&self.0))
    }

    fn class(&self, _name: &Text) -> Option<Arc<Class>> {
        None
    }
}

#[test]
fn contents_with_which_all_is_done_are_put_into_no_queue() {
    type Row = (&'static str, fn(&mut Content), bool);
    let rows: [Row; 6] = [
        ("new", |_| {}, true),
        ("ready", |c| c.status = Some(status(true)), false),
        ("unready", |c| c.status = Some(status(false)), true),
        (
            "ready, marked",
            |c| (c.status, c.being_created) = (Some(status(true)), true),
            true,
        ),
        (
            "to be deleted",
            |c| {
                c.status = Some(status(true));
                (c.deleting, c.being_deleted) = (true, true);
            },
            true,
        ),
        ("another driver's", |c| c.driver = "other".into(), false),
    ];
    for (row, change, expected) in rows {
        let mut content = content();
        change(&mut content);
        let informers = One(Arc::new(content));
        let new = Some(&*informers.0);
        let name = Text::from("snapcontent-U1");
        let mut snapshotter = Snapshotter::new(Kind::Single, &Settings::default());
        let listed = Change::Content {
            name: name.clone(),
            old: None,
            new,
            own: false,
        };
        for change in [listed, Change::Resync(name)] {
            let due = snapshotter.observe(change, &informers);
            assert_eq!(!due.wakes.is_empty(), expected, "{row}");
        }
    }
}
