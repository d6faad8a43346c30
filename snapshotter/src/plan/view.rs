//! The objects that a decision reads.
//!
//! The executor and the crash simulation provide them.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Driver, Settings};
use crate::model::{Class, Content, Member, Text};

/// Access to the caches.
pub trait Informers {
    /// The driver, with its latest abilities.
    fn driver(&self) -> Arc<Driver>;
    /// The content of this name.
    fn content(&self, name: &Text) -> Option<Arc<Content>>;
    /// The class of this name.
    fn class(&self, name: &Text) -> Option<Arc<Class>>;
    /// The report about the snapshot with this handle in the content of this group.
    fn member(&self, _group: &Text, _handle: &Text) -> Membership {
        Membership::Unknown
    }
}

/// The report about a group's member in the group's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// Unknown, because the process does not serve group snapshots.
    #[default]
    Unknown,
    /// No group content has it.
    Absent,
    /// The driver's last report about it.
    Known(Member),
}

/// Everything that a decision about a content reads, taken from the caches at the same time. The
/// caches have to show this process's own writes from the moment of the response on.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The driver.
    pub driver: &'a Driver,
    /// The settings.
    pub settings: &'a Settings,
    /// The content's name.
    pub name: &'a Text,
    /// The content.
    pub content: &'a Content,
    /// The class that the content names, if it exists.
    pub class: Option<&'a Class>,
    /// For a group's member: the report in the group's content.
    pub member: &'a Membership,
    /// The current time, for timestamps in objects.
    pub now: Timestamp,
}
