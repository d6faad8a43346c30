//! What `--why-endpoint` says about a VolumeSnapshotContent or a VolumeGroupSnapshotContent.

use sidecar::controller::reactor::Now;
use sidecar::why::Kind as Of;
use sidecar::why::{Explained, Explanation, Object, Work};

use super::{Informed, Retry, Snapshotter};
use crate::model::{Content, Kind, Text};
use crate::plan::goal::{Goal, goal, is_ours};
use crate::plan::outcome::RequeueTrigger;

/// The objects that contents of this kind are.
fn of(kind: Kind) -> Of {
    match kind {
        Kind::Single => Of::Content,
        Kind::Group => Of::GroupContent,
    }
}

impl Explained for Snapshotter {
    fn explain(
        &self,
        object: &Object,
        informers: Informed<'_>,
        _now: Now,
    ) -> Option<Explanation<Text>> {
        if object.kind != of(self.kind) {
            return None;
        }
        let name = Text::from(object.name.as_str());
        let Some(content) = informers.content(&name) else {
            return Some(Explanation::unknown());
        };
        let driver = informers.driver();
        let class = content
            .class
            .as_ref()
            .and_then(|name| informers.class(name));
        if !is_ours(&content, class.as_deref(), &driver) {
            let rule = if *content.driver == *driver.name {
                "its class is one of another driver, or it has no source".to_owned()
            } else {
                format!("spec.driver is {}, not {}", content.driver, driver.name)
            };
            return Some(Explanation::known(&content.uid, Some(rule)));
        }
        let known = Explanation::known(&content.uid, None);
        let Some((what, because)) = work(&content) else {
            return Some(known);
        };
        let waits = self.in_flight().awaited(&name).iter();
        let waits: Vec<_> = waits.map(|trigger| awaited(trigger, self.kind)).collect();
        let work = Work::new(0, name, what, because).waiting_for(waits);
        Some(known.with(work.fact("beingCreated", content.being_created)))
    }

    fn object(&self, name: &Text, _informers: Informed<'_>) -> Object {
        Object::of(of(self.kind), name)
    }

    fn fork(&self, name: &Text, _informers: Informed<'_>) -> Self {
        Self {
            kind: self.kind,
            in_flight: self.in_flight.about(name),
            settings: self.settings.clone(),
        }
    }

    fn text(retry: &Retry) -> String {
        match retry {
            Retry::NotReady => "the driver has the snapshot, and it is not ready".to_owned(),
            Retry::Awaits => {
                "the snapshot-controller has not written the status of the group's member"
                    .to_owned()
            }
            Retry::Failed(failure) => failure.to_string(),
        }
    }
}

/// The work on a content, and why; `None` if nothing is due.
fn work(content: &Content) -> Option<(&'static str, &'static str)> {
    Some(match goal(content) {
        Goal::Nothing => return None,
        Goal::Create => ("create", "has no snapshot that is ready"),
        Goal::Check => ("check", "names a snapshot that is to be looked up"),
        Goal::Await => (
            "await",
            "is a group's member, and the snapshot-controller has not written its status",
        ),
        Goal::Unmark => (
            "unmark",
            "is ready, and still has the mark of being created",
        ),
        Goal::Delete => ("delete", "being deleted"),
    })
}

fn awaited(trigger: &RequeueTrigger, kind: Kind) -> Object {
    match (trigger, kind) {
        (RequeueTrigger::Class(name), Kind::Single) => Object::of(Of::SnapshotClass, name),
        (RequeueTrigger::Class(name), Kind::Group) => Object::of(Of::GroupSnapshotClass, name),
        (RequeueTrigger::Driver, _) => Object::any(Of::Driver),
    }
}

#[cfg(test)]
mod tests;
