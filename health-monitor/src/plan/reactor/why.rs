//! What `--why-endpoint` says about a PersistentVolume, or about a claim and its volume.

use std::collections::HashSet;
use std::sync::Arc;

use sidecar::controller::reactor::Now;
use sidecar::part::only;
use sidecar::why::{Explained, Explanation, Kind, Object, Work};

use super::{Failed, HealthMonitor, Informed, Key, Lists, VOLUMES};
use crate::model::{Text, Uid, Volume};
use crate::plan::pace::Pace;

impl Explained for HealthMonitor {
    fn explain(
        &self,
        object: &Object,
        informers: Informed<'_>,
        _now: Now,
    ) -> Option<Explanation<Key>> {
        let volume = if object.kind == Kind::Volume {
            informers.volume(&object.name)
        } else if object.kind == Kind::Claim {
            self.volume_of(&object.key(), informers)
        } else {
            return None;
        };
        Some(match volume {
            Some(volume) => self.explain_volume(&volume),
            None => Explanation::unknown(),
        })
    }

    fn object(&self, key: &Key, _informers: Informed<'_>) -> Object {
        match key {
            Key::Cycle => Object::any(Kind::Nothing),
            // The handle may be an address: a PersistentVolume names it.
            Key::Volume(handle) => {
                let names = self.volumes.of(handle);
                let name = names.first().map(|name| &**name).unwrap_or_default();
                Object::of(Kind::Volume, name)
            }
        }
    }

    fn fork(&self, key: &Key, informers: Informed<'_>) -> Self {
        let Key::Volume(handle) = key else {
            return self.clone();
        };
        // There may be 50,000, and in an outage all of them fail.
        let volumes = self.volumes.about(handle);
        let known = volumes.of(handle).into_iter();
        let known: Vec<_> = known.filter_map(|name| informers.volume(&name)).collect();
        let one = |of: &HashSet<Text>| of.get(handle).cloned().into_iter().collect();
        let uids = || known.iter().map(|volume| &volume.uid);
        let earlier = |of: &HashSet<Uid>| uids().filter_map(|uid| of.get(uid).cloned()).collect();
        let others = known.iter().map(|volume| &volume.claim);
        Self {
            settings: self.settings,
            ready: self.ready,
            mode: self.mode,
            generation: self.generation,
            refuses: self.refuses,
            volumes,
            lists: Lists {
                incomplete: self.lists.incomplete,
                next: self.lists.next,
                without: only(self.lists.without.get_key_value(handle)),
            },
            pace: Pace::default(),
            asked: one(&self.asked),
            failing: only(self.failing.get_key_value(handle)),
            busy: HashSet::new(),
            reports: only(self.reports.get_key_value(handle)),
            unhealthy: only(self.unhealthy.get_key_value(handle)),
            field: self.field.without_waiting(),
            others: others
                .filter_map(|claim| self.others.get_key_value(claim))
                .map(|(claim, uid)| (claim.clone(), uid.clone()))
                .collect(),
            told: uids()
                .filter_map(|uid| self.told.get_key_value(uid))
                .map(|(uid, told)| (uid.clone(), told.clone()))
                .collect(),
            earlier: self.earlier.as_ref().map(earlier),
            named: self.named.clone(),
            surplus: one(&self.surplus),
        }
    }

    fn text(failed: &Failed) -> String {
        match failed {
            Failed::Unanswered(error) => error.to_string(),
            Failed::Unwritten(claim, error) => format!("claim {claim} cannot be written: {error}"),
        }
    }
}

impl HealthMonitor {
    /// The volume that is bound to the claim. Bound claims without conditions are not cached: their volumes name them.
    fn volume_of(&self, claim: &str, informers: Informed<'_>) -> Option<Arc<Volume>> {
        if let Some(claim) = informers.claim(claim) {
            return informers.volume(&claim.volume);
        }
        let volumes = self.volumes.names();
        let mut volumes = volumes.filter_map(|name| informers.volume(name));
        volumes.find(|volume| *volume.claim == *claim)
    }

    fn explain_volume(&self, volume: &Volume) -> Explanation<Key> {
        let handle: &Text = &volume.handle;
        let conditions: Vec<String> = { self.unhealthy.get(handle).into_iter() }
            .flat_map(|conditions| conditions.iter())
            .map(|condition| condition.pair().0.to_owned())
            .collect();
        let because = match conditions.is_empty() {
            true => "the driver reports no condition",
            false => "the driver reports conditions",
        };
        let work = Work::new(VOLUMES, Key::Volume(handle.clone()), "report", because);
        let work = work.fact("claim", &*volume.claim);
        Explanation::known("", None).with(work.fact("conditions", conditions))
    }
}

#[cfg(test)]
mod tests;
