//! Compares the nodes that a driver reports for its volumes with the VolumeAttachments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attach::is_attached_at_all;
use super::audit::Audit;
use super::difference::{Difference, DifferenceKind};
use super::named::{Cluster, at};
use super::side::Why;
use super::stock::Stored;
use super::store::{By, within};
use super::walk::{Lookup, ObjectSelector, Step, Walk};
use crate::model::{Attachment, CsiNode, Driver, Kind, Node, Pod, Ref, Volume};

/// The attachments of listed volumes by handle, whichever object and driver names it; and the nodes of all other
/// attachments to this storage, which may be of any volume.
type Attachments<'a> = (BTreeMap<String, Vec<&'a Attachment>>, BTreeSet<&'a str>);

fn attachments<'a>(
    walk: &mut Walk<'a>,
    is_ours: impl Fn(&str) -> bool,
    stored: &BTreeMap<Box<str>, Stored>,
) -> Step<Attachments<'a>> {
    let (mut by, mut headless) = (BTreeMap::<_, Vec<_>>::new(), BTreeSet::new());
    for one in walk.all::<Attachment>()?.items {
        let source = &one.spec.source;
        let inline = { source.inline_volume_spec.as_ref() }.and_then(|spec| spec.csi.as_ref());
        let volume = walk.get::<Volume>("", &source.persistent_volume_name)?;
        let volume = volume.found();
        let csi = volume.and_then(|volume| volume.spec.csi.as_ref());
        let handle = csi.or(inline).map(|csi| csi.volume_handle.to_string());
        let translated = || {
            let (_, translated) = volume?.in_words_of_csi()?;
            translated.ok().map(|(_, handle)| handle)
        };
        match handle.or_else(translated) {
            Some(handle) if stored.contains_key(&*handle) => {
                by.entry(handle).or_default().push(one)
            }
            _ if is_ours(&one.spec.attacher) => drop(headless.insert(&*one.spec.node_name)),
            _ => {}
        }
    }
    Ok((by, headless))
}

/// Why a volume may rightly be published to a node without a VolumeAttachment.
fn may_be_right(
    walk: &mut Walk<'_>,
    is_ours: impl Fn(&str) -> bool,
    (handle, volume): (&str, &Volume),
    (id, names): (&str, &[&str]),
) -> Step<Why> {
    let mut why = Why::new();
    if names.is_empty() {
        why.insert(format!("{id} is no node of this cluster: another one uses the same storage, or the driver has two spellings for a node").into());
    }
    let claim = volume.spec.claim_ref.as_ref();
    let claim = claim.map(|claim| within(&claim.namespace, &claim.name));
    let pods = walk.by::<Pod>(
        &ObjectSelector::all(),
        By::Claim,
        &claim.unwrap_or_default(),
    )?;
    let nodes = walk.all::<Node>()?;
    if !pods.whole || !nodes.whole {
        why.insert("pods or nodes, which may use it there, could not be listed".into());
    }
    let has = |node: &Node| { node.volumes() }.any(|of| is_ours(of.0) && of.1 == handle);
    let nodes = { nodes.items.into_iter() }.filter(|one| names.contains(&&*one.metadata.name));
    let pods = { pods.items.into_iter() }
        .filter(|pod| !pod.is_over() && names.contains(&&*pod.spec.node_name));
    let users = nodes.filter(|node| has(node)).map(at);
    let users = users.chain(pods.map(at));
    why.extend(users.map(|user| Arc::from(format!("{user} has it attached or in use"))));
    Ok(why)
}

/// Notes the volumes that are attached on one side only.
pub(super) fn attached(
    walk: &mut Walk<'_>,
    cluster: &Cluster,
    own: &[(&str, &Volume)],
    stored: &BTreeMap<Box<str>, Stored>,
    audit: &mut Audit,
) -> Step {
    if stored.values().all(|one| one.nodes.is_none()) {
        return Ok(());
    }
    let driver = audit.driver.clone();
    // Without attachments, the nodes attach volumes themselves.
    let is_unseen = matches!(walk.get::<Driver>("", &driver)?, Lookup::Unseen);
    if is_unseen || !is_attached_at_all(walk, &driver)? {
        return Ok(());
    }
    let nodes = walk.all::<CsiNode>()?;
    if !nodes.whole || !walk.all::<Attachment>()?.whole {
        return Ok(());
    }
    let is_ours = |name: &str| name == driver || cluster.twins.contains(name);
    // The audited driver's own node ID first.
    let mut ids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes.items {
        let names = std::iter::once(&driver).chain(&cluster.twins);
        for one in names.filter_map(|name| node.driver(name)) {
            let of = ids.entry(&node.metadata.name).or_default();
            of.push(&one.node_id);
        }
    }
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, ids) in &ids {
        ids.iter()
            .for_each(|id| names.entry(id).or_default().push(name));
    }
    let (all, headless) = attachments(walk, is_ours, stored)?;
    // Two PersistentVolumes may name the same volume.
    let own: BTreeMap<&str, &Volume> = own.iter().rev().copied().collect();
    for (handle, volume) in own {
        let Some(published) = stored.get(handle).and_then(|one| one.nodes.as_deref()) else {
            continue;
        };
        let published: BTreeSet<&str> = published.iter().map(|id| &**id).collect();
        let attachments = all.get(handle).map(Vec::as_slice).unwrap_or_default();
        let nodes = attachments.iter().map(|one| &*one.spec.node_name);
        let nodes = || nodes.clone().chain(headless.iter().copied());
        let wanted = nodes().filter_map(|name| ids.get(name));
        let wanted: BTreeSet<&str> = wanted.flatten().copied().collect();
        // Without the driver's node ID of every node there is nothing to compare with.
        let all_known = nodes().all(|name| ids.contains_key(name));
        let without = published
            .iter()
            .filter(|id| all_known && !wanted.contains(**id));
        for id in without {
            let of = names.get(id).map(Vec::as_slice).unwrap_or_default();
            let difference = Difference::new(DifferenceKind::Published, handle).of(at(volume));
            audit.note(Difference {
                why: may_be_right(walk, is_ours, (handle, volume), (id, of))?,
                ..difference.on(id)
            });
        }
        let attached = attachments.iter().filter(|one| one.spec.attacher == driver);
        let attached = attached.filter(|one| one.status.attached && !one.metadata.is_leaving());
        let strange = published.iter().find(|id| !names.contains_key(**id));
        let strange = strange.map(|id| Arc::from(format!("the storage has it attached to {id}, which is no node of this cluster: the driver may have two spellings for a node")));
        for one in attached {
            let of = ids.get(&*one.spec.node_name);
            let Some((id, of)) = of.and_then(|of| Some((of.first()?, of))) else {
                continue;
            };
            if !of.iter().any(|id| published.contains(id)) {
                let object = Ref::new(Kind::Attachment, "", &one.metadata.name);
                let difference = Difference::new(DifferenceKind::NotPublished, handle).of(object);
                audit.note(Difference {
                    why: strange.iter().cloned().collect(),
                    ..difference.on(id)
                });
            }
        }
    }
    Ok(())
}
