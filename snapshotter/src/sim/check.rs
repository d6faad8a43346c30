//! The checks at each step: calls, patches, and the state of storage.

use super::mutant::Mutant;
use super::users::{members, secret};
use super::world::{Faults, World};
use crate::model::{Content, Kind, Policy, Source, Text};
use crate::plan::request::{Announcement, Call, Secrets, Write};
use crate::testing::DRIVER;
use sidecar_testkit::sim::storage::plain;

/// Most requests for a content in a row, over several attempts.
const EFFORT: u32 = 60;

impl World {
    /// Counts a request to the API server or the driver.
    pub(super) fn count_effort(&mut self, name: &Text) {
        let truth = self.truth(name);
        truth.effort += 1;
        if truth.effort > EFFORT {
            self.complain(format!("{EFFORT} requests at once for {name}"));
        }
    }

    fn known(&self, name: &Text) -> Option<Content> {
        let known = self.process.known.contents.get(name).cloned();
        known.map(|known| Content::clone(&known))
    }

    /// Before a call the content carries the mark and cannot be removed.
    pub(super) fn check_create(&mut self, name: &Text, (wanted, secrets): (&str, &Secrets)) {
        let found = self.server.contents.get(name).cloned();
        let Some((_, content)) = found else {
            return self.complain(format!("a snapshot for {name}, which is gone"));
        };
        if content.handle().is_none() && !content.being_created {
            self.complain(format!("not marked before the call: {content:?}"));
        }
        let protected = content.is_protected() || content.handle().is_some();
        if !protected && !content.deleting {
            self.complain(format!("not protected before the call: {content:?}"));
        }
        self.check_secret(
            name,
            content.secret.is_some(),
            secrets.get("u").map(|u| &**u),
        );
        if wanted != format!("snapshot-{}", content.snapshot.uid) {
            self.complain(format!("another name, {wanted}: {content:?}"));
        }
        self.check_driver(&content);
        let now = self.process.attempts.now.instant;
        let truth = self.truth(name);
        truth.calls.0 += 1;
        let soon = |since| now < since + std::time::Duration::from_secs(30);
        if truth.impossible.is_some_and(soon) {
            self.complain(format!("{name} is asked for too soon"));
        }
        let told = content.being_deleted && content.policy == Policy::Retain;
        let known = self.known(name).is_some_and(|known| known == content);
        if told && known && !content.being_created {
            self.complain(format!("nobody wants {name} to become ready"));
        }
    }

    /// Whether, as far as the process knows, nobody wants the snapshot to become ready.
    pub(super) fn is_unwanted(&self, name: &Text) -> bool {
        let told = |known: Content| known.being_deleted && known.policy == Policy::Retain;
        self.known(name).is_some_and(told)
    }

    fn check_driver(&mut self, content: &Content) {
        if *content.driver != *DRIVER {
            self.complain(format!(
                "a call for a content of another driver: {content:?}"
            ));
        }
    }

    /// A call carries the Secret named by the content.
    fn check_secret(&mut self, name: &Text, named: bool, value: Option<&str>) {
        if named && value != Some("s") {
            self.complain(format!("a call without its Secret {:?}: {name}", secret()));
        }
    }

    pub(super) fn check_list(&mut self, name: &Text, call: &Call) {
        let secrets = if let Call::List(call) = call {
            &call.secrets
        } else if let Call::GetGroup(call) = call {
            &call.secrets
        } else {
            return;
        };
        let Some(content) = self.known(name) else {
            return;
        };
        self.check_driver(&content);
        let class = content.class.as_ref();
        let class = class.and_then(|class| self.process.known.classes.get(class).cloned());
        let names = class.is_some_and(|class| !class.parameters.is_empty());
        let second = content.class.as_deref() == Some("c2");
        if names && second && secrets.get("u").map(|u| &**u) != Some("l") {
            self.complain(format!("a call without the Secret of its class: {name}"));
        }
    }

