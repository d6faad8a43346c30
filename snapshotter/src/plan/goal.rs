//! The goal of a content, derived from its own fields alone.
//!
//! This table is the contract with the snapshot-controller: which of the two acts, and when.

use super::Driver;
use crate::model::{Class, Content, Policy, Source, Text};

/// The goal of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Nothing to do, or not for this program.
    Nothing,
    /// Create a snapshot of its volume, or repeat the same request until it is ready.
    Create,
    /// Look up its snapshot.
    Check,
    /// Wait: it is a group's member, and the controller has not written its status yet.
    Await,
    /// Remove the mark: the snapshot is ready.
    Unmark,
    /// Delete the snapshot if the policy says so, then release the content.
    Delete,
}

/// Whether the content belongs to this driver. `class`: the class that it names, if it exists.
#[must_use]
pub fn is_ours(content: &Content, class: Option<&Class>, driver: &Driver) -> bool {
    content.source.is_some()
        && *content.driver == *driver.name
        && class.is_none_or(|class| *class.driver == *driver.name)
}

/// The goal; the first matching row counts.
#[must_use]
pub fn goal(content: &Content) -> Goal {
    let Some(source) = &content.source else {
        return Goal::Nothing;
    };
    // A mark on a pre-provisioned content is a copy from an earlier object: this program marks none
    // of these.
    let found = source.wished().is_some();
    let unbound = content.snapshot.uid.is_empty();
    if content.deleting {
        // An unbound VolumeSnapshot cannot mark its content as being deleted.
        let announced = content.being_deleted && (found || !content.being_created);
        if (found && unbound) || announced {
            return Goal::Delete;
        }
    }
    if content.is_ready() {
        return if content.being_created {
            Goal::Unmark
        } else {
            Goal::Nothing
        };
    }
    // A retained snapshot whose VolumeSnapshot is being deleted need not become ready.
    let kept = content.being_deleted && content.policy == Policy::Retain;
    if kept && !found && !content.being_created {
        return Goal::Nothing;
    }
    // An object that is being deleted cannot get a finalizer: it may disappear during a call.
    let going = content.deleting && !content.is_protected() && !content.being_created;
    if going && !found && content.handle().is_none() {
        return Goal::Nothing;
    }
    match (&content.status, found, content.member) {
        (None, false, false) => Goal::Create,
        (_, true, _) => Goal::Check,
        (Some(status), false, _) if status.group.is_some() && status.handle.is_some() => {
            Goal::Check
        }
        (_, false, true) => Goal::Await,
        (Some(_), false, false) => Goal::Create,
    }
}

