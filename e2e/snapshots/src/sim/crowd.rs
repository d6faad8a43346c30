//! Actions of those who use the cluster besides: administrators of another driver, of classes, and older tools.

use serde_json::Value;

use super::kind::Kind;
use super::objects::{DRIVER, LISTING, OTHER, class, content, group_class, secret};
use super::world::World;

/// The class that passes to another driver and back.
const PASSES: &str = "c1";

impl World {
    /// Adds the objects that a crowded cluster has from the start.
    pub(super) fn furnish_crowd(&mut self) {
        for (kind, object) in [
            (Kind::Class, class("cl")),
            (Kind::GroupClass, group_class("gl")),
            (Kind::Secret, secret(LISTING)),
        ] {
            self.add(kind, object);
        }
    }

    pub(super) fn others_use_the_cluster(&mut self) {
        match self.dice.below(4) {
            0 => self.someone_uses_another_driver(),
            1 if self.is_faulty() => self.a_class_passes(),
            1 | 2 => self.someone_applies_again(),
            _ => self.administrator_makes(),
        }
    }

    /// A content of another driver, for a VolumeSnapshot that nobody creates.
    fn someone_uses_another_driver(&mut self) {
        if { self.server.all(Kind::Content) }.any(|(_, content)| is_foreign(content)) {
            return;
        }
        self.uids += 1;
        let (name, handle) = (
            format!("{OTHER}{}", self.uids),
            format!("{OTHER}-{}", self.uids),
        );
        let mut made = content(&name, "nobody", &handle, "Delete");
        made["spec"]["driver"] = OTHER.into();
        self.add(Kind::Content, made);
    }

    /// Administrators create a class again, for another driver or for this one.
    fn a_class_passes(&mut self) {
        let class = self.server.get(Kind::Class, PASSES);
        let ours = class.is_some_and(|class| class["driver"] == DRIVER);
        self.pass_class(if ours { OTHER } else { DRIVER });
    }

    /// Gives the class back to this driver.
    pub(super) fn classes_are_ours(&mut self) {
        let class = self.server.get(Kind::Class, PASSES);
        if class.is_some_and(|class| class["driver"] != DRIVER) {
            self.pass_class(DRIVER);
        }
    }

    fn pass_class(&mut self, driver: &str) {
        self.edit(Kind::Class, PASSES, |class| {
            class["driver"] = driver.into();
        });
    }
}

/// Whether the content is another driver's.
pub(super) fn is_foreign(content: &Value) -> bool {
    content["spec"]["driver"] != DRIVER
}
