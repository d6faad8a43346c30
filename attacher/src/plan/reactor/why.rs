//! What `--why-endpoint` says about a VolumeAttachment, or about a PersistentVolume and the finalizer on it.

use serde_json::Value;
use sidecar::controller::reactor::Now;
use sidecar::why::{Explained, Explanation, Kind, Object, Work};

use super::{ATTACHMENTS, Attacher, Failed, Informed, RELEASES};
use crate::model::{Attachment, Text, Volume};
use crate::plan::in_flight::Key;
use crate::plan::outcome::{Direction, RequeueTrigger};
use crate::plan::{Driver, volume};

impl Explained for Attacher {
    fn explain(
        &self,
        object: &Object,
        informers: Informed<'_>,
        _now: Now,
    ) -> Option<Explanation<Key>> {
        if object.kind == Kind::Volume {
            return Some(self.explain_volume(&object.name, informers));
        }
        if object.kind != Kind::Attachment {
            return None;
        }
        Some(match informers.attachment(&object.name) {
            Some(attachment) => self.explain_attachment(&attachment, informers),
            None => Explanation::unknown(),
        })
    }

    fn object(&self, key: &Key, _informers: Informed<'_>) -> Object {
        match key {
            Key::Attachment(name) => Object::of(Kind::Attachment, name),
            Key::Volume(name) => Object::of(Kind::Volume, name),
            // The handle may be an address: the VolumeAttachment that is gone names it.
            Key::Orphan(target) => match self.in_flight.orphan(target) {
                Some(orphan) => Object::of(Kind::Attachment, &orphan.attachment),
                None => Object::any(Kind::Attachment),
            },
        }
    }

    fn fork(&self, key: &Key, _informers: Informed<'_>) -> Self {
        Self {
            in_flight: self.in_flight.about(key),
            paces: self.paces,
        }
    }

    fn text(failure: &Failed) -> String {
        failure.failure.to_string()
    }
}

impl Attacher {
    fn explain_attachment(
        &self,
        attachment: &Attachment,
        informers: Informed<'_>,
    ) -> Explanation<Key> {
        let driver = informers.driver();
        if *attachment.attacher != *driver.name {
            let rule = format!(
                "spec.attacher is {}, not {}",
                attachment.attacher, driver.name
            );
            return Explanation::known(&attachment.uid, Some(rule));
        }
        let key = Key::Attachment(attachment.name.clone());
        let direction = Direction::of(attachment);
        let because = match direction {
            Direction::Detach if attachment.has_finalizer(&driver.finalizer) => {
                "being deleted, and the finalizer is ours"
            }
            Direction::Detach => "being deleted, and the finalizer is gone",
            Direction::Attach if attachment.attached => "attached",
            Direction::Attach => "wanted, and not attached",
        };
        let waits = self.in_flight.waits.awaited_by(&key).iter().map(awaited);
        let waits: Vec<_> = waits.collect();
        let work = Work::new(ATTACHMENTS, key, direction.name(), because);
        let work = work.waiting_for(waits).fact("node", &*attachment.node);
        Explanation::known(&attachment.uid, None).with(match &attachment.volume {
            Some(volume) => work.fact("volume", &**volume),
            None => work,
        })
    }

    /// A volume has work of its own only while its finalizer may be due.
    fn explain_volume(&self, name: &str, informers: Informed<'_>) -> Explanation<Key> {
        let name = Text::from(name);
        let named = self.in_flight.named.get(&name);
        let mut attachments: Vec<&Text> = named.into_iter().flatten().collect();
        attachments.sort_unstable();
        let Some(known) = informers.volume(&name) else {
            return Explanation::unknown();
        };
        let driver = informers.driver();
        let because = volume_because(&known, !attachments.is_empty(), &driver);
        let attachments: Vec<Value> = { attachments.iter().take(MOST) }
            .map(|name| Value::from(&***name))
            .collect();
        let work = Work::new(RELEASES, Key::Volume(name), "release", because);
        Explanation::known("", None).with(work.fact("attachments", attachments))
    }
}

/// Why the finalizer on a volume is due or stays.
fn volume_because(volume: &Volume, is_named: bool, driver: &Driver) -> &'static str {
    let held = volume.has_finalizer(&driver.finalizer);
    let due = volume::may_release(volume, driver);
    match (volume.deleting, held, due, is_named) {
        (true, false, ..) => "being deleted, and the finalizer is gone",
        (true, true, _, false) => "being deleted, and no VolumeAttachment names it",
        (true, true, _, true) => "being deleted, and VolumeAttachments name it",
        (false, true, true, false) => {
            "its plugin is not migrated to this driver any more, and no VolumeAttachment names it"
        }
        (false, true, true, true) => {
            "its plugin is not migrated to this driver any more, and VolumeAttachments name it"
        }
        (false, true, false, _) => "the finalizer stays while the volume is not being deleted",
        (false, false, ..) => "not being deleted, and without the finalizer",
    }
}

/// VolumeAttachments of a volume in an answer.
const MOST: usize = 20;

fn awaited(trigger: &RequeueTrigger) -> Object {
    match trigger {
        RequeueTrigger::CsiNode(name) => Object::of(Kind::CsiNode, name),
        RequeueTrigger::Volume(name) => Object::of(Kind::Volume, name),
        RequeueTrigger::Driver => Object::any(Kind::Driver),
    }
}

#[cfg(test)]
mod tests;
