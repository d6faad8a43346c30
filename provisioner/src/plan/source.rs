//! Data sources of a new volume: a snapshot or another claim's volume.
//!
//! Each kind of source has a series of conditions, whose order determines which of them users read about. The attempt
//! reads the objects from the API server.

use std::sync::Arc;

use super::{Settings, protection};
use crate::keys::{ALLOW_MODE_CHANGE, SNAPSHOT_GROUP};
use crate::model::{
    Claim, ClaimPhase, Class, Content, DataSource, Grant, GrantFrom, GrantTo, Quantity, Snapshot,
    Text, VolumeDetail, VolumePhase,
};

mod error;

pub use error::Error;

/// A claim's data source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Kind of the source object.
    pub kind: OriginKind,
    /// Name of the source object.
    pub name: Text,
    /// Namespace of the source object.
    pub namespace: Text,
}

/// Kind of a data source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginKind {
    /// A VolumeSnapshot.
    Snapshot,
    /// A PersistentVolumeClaim.
    Claim,
    /// Any other kind: a volume populator provisions the volume.
    Foreign,
}

/// The claim's data source, if it has one. `spec.dataSource` has precedence.
///
/// # Errors
/// When the data source is invalid, whatever the cluster contains.
pub fn origin(
    claim: &Claim,
    grants: &[Arc<Grant>],
    settings: &Settings,
) -> Result<Option<Origin>, Error> {
    let (source, namespace) = match (&claim.data_source, &claim.data_source_ref) {
        (None, None) => return Ok(None),
        (Some(source), _) => (source, &claim.namespace),
        (None, Some(source)) => match &source.namespace {
            Some(named) if !named.is_empty() => {
                if !settings.gates.cross_namespace {
                    return Err(Error::CrossNamespaceOff);
                }
                (source, named)
            }
            Some(_) | None => (source, &claim.namespace),
        },
    };
    if *namespace != claim.namespace && !is_granted(source, namespace, claim, grants) {
        return Err(Error::NotGranted {
            claim: claim.key(),
            kind: source.kind.clone(),
            origin: format!("{namespace}/{}", source.name).into(),
        });
    }
    if source.name.is_empty() {
        return Err(Error::NoName);
    }
    let group = source.group.clone().unwrap_or_default();
    let kind = match &*source.kind {
        "VolumeSnapshot" if *group == *SNAPSHOT_GROUP => OriginKind::Snapshot,
        "VolumeSnapshot" => return Err(Error::Group(group)),
        "PersistentVolumeClaim" => OriginKind::Claim,
        _ => OriginKind::Foreign,
    };
    Ok(Some(Origin {
        kind,
        name: source.name.clone(),
        namespace: namespace.clone(),
    }))
}

/// Whether one grant in the source's namespace has both the claim and the source.
fn is_granted(source: &DataSource, namespace: &Text, claim: &Claim, grants: &[Arc<Grant>]) -> bool {
    let group = source.group.as_deref().unwrap_or_default();
    let from = |from: &GrantFrom| {
        from.group.is_empty()
            && &*from.kind == "PersistentVolumeClaim"
            && from.namespace == claim.namespace
    };
    let to = |to: &GrantTo| {
        let name = to.name.as_deref().unwrap_or_default();
        *to.group == *group && to.kind == source.kind && (name.is_empty() || *name == *source.name)
    };
    grants.iter().any(|grant| {
        grant.namespace == *namespace && grant.from.iter().any(from) && grant.to.iter().any(to)
    })
}

/// Whether the driver must confirm that it used the data source.
#[must_use]
pub fn is_confirmed(claim: &Claim, settings: &Settings) -> bool {
    let foreign = |source: &DataSource| {
        source
            .namespace
            .as_ref()
            .is_some_and(|name| !name.is_empty())
    };
    claim.data_source.is_some()
        || (settings.gates.cross_namespace && claim.data_source_ref.as_ref().is_some_and(foreign))
}

/// The VolumeSnapshotContent behind a snapshot.
///
/// # Errors
/// When the snapshot cannot be restored.
pub fn content_of(snapshot: &Snapshot) -> Result<&Text, Error> {
    // With the finalizer, an earlier attempt of ours is under way.
    if snapshot.deleting && !snapshot.is_protected() {
        return Err(Error::SnapshotDeleting(snapshot.name.clone()));
    }
    let content = snapshot.content.as_ref();
    content.ok_or_else(|| Error::SnapshotUnbound(snapshot.name.clone()))
}

