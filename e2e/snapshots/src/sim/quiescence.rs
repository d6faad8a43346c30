//! The end of a run: faults end, everything comes to rest; all VolumeSnapshots are deleted and disappear.

use serde_json::Value;
use sidecar::snapshot::{CLAIM_AS_SOURCE, SNAPSHOT_AS_SOURCE};
use sidecar::text::Text;
use sidecar_testkit::sim::rest::remembered;

use super::check::{CONTENTS, holds, is_deleting, uid_of};
use super::controller::Controller;
use super::groups::{is_member, owner_of};
use super::kind::Kind;
use super::process::Program;
use super::window::Windows;
use super::world::{Faults, World};

/// Most ticks that a run needs to come to rest.
const MOST: usize = 20_000;
/// Number of back-offs without success before a failure counts as permanent.
const RETRIES: usize = 40;
/// Number of wrong answers about groups that the driver still gives. Most groups are cut, polled and deleted only
/// now, since other failures held them up before.
const SLIPS: usize = 3;

impl World {
    pub(super) fn rest(mut self) -> Result<Windows, String> {
        self.thaw();
        self.settling = true;
        if !self.controller.known.serves_groups {
            self.crash_controller();
        }
        let none = self.faults == Faults::None;
        if none || self.faults == Faults::All && self.dice.one_in(8) {
            self.settle()?;
            if none {
                // Even a permanent failure holds no objects of others.
                self.check_claims()?;
            }
            self.check_beside()?;
        }
        self.mend();
        self.settle()?;
        self.check_rest()?;
        if self.grouped && self.dice.one_in(2) {
            // Earlier, few groups are ready.
            self.someone_frees_a_member();
            if self.dice.one_in(2) {
                self.settle()?;
            }
        }
        self.restore_what_is_ready();
        self.delete_what_nobody_knew();
        for kind in [Kind::Snapshot, Kind::Group] {
            let all = self.server.all(kind).map(|(key, _)| key.clone());
            for key in all.collect::<Vec<Text>>() {
                self.delete(kind, &key);
            }
        }
        self.settle()?;
        self.delete_what_is_lost();
        self.settle()?;
        self.check_gone()?;
        // Restores that never came about are abandoned; nothing has waited for them.
        let claims = self.server.all(Kind::Claim).map(|(key, _)| key.clone());
        let restored = claims.filter(|key| key.contains("/r-"));
        for key in restored.collect::<Vec<Text>>() {
            self.server.strip(Kind::Claim, &key);
        }
        self.settle()?;
        self.check_left()?;
        self.take_away_the_rest();
        self.settle()?;
        self.check_end()?;
        Ok(self.windows)
    }

    /// Removes all remaining contents by force: whatever is remembered afterwards is never forgotten.
    fn take_away_the_rest(&mut self) {
        for kind in CONTENTS {
            let all = self.server.all(kind);
            let all = all.map(|(name, content)| (name.clone(), content.clone()));
            for (name, content) in all.collect::<Vec<_>>() {
                self.outlives(&content);
                self.server.strip(kind, &name);
            }
        }
        self.look();
    }

    /// Deletes members by hand whose contents gave no sign that they are members.
    fn delete_what_nobody_knew(&mut self) {
        let all = self.server.all(Kind::Content);
        let held = all.filter(|(_, content)| self.is_held_by_driver(content));
        let handles = held.filter_map(|(_, one)| one["spec"]["source"]["snapshotHandle"].as_str());
        for handle in handles.map(Text::from).collect::<Vec<_>>() {
            self.groups.members.remove(&handle);
        }
    }

    /// Deletes contents of administrators whose snapshots are gone, by hand, and detached contents as
    /// the event advises: with the policy `Retain`.
    fn delete_what_is_lost(&mut self) {
        self.seen.by_hand = true;
        for name in self.seen.loose.clone() {
            self.seen.reconsidered.insert(name.clone());
            self.edit(Kind::Content, &name, |content| {
                content["spec"]["deletionPolicy"] = "Retain".into();
            });
        }
        let all = self.server.all(Kind::Content);
        let lost = all.filter(|(name, one)| self.is_lost(one) || self.seen.loose.contains(*name));
        let lost: Vec<Text> = lost.map(|(name, _)| name.clone()).collect();
        lost.iter()
            .for_each(|name| self.delete(Kind::Content, name));
        self.seen.by_hand = false;
    }

