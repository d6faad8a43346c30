//! What `--why-endpoint` says about a claim: its expansion and its modification.

use sidecar::controller::reactor::Now;
use sidecar::why::Kind as Of;
use sidecar::why::{Explained, Explanation, Object, Work};

use super::{Informed, Resizer};
use crate::model::{ClaimDetail, Text};
use crate::plan::outcome::{Failure, RequeueTrigger};
use crate::plan::{Kind, Task};

impl Explained for Resizer {
    fn explain(
        &self,
        object: &Object,
        informers: Informed<'_>,
        now: Now,
    ) -> Option<Explanation<Task>> {
        if object.kind != Of::Claim {
            return None;
        }
        let key = Text::from(object.key().as_str());
        let Some(claim) = informers.claim(&key) else {
            return Some(Explanation::unknown());
        };
        let uid = claim.uid().to_string();
        let Some(detail) = claim.detail() else {
            return Some(Explanation::known(&uid, None));
        };
        let driver = informers.driver();
        let volume = informers.volume(&detail.volume);
        let other = volume.filter(|(volume, _)| !volume.is_served_by(&driver.name));
        let rule = other.map(|(volume, _)| {
            let of = volume.driver().unwrap_or("no CSI driver").to_owned();
            format!(
                "PersistentVolume {} is one of {of}, not of {}",
                detail.volume, driver.name
            )
        });
        if rule.is_some() {
            return Some(Explanation::known(&uid, rule));
        }
        let works = Kind::ALL.into_iter().filter_map(|kind| {
            let because = because(kind, detail)?;
            Some(self.work(Task::new(kind, &key), because, now))
        });
        Some(works.fold(Explanation::known(&uid, None), Explanation::with))
    }

    fn object(&self, task: &Task, _informers: Informed<'_>) -> Object {
        Object::of(Of::Claim, &task.claim)
    }

    fn fork(&self, task: &Task, _informers: Informed<'_>) -> Self {
        Self {
            in_flight: self.in_flight.about(&task.claim),
            gates: self.gates.clone(),
            settings: self.settings.clone(),
        }
    }

    fn text(failure: &Failure) -> String {
        failure.to_string()
    }
}

/// Why there is work of this kind; `None` if there is none.
fn because(kind: Kind, claim: &ClaimDetail) -> Option<&'static str> {
    match kind {
        Kind::Expand => claim
            .wants_growth()
            .then_some("requests more than its capacity"),
        Kind::Modify => claim
            .wants_change()
            .then_some("names another VolumeAttributesClass than its volume has"),
    }
}

impl Resizer {
    fn work(&self, task: Task, because: &str, now: Now) -> Work<Task> {
        let waits: Vec<_> = self.in_flight.awaited(&task).iter().map(awaited).collect();
        let later = self.in_flight.refused_for(&task, now.instant);
        let in_use = self.in_flight.in_use(&task.claim);
        let awaits_lists = self.gates.is_closed(task.kind);
        let what = task.kind.name();
        Work {
            later,
            awaits_lists,
            ..Work::new(0, task, what, because)
        }
        .waiting_for(waits)
        .fact("inUse", in_use)
    }
}

fn awaited(trigger: &RequeueTrigger) -> Object {
    match trigger {
        RequeueTrigger::Volume(name) => Object::of(Of::Volume, name),
        RequeueTrigger::Class(name) => Object::of(Of::AttributesClass, name),
        RequeueTrigger::Driver => Object::any(Of::Driver),
    }
}

#[cfg(test)]
mod tests;