    /// The driver is asked only for deletions that are permitted.
    pub(super) fn check_delete(&mut self, name: &Text, (asked, secrets): (&str, &Secrets)) {
        // A content held by others only may have been removed since the call was sent.
        let found = self.server.contents.get(name).cloned();
        let found = found
            .map(|(_, content)| content)
            .or_else(|| self.known(name));
        let Some(content) = found else {
            return self.complain(format!("a deletion for {name}, which is gone"));
        };
        self.check_driver(&content);
        self.check_secret(
            name,
            content.secret.is_some(),
            secrets.get("u").map(|u| &**u),
        );
        let wished = content.wished();
        let (found, wished) = (wished.is_some(), wished.map(|handle| &**handle));
        let unbound = found && content.snapshot.uid.is_empty();
        if !content.deleting || !(content.being_deleted || unbound) {
            self.complain(format!("a deletion that nobody asked for: {content:?}"));
        }
        if content.being_created && !found {
            self.complain(format!("a deletion while a call is in doubt: {content:?}"));
        }
        let kept = self
            .known(name)
            .is_some_and(|known| known.policy == Policy::Retain);
        if kept {
            self.complain(format!("a deletion of what is retained: {content:?}"));
        }
        // The status may have the driver's spelling, which the process has not seen yet.
        let known = self.known(name);
        let unseen = known.is_none_or(|known| known.handle().is_none());
        let handle = { content.handle() }.map(|handle| &**handle);
        let named = handle.or(wished) == Some(asked) || unseen && wished == Some(asked);
        if !named && !self.repeats_deletion(name, asked) {
            self.complain(format!("a deletion of {asked}: {content:?}"));
        }
    }

    /// A group is deleted together with its members.
    pub(super) fn check_members(&mut self, group: &str, named: &[String]) {
        if *named != members(plain(group)) {
            self.complain(format!("{group} is deleted without its members: {named:?}"));
        }
    }

    /// A group's members are recorded with its handle, and never change.
    fn check_list_of_members(&mut self, before: &Content, after: &Content) {
        let of = |content: &Content| {
            let status = content.status.clone().unwrap_or_default();
            let ready = status.members.iter().map(|member| {
                let ready = member.ready == Some(true);
                (member.handle.to_string(), ready)
            });
            ready.collect::<Vec<_>>()
        };
        let (before, after_list) = (of(before), of(after));
        let kept = before
            .iter()
            .zip(&after_list)
            .all(|(before, after)| before.0 == after.0 && (after.1 || !before.1));
        if before.len() > after_list.len() || !kept {
            self.complain(format!("another member than {before:?}: {after:?}"));
        }
        let taken = matches!(after.source, Some(Source::Volumes(_)));
        if let Some(handle) = after.handle().filter(|_| taken) {
            let handles: Vec<&String> = after_list.iter().map(|(handle, _)| handle).collect();
            if handles != members(plain(handle)).iter().collect::<Vec<_>>() {
                self.complain(format!("{handle} without its members: {after:?}"));
            }
        }
    }

    /// Whether a process repeats a finished deletion without being able to know: a process before it cleared
    /// the status, or it has not learnt that its patch was applied.
    fn repeats_deletion(&self, name: &Text, asked: &str) -> bool {
        let cleared = self.cleared.get(name);
        let believed = self.known(name);
        let believed = believed.as_ref().and_then(Content::handle);
        self.faults != Faults::None
            && cleared.is_some_and(|cleared| **cleared == *asked)
            && believed == cleared
            && self.driver.get(asked).is_none()
    }

