//! What the process remembers beyond its caches. A crash loses it, and nothing with it.
//!
//! Separate and free of locks and clocks, so that the crash simulation keeps exactly these books:
//! which attempts run and on what, what must be read again, who waits for whom.

use std::collections::{HashMap, HashSet};

use super::flight::{Flights, Target};
use super::outcome::{Cure, Failure};
use crate::model::{Attachment, Text};

/// Who waits for the end of a volume's patch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Waiter {
    /// An attempt on this attachment.
    Attachment(Text),
    /// The release of this volume.
    Volume(Text),
}

/// What an attempt begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The driver's list contradicts the status.
    pub forced: bool,
    /// The attachment must be read from the API server first.
    pub doubtful: bool,
}

/// The books of one process.
#[derive(Debug, Default)]
pub struct Memory {
    /// Names of the known attachments, of whatever driver, by the volume they name.
    named: HashMap<Text, HashSet<Text>>,
    /// Attachments that are being worked on, with the volume they name.
    working: HashMap<Text, Option<Text>>,
    /// Attachments whose last write may or may not have been applied, with the volume they name.
    doubtful: HashMap<Text, Option<Text>>,
    cures: HashMap<Cure, HashSet<Text>>,
    forced: HashSet<Text>,
    /// Attachments worked on since the comparison with the driver's list began, if one runs.
    touched: Option<HashSet<Text>>,
    /// Calls, with the attachments that wait for their end.
    pub calls: Flights<Target, Text>,
    /// Patches of volumes. One at a time: the next one then sees what this one did.
    pub patches: Flights<Text, Waiter>,
}

impl Memory {
    /// The cache has `new` now, in place of `old`.
    pub fn upserted(&mut self, old: Option<&Attachment>, new: &Attachment) {
        let before = old.and_then(|old| old.volume.as_ref());
        if before == new.volume.as_ref() && old.is_some() {
            return;
        }
        if let Some(volume) = before {
            self.unname(volume, &new.name);
        }
        if let Some(volume) = &new.volume {
            let names = self.named.entry(volume.clone()).or_default();
            names.insert(new.name.clone());
        }
    }

    /// The cache has `old` no longer.
    pub fn deleted(&mut self, old: &Attachment) {
        if let Some(volume) = &old.volume {
            self.unname(volume, &old.name);
        }
        self.forced.remove(&old.name);
        self.cures.retain(|_, names| {
            names.remove(&old.name);
            !names.is_empty()
        });
    }

    fn unname(&mut self, volume: &Text, name: &Text) {
        if let Some(names) = self.named.get_mut(volume) {
            names.remove(name);
            if names.is_empty() {
                self.named.remove(volume);
            }
        }
    }

    /// Whether anything needs the volume: an attachment names it, is being worked on and did, or
    /// may do so for all that is known. A patch goes by name and may have reached an object made
    /// anew; until the answer says so, the volume must stay.
    #[must_use]
    pub fn uses(&self, volume: &Text) -> bool {
        let same = |held: &Option<Text>| held.as_ref() == Some(volume);
        self.named.contains_key(volume)
            || self.working.values().any(same)
            || self.doubtful.values().any(same)
    }

    /// An attempt on the attachment begins. The force flag is consumed, whatever comes of it.
    pub fn begin(&mut self, name: &Text) -> Start {
        if let Some(touched) = &mut self.touched {
            touched.insert(name.clone());
        }
        let doubt = self.doubtful.remove(name);
        let start = Start {
            forced: self.forced.remove(name),
            doubtful: doubt.is_some(),
        };
        self.working.insert(name.clone(), doubt.flatten());
        start
    }

    /// The attempt is about an attachment that names `volume`.
    pub fn works_on(&mut self, name: &Text, volume: Option<&Text>) {
        self.working.insert(name.clone(), volume.cloned());
    }

