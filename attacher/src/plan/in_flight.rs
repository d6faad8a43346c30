//! State of the process beyond its caches. A crash discards it without consequences.
//!
//! Free of locks and clocks, so that the crash simulation uses this same state: running attempts
//! and their volumes, objects to read again, and which key waits for which.

use std::collections::{BTreeSet, HashMap, HashSet};

use sidecar::part::only;
use sidecar::waits::Waits;

use super::Driver;
use super::flight::{KeyedGuards, Target};
use super::orphan::{self, Orphan};
use super::outcome::{Failure, RequeueTrigger};
use super::request::{Object, Reply, Request, Write};
use crate::model::{Attachment, Text};

/// A work item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The VolumeAttachment of this name.
    Attachment(Text),
    /// A volume that a deleted VolumeAttachment left published.
    Orphan(Target),
    /// The PersistentVolume of this name, whose finalizer may have to be removed.
    Volume(Text),
}

/// How an attempt starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// `ListVolumes` contradicts the status.
    pub forced: bool,
    /// The attempt must first read the attachment from the API server.
    pub doubtful: bool,
}

/// Follow-up work after an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Ended {
    /// The volume of the attachment, whose finalizer may now be removable.
    pub volume: Option<Text>,
    /// The attachment, if it was deleted during the attempt and left an [`Orphan`] to
    /// [`owe`](InFlightState::owe).
    pub lost: Option<Attachment>,
}

/// The in-flight state of one process.
#[derive(Clone, Debug, Default)]
pub struct InFlightState {
    /// Names of the cached attachments of all drivers, by the volume they reference.
    pub(crate) named: HashMap<Text, HashSet<Text>>,
    /// Attachments with a running attempt, with the volume they reference.
    pub(crate) working: HashMap<Text, Option<Text>>,
    /// Attachments whose last write may or may not have been applied, with the volume they
    /// reference.
    pub(crate) doubtful: HashMap<Text, Option<Text>>,
    /// Failed keys to requeue as soon as their trigger appears.
    pub(crate) waits: Waits<Key, RequeueTrigger>,
    forced: HashSet<Text>,
    /// Attachments whose volume this process has unpublished, as name and uid, until they are gone.
    unpublished: HashMap<Text, Text>,
    /// Attachments deleted during their attempt, as last seen.
    lost: HashMap<Text, Attachment>,
    /// Names of attachments deleted during their attempt.
    gone: HashSet<Text>,
    orphans: HashMap<Target, Orphan>,
    /// Attachments worked on since the running comparison with the driver's list began; `None`
    /// outside a comparison.
    touched: Option<HashSet<Text>>,
    /// Running calls, each with the keys that wait for its end.
    pub calls: KeyedGuards<Target, Key>,
    /// PersistentVolumes that attempts requested with GET and that the watch has not delivered
    /// since. The watch may deliver a volume before an attempt handles the reply "not found"; that
    /// attempt must not wait for an event that has already passed.
    asked: HashMap<Key, Text>,
    /// Running patches of volumes. Only one at a time, so that the next one sees its result.
    pub patches: KeyedGuards<Text, Key>,
}

impl InFlightState {
    /// What a decision about `key` looks at: in an outage 50,000 attachments fail, and their states are not copied.
    #[must_use]
    pub fn about(&self, key: &Key) -> Self {
        let mut about = Self {
            calls: self.calls.clone(),
            patches: self.patches.clone(),
            asked: only(self.asked.get_key_value(key)),
            ..Self::default()
        };
        match key {
            Key::Attachment(name) => {
                about.doubtful = only(self.doubtful.get_key_value(name));
                about.forced.extend(self.forced.get(name).cloned());
            }
            Key::Orphan(target) => about.orphans = only(self.orphans.get_key_value(target)),
            Key::Volume(volume) => {
                about.named = only(self.named.get_key_value(volume));
                about.working = of_volume(&self.working, volume);
                about.doubtful = of_volume(&self.doubtful, volume);
            }
        }
        about
    }

    /// The cache replaced `old` with `new`. Returns whether `old` left an [`Orphan`] to
    /// [`owe`](Self::owe).
    #[must_use]
    pub fn upserted(
        &mut self,
        old: Option<&Attachment>,
        new: &Attachment,
        driver: &Driver,
    ) -> bool {
        let before = old.and_then(|old| old.volume.as_ref());
        if before != new.volume.as_ref() || old.is_none() {
            if let Some(volume) = before {
                self.unname(volume, &new.name);
            }
            if let Some(volume) = &new.volume {
                let names = self.named.entry(volume.clone()).or_default();
                names.insert(new.name.clone());
            }
        }
        let Some(old) = old else {
            return false;
        };
        if old.uid != new.uid {
            return self.went(old, driver);
        }
        // Somebody else removed the finalizer, so the detach would be skipped.
        let held = |attachment: &Attachment| attachment.has_finalizer(&driver.finalizer);
        new.deleting
            && !held(new)
            && if held(old) {
                self.leaves(&deleting(old), driver)
            } else {
                self.leaves(old, driver)
            }
    }

