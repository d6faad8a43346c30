//! Whether a claim's volume belongs to this driver and to this claim.
//!
//! Both scripts check this; most claims in a cluster belong to other drivers, and the resizer
//! ignores those without an event.

use super::attempt::End;
use super::outcome::{Cause, Failure, RequeueTrigger};
use super::view::View;
use crate::model::{ClaimDetail, CsiSource, Source, Volume};

/// The volume of the claim, and its CSI source.
///
/// # Errors
/// The outcome of the attempt: without a volume of this driver there is nothing to do.
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

/// The same for an expansion. The claim of an in-tree volume names its driver in an annotation. The
/// inner error is the cause why the driver cannot be called for such a volume.
///
/// # Errors
/// The outcome of the attempt.
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

/// The volume that the claim names, if it names the claim in turn.
fn bound<'a>(view: &View<'a>, claim: &ClaimDetail) -> Result<&'a Volume, End> {
    let driver = &view.driver.name;
    let Some(volume) = view.volume else {
        // If another driver's volume is missing, that driver's resizer reports it.
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
