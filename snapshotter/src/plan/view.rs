//! What a decision looks at.
//!
//! The executor and the crash simulation fill it in.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Driver, Settings};
use crate::model::{Class, Content, Member, Text};

/// What is known of the cluster.
pub trait Informers {
    /// The driver, as it said last what it can do.
    fn driver(&self) -> Arc<Driver>;
    /// The content of this name.
    fn content(&self, name: &Text) -> Option<Arc<Content>>;
    /// The class of this name.
    fn class(&self, name: &Text) -> Option<Arc<Class>>;
    /// What the content of this group says of the snapshot with this handle.
    fn member(&self, _group: &Text, _handle: &Text) -> Membership {
        Membership::Unknown
    }
}

/// What is known of a member of a group by the group's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// Group snapshots are not served here, so that nobody can say.
    #[default]
    Unknown,
    /// No content of a group has it.
    Absent,
    /// What the driver said of it last with its group.
    Known(Member),
}

/// Everything a decision about a content looks at, read from the caches in one go. The caches must
/// show what this process wrote itself from the moment the answer came.
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
    /// The class that the content names, if there is one.
    pub class: Option<&'a Class>,
    /// Of a snapshot that was taken as a member of a group, what is known by that.
    pub member: &'a Membership,
    /// The time, for what is written into objects.
    pub now: Timestamp,
}