    /// The cache dropped `old`. Returns whether it left an [`Orphan`] to [`owe`](Self::owe).
    #[must_use]
    pub fn deleted(&mut self, old: &Attachment, driver: &Driver) -> bool {
        if let Some(volume) = &old.volume {
            self.unname(volume, &old.name);
        }
        self.forced.remove(&old.name);
        if let Some(touched) = &mut self.touched {
            touched.insert(old.name.clone());
        }
        self.waits.forget(&Key::Attachment(old.name.clone()));
        self.went(old, driver)
    }

    fn went(&mut self, old: &Attachment, driver: &Driver) -> bool {
        let leaves = self.leaves(old, driver);
        self.unpublished.remove(&old.name);
        if self.working.contains_key(&old.name) {
            self.gone.insert(old.name.clone());
        }
        leaves
    }

    /// Whether `old` left an orphan. A running attempt may be unpublishing the volume; then the end
    /// of that attempt decides.
    fn leaves(&mut self, old: &Attachment, driver: &Driver) -> bool {
        if !orphan::leaves(old, driver) || self.unpublished.get(&old.name) == Some(&old.uid) {
            return false;
        }
        let working = self.working.contains_key(&old.name);
        if working {
            let lost = self.lost.entry(old.name.clone());
            lost.or_insert_with(|| old.clone());
        }
        !working
    }

    /// Whether this request may be sent now: one call at a time per volume and node, one patch at a
    /// time per volume. If not, the end of the blocking request returns `key`.
    #[must_use]
    pub fn may_send(&mut self, request: &Request, key: &Key) -> bool {
        match request {
            Request::Call(call) => self.calls.begin(&call.target(), key.clone()),
            Request::Write(Write {
                object: Object::Volume(name),
                ..
            }) => self.patches.begin(name, key.clone()),
            Request::Get(Object::Volume(name)) => {
                self.asked.insert(key.clone(), name.clone());
                true
            }
            Request::Write(_) | Request::Get(_) | Request::Secret(_) | Request::Event(_) => true,
        }
    }

    /// Whether the attempt on `key` requested the volume and the watch has not delivered it since.
    #[must_use]
    pub fn has_asked(&self, key: &Key, volume: &Text) -> bool {
        self.asked.get(key) == Some(volume)
    }

    /// The watch delivered the volume, whether the cache keeps it or not. Returns the keys that
    /// waited for it.
    #[must_use]
    pub fn volume_came(&mut self, volume: &Text) -> BTreeSet<Key> {
        self.asked.retain(|_, asked| asked != volume);
        self.triggered(&RequeueTrigger::Volume(volume.clone()))
    }

    /// A request ended. Returns the keys that waited for that.
    #[must_use]
    pub fn answered(&mut self, reply: &Reply) -> Vec<Key> {
        match reply {
            Reply::Call(called, _) => self.calls.end(&called.target()),
            Reply::Write(write, _) => match &write.object {
                Object::Volume(name) => self.patches.end(name),
                Object::Attachment(_) => Vec::new(),
            },
            Reply::Get(..) | Reply::Secret(..) | Reply::Event(_) => Vec::new(),
        }
    }

    /// The volume of `attachment` was unpublished.
    pub fn unpublished(&mut self, attachment: &Attachment, driver: &Driver) {
        if !attachment.deleting || !attachment.has_finalizer(&driver.finalizer) {
            return;
        }
        let (name, uid) = (&attachment.name, &attachment.uid);
        match self.lost.get(name) {
            Some(lost) if lost.uid == *uid => {
                self.lost.remove(name);
            }
            Some(_) | None => {
                self.unpublished.insert(name.clone(), uid.clone());
            }
        }
    }

    /// Records an orphan to unpublish.
    pub fn owe(&mut self, orphan: Orphan) {
        self.orphans.insert(orphan.target.clone(), orphan);
    }

    /// The orphan at `target`, if there is one.
    #[must_use]
    pub fn orphan(&self, target: &Target) -> Option<&Orphan> {
        self.orphans.get(target)
    }