    /// Runs until nothing happens any more.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.retried = 0;
        self.slips = if self.faults == Faults::All { SLIPS } else { 0 };
        for _ in 0..MOST {
            self.check();
            self.verdict()?;
            self.claims_that_are_wanted();
            let turn = self.dice.one_in(2);
            let busy = (self.controller.is_busy(), self.snapshotter.is_busy());
            let current = (
                self.controller.known.news(&self.server).is_empty(),
                self.snapshotter.is_current(&self.server),
            );
            if busy.0 && (turn || !busy.1) {
                self.work::<Controller>()
            } else if busy.1 {
                self.work_snapshotter()
            } else if !current.0 && (turn || current.1) {
                self.deliver::<Controller>()
            } else if !current.1 {
                self.deliver_to_snapshotter()
            } else if self.collect_garbage() || self.end_orphan() {
                // The driver ends all of its calls.
            } else if !self.late.is_empty() || !self.soon.is_empty() {
                // Requests that have not arrived by now never will.
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
        !self.controller.attempts.later.is_empty() || !self.snapshotter.later().is_empty()
    }

    fn check_rest(&self) -> Result<(), String> {
        for (key, snapshot) in self.server.all(Kind::Snapshot) {
            if self.is_held_by_group(snapshot) && is_deleting(snapshot)
                || self
                    .content_of(snapshot)
                    .is_some_and(|one| self.is_held_by_driver(one))
            {
                continue;
            }
            if is_deleting(snapshot) {
                return Err(format!("{key} stays Terminating: {snapshot}"));
            }
            if snapshot["status"]["readyToUse"] != true && self.must_be_ready(snapshot) {
                return Err(format!("{key} is never ready: {snapshot}"));
            }
        }
        self.check_groups()?;
        self.check_claims()?;
        self.check_marks()?;
        self.check_calls()?;
        self.check_lost()?;
        let known = |name: &Text| {
            let content = self.server.get(Kind::Content, name)?;
            let waits = self.is_held_by_driver(content) || self.is_lost(content);
            let orphaned = self.seen.stripped.contains(uid_of(content));
            (waits || orphaned || self.forgot(content)).then_some(())
        };
        let later = self.snapshotter.later().into_iter();
        let mut later = later.filter(|name| known(name).is_none());
        later.next().map_or(Ok(()), |name| {
            let content = self.server.get(Kind::Content, name);
            Err(format!("{name} is tried again for ever: {content:?}"))
        })
    }

    /// The administrator's content for a VolumeSnapshot.
    fn content_of(&self, snapshot: &Value) -> Option<&Value> {
        let name = snapshot["spec"]["source"]["volumeSnapshotContentName"].as_str();
        self.server.get(Kind::Content, name?)
    }

    /// Whether the content stays Terminating because the driver refuses to delete a group's member alone.
    pub(super) fn is_held_by_driver(&self, content: &Value) -> bool {
        let handle = content["spec"]["source"]["snapshotHandle"].as_str();
        is_deleting(content) && handle.is_some_and(|one| self.groups.members.contains_key(one))
    }

    /// Whether a group's deletion took along an administrator's snapshot before anybody knew that it was a
    /// member: its content is retried as long as somebody wants it.
    pub(super) fn is_lost(&self, content: &Value) -> bool {
        let handle = content["spec"]["source"]["snapshotHandle"].as_str();
        handle.is_some_and(|handle| {
            let there = self.groups.members.contains_key(handle)
                || self.storage.snapshots.contains_key(handle);
            let mut grouped = self.groups.all.values().flatten();
            !there && grouped.any(|one| **one == *handle)
        })
    }

    fn must_be_ready(&self, snapshot: &Value) -> bool {
        let uid = snapshot["metadata"]["uid"].as_str().unwrap();
        let forgotten = self.seen.forgotten.contains(&*format!("snapshot-{uid}"));
        if self.seen.robbed.contains(uid) || forgotten {
            return false;
        }
        if owner_of(snapshot).is_some() {
            // Its group's check covers it.
            return false;
        }
        let source = &snapshot["spec"]["source"];
        if let Some(claim) = source["persistentVolumeClaimName"].as_str() {
            // No snapshot is begun of a claim that is being deleted.
            let claim = self.server.get(Kind::Claim, &format!("ns/{claim}"));
            return claim.is_some_and(|claim| !is_deleting(claim));
        }
        let name = source["volumeSnapshotContentName"].as_str().unwrap();
        let content = self.server.get(Kind::Content, name);
        content.is_some_and(|content| uid_of(content) == uid && !self.is_lost(content))
    }

    fn check_claims(&self) -> Result<(), String> {
        for (key, claim) in self.server.all(Kind::Claim) {
            let used = self.server.all(Kind::Snapshot).any(|(_, snapshot)| {
                let name = snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str();
                name.is_some_and(|name| **key == format!("ns/{name}"))
                    && holds(snapshot, SNAPSHOT_AS_SOURCE)
                    && snapshot["status"]["readyToUse"] != true
                    && !self.is_taken_and_lost(snapshot)
            });
            if holds(claim, CLAIM_AS_SOURCE) && !used {
                return Err(format!("{key} is held for ever"));
            }
        }
        Ok(())
    }

    /// Whether its snapshot was taken and its content is gone.
    fn is_taken_and_lost(&self, snapshot: &Value) -> bool {
        let uid = &snapshot["metadata"]["uid"];
        let mut contents = self.server.all(Kind::Content);
        !snapshot["status"]["creationTime"].is_null()
            && !contents.any(|(_, content)| *uid_of(content) == *uid)
    }

    fn check_gone(&self) -> Result<(), String> {
        match self.server.all(Kind::Snapshot).next() {
            Some((key, snapshot)) => Err(format!("{key} stays Terminating: {snapshot}")),
            None => self.check_end_of_groups(),
        }
    }

    fn check_left(&self) -> Result<(), String> {
        self.check_claims()?;
        let all = self.server.all(Kind::Content);
        // A VolumeSnapshot removed by force leaves no mark that its content must go.
        let all = all.filter(|(_, content)| !self.seen.stripped.contains(uid_of(content)));
        for (name, content) in all {
            if is_deleting(content) {
                return Err(format!("{name} stays Terminating: {content}"));
            }
            if is_member(content) && uid_of(content).is_empty() {
                return Err(format!("{name} is left behind: {content}"));
            }
            let kept = content["spec"]["deletionPolicy"] == "Retain";
            let reconsidered = self.seen.reconsidered.contains(name);
            if !kept && !reconsidered && !uid_of(content).is_empty() {
                return Err(format!("{name} is left behind: {content}"));
            }
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        let mut left = self.snapshotter.not_empty();
        let in_flight = &self.controller.attempts.reactor.in_flight;
        left.extend(remembered(in_flight, &Default::default(), &["doubtful"]));
        let operations = &self.controller.attempts.reactor.operations;
        if !operations.is_empty() {
            left.push(format!("{operations:?}"));
        }
        if self.waits() {
            let later = (&self.controller.attempts.later, self.snapshotter.later());
            left.push(format!("{later:?}"));
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("left behind: {left:?}"))
        }
    }
}
