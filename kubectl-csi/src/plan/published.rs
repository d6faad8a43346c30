//! Where a driver has its volumes attached, beside where they are to be.

use std::collections::{BTreeMap, BTreeSet};

use super::audit::Audit;
use super::difference::{Difference, What};
use super::named::at;
use super::stock::Stored;
use super::store::By;
use super::way::{Step, Way, Which};
use crate::model::{Attachment, CsiNode, Kind, Ref, Volume};

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
    for (handle, volume) in own {
        let Some(published) = stored.get(*handle).and_then(|one| one.nodes.as_deref()) else {
            continue;
        };
        let name = &*volume.metadata.name;
        let attachments = way.by::<Attachment>(&Which::all(), By::Volume, name)?.items;
        let wanted: BTreeSet<&str> = { attachments.iter() }
            .filter_map(|one| ids.get(&*one.spec.node_name).copied())
            .collect();
        // Where the driver's name of a node is not known, nothing can be compared.
        let all_known = attachments
            .iter()
            .all(|one| ids.contains_key(&*one.spec.node_name));
        let without = published
            .iter()
            .filter(|id| all_known && !wanted.contains(&***id));
        let difference = |id: &str| {
            Difference::new(What::Published, handle)
                .of(at(*volume))
                .on(id)
        };
        audit.differences.extend(without.map(|id| difference(id)));
        for one in attachments
            .iter()
            .filter(|one| one.status.attached && !one.metadata.is_leaving())
        {
            let Some(id) = ids.get(&*one.spec.node_name) else {
                continue;
            };
            if !published.iter().any(|node| **node == **id) {
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
