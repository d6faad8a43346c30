//! The end of a run: faults end, everything comes to rest; all VolumeSnapshots are deleted, and go.

use serde_json::Value;
use sidecar::snapshot::{CLAIM_AS_SOURCE, SNAPSHOT_AS_SOURCE};
use sidecar_testkit::sim::rest::remembered;

use super::users::NAMES;
use super::world::{Faults, World};
use crate::plan::Informers as _;
use crate::plan::in_flight::InFlightState;
use crate::testing::objects::{class, default_class, labelled};
use crate::testing::server::{Kind, finalizers};

/// More than any run takes to come to rest.
const MOST: usize = 20_000;

impl World {
    pub(super) fn rest(mut self) -> Result<(), String> {
        self.settling = true;
        if !self.process.known.groups() {
            self.begins_anew(true);
        }
        if self.faults == Faults::None {
            // Even what is never mended holds nothing of others.
            self.settle()?;
            self.check_claims()?;
        }
        self.mend();
        self.settle()?;
        self.check_rest()?;
        self.restore_what_is_ready();
        for kind in [Kind::Snapshot, Kind::Group] {
            let all = self.server.all(kind).map(|(key, _)| key.clone());
            for key in all.collect::<Vec<_>>() {
                let _ = self.server.delete(kind, &key, None);
            }
        }
        self.settle()?;
        if let Some((key, _)) = self.server.all(Kind::Snapshot).next() {
            return Err(format!("{key} stays Terminating"));
        }
        // What was never restored is given up, and nothing has waited for that.
        for (name, namespace) in NAMES
            .into_iter()
            .flat_map(|name| [(name, "away"), (name, "ns")])
        {
            self.server
                .strip(Kind::Claim, &format!("{namespace}/r-{name}"));
        }
        self.settle()?;
        self.check_end()
    }

    /// What people had forgotten is there at last.
    fn mend(&mut self) {
        let held = [
            Kind::Snapshot,
            Kind::Content,
            Kind::Group,
            Kind::GroupContent,
        ];
        for kind in held {
            let held = self.server.all(kind).map(|(key, _)| key.clone());
            for key in held.collect::<Vec<_>>() {
                self.server.edit(kind, &key, |object| {
                    let mut left = finalizers(object);
                    left.retain(|one| !one.starts_with("x/"));
                    object["metadata"]["finalizers"] = left.into();
                });
            }
        }
        self.restore_what_is_ready();
        // Of two defaults nobody knows which is meant. One that somebody was given stays as a class; a
        // process that has not heard yet may still give it to somebody.
        let _ = self.server.delete(Kind::Class, "d2", None);
        self.add(Kind::Class, class("d2", "T"));
        for (name, object) in [("cx", class("cx", "T")), ("d1", default_class("d1", "T"))] {
            if self.server.get(Kind::Class, name).is_none() {
                self.add(Kind::Class, object);
            }
        }
    }

