//! Finds out whom a PersistentVolume with the volume's name or handle belongs to, and whether its claim needs it.

use super::{Attempt, ClaimStep, End, Failure, Reached, Step, Stop};
use crate::plan::request::{Object, WHOLE_UID};
use crate::plan::view::View;

impl Attempt {
    /// Two claims may have the same volume name if the name contains only a part of the UID.
    pub(super) fn check_existing_pv(&self, view: &View<'_>) -> Result<(), Stop> {
        if view.settings.volume_name_uuid_length == WHOLE_UID {
            return Ok(());
        }
        match &self.loaded.existing_pv {
            Some(found) if found.is_for(&view.claim.uid) => Ok(()),
            Some(found) => Err(Failure::name_in_use(found).into()),
            None => {
                let name = self.volume_name(view.claim, view.settings);
                let name = name.map_err(Failure::Name)?;
                let step = ClaimStep::LoadExistingPv(name.into(), None);
                Err(Stop::first(Step::Claim(step)))
            }
        }
    }

    /// A claim whose PersistentVolume was deleted would be bound to a new, empty volume of the same name.
    pub(super) fn look_at_owner(&self, view: &View<'_>) -> Result<(), Stop> {
        let unknown = self.needless && !self.owner_known && (!view.volume_exists || self.called);
        match &self.pinned {
            Some(prepared) if unknown => {
                let claim = &prepared.pv_template.claim;
                let (namespace, name) = (claim.namespace.as_str(), claim.name.as_str());
                Err(Stop::read(Object::Owner(namespace.into(), name.into())))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reads the PersistentVolume of the name. If the claim needs no volume, somebody may have created one of another
    /// name for the volume meanwhile, so that all are searched.
    pub(super) fn compare(&self) -> Step {
        match &self.unsaved {
            Some(unsaved) => {
                let identity = self.needless.then(|| unsaved.identity.clone());
                Step::Claim(ClaimStep::LoadExistingPv(unsaved.name.clone(), identity))
            }
            // Unreachable: an unsaved volume is there to compare with.
            None => Step::Done(End::Exists),
        }
    }

    /// Looks for a PersistentVolume of the volume that an unsettled request has made, also for one that somebody wrote
    /// by hand, or for one of the name.
    pub(super) fn find_existing_pv(&self) -> Step {
        let identity = match &self.reached {
            Reached::Returned(identity, _) => Some(identity.clone()),
            Reached::NameInUse(_)
            | Reached::Start
            | Reached::Unusable(_)
            | Reached::Settled
            | Reached::Made
            | Reached::PvExists
            | Reached::Saved
            | Reached::Failed(_) => None,
        };
        match &self.pinned {
            Some(prepared) => {
                let name = prepared.name.as_str().into();
                Step::Claim(ClaimStep::LoadExistingPv(name, identity))
            }
            // Unreachable: a pinned request was sent.
            None => Step::Done(End::Settled),
        }
    }
}