    /// The attempt failed: remembers what must be read again and what would cure it. To be told
    /// before [`end`](Self::end).
    pub fn failed(&mut self, name: &Text, failure: &Failure) {
        if failure.leaves_doubt() {
            let volume = self.working.get(name).cloned().flatten();
            self.doubtful.insert(name.clone(), volume);
        }
        if let Some(cure) = failure.cure() {
            let names = self.cures.entry(cure).or_default();
            names.insert(name.clone());
        }
    }

    /// The attempt ended. Returns the volume it named, whose finalizer may be due now.
    pub fn end(&mut self, name: &Text) -> Option<Text> {
        self.working.remove(name).flatten()
    }

    /// What was missing has appeared: these attachments need not wait for their retry.
    #[must_use]
    pub fn cured(&mut self, cure: &Cure) -> HashSet<Text> {
        self.cures.remove(cure).unwrap_or_default()
    }

    /// The next attempt is to be made whatever the status says.
    pub fn force(&mut self, name: Text) {
        self.forced.insert(name);
    }

    /// A comparison with the driver's list begins.
    pub fn begin_comparison(&mut self) {
        self.touched = Some(self.working.keys().cloned().collect());
    }

    /// The comparison is over. Returns the attachments that were worked on meanwhile, about which it
    /// says nothing.
    #[must_use]
    pub fn end_comparison(&mut self) -> HashSet<Text> {
        self.touched.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::outcome::ApiError;
    use crate::testing::va;

    fn lost() -> Failure {
        Failure::Prepare(ApiError {
            message: "no answer".into(),
            not_found: false,
            unknown: true,
        })
    }

    #[test]
    fn a_volume_is_used_while_anything_may_name_it() {
        let (mut memory, pv) = (Memory::default(), Text::from("pv1"));
        let name = va().name;
        assert!(!memory.uses(&pv));
        memory.upserted(None, &va());
        memory.upserted(Some(&va()), &va());
        assert!(memory.uses(&pv));
        memory.begin(&name);
        memory.works_on(&name, Some(&pv));
        memory.deleted(&va());
        assert!(memory.uses(&pv), "the attempt goes on");
        memory.failed(&name, &lost());
        assert_eq!(memory.end(&name), Some(pv.clone()));
        assert!(memory.uses(&pv), "nobody knows what the last patch did");
        let start = memory.begin(&name);
        assert!(start.doubtful && memory.uses(&pv));
        memory.end(&name);
        assert!(!memory.uses(&pv));
        assert!(!memory.begin(&name).doubtful);
    }

    #[test]
    fn a_changed_source_moves_the_reference() {
        let mut memory = Memory::default();
        memory.upserted(None, &va());
        let other = Attachment {
            volume: Some("pv2".into()),
            ..va()
        };
        memory.upserted(Some(&va()), &other);
        assert!(!memory.uses(&"pv1".into()) && memory.uses(&"pv2".into()));
    }

    #[test]
    fn cures_are_handed_out_once_and_go_with_the_attachment() {
        let mut memory = Memory::default();
        let failure = Failure::NoCsiNode("node1".into());
        let cure = failure.cure().unwrap();
        memory.failed(&va().name, &failure);
        memory.failed(&va().name, &failure);
        assert_eq!(memory.cured(&cure), HashSet::from([va().name]));
        assert!(memory.cured(&cure).is_empty());
        memory.failed(&va().name, &failure);
        memory.deleted(&va());
        assert!(memory.cured(&cure).is_empty());
    }

    #[test]
    fn what_was_worked_on_during_a_comparison_is_left_out() {
        let mut memory = Memory::default();
        let name = |text: &str| Text::from(text);
        memory.begin(&name("before"));
        memory.begin(&name("over"));
        memory.end(&name("over"));
        memory.begin_comparison();
        memory.begin(&name("during"));
        memory.end(&name("during"));
        let touched = memory.end_comparison();
        assert_eq!(touched, HashSet::from([name("before"), name("during")]));
        memory.force(name("a"));
        assert!(memory.begin(&name("a")).forced);
        assert!(!memory.begin(&name("a")).forced, "once");
    }
}
