//! The object of an attempt.

use std::sync::Arc;

use sidecar::trace::MOST_LINKS;

use super::Informers;
use super::group::members::Names;
use super::in_flight::Key;
use super::reactor::About;
use crate::model::{Content, ContentHead, Group, GroupContent, Head, Kind, Snapshot, Text, key};

/// The object of an attempt, as the caches know it.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Snapshot(Arc<Snapshot>),
    Content(Arc<Content>),
    Group(Arc<Group>),
    GroupContent(Arc<GroupContent>),
}

impl Subject {
    /// The object with this key, if it is known and its kind is served. When groups become served, all their objects
    /// are requeued.
    pub(super) fn of(key: &Key, informers: &(dyn Informers + 'static)) -> Option<Self> {
        let of_group = matches!(key, Key::Group(_) | Key::GroupContent(_));
        if of_group && !informers.groups() {
            return None;
        }
        Self::cached(key, informers)
    }

    /// The object with this key, if it is known.
    pub(super) fn cached(key: &Key, informers: &(dyn Informers + 'static)) -> Option<Self> {
        Some(match key {
            Key::Snapshot(key) => Self::Snapshot(informers.snapshot(key)?),
            Key::Content(name) => Self::Content(informers.content(name)?),
            Key::Group(key) => Self::Group(informers.group(key)?),
            Key::GroupContent(name) => Self::GroupContent(informers.group_content(name)?),
            Key::Claim(_) => return None,
        })
    }

    /// What it shares with the other kind, if it is a VolumeSnapshot or VolumeGroupSnapshot.
    pub(super) fn head(&self) -> Option<Head<'_>> {
        match self {
            Self::Snapshot(it) => Some(it.head()),
            Self::Group(it) => Some(it.head()),
            Self::Content(_) | Self::GroupContent(_) => None,
        }
    }

    /// What it shares with the other kind, if it is a content.
    pub(super) fn content_head(&self) -> Option<ContentHead<'_>> {
        match self {
            Self::Content(it) => Some(it.head()),
            Self::GroupContent(it) => Some(it.head()),
            Self::Snapshot(_) | Self::Group(_) => None,
        }
    }

    pub(super) fn uid(&self) -> &Text {
        match self {
            Self::Snapshot(it) => &it.uid,
            Self::Content(it) => &it.uid,
            Self::Group(it) => &it.uid,
            Self::GroupContent(it) => &it.uid,
        }
    }

    /// The object, as events name it.
    pub(super) fn about(&self) -> About {
        let nowhere = Text::default();
        let (kind, namespace, name, version) = match self {
            Self::Snapshot(it) => (Kind::Single.whole(), &it.namespace, &it.name, &it.version),
            Self::Content(it) => (Kind::Single.content(), &nowhere, &it.name, &it.version),
            Self::Group(it) => (Kind::Group.whole(), &it.namespace, &it.name, &it.version),
            Self::GroupContent(it) => (Kind::Group.content(), &nowhere, &it.name, &it.version),
        };
        About {
            kind,
            namespace: namespace.clone(),
            name: name.clone(),
            uid: self.uid().clone(),
            version: version.clone(),
        }
    }

    /// The content of a VolumeSnapshot or VolumeGroupSnapshot, if it exists.
    pub(super) fn content(&self, informers: &(dyn Informers + 'static)) -> Option<Self> {
        Some(match self {
            Self::Snapshot(it) => Self::Content(informers.content(&it.content_name()?)?),
            Self::Group(it) => Self::GroupContent(informers.group_content(&it.content_name()?)?),
            Self::Content(_) | Self::GroupContent(_) => return None,
        })
    }

    /// UIDs of the objects whose traces belong to it: the claim and the group of a VolumeSnapshot, the members of a
    /// VolumeGroupSnapshot.
    pub(super) fn related(&self, informers: &(dyn Informers + 'static)) -> Vec<Text> {
        match self {
            Self::Snapshot(it) => {
                let claim = it.claim().and_then(|key| informers.claim(&key));
                let claim = claim.map(|claim| Text::from(claim.uid.text()));
                let group = it.owner().map(|(uid, _)| uid.clone());
                claim.into_iter().chain(group).collect()
            }
            Self::Group(it) => {
                let content = it.bound().and_then(|name| informers.group_content(name));
                let members = content.iter().flat_map(|content| content.members());
                let members = members.take(MOST_LINKS).filter_map(|member| {
                    let names = Names::new(&it.uid, &member.volume);
                    informers.snapshot(&key(&it.namespace, &names.snapshot))
                });
                members.map(|member| member.uid.clone()).collect()
            }
            Self::Content(_) | Self::GroupContent(_) => Vec::new(),
        }
    }

    /// The driver of a VolumeSnapshot or VolumeGroupSnapshot, if known.
    pub(super) fn driver(&self, informers: &(dyn Informers + 'static)) -> Option<Text> {
        if let Some(content) = self.content(informers) {
            return content.content_head().map(|content| content.driver.clone());
        }
        let head = self.head()?;
        let class = informers.class_of(head.kind, head.class?)?;
        Some(class.driver.clone())
    }
}
