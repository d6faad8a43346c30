//! Which Secret DeleteVolume needs.
//!
//! Separate, because a volume made by an old version does not say so itself: then its class is asked,
//! which may have changed since.

use crate::model::{Class, SecretRef, VolumeDetail};
use crate::plan::delete::Failure;
use crate::plan::secret;

/// The Secret, if one is needed.
pub(super) fn reference(
    volume: &VolumeDetail,
    class: Option<&Class>,
) -> Result<Option<SecretRef>, Failure> {
    let annotated = (
        &volume.deletion_secret_name,
        &volume.deletion_secret_namespace,
    );
    if let (Some(name), Some(namespace)) = annotated {
        let named = !name.is_empty() && !namespace.is_empty();
        return Ok(named.then(|| SecretRef {
            namespace: namespace.clone(),
            name: name.clone(),
        }));
    }
    let (Some(class), Some(claim)) = (class, &volume.claim) else {
        return Ok(None);
    };
    let tokens = secret::Tokens {
        volume: &volume.name,
        namespace: &claim.namespace,
        name: &claim.name,
        annotations: None,
    };
    let purpose = secret::Purpose::Provisioner;
    secret::reference(&class.parameters, purpose, &tokens).map_err(Failure::Secret)
}
