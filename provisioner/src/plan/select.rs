//! Whether a claim is this driver's, and ready to be provisioned.
//!
//! Most attempts on a claim end here, and report nothing.

use super::settings::NodeDeployment;
use super::{Driver, Settings};
use crate::keys::MIGRATED_TO;
use crate::model::{BindingMode, Claim, Class, Text};

/// Result of the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The claim needs no volume, belongs to another provisioner, or is not ready yet.
    No,
    /// Node deployment: the provisioners of the nodes compete for the claim.
    Contend,
    /// The claim's StorageClass does not exist.
    NoClass(Text),
    /// The claim's StorageClass names another provisioner.
    OtherProvisioner,
    /// The claim gets a volume.
    Provision,
}

/// Decides for `claim`, whose class is `class` if it exists.
#[must_use]
pub fn select(
    claim: &Claim,
    class: Option<&Class>,
    driver: &Driver,
    settings: &Settings,
) -> Selection {
    if !claim.volume.is_empty() {
        return Selection::No;
    }
    if !is_ours(claim, driver) {
        return Selection::No;
    }
    let selected = claim.selected_node();
    if let Some(node) = &settings.node {
        match selected {
            "" => {
                return if is_contended(claim, class) && node.immediate_binding {
                    Selection::Contend
                } else {
                    Selection::No
                };
            }
            selected if *selected != *node.name => return Selection::No,
            _ => {}
        }
    }
    of_class(claim, class, driver)
}

fn of_class(claim: &Claim, class: Option<&Class>, driver: &Driver) -> Selection {
    let Some(class) = class else {
        return Selection::NoClass(claim.class_name().into());
    };
    if class.binding_mode == BindingMode::WaitForFirstConsumer && claim.selected_node().is_empty() {
        return Selection::No;
    }
    if driver.is_named(&class.provisioner) {
        Selection::Provision
    } else {
        Selection::OtherProvisioner
    }
}

/// Whether this process alone provisions the claim.
#[must_use]
pub fn is_ours_alone(claim: &Claim, driver: &Driver, settings: &Settings) -> bool {
    let here = |own: &NodeDeployment| *own.name == *claim.selected_node();
    is_ours(claim, driver) && settings.node.as_ref().is_none_or(here)
}

/// Whether the control plane chose this driver. A claim from before the migration names the in-tree plugin in this
/// annotation, and the driver in another one.
pub(super) fn is_ours(claim: &Claim, driver: &Driver) -> bool {
    let provisioner = claim.provisioner().unwrap_or_default();
    let moved = claim.annotations.get(MIGRATED_TO) == Some(&*driver.name);
    *provisioner == *driver.name || moved && driver.plugin() == Some(provisioner)
}

/// Whether provisioners on several nodes may compete for a claim without selected node. As upstream always did, only
/// the field counts as the class here, not the beta annotation.
fn is_contended(claim: &Claim, class: Option<&Class>) -> bool {
    let named = claim.class.as_ref();
    class.is_some_and(|class| {
        class.binding_mode == BindingMode::Immediate && named == Some(&class.name)
    })
}