    /// Checks the effect of a patch.
    pub(super) fn check_patch(
        &mut self,
        name: &Text,
        (before, after): (&Content, &Content),
        write: &Write,
    ) {
        if let (Some(then), None) = (before.handle(), after.handle()) {
            self.cleared.insert(name.clone(), then.clone());
        }
        if let Some(idle) = self.server.idle.pop()
            && !matches!(self.mutant, Mutant::TakesNothingOver | Mutant::ForgetsMark)
        {
            self.complain(format!("a patch that changes nothing: {idle}"));
        }
        if *before.driver != *DRIVER {
            self.complain(format!(
                "a patch of a content of another driver: {before:?}"
            ));
        }
        if self.kind == Kind::Group {
            self.check_list_of_members(before, after);
        }
        let ours = |held: &Text| **held == *before.kind().finalizer();
        let mut others = before.finalizers.iter().filter(|held| !ours(held));
        if let Some(lost) = others.find(|held| !after.finalizers.contains(held)) {
            self.complain(format!("{lost} is lost: {:?}", write.body));
        }
        match (before.handle(), after.handle()) {
            (Some(then), Some(now)) if then != now => {
                self.complain(format!("another handle than {then}: {after:?}"));
            }
            (Some(then), None) if self.driver.get(then).is_some() => {
                self.complain(format!("cleared before it was deleted: {before:?}"));
            }
            (None, Some(now)) if self.driver.get(now).is_none() && !after.deleting => {
                self.complain(format!("an unknown handle: {after:?}"));
            }
            (None | Some(_), None | Some(_)) => {}
        }
        let Some(handle) = after.handle() else {
            return;
        };
        let place = after.topology.as_ref();
        let placed = place.is_some_and(|place| place.accessible.is_some());
        if self.kind == Kind::Single && before.handle().is_none() && !placed {
            self.complain(format!("{handle} without its topology: {after:?}"));
        }
        let Some(snapshot) = self.driver.get(handle).cloned() else {
            // The report of a lookup may still be under way while the deletion is executed, which does not change the
            // content before: its version still fits. The handle is then deleted and cleared once more. A requested
            // snapshot loses its mark between the two.
            let found = after.wished().is_some();
            let reported_late = after.deleting && found;
            if after.is_ready() && !before.is_ready() && !reported_late {
                self.complain(format!("called ready, and gone: {after:?}"));
            }
            return;
        };
        let size = after.status.as_ref().and_then(|status| status.size);
        let status = after.status.iter();
        let mut members = status.flat_map(|status| &*status.members);
        let other = members.any(|member| member.size.is_some_and(|size| size != snapshot.size));
        if size.is_some_and(|size| size != snapshot.size) || other {
            self.complain(format!("another size than the driver's: {after:?}"));
        }
        if after.is_ready() && !before.is_ready() && snapshot.unready > 0 {
            self.complain(format!("called ready too early: {after:?}"));
        }
    }

    /// After a patch, which may have removed the content.
    pub(super) fn check_gone(&mut self, name: &Text, last: &Content) {
        if self.server.contents.contains_key(name) {
            return;
        }
        self.keep(last);
        let wished = last.wished();
        let left = wished.is_some_and(|handle| self.driver.get(handle).is_some());
        let ours = !last.snapshot.uid.is_empty() || self.truth(name).found;
        if left && ours && last.policy == Policy::Delete && *last.driver == *DRIVER {
            self.complain(format!("its snapshot is left behind: {last:?}"));
        }
    }

    /// After a change by others, which may have removed the content.
    pub(super) fn check_vanished(&mut self, name: &Text) {
        if self.server.contents.contains_key(name) {
            return;
        }
        let last = self
            .server
            .log
            .iter()
            .rev()
            .find_map(|(_, event)| match event {
                crate::testing::Event::Content(of, Some(content)) if of == name => {
                    Some(content.clone())
                }
                crate::testing::Event::Content(..) | crate::testing::Event::Class(..) => None,
            });
        if let Some(last) = last {
            self.keep(&last);
        }
    }

    /// Records a snapshot that its policy keeps.
    fn keep(&mut self, last: &Content) {
        if last.policy == Policy::Retain {
            let name = format!("snapshot-{}", last.snapshot.uid);
            self.kept.insert(name.into());
        }
    }

    /// Storage neither has nor can get a snapshot that nobody would delete.
    pub(super) fn check_storage(&mut self) {
        let mut wrong = None;
        for (name, count) in &self.driver.made {
            if *count > 1 && !self.forgotten.contains(name) {
                wrong = Some(format!("two snapshots of {name}"));
            }
        }
        for number in 1..=self.born {
            let name = format!("snapshot-U{number}");
            let known = self.kept.contains(&*name) || self.forgotten.contains(&name);
            if !self.driver.may_have(&name) || known {
                continue;
            }
            let content = self.server.contents.get(&*format!("snapcontent-U{number}"));
            let known = content.is_some_and(|(_, content)| {
                let handle = self.driver.named(&name);
                content.being_created || (handle.is_some() && content.handle() == handle)
            });
            if !known {
                wrong = Some(format!("{name} is nobody's: {content:?}"));
            }
        }
        if let Some(wrong) = wrong {
            self.complain(wrong);
        }
    }

    /// Events report failures, never conflicts that only this process noticed.
    pub(super) fn check_event(&mut self, name: &Text, event: &Announcement) {
        let conflict = event.message.contains("changed since it was read");
        if self.faults == Faults::None && event.reason.ends_with("SnapshotDeleteError") || conflict
        {
            self.complain(format!("{name} is told: {event:?}"));
        }
    }
}
