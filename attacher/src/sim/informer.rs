//! What a process makes of the changes that its caches tell: the handlers that ship, on queues that
//! are sets.

use sidecar::kube::cache::Source;
use sidecar::kube::cache::slots::Change;

use super::mutant::Mutant;
use super::process::Process;
use crate::model::{Attachment, CsiNode, Text, Volume};
use crate::plan::View;
use crate::plan::flight::Target;
use crate::plan::memory::{Ended, Item};
use crate::plan::orphan::{Orphan, Verdict};
use crate::plan::wake::{self, Due};

impl Process {
    pub(super) fn attachment_changed(&mut self, change: Change<Attachment>) {
        let due = match &change {
            Change::Upserted {
                old, new, source, ..
            } => {
                let (old, own) = (old.as_deref(), *source == Source::Own);
                wake::attachment_upserted(&mut self.memory, old, new, own, &self.driver)
            }
            Change::Deleted { old, .. } => {
                let due = wake::attachment_deleted(&mut self.memory, old, &self.driver);
                if self.mutant == Mutant::RemembersWhatIsGone {
                    self.memory.force(old.name.clone());
                }
                due
            }
        };
        self.look_after(due);
    }

    pub(super) fn volume_changed(&mut self, change: &Change<Volume>) {
        if let Change::Upserted { key, old, .. } = change {
            let name = Text::from(key.as_str());
            let due = wake::volume_upserted(&mut self.memory, &name, old.as_deref());
            self.look_after(due);
        }
    }

    pub(super) fn node_changed(&mut self, change: &Change<CsiNode>) {
        if let Change::Upserted { key, new, .. } = change {
            let name = Text::from(key.as_str());
            let due = wake::node_upserted(&mut self.memory, &name, new, &self.driver);
            self.look_after(due);
        }
    }

    fn look_after(&mut self, due: Due) {
        if let Some(lost) = due.lost {
            self.orphaned(&lost);
        }
        self.wake_all(due.items);
        for volume in due.volumes {
            self.look_at_volume(&volume);
        }
    }

    fn look_at_volume(&mut self, name: &Text) {
        if wake::is_release_due(self.volumes.get(name).map(|volume| &**volume), &self.driver) {
            self.ready_volumes.insert(name.clone());
        }
    }

    pub(super) fn wake_all(&mut self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            let known = match &item {
                Item::Attachment(name) => self.attachments.get(name).is_some(),
                Item::Orphan(target) => self.memory.orphan(target).is_some(),
            };
            if known {
                self.ready.insert(item);
            }
        }
    }

    pub(super) fn ended(&mut self, ended: Ended) {
        if let Some(lost) = ended.lost {
            self.orphaned(&lost);
        }
        if let Some(volume) = ended.volume {
            self.look_at_volume(&volume);
        }
    }

    fn orphaned(&mut self, lost: &Attachment) {
        let orphan = Orphan::of(&self.view(lost));
        if self.mutant == Mutant::ForgetsOrphans {
            return;
        }
        if let Ok(orphan) = orphan {
            let item = Item::Orphan(orphan.target.clone());
            self.memory.owe(orphan);
            self.wake_all([item]);
        }
    }

    pub(super) fn view<'a>(&'a self, attachment: &'a Attachment) -> View<'a> {
        let volume = attachment.volume.as_ref();
        let volume = volume.and_then(|name| self.volumes.get(name));
        View {
            driver: &self.driver,
            attachment,
            volume: volume.map(|volume| &**volume),
            node: self.nodes.get(&attachment.node).map(|node| &**node),
        }
    }

    /// What to do about an orphan now; `None` if there is none.
    pub(super) fn verdict(&self, target: &Target) -> Option<Verdict> {
        let orphan = self.memory.orphan(target)?;
        let all = self.attachments.slots.iter();
        let all = all.map(|(_, attachment)| self.view(attachment));
        let verdict = orphan.verdict(all);
        let heedless = self.mutant == Mutant::DetachesUnder;
        Some(if heedless {
            Verdict::Unpublish
        } else {
            verdict
        })
    }
}