/// The snapshot handle.
///
/// # Errors
/// When the claim cannot be restored from the snapshot.
pub fn restore(
    claim: &Claim,
    class: &Class,
    snapshot: &Snapshot,
    content: &Content,
    settings: &Settings,
) -> Result<String, Error> {
    let named = &content.snapshot;
    if named.uid != snapshot.uid
        || named.namespace != snapshot.namespace
        || named.name != snapshot.name
    {
        return Err(Error::ContentMismatch(content.name.clone()));
    }
    if content.driver != class.provisioner {
        return Err(Error::SnapshotDriver {
            content: content.name.clone(),
            driver: content.driver.clone(),
        });
    }
    if !snapshot.ready {
        return Err(Error::SnapshotNotReady(snapshot.name.clone()));
    }
    let handle = content.handle.as_ref();
    let handle = handle.ok_or_else(|| Error::NoSnapshotHandle(content.name.clone()))?;
    if let Some(restore) = snapshot.restore_size {
        let requested = in_bytes(claim.request.ok_or(Error::NoRequest)?);
        let restore = in_bytes(restore);
        if requested < restore {
            return Err(Error::TooSmallForSnapshot { requested, restore });
        }
    }
    if settings.prevent_mode_conversion
        && let (Some(from), Some(to)) = (content.source_mode, claim.mode)
        && from != to
        && !content
            .annotations
            .get(ALLOW_MODE_CHANGE)
            .is_some_and(is_true)
    {
        return Err(Error::ModeConversion { from, to });
    }
    Ok(handle.to_string())
}

/// The size in whole bytes, rounded up like in requests to drivers: 1.1Gi is no whole number of bytes.
fn in_bytes(size: Quantity) -> Quantity {
    Quantity::from_bytes(size.value())
}

/// Whether Go's `strconv.ParseBool` reads `text` as true.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

/// The PersistentVolume behind a claim that is to be cloned.
///
/// # Errors
/// When the claim cannot be cloned.
pub fn volume_of<'a>(claim: &Claim, source: &'a Claim) -> Result<&'a Text, Error> {
    let name = || source.key();
    if source.phase != ClaimPhase::Bound {
        return Err(Error::SourceUnbound(name()));
    }
    if source.deleting && !protection::is_held_for(source, claim) {
        return Err(Error::SourceDeleting(name()));
    }
    if source.class.is_none() {
        return Err(Error::SourceWithoutClass(name()));
    }
    if claim.class.is_none() {
        return Err(Error::ClaimWithoutClass);
    }
    let zero = || Quantity::from_bytes(0);
    let requested = in_bytes(claim.request.unwrap_or_else(zero));
    let has = in_bytes(source.request.unwrap_or_else(zero));
    if requested < has {
        return Err(Error::TooSmallForClone {
            requested,
            present: has,
        });
    }
    if source.volume.is_empty() {
        Err(Error::SourceWithoutVolume(name()))
    } else {
        Ok(&source.volume)
    }
}

/// The handle of the volume behind a claim that is to be cloned.
///
/// # Errors
/// When the volume cannot be cloned.
pub fn clone_of(
    claim: &Claim,
    class: &Class,
    source: &Claim,
    volume: &VolumeDetail,
) -> Result<String, Error> {
    let name = || volume.name.clone();
    let crate::model::Source::Csi(csi) = &volume.source else {
        return Err(Error::VolumeNotCsi(name()));
    };
    if csi.driver != class.provisioner {
        return Err(Error::VolumeDriver {
            volume: name(),
            driver: csi.driver.clone(),
        });
    }
    let bound = volume.claim.as_ref().is_some_and(|bound| {
        bound.uid == source.uid && bound.namespace == source.namespace && bound.name == source.name
    });
    if !bound {
        return Err(Error::VolumeNotOfSource {
            volume: name(),
            claim: source.key(),
        });
    }
    if volume.phase != VolumePhase::Bound {
        return Err(Error::VolumeUnbound(name()));
    }
    let (from, to) = (
        volume.mode.unwrap_or_default(),
        claim.mode.unwrap_or_default(),
    );
    if from == to {
        Ok(csi.handle.to_string())
    } else {
        Err(Error::CloneMode { from, to })
    }
}
