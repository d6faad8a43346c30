//! The Secret for DeleteVolume.
//!
//! A volume of an old version has no annotation for it: then the class tells, which may have changed since.

use std::borrow::Cow;

use migration::TRANSLATOR;

use crate::model::{Class, Pairs, SecretRef, VolumeDetail};
use crate::plan::delete::Failure;
use crate::plan::{Driver, secret};

/// The Secret, if one is needed.
pub(super) fn reference(
    volume: &VolumeDetail,
    class: Option<&Class>,
    driver: &Driver,
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
    let parameters = parameters(class, driver);
    secret::reference(&parameters, purpose, &tokens).map_err(Failure::Secret)
}

/// The parameters, translated for the driver. A class of an in-tree plugin may have topologies that cannot be
/// translated, and that have nothing to do with its Secrets.
fn parameters<'a>(class: &'a Class, driver: &Driver) -> Cow<'a, Pairs> {
    let replaced = TRANSLATOR.plugin(&class.provisioner);
    let replaced = replaced.filter(|known| *known.name == *driver.name);
    let Some(replaced) = replaced else {
        return Cow::Borrowed(&class.parameters);
    };
    let parameters = class
        .parameters
        .iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let parameters = TRANSLATOR.parameters_to_csi(replaced.plugin, &parameters);
    let parameters = parameters.unwrap_or_default();
    Cow::Owned(
        parameters
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect(),
    )
}
