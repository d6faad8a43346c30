//! The conditions before a content is made: a protected claim that is bound to a volume of the
//! class's driver.

use std::fmt;
use std::sync::Arc;

use sidecar::log::quote;
use sidecar::snapshot::content_name;
use sidecar::snapshot::secret::Words;

use super::class::Chosen;
use super::{Decision, body, fail};
use crate::model::{Claim, Csi, Phase, Snapshot, Text, Uid, Volume, key};
use crate::plan::complaint::{Complaint, RequeueTrigger, unwritten};
use crate::plan::request::{self, Object};
use crate::plan::view::{Next, Purpose, View};
use crate::plan::{claim, secret};

/// The volume that a snapshot is taken of.
#[derive(Debug)]
pub struct Origin {
    /// Name of the volume.
    pub name: Text,
    /// The volume.
    pub volume: Arc<Volume>,
}

/// Why a claim has no volume to take a snapshot of.
#[derive(Debug)]
pub enum Problem {
    /// The claim of this name has no volume yet.
    Unbound(Text),
    /// The volume of this name cannot be read, for this reason.
    NoVolume(Text, String),
    /// The volume of this name is bound to another claim.
    OfAnother(Text),
}

impl Origin {
    /// The volume of the claim with this key.
    ///
    /// # Errors
    /// The volume must be read first: the cache may be late.
    pub fn of(view: &View<'_>, key: &Text, claim: &Claim) -> Result<Result<Self, Problem>, Next> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        if claim.phase != Phase::Bound || claim.volume.is_empty() {
            return Ok(Err(Problem::Unbound(name.into())));
        }
        let volume = match view.volume(&claim.volume)? {
            Ok(volume) => volume,
            Err(error) => return Ok(Err(Problem::NoVolume(claim.volume.clone(), error))),
        };
        let points_back = volume.claim.as_ref().is_some_and(|back| {
            let same = |uid: Uid| uid == claim.uid;
            *back.namespace == *namespace && *back.name == *name && back.uid.is_none_or(same)
        });
        Ok(if points_back {
            Ok(Self {
                name: claim.volume.clone(),
                volume,
            })
        } else {
            Err(Problem::OfAnother(claim.volume.clone()))
        })
    }
}

impl Problem {
    /// The text for users.
    #[must_use]
    pub fn text(&self, wanted: &str) -> String {
        match self {
            Self::Unbound(claim) => format!(
                "the PVC {claim} is not yet bound to a PV, will not attempt to take {wanted}"
            ),
            Self::NoVolume(volume, error) => {
                let error = quote(error);
                format!("failed to retrieve PV {volume} from the API server: {error}")
            }
            Self::OfAnother(_) => "claim in dataSource not bound or invalid".to_owned(),
        }
    }

    /// The change that may end the problem.
    #[must_use]
    pub fn trigger(&self, claim: &Text) -> RequeueTrigger {
        RequeueTrigger::Object(match self {
            Self::Unbound(_) => Object::Claim(claim.clone()),
            Self::NoVolume(volume, _) | Self::OfAnother(volume) => Object::Volume(volume.clone()),
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text("a snapshot"))
    }
}

/// The next step until the content exists.
pub(super) fn decide(
    view: &View<'_>,
    snapshot: &Arc<Snapshot>,
    claim_name: &str,
    class: &Chosen,
) -> Decision {
    let key = key(&snapshot.namespace, claim_name);
    let of_claim = || Object::Claim(key.clone());
    let update = |name: &str, error: &str| {
        let complaint = Complaint::uncreated(unwritten(name, &error));
        fail(complaint.until_changed(of_claim()))
    };
    let Some(claim) = view.claim(&key)? else {
        return Ok(update(&snapshot.name, "cannot get claim from snapshot"));
    };
    if claim.deleting && claim.protected.is_none() {
        let error = "cannot add finalizer on claim because it is being deleted";
        return Ok(update(claim_name, error));
    }
    if let Some(first) = claim::protect(view, &key) {
        return Ok(first);
    }
    let parameters = |error: &dyn fmt::Display| {
        let name = &snapshot.name;
        let error = quote(&error.to_string());
        Complaint::uncreated(format_args!(
            "failed to get input parameters to create snapshot {name}: {error}"
        ))
    };
    let of_class = || RequeueTrigger::Class(class.name.clone());
    let origin = Origin::of(view, &key, &claim)?;
    let origin =
        origin.map_err(|problem| fail(parameters(&problem).until(problem.trigger(&key))))?;
    let content = content_name(&snapshot.uid);
    let words = Words::of_snapshot((&snapshot.namespace, &snapshot.name), &content);
    let secret = secret::resolve(&class.class, &words);
    let secret = secret.map_err(|problem| fail(parameters(&problem).until(of_class())))?;
    let volume = &origin.volume;
    let csi = csi_of(&origin, class)?;
    let settings = view.informers.settings();
    let topologies = if settings.topology {
        body::topologies(class)
    } else {
        Ok(None)
    };
    let topologies =
        topologies.map_err(|error| fail(Complaint::uncreated(error).until(of_class())))?;
    let affinity = volume.affinity.as_ref().filter(|_| settings.distributed);
    let node = affinity.and_then(|affinity| view.informers.node_for(affinity));
    let nowhere = affinity.is_some() && node.is_none();
    let parts = body::Parts {
        snapshot,
        class,
        csi,
        mode: volume.mode.as_ref().filter(|_| settings.keep_mode),
        secret,
        topologies,
        node,
    };
    let (name, content) = body::content(parts);
    let purpose = Purpose::Create { nowhere };
    Ok(request::create(purpose, Object::Content(name), content))
}

/// The volume's CSI source, if it belongs to the class's driver.
fn csi_of<'a>(origin: &'a Origin, class: &Chosen) -> Decision<&'a Csi> {
    let name = &origin.name;
    let Some(csi) = &origin.volume.csi else {
        let error = format!("cannot find CSI PersistentVolumeSource for volume {name}");
        let complaint = Complaint::uncreated(error);
        return Err(fail(complaint.until_changed(Object::Volume(name.clone()))));
    };
    if csi.driver != class.class.driver {
        // Handles are unique only within a driver.
        let error = format!(
            "the driver {} of VolumeSnapshotClass {} is not the driver {} of volume {name}",
            class.class.driver, class.name, csi.driver
        );
        let complaint = Complaint::uncreated(error);
        return Err(fail(
            complaint.until(RequeueTrigger::Class(class.name.clone())),
        ));
    }
    Ok(csi)
}