    /// The orphan at `target` needs no more work.
    pub fn settled(&mut self, target: &Target) {
        self.orphans.remove(target);
        self.waits.forget(&Key::Orphan(target.clone()));
    }

    /// The orphans that a change of `attachment` may affect.
    #[must_use]
    pub fn orphans_beside(&self, attachment: &Attachment) -> Vec<Target> {
        let beside = |orphan: &&Orphan| orphan.node == attachment.node;
        let orphans = self.orphans.values().filter(beside);
        orphans.map(|orphan| orphan.target.clone()).collect()
    }

    fn unname(&mut self, volume: &Text, name: &Text) {
        if let Some(names) = self.named.get_mut(volume) {
            names.remove(name);
            if names.is_empty() {
                self.named.remove(volume);
            }
        }
    }

    /// Whether anything needs the volume: an attachment references it, an attempt started on one
    /// that did, or a write with unknown outcome may have. A patch goes by name and may have
    /// reached a recreated object, so the volume stays until the outcome is known.
    #[must_use]
    pub fn uses(&self, volume: &Text) -> bool {
        let same = |held: &Option<Text>| held.as_ref() == Some(volume);
        self.named.contains_key(volume)
            || self.working.values().any(same)
            || self.doubtful.values().any(same)
    }

    /// An attempt on the attachment begins. Consumes the force flag, whatever the attempt's
    /// outcome.
    pub fn begin(&mut self, name: &Text) -> Start {
        if let Some(touched) = &mut self.touched {
            touched.insert(name.clone());
        }
        self.waits.forget(&Key::Attachment(name.clone()));
        let doubt = self.doubtful.remove(name);
        let start = Start {
            forced: self.forced.remove(name),
            doubtful: doubt.is_some(),
        };
        self.working.insert(name.clone(), doubt.flatten());
        start
    }

    /// The attempt works on an attachment that references `volume`.
    pub fn works_on(&mut self, name: &Text, volume: Option<&Text>) {
        self.working.insert(name.clone(), volume.cloned());
    }

    /// The work on `key` failed: records whether to read the object again and which trigger
    /// requeues the key. Must be called before [`end`](Self::end).
    pub fn failed(&mut self, key: &Key, failure: &Failure) {
        if let Key::Attachment(name) = key
            && failure.needs_reread()
        {
            let volume = self.working.get(name).cloned().flatten();
            self.doubtful.insert(name.clone(), volume);
        }
        if let Some(trigger) = failure.trigger() {
            self.waits.wait(key, trigger);
        }
    }

    /// The attempt ended.
    pub fn end(&mut self, name: &Text) -> Ended {
        self.asked.remove(&Key::Attachment(name.clone()));
        if self.gone.remove(name) {
            // No later event would clear these: the attempt worked on an object that is gone.
            self.unpublished.remove(name);
            self.forced.remove(name);
        }
        Ended {
            volume: self.working.remove(name).flatten(),
            lost: self.lost.remove(name),
        }
    }

    /// Something that failed keys lacked has appeared. Returns these keys, which need not wait for
    /// their back-off.
    #[must_use]
    pub fn triggered(&mut self, trigger: &RequeueTrigger) -> BTreeSet<Key> {
        self.waits.triggered(trigger)
    }

    /// The next attempt ignores the status.
    pub fn force(&mut self, name: Text) {
        self.forced.insert(name);
    }

    /// A comparison with the driver's list begins.
    pub fn begin_comparison(&mut self) {
        self.touched = Some(self.working.keys().cloned().collect());
    }

    /// The comparison ended. Returns the attachments worked on or deleted meanwhile, for which its
    /// result is void.
    #[must_use]
    pub fn end_comparison(&mut self) -> HashSet<Text> {
        self.touched.take().unwrap_or_default()
    }
}

/// Those that reference the volume.
fn of_volume(
    attachments: &HashMap<Text, Option<Text>>,
    volume: &Text,
) -> HashMap<Text, Option<Text>> {
    let named = attachments.iter();
    let named = named.filter(|(_, named)| named.as_ref() == Some(volume));
    named.map(|(name, of)| (name.clone(), of.clone())).collect()
}