/// The handle of the snapshot to delete with the content, if there is one.
#[must_use]
pub fn deletes(content: &Content) -> Option<&Text> {
    // Members are deleted with their group.
    if content.policy != Policy::Delete || content.is_member() {
        return None;
    }
    if let Some(handle) = content.handle() {
        return Some(handle);
    }
    let handle = content.wished()?;
    // Without the handles of its snapshots a group cannot be deleted.
    if matches!(&content.source, Some(Source::Group(named)) if named.snapshots.is_empty()) {
        return None;
    }
    // A deleted snapshot leaves a status without readiness; one that was never found has no status,
    // or an error.
    let status = content.status.as_ref();
    let cleared = status.is_some_and(|status| status.ready.is_none());
    let bound = !content.snapshot.uid.is_empty();
    (bound && !cleared).then_some(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{content, pre_provisioned, status};

    fn with(change: impl FnOnce(&mut Content)) -> Content {
        let mut content = content();
        change(&mut content);
        content
    }

    /// Section 3.4, row by row.
    #[test]
    #[expect(clippy::too_many_lines, reason = "one table")]
    fn the_table() {
        let found = |change: fn(&mut Content)| {
            let mut content = pre_provisioned();
            change(&mut content);
            content
        };
        let rows = [
            ("1", found(|c| c.deleting = true), Goal::Delete),
            (
                "1, bound",
                found(|c| {
                    c.deleting = true;
                    c.snapshot.uid = "U9".into();
                }),
                Goal::Check,
            ),
            (
                "2",
                with(|c| (c.deleting, c.being_deleted, c.being_created) = (true, true, true)),
                Goal::Create,
            ),
            (
                "3",
                with(|c| (c.deleting, c.being_deleted) = (true, true)),
                Goal::Delete,
            ),
            ("4", with(|_| {}), Goal::Create),
            ("4, S-72", with(|c| c.deleting = true), Goal::Create),
            (
                "4, S-72, unprotected",
                with(|c| (c.deleting, c.finalizers) = (true, ["x/y".into()].into())),
                Goal::Nothing,
            ),
            ("4, S-92", with(|c| c.being_deleted = true), Goal::Create),
            ("5", with(|c| c.status = Some(status(true))), Goal::Nothing),
            (
                "5, S-91",
                with(|c| (c.deleting, c.status) = (true, Some(status(true)))),
                Goal::Nothing,
            ),
            (
                "5, marked",
                with(|c| (c.being_created, c.status) = (true, Some(status(true)))),
                Goal::Unmark,
            ),
            ("6", found(|_| {}), Goal::Check),
            (
                "6, S-121",
                found(|c| {
                    (c.being_created, c.being_deleted, c.member) = (true, true, true);
                    c.policy = Policy::Retain;
                }),
                Goal::Check,
            ),
            (
                "3, S-121",
                found(|c| {
                    (c.deleting, c.being_deleted, c.being_created) = (true, true, true);
                    c.snapshot.uid = "U9".into();
                }),
                Goal::Delete,
            ),
            (
                "7",
                with(|c| {
                    c.member = true;
                    let mut status = status(false);
                    status.group = Some("g1".into());
                    c.status = Some(status);
                }),
                Goal::Check,
            ),
            ("8, S-86", with(|c| c.member = true), Goal::Await),
            ("9", with(|c| c.status = Some(status(false))), Goal::Create),
            (
                "S-103",
                with(|c| {
                    (c.being_deleted, c.policy) = (true, Policy::Retain);
                    c.status = Some(status(false));
                }),
                Goal::Nothing,
            ),
            (
                "S-103, in doubt",
                with(|c| {
                    (c.being_deleted, c.policy) = (true, Policy::Retain);
                    c.being_created = true;
                }),
                Goal::Create,
            ),
            ("no source", with(|c| c.source = None), Goal::Nothing),
        ];
        for (row, content, expected) in rows {
            assert_eq!(goal(&content), expected, "{row}");
        }
    }

    /// A definition without the field drops the handle of the snapshot's group.
    #[test]
    fn a_member_is_not_deleted_alone_although_its_status_does_not_name_the_group() {
        let member = with(|c| {
            (c.deleting, c.being_deleted, c.member) = (true, true, true);
            c.status = Some(status(true));
        });
        assert_eq!(deletes(&member), None);
    }

    #[test]
    fn s_45_whose_it_is() {
        let driver = crate::testing::driver();
        let ours = Class {
            driver: driver.name.as_str().into(),
            ..Class::default()
        };
        let other = Class {
            driver: "other".into(),
            ..Class::default()
        };
        let foreign = with(|c| c.driver = "other".into());
        for (row, content, class, expected) in [
            ("ours", with(|_| {}), Some(&ours), true),
            ("class unknown", with(|_| {}), None, true),
            (
                "driver differs in case",
                with(|c| c.driver = "Test.csi.driver".into()),
                None,
                false,
            ),
            ("other driver", foreign, Some(&ours), false),
            ("class of another", with(|_| {}), Some(&other), false),
            ("no source", with(|c| c.source = None), Some(&ours), false),
        ] {
            assert_eq!(is_ours(&content, class, &driver), expected, "{row}");
        }
    }
}
