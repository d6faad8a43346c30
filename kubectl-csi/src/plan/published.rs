//! Where a driver has its volumes attached, beside where they are to be.

use std::collections::{BTreeMap, BTreeSet};

use super::audit::Audit;
use super::difference::{Difference, What};
use super::named::at;
use super::stock::Stored;
use super::way::{Step, Way};
use crate::model::{Attachment, CsiNode, Kind, Ref, Volume};

/// The attachments of volumes by handle, whichever object and driver names it, and the nodes of the driver's own whose PersistentVolume is gone.
type Attachments<'a> = (BTreeMap<String, Vec<&'a Attachment>>, BTreeSet<&'a str>);

fn attachments<'a>(way: &mut Way<'a>, driver: &str) -> Step<Attachments<'a>> {
    let (mut by, mut headless) = (BTreeMap::<_, Vec<_>>::new(), BTreeSet::new());
    for one in way.all::<Attachment>()?.items {
        let source = &one.spec.source;
        let inline = { source.inline_volume_spec.as_ref() }.and_then(|spec| spec.csi.as_ref());
        let volume = way.get::<Volume>("", &source.persistent_volume_name)?;
        let volume = volume.found();
        let csi = volume.and_then(|volume| volume.spec.csi.as_ref());
        let handle = csi.or(inline).map(|csi| csi.volume_handle.to_string());
        let translated = || {
            let (_, translated) = volume?.in_words_of_csi()?;
            translated.ok().map(|(_, handle)| handle)
        };
        match handle.or_else(translated) {
            Some(handle) => by.entry(handle).or_default().push(one),
            None if one.spec.attacher == driver => drop(headless.insert(&*one.spec.node_name)),
            None => {}
        }
    }
    Ok((by, headless))
}

/// Notes what is attached on one side alone.
pub(super) fn attached(
    way: &mut Way<'_>,
    driver: &str,
    own: &[(&str, &Volume)],
    stored: &BTreeMap<Box<str>, Stored>,
    audit: &mut Audit,
) -> Step {
    if stored.values().all(|one| one.nodes.is_none()) {
        return Ok(());
    }
    let nodes = way.all::<CsiNode>()?;
    if !nodes.whole || !way.all::<Attachment>()?.whole {
        return Ok(());
    }
    let ids: BTreeMap<&str, &str> = { nodes.items.iter() }
        .filter_map(|node| Some((&*node.metadata.name, &*node.driver(driver)?.node_id)))
        .collect();
    let (all, headless) = attachments(way, driver)?;
    // Two PersistentVolumes may name one volume.
    let own: BTreeMap<&str, &Volume> = own.iter().rev().copied().collect();
    for (handle, volume) in own {
        let Some(published) = stored.get(handle).and_then(|one| one.nodes.as_deref()) else {
            continue;
        };
        let published: BTreeSet<&str> = published.iter().map(|id| &**id).collect();
        let attachments = all.get(handle).map(Vec::as_slice).unwrap_or_default();
        let names = attachments.iter().map(|one| &*one.spec.node_name);
        let names = || names.clone().chain(headless.iter().copied());
        let wanted: BTreeSet<&str> = names().filter_map(|name| ids.get(name).copied()).collect();
        // Where the driver's name of a node is not known, nothing can be compared.
        let all_known = names().all(|name| ids.contains_key(name));
        let without = published
            .iter()
            .filter(|id| all_known && !wanted.contains(**id));
        let difference = |id: &str| {
            Difference::new(What::Published, handle)
                .of(at(volume))
                .on(id)
        };
        audit.differences.extend(without.map(|id| difference(id)));
        let attached = attachments.iter().filter(|one| one.spec.attacher == driver);
        let attached = attached.filter(|one| one.status.attached && !one.metadata.is_leaving());
        for one in attached {
            let Some(id) = ids.get(&*one.spec.node_name) else {
                continue;
            };
            if !published.contains(id) {
                let object = Ref::new(Kind::Attachment, "", &one.metadata.name);
                let difference = Difference::new(What::NotPublished, handle)
                    .of(object)
                    .on(id);
                audit.differences.push(difference);
            }
        }
    }
    Ok(())
}