/// The same object, marked as being deleted.
fn deleting(attachment: &Attachment) -> Attachment {
    Attachment {
        deleting: true,
        ..attachment.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::outcome::{ApiError, Refusal};
    use crate::testing::{driver, va};

    fn lost() -> Failure {
        Failure::Prepare(ApiError {
            message: "no answer".into(),
            refusal: Refusal::Unknown,
        })
    }

    #[test]
    fn a_volume_is_used_while_anything_may_name_it() {
        let (mut in_flight, pv) = (InFlightState::default(), Text::from("pv1"));
        let name = va().name;
        assert!(!in_flight.uses(&pv));
        assert!(!in_flight.upserted(None, &va(), &driver()));
        assert!(!in_flight.upserted(Some(&va()), &va(), &driver()));
        assert!(in_flight.uses(&pv));
        in_flight.begin(&name);
        in_flight.works_on(&name, Some(&pv));
        assert!(!in_flight.deleted(&va(), &driver()));
        assert!(in_flight.uses(&pv), "the attempt goes on");
        in_flight.failed(&Key::Attachment(name.clone()), &lost());
        assert_eq!(in_flight.end(&name).volume, Some(pv.clone()));
        assert!(in_flight.uses(&pv), "nobody knows what the last patch did");
        let start = in_flight.begin(&name);
        assert!(start.doubtful && in_flight.uses(&pv));
        let _ = in_flight.end(&name);
        assert!(!in_flight.uses(&pv));
        assert!(!in_flight.begin(&name).doubtful);
    }

    #[test]
    fn a_changed_source_moves_the_reference() {
        let mut in_flight = InFlightState::default();
        assert!(!in_flight.upserted(None, &va(), &driver()));
        let other = Attachment {
            volume: Some("pv2".into()),
            ..va()
        };
        assert!(!in_flight.upserted(Some(&va()), &other, &driver()));
        assert!(!in_flight.uses(&"pv1".into()) && in_flight.uses(&"pv2".into()));
    }

    #[test]
    fn who_is_triggered_is_told_once_and_who_is_gone_never() {
        let mut in_flight = InFlightState::default();
        let failure = Failure::NoCsiNode("node1".into());
        let key = || Key::Attachment(va().name);
        let trigger = failure.trigger().unwrap();
        in_flight.failed(&key(), &failure);
        in_flight.failed(&key(), &failure);
        assert_eq!(in_flight.triggered(&trigger), BTreeSet::from([key()]));
        assert!(in_flight.triggered(&trigger).is_empty());
        in_flight.failed(&key(), &failure);
        assert!(!in_flight.deleted(&va(), &driver()));
        assert!(in_flight.triggered(&trigger).is_empty());
        assert!(in_flight.waits.is_empty());
    }

    #[test]
    fn fs_13_one_attachments_end_looks_at_its_own_waits() {
        let mut in_flight = InFlightState::default();
        let [one, other] = ["va1", "va2"].map(|name| Key::Attachment(name.into()));
        let failures = [
            Failure::NoCsiNode("node1".into()),
            Failure::NoVolume("pv1".into()),
        ];
        for failure in &failures {
            in_flight.failed(&one, failure);
            in_flight.failed(&other, failure);
        }
        assert!(!in_flight.deleted(&va(), &driver()));
        for failure in &failures {
            let triggered = in_flight.triggered(&failure.trigger().unwrap());
            assert_eq!(triggered, BTreeSet::from([other.clone()]));
        }
        assert!(in_flight.waits.is_empty());
        in_flight.failed(&one, &failures[0]);
        in_flight.begin(&va().name);
        assert!(in_flight.waits.is_empty(), "it is tried again");
    }

    #[test]
    fn what_was_worked_on_during_a_comparison_is_left_out() {
        let mut in_flight = InFlightState::default();
        let name = |text: &str| Text::from(text);
        in_flight.begin(&name("before"));
        in_flight.begin(&name("over"));
        let _ = in_flight.end(&name("over"));
        in_flight.begin_comparison();
        in_flight.begin(&name("during"));
        let _ = in_flight.end(&name("during"));
        let _ = in_flight.deleted(&va(), &driver());
        let touched = in_flight.end_comparison();
        let expected = [name("before"), name("during"), va().name];
        assert_eq!(touched, HashSet::from(expected));
        in_flight.force(name("a"));
        assert!(in_flight.begin(&name("a")).forced);
        assert!(!in_flight.begin(&name("a")).forced, "once");
    }

    #[test]
    fn what_went_during_an_attempt_is_not_forced_again() {
        let name = va().name;
        for gone in [false, true] {
            let mut in_flight = InFlightState::default();
            in_flight.begin(&name);
            if gone {
                let _ = in_flight.deleted(&va(), &driver());
            }
            // The attempt waits for another one, and was to start over regardless of the status.
            in_flight.force(name.clone());
            let _ = in_flight.end(&name);
            assert_eq!(in_flight.forced.contains(&name), !gone);
        }
    }
}
