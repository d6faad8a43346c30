//! The end of a run: faults end, everything comes to rest; all VolumeSnapshots are deleted, and go.

use serde_json::Value;
use sidecar::snapshot::{CLAIM_AS_SOURCE, SNAPSHOT_AS_SOURCE};
use sidecar::text::Text;

use super::check::{holds, is_deleting, uid_of};
use super::controller::Controller;
use super::kind::Kind;
use super::process::Program;
use super::snapshotter::Snapshotter;
use super::window::Windows;
use super::world::World;

/// More than any run takes to come to rest.
const MOST: usize = 20_000;
/// Back-offs that pass in vain before what fails counts as failing for ever.
const RETRIES: usize = 40;

impl World {
    pub(super) fn rest(mut self) -> Result<Windows, String> {
        self.thaw();
        self.settling = true;
        self.mend();
        self.settle()?;
        self.check_rest()?;
        let all: Vec<Text> = self
            .server
            .all(Kind::Snapshot)
            .map(|(key, _)| key.clone())
            .collect();
        for key in all {
            self.delete(Kind::Snapshot, &key);
        }
        self.settle()?;
        self.check_end()?;
        Ok(self.windows)
    }

    /// Runs until nothing happens any more.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.retried = 0;
        for _ in 0..MOST {
            self.check();
            self.verdict()?;
            self.claims_that_are_wanted();
            let turn = self.dice.one_in(2);
            let busy = (self.controller.is_busy(), self.snapshotter.is_busy());
            let current = (
                self.controller.known.is_current(&self.server),
                self.snapshotter.known.is_current(&self.server),
            );
            if busy.0 && (turn || !busy.1) {
                self.work::<Controller>()
            } else if busy.1 {
                self.work::<Snapshotter>()
            } else if !current.0 && (turn || current.1) {
                self.deliver::<Controller>()
            } else if !current.1 {
                self.deliver::<Snapshotter>()
            } else if self.end_orphan() {
                // A driver comes to an end with everything.
            } else if !self.late.is_empty() || !self.soon.is_empty() {
                // Whatever has not arrived by now never will.
                self.late.clear();
                self.soon.clear();
            } else if self.waits() && self.retried < RETRIES {
                self.retried += 1;
                self.passes(400);
            } else {
                return Ok(());
            }
        }
        Err("does not come to rest".to_owned())
    }

    fn waits(&self) -> bool {
        !self.controller.later.is_empty() || !self.snapshotter.later.is_empty()
    }

    fn check_rest(&self) -> Result<(), String> {
        for (key, snapshot) in self.server.all(Kind::Snapshot) {
            if is_deleting(snapshot) {
                return Err(format!("{key} stays Terminating: {snapshot}"));
            }
            if snapshot["status"]["readyToUse"] != true && self.must_be_ready(snapshot) {
                return Err(format!("{key} is never ready: {snapshot}"));
            }
        }
        self.check_claims()?;
        if self.snapshotter.later.is_empty() {
            Ok(())
        } else {
            let later = &self.snapshotter.later;
            Err(format!("contents are tried again for ever: {later:?}"))
        }
    }

    fn must_be_ready(&self, snapshot: &Value) -> bool {
        let uid = snapshot["metadata"]["uid"].as_str().unwrap();
        if self.seen.robbed.contains(uid) {
            return false;
        }
        let source = &snapshot["spec"]["source"];
        if let Some(claim) = source["persistentVolumeClaimName"].as_str() {
            // Nothing is begun with a claim that is being deleted.
            let claim = self.server.get(Kind::Claim, &format!("ns/{claim}"));
            return claim.is_some_and(|claim| !is_deleting(claim));
        }
        let name = source["volumeSnapshotContentName"].as_str().unwrap();
        let content = self.server.get(Kind::Content, name);
        content.is_some_and(|content| uid_of(content) == uid)
    }

    fn check_claims(&self) -> Result<(), String> {
        for (key, claim) in self.server.all(Kind::Claim) {
            let used = self.server.all(Kind::Snapshot).any(|(_, snapshot)| {
                let name = snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str();
                name.is_some_and(|name| **key == format!("ns/{name}"))
                    && holds(snapshot, SNAPSHOT_AS_SOURCE)
                    && snapshot["status"]["readyToUse"] != true
            });
            if holds(claim, CLAIM_AS_SOURCE) && !used {
                return Err(format!("{key} is held for ever"));
            }
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        if let Some((key, snapshot)) = self.server.all(Kind::Snapshot).next() {
            return Err(format!("{key} stays Terminating: {snapshot}"));
        }
        self.check_claims()?;
        for (name, content) in self.server.all(Kind::Content) {
            if is_deleting(content) {
                return Err(format!("{name} stays Terminating: {content}"));
            }
            let kept = content["spec"]["deletionPolicy"] == "Retain";
            let reconsidered = self.seen.reconsidered.contains(name);
            if !kept && !reconsidered && !uid_of(content).is_empty() {
                return Err(format!("{name} is left behind: {content}"));
            }
        }
        let mut left = self.snapshotter.reactor.memory().not_empty();
        if !self.controller.reactor.memory().is_empty() {
            left.push(format!("{:?}", self.controller.reactor.memory()));
        }
        if !self.controller.reactor.operations().is_empty() {
            left.push(format!("{:?}", self.controller.reactor.operations()));
        }
        if self.waits() {
            let later = (&self.controller.later, &self.snapshotter.later);
            left.push(format!("{later:?}"));
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("left behind: {left:?}"))
        }
    }
}
