//! The script of a VolumeGroupSnapshot.
//!
//! Its content, and through it the sidecar's calls, work as for single snapshots; in addition a
//! group makes its members.
//!
//! | file | decides |
//! |---|---|
//! | `claims` | which claims it selects, and their volumes |
//! | `selector` | the query parameter for its label selector |
//! | `create` | its content |
//! | `members` | the VolumeSnapshots and contents of its snapshots |
//! | `delete` | its deletion |

mod claims;
mod create;
mod delete;
pub mod members;
mod selector;

use std::sync::Arc;

use sidecar::snapshot::GROUP_SNAPSHOT_BOUND;

use super::ask::Ask;
use super::attempt::Flow;
use super::class::Chosen;
use super::origin::Problem;
use super::pair::{self, Pair};
use super::status::{change, show};
use crate::model::{ContentHead, Group, GroupContent, GroupSource, Head, Text};

/// The script of a VolumeGroupSnapshot.
pub(super) fn script(ask: Ask<'_>, group: &Group) -> Flow {
    if group.deleting {
        delete::delete(ask, group)
    } else {
        pair::living(ask, group)
    }
}

impl Pair for Group {
    type Content = GroupContent;

    fn head(&self) -> Head<'_> {
        self.head()
    }

    fn content_head(content: &GroupContent) -> ContentHead<'_> {
        content.head()
    }

    fn cached(ask: Ask<'_>, name: &Text) -> Option<Arc<GroupContent>> {
        ask.informers.group_content(name)
    }

    fn finalizers(&self, _content: Option<&GroupContent>) -> Vec<&'static str> {
        vec![GROUP_SNAPSHOT_BOUND]
    }

    fn driver(&self, ask: Ask<'_>) -> Flow<Result<Text, Problem>> {
        let all = claims::volumes(ask, self)?;
        Ok(all.and_then(|all| {
            let csi = all.first().map(|first| first.csi(&self.head(), []));
            Ok(csi
                .transpose()?
                .map(|csi| csi.driver.clone())
                .unwrap_or_default())
        }))
    }

    fn create(&self, ask: Ask<'_>, class: &Chosen) -> Flow {
        create::create(ask, self, class)
    }

    fn follow(&self, ask: Ask<'_>, content: &GroupContent) -> Flow {
        // An administrator makes the members for a content of his own.
        if let GroupSource::Claims(_) = self.source {
            members::make(ask, self, content)?;
        }
        let status = content.status.as_deref();
        let time = status.and_then(|status| status.creation_time.as_deref());
        let (change, progress) = change(&self.head(), &content.head(), time.map(str::to_owned));
        show(&self.head(), change, progress)
    }
}