    /// Claims get their volumes, but for those that are to be restored from what cannot be. Nobody ever allows
    /// a restore into another namespace.
    fn restore_what_is_ready(&mut self) {
        let is_ready = |claim: &Value| {
            let Some(name) = claim["spec"]["dataSource"]["name"].as_str() else {
                return true;
            };
            let snapshot = self.server.get(Kind::Snapshot, &format!("ns/{name}"));
            snapshot.is_some_and(|snapshot| snapshot["status"]["readyToUse"] == true)
        };
        let claims = self.server.all(Kind::Claim);
        let claims = claims.filter(|(key, claim)| key.starts_with("ns/") && is_ready(claim));
        for key in claims.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.server.edit(Kind::Claim, &key, |claim| {
                claim["status"]["phase"] = "Bound".into()
            });
        }
    }

    /// Runs until nothing happens any more.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..MOST {
            self.verdict()?;
            self.claims_that_are_wanted();
            if !self.process.attempts.running.is_empty()
                || self.process.is_synced() && !self.process.attempts.startable().is_empty()
            {
                self.work();
            } else if !self.process.is_synced() || !self.process.is_current(&self.server) {
                self.deliver();
            } else if self.sidecar_works() {
                // Its events come next.
            } else if !self.late.is_empty() {
                // Whatever has not arrived by now never will.
                self.late.clear();
            } else if self.faults != Faults::None && self.has_failed() {
                self.spins = 0;
                self.process.attempts.retry_all();
                self.retried += 1;
            } else {
                return Ok(());
            }
        }
        Err("does not come to rest".to_owned())
    }

    /// Whether something is left to be tried again that has not been tried in vain time and again.
    fn has_failed(&self) -> bool {
        !self.process.attempts.later.is_empty() && self.retried < 40
    }

    /// A claim that somebody deleted comes again, for who waits for it.
    fn claims_that_are_wanted(&mut self) {
        for (name, volume) in [("p1", "pv1"), ("p2", "pv2")] {
            if self
                .server
                .get(Kind::Claim, &format!("ns/{name}"))
                .is_none()
            {
                self.add(Kind::Claim, labelled(name, volume, "").0);
            }
        }
    }

    fn check_rest(&self) -> Result<(), String> {
        for (key, snapshot) in self.server.all(Kind::Snapshot) {
            let uid = snapshot["metadata"]["uid"].as_str().unwrap();
            if self.is_held_by_group(snapshot) {
                continue;
            }
            if !snapshot["metadata"]["deletionTimestamp"].is_null() {
                return Err(format!("{key} stays Terminating"));
            }
            let of_claim = snapshot["spec"]["source"]["persistentVolumeClaimName"].is_string();
            let ready = snapshot["status"]["readyToUse"] == true;
            if of_claim && !ready && !self.robbed.contains(uid) && !self.waits_for_a_claim(snapshot)
            {
                return Err(format!("{key} is never ready: {snapshot}"));
            }
        }
        self.check_groups()?;
        self.check_claims()
    }

    fn check_claims(&self) -> Result<(), String> {
        for (key, claim) in self.server.all(Kind::Claim) {
            let held = finalizers(claim).iter().any(|one| one == CLAIM_AS_SOURCE);
            let used = self.server.all(Kind::Snapshot).any(|(_, snapshot)| {
                let name = snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str();
                let of = name.is_some_and(|name| **key == format!("ns/{name}"));
                let begun = finalizers(snapshot)
                    .iter()
                    .any(|one| one == SNAPSHOT_AS_SOURCE);
                let uid = snapshot["metadata"]["uid"].as_str().unwrap();
                let taken = !snapshot["status"]["creationTime"].is_null();
                let lost = taken && self.contents_of(uid).is_empty();
                of && begun && !lost && snapshot["status"]["readyToUse"] != true
            });
            if held && !used {
                return Err(format!("{key} is held for ever"));
            }
        }
        Ok(())
    }

    /// Its claim is being deleted, and nothing is begun with such.
    fn waits_for_a_claim(&self, snapshot: &Value) -> bool {
        let name = snapshot["spec"]["source"]["persistentVolumeClaimName"]
            .as_str()
            .unwrap();
        let claim = self.server.get(Kind::Claim, &format!("ns/{name}"));
        claim.is_none_or(|claim| !claim["metadata"]["deletionTimestamp"].is_null())
    }

    fn check_end(&self) -> Result<(), String> {
        self.check_end_of_groups()?;
        for (key, claim) in self.server.all(Kind::Claim) {
            if finalizers(claim).iter().any(|one| one == CLAIM_AS_SOURCE) {
                return Err(format!("{key} is held for ever"));
            }
        }
        for (name, content) in self.server.all(Kind::Content) {
            let uid = content["spec"]["volumeSnapshotRef"]["uid"]
                .as_str()
                .unwrap_or_default();
            let unbound = uid.is_empty();
            let kept = content["spec"]["deletionPolicy"] == "Retain";
            let deleting = !content["metadata"]["deletionTimestamp"].is_null();
            if self.stripped.contains(uid) || unbound {
                continue;
            }
            if deleting {
                return Err(format!("{name} stays Terminating"));
            }
            if !kept {
                return Err(format!("{name} is left behind"));
            }
        }
        let named = |uid: &String| !self.contents_of(uid).is_empty();
        let storage = &self.sidecar;
        let left = storage.storage.iter().find(|uid| {
            !named(uid)
                && !self.is_grouped(uid)
                && !storage.kept.contains(*uid)
                && !self.stripped.contains(*uid)
        });
        if let Some(uid) = left {
            return Err(format!("the snapshot of {uid} is left in storage"));
        }
        let told = self.faults == Faults::Strips;
        // What is kept in the end has its handles for ever.
        let kept = ["grouped", "groups", "doubtful"];
        let in_flight = self.process.attempts.reactor.in_flight();
        let left = remembered(in_flight, &InFlightState::default(), &kept);
        if !told && !left.is_empty() {
            return Err(format!("remembers {left:?}"));
        }
        if !self.process.attempts.reactor.operations().is_empty() {
            return Err(format!(
                "measures {:?}",
                self.process.attempts.reactor.operations()
            ));
        }
        if self.process.attempts.is_idle() {
            Ok(())
        } else {
            Err("works on nothing".to_owned())
        }
    }
}
