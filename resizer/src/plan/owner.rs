//! Whether a claim's volume is one of this driver, and of this claim.
//!
//! Separate, because expansion and modification ask the same, and because most claims of a cluster
//! are somebody else's: about those nothing is said.

use super::outcome::{Cause, Cure, Failure};
use super::step::End;
use super::view::View;
use crate::model::{ClaimDetail, CsiSource, Source, Volume};

/// The volume of the claim, and how the driver knows it.
///
/// # Errors
/// Says how the attempt ends: without a volume of ours there is nothing to be done.
pub(super) fn owned<'a>(
    view: &View<'a>,
    claim: &ClaimDetail,
) -> Result<(&'a Volume, &'a CsiSource), End> {
    let driver = &view.driver.name;
    let waits = || End::Waits(Cure::Volume(claim.volume.clone()));
    let Some(volume) = view.volume else {
        // Claims of other drivers are theirs to complain about.
        let named = claim.resizer.as_deref().or(claim.provisioner.as_deref());
        return Err(match named.is_none_or(|named| named == driver) {
            true => End::Failed(Failure::NoVolume(claim.key(), claim.volume.clone())),
            false => waits(),
        });
    };
    let Some(source) = volume.csi(driver) else {
        return Err(waits());
    };
    match volume.belongs_to(&claim.namespace, &claim.uid) {
        true => Ok((volume, source)),
        false => Err(waits()),
    }
}

/// The claim's volume is one of an in-tree plugin that this driver is to expand: not supported yet.
pub(super) fn in_tree(view: &View<'_>, claim: &ClaimDetail) -> Option<Failure> {
    let name = &view.driver.name;
    let asked = view.driver.migrated && claim.resizer.as_deref() == Some(name);
    match view.volume.map(|volume| &volume.kind.source) {
        Some(Source::InTree(plugin)) if asked => {
            let cause = Cause::InTree(plugin);
            Some(Failure::Expand(claim.volume.clone(), name.clone(), cause))
        }
        Some(Source::InTree(_) | Source::Csi(_) | Source::Other) | None => None,
    }
}
