//! Whether a claim's volume is one of this driver, and of this claim.
//!
//! Expansion and modification ask the same, and most claims of a cluster are somebody else's: about
//! those nothing is said.

use super::attempt::End;
use super::outcome::{Cause, Failure, RequeueTrigger};
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
    let volume = bound(view, claim)?;
    match volume.csi(&view.driver.name) {
        Some(source) => Ok((volume, source)),
        None => Err(waits(claim)),
    }
}

/// The same for an expansion, which the claim of an in-tree volume asks of the driver that it names.
/// The inner error says why the driver cannot be told of such a volume.
///
/// # Errors
/// Says how the attempt ends.
pub(super) fn expandable<'a>(
    view: &View<'a>,
    claim: &ClaimDetail,
) -> Result<(&'a Volume, Result<&'a CsiSource, Cause>), End> {
    let volume = bound(view, claim)?;
    let name = &view.driver.name;
    let Source::InTree(source) = &volume.kind.source else {
        let (volume, source) = owned(view, claim)?;
        return Ok((volume, Ok(source)));
    };
    if !view.driver.migrated || claim.resizer.as_deref() != Some(name) {
        return Err(waits(claim));
    }
    if source.driver != name {
        let cause = Cause::OtherDriver(source.driver);
        let failure = Failure::Expand(claim.volume.clone(), name.clone(), cause);
        return Err(End::Failed(failure));
    }
    let csi = source.csi.as_ref();
    Ok((
        volume,
        csi.map_err(|why| Cause::Untranslatable(why.clone())),
    ))
}

/// The volume that the claim names, if that names the claim.
fn bound<'a>(view: &View<'a>, claim: &ClaimDetail) -> Result<&'a Volume, End> {
    let driver = &view.driver.name;
    let Some(volume) = view.volume else {
        // Claims of other drivers are theirs to complain about.
        let named = claim.resizer.as_deref().or(claim.provisioner.as_deref());
        return Err(if named.is_none_or(|named| named == driver) {
            End::Failed(Failure::NoVolume(claim.key(), claim.volume.clone()))
        } else {
            waits(claim)
        });
    };
    if volume.belongs_to(&claim.namespace, &claim.uid) {
        Ok(volume)
    } else {
        Err(waits(claim))
    }
}

fn waits(claim: &ClaimDetail) -> End {
    End::Waits(RequeueTrigger::Volume(claim.volume.clone()))
}
