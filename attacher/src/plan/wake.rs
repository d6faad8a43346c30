//! Who is looked at next: after a change that a cache tells, and after the end of an attempt.
//!
//! Separate from the shell, so that the crash simulation runs exactly these handlers.

use super::Driver;
use super::attachment::Attempt;
use super::memory::{Ended, Item, Memory};
use super::orphan;
use super::outcome::{Cure, Direction, Failure};
use super::{event, volume};
use crate::model::{Attachment, CsiNode, Text, Volume};

/// What a change calls for.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Due {
    /// To be looked at at once.
    pub items: Vec<Item>,
    /// Volumes whose finalizer may be due.
    pub volumes: Vec<Text>,
    /// An attachment that is gone and left an orphan, to be owed before anything else.
    pub lost: Option<Attachment>,
    /// An attachment is gone that cannot be, unless something was missed.
    pub unexplained: bool,
}

/// An attachment is new or has changed. `own`: known from the answer to an own write, which the
/// attempt that wrote it looks at.
pub fn attachment_upserted(
    memory: &mut Memory,
    old: Option<&Attachment>,
    new: &Attachment,
    own: bool,
    driver: &Driver,
) -> Due {
    let lost = memory.upserted(old, new, driver);
    let mut due = Due {
        lost: old.filter(|_| lost).cloned(),
        items: orphans_beside(memory, new),
        ..Due::default()
    };
    if !own && event::is_work(old, new, driver) {
        due.items.push(Item::Attachment(new.name.clone()));
    }
    due
}

/// An attachment is gone.
pub fn attachment_deleted(memory: &mut Memory, old: &Attachment, driver: &Driver) -> Due {
    let lost = memory.deleted(old, driver);
    Due {
        lost: Some(old).filter(|_| lost).cloned(),
        items: orphans_beside(memory, old),
        volumes: old.volume.iter().cloned().collect(),
        unexplained: *old.attacher == *driver.name && orphan::is_unexplained(old, driver),
    }
}

/// A volume is new (`old` is none) or has changed.
pub fn volume_upserted(memory: &mut Memory, name: &Text, old: Option<&Volume>) -> Due {
    Due {
        items: match old {
            None => memory
                .cured(&Cure::Volume(name.clone()))
                .into_iter()
                .collect(),
            Some(_) => Vec::new(),
        },
        volumes: vec![name.clone()],
        ..Due::default()
    }
}

/// A CSINode is new or has changed.
pub fn node_upserted(memory: &mut Memory, name: &Text, new: &CsiNode, driver: &Driver) -> Due {
    let mut due = Due::default();
    if new.id_for(&driver.name).is_some() {
        due.items.extend(memory.cured(&Cure::CsiNode(name.clone())));
    }
    due
}

/// Whether a volume that is due is put into the queue.
#[must_use]
pub fn is_release_due(volume: Option<&Volume>, driver: &Driver) -> bool {
    volume.is_some_and(|volume| volume::may_release(volume, driver))
}

fn orphans_beside(memory: &Memory, attachment: &Attachment) -> Vec<Item> {
    let targets = memory.orphans_beside(attachment).into_iter();
    targets.map(Item::Orphan).collect()
}

/// How an attempt ended.
#[derive(Debug)]
pub enum End {
    /// Nothing is left to do.
    Done,
    /// The goal changed: at once again.
    Again,
    /// Somebody else's end brings it back.
    Waits,
    /// It is to be retried.
    Failed(Failure),
}

/// When an attachment is looked at after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When its back-off is over.
    Retry,
    /// At once.
    Again,
    /// When something changes.
    Change,
}

/// An attempt ended, when its attachment was as in `current`.
pub fn ended(
    memory: &mut Memory,
    end: &End,
    attempt: &Attempt,
    current: &Attachment,
) -> (Next, Ended) {
    let name = &current.name;
    if matches!(end, End::Waits) && attempt.forced() {
        memory.force(name.clone());
    }
    let turned = Direction::of(current) != attempt.direction();
    let next = match end {
        End::Failed(_) if !turned => Next::Retry,
        End::Failed(_) | End::Again => Next::Again,
        End::Done | End::Waits if turned => Next::Again,
        End::Done | End::Waits => Next::Change,
    };
    (next, memory.end(name))
}
