//! The script of a VolumeSnapshot.
//!
//! | file | decides |
//! |---|---|
//! | `create` | the conditions before its content is made |
//! | `status` | how its status follows its content's |
//! | `group` | which group snapshot it belongs to |
//! | `delete` | its deletion |

mod create;
mod delete;
mod group;
mod status;

use std::sync::Arc;

use sidecar::log::quote;
use sidecar::snapshot::{SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};

use super::ask::Ask;
use super::attempt::Flow;
use super::claim;
use super::class::Chosen;
use super::origin::{Origin, Problem};
use super::pair::{self, Pair, protect};
use super::request::Object;
use super::status::show;
use crate::model::{Content, ContentHead, Head, Kind, Policy, Snapshot, Text};

/// The script of a VolumeSnapshot.
pub(super) fn script(ask: Ask<'_>, snapshot: &Snapshot) -> Flow {
    if snapshot.deleting {
        delete::delete(ask, snapshot)
    } else if snapshot.is_owned_member() {
        member(ask, snapshot)
    } else {
        pair::living(ask, snapshot)
    }
}

/// The script of a member of a group snapshot. The group makes it and its content; its status
/// follows its content as any other's.
fn member(ask: Ask<'_>, snapshot: &Snapshot) -> Flow {
    let Some(name) = snapshot.bound() else {
        return Ok(());
    };
    let content = ask.informers.content(name);
    protect(snapshot, content.as_deref())?;
    match content.filter(|content| content.is_of(snapshot)) {
        Some(content) if !snapshot.is_ready() || group::names(ask, snapshot, &content) => {
            snapshot.follow(ask, &content)
        }
        Some(_) | None => Ok(()),
    }
}

impl Pair for Snapshot {
    type Content = Content;

    fn head(&self) -> Head<'_> {
        self.head()
    }

    fn content_head(content: &Content) -> ContentHead<'_> {
        content.head()
    }

    fn cached(ask: Ask<'_>, name: &Text) -> Option<Arc<Content>> {
        ask.informers.content(name)
    }

    /// Backup tools bind contents of any name, and members that were cut loose keep theirs, perhaps without a status
    /// that names it.
    fn bound(&self, ask: Ask<'_>) -> Option<Text> {
        let ours = |name: &Text| { ask.informers.content(name) }.is_some_and(|it| it.is_of(self));
        let name = self.content_name();
        name.filter(|name| self.bound().is_some() || ours(name))
    }

    fn finalizers(&self, content: Option<&Content>) -> Vec<&'static str> {
        let stays_for = |content: &Content| content.is_of(self) && content.policy == Policy::Delete;
        let bound = self.bound().is_some() && content.is_some_and(stays_for);
        let all = [Some(SNAPSHOT_AS_SOURCE), bound.then_some(SNAPSHOT_BOUND)];
        all.into_iter().flatten().collect()
    }

    fn driver(&self, ask: Ask<'_>) -> Flow<Result<Text, Problem>> {
        let key = self.claim().unwrap_or_default();
        let of_claim = [Object::Claim(key.clone())];
        let Some(claim) = ask.claim(&key)? else {
            let (_, name) = key.split_once('/').unwrap_or_default();
            let cause = quote(&format!("persistentvolumeclaim {} not found", quote(name)));
            let text = format!("failed to retrieve PVC {name} from the lister: {cause}");
            return Ok(Err(Problem::new(text, of_claim)));
        };
        let origin = Origin::of(ask, Kind::Single, (&key, &claim))?;
        Ok(origin.and_then(|origin| Ok(origin.csi(&self.head(), of_claim)?.driver.clone())))
    }

    fn create(&self, ask: Ask<'_>, class: &Chosen) -> Flow {
        create::create(ask, self, class)
    }

    fn follow(&self, ask: Ask<'_>, content: &Content) -> Flow {
        let group = group::shown(ask, self, content);
        let group = group.as_deref().map(|group| &group.name);
        let (change, progress) = status::follow(self, content, group);
        show(&self.head(), change, progress)
    }

    fn finish(&self, ask: Ask<'_>, content: &Content) -> Flow {
        if let Some(claim) = self.claim() {
            claim::release(ask, &claim, None)?;
        }
        group::join(ask, self, content)
    }
}
