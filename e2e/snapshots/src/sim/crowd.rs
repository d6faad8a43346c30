//! What others do in the cluster: administrators create contents of another driver and change a class; older backup
//! tools apply contents.

use serde_json::{Value, json};
use sidecar::text::Text;

use super::check::is_deleting;
use super::effect::{handle, is_marked};
use super::kind::Kind;
use super::objects::{DRIVER, LISTING, OTHER, class, content, group_class, group_content, secret};
use super::users::HOLDER;
use super::world::World;

/// The classes that pass to another driver and back.
const PASSES: [(Kind, &str); 2] = [(Kind::Class, "c1"), (Kind::GroupClass, "g")];

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
        match self.dice.below(5) {
            0 => self.someone_uses_another_driver(),
            1 if self.is_faulty() => self.a_class_passes(),
            1 | 2 => self.someone_applies_again(),
            3 if self.grouped => self.someone_applies_a_group_again(),
            _ => self.administrator_makes(),
        }
    }

    /// A content of another driver, for a VolumeSnapshot or a group that nobody creates.
    fn someone_uses_another_driver(&mut self) {
        let grouped = self.grouped && self.dice.one_in(2);
        let kind = if grouped {
            Kind::GroupContent
        } else {
            Kind::Content
        };
        if { self.server.all(kind) }.any(|(_, content)| is_foreign(content)) {
            return;
        }
        self.uids += 1;
        let (name, handle) = (
            format!("{OTHER}{}", self.uids),
            format!("{OTHER}-{}", self.uids),
        );
        let mut made = if grouped {
            let members = [Text::from(format!("{handle}.1"))];
            group_content(&name, "nobody", (&handle, &members), "Delete")
        } else {
            content(&name, "nobody", &handle, "Delete")
        };
        made["spec"]["driver"] = OTHER.into();
        self.add(kind, made);
    }

    /// An older tool applies the content of a group again, without the finalizer, before its snapshot is requested.
    fn someone_applies_a_group_again(&mut self) {
        let waits = |content: &Value| {
            content["spec"]["source"]["volumeHandles"].is_array()
                && handle(content).is_null()
                && !is_deleting(content)
                && !is_marked(content)
        };
        let waiting = { self.server.all(Kind::GroupContent) }
            .find(|(_, content)| waits(content) && !self.older);
        let Some(name) = waiting.map(|(name, _)| name.clone()) else {
            return;
        };
        self.edit(Kind::GroupContent, &name, |content| {
            content["metadata"]["finalizers"] = json!([]);
        });
        if self.dice.one_in(2) {
            self.edit(Kind::GroupContent, &name, |content| {
                content["metadata"]["finalizers"] = json!([HOLDER]);
            });
        }
    }

    /// Administrators create a class again, for another driver or for this one.
    fn a_class_passes(&mut self) {
        let (kind, name) = *self.dice.of(&PASSES);
        let class = self.server.get(kind, name);
        let ours = class.is_some_and(|class| class["driver"] == DRIVER);
        self.pass_class((kind, name), if ours { OTHER } else { DRIVER });
    }

    /// Gives the classes back to this driver.
    pub(super) fn classes_are_ours(&mut self) {
        for (kind, name) in PASSES {
            let class = self.server.get(kind, name);
            if class.is_some_and(|class| class["driver"] != DRIVER) {
                self.pass_class((kind, name), DRIVER);
            }
        }
    }

    fn pass_class(&mut self, (kind, name): (Kind, &str), driver: &str) {
        self.edit(kind, name, |class| class["driver"] = driver.into());
    }
}

/// Whether the content is another driver's.
pub(super) fn is_foreign(content: &Value) -> bool {
    content["spec"]["driver"] != DRIVER
}
