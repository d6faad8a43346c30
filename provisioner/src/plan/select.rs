//! Whether a claim is this driver's to provision, and whether now.
//!
//! Most looks at a claim end here, and silently.

use super::settings::NodeDeployment;
use super::{Driver, Settings};
use crate::keys::MIGRATED_TO;
use crate::model::{BindingMode, Claim, Class, Text};

/// What is to be done about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// It needs no volume, or not ours, or not yet.
    No,
    /// Node deployment: the nodes have to settle whose it is.
    Contend,
    /// Its class is not there.
    NoClass(Text),
    /// Its class is another provisioner's.
    OtherProvisioner,
    /// It gets a volume.
    Provision,
}

/// Looks at `claim`, whose class is `class` as far as it is there.
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

/// Whether no other process than this one makes the claim's volume.
#[must_use]
pub fn is_ours_alone(claim: &Claim, driver: &Driver, settings: &Settings) -> bool {
    let here = |own: &NodeDeployment| *own.name == *claim.selected_node();
    is_ours(claim, driver) && settings.node.as_ref().is_none_or(here)
}

/// Whether the control plane chose this driver. A claim that is older than the driver names the plugin
/// that it replaced, and then the driver in another annotation.
fn is_ours(claim: &Claim, driver: &Driver) -> bool {
    let provisioner = claim.provisioner().unwrap_or_default();
    let moved = claim.annotations.get(MIGRATED_TO) == Some(&*driver.name);
    *provisioner == *driver.name || moved && driver.plugin() == Some(provisioner)
}

/// Whether provisioners on several nodes may compete for a claim without selected node. Only the
/// field names the class here, as it always did.
fn is_contended(claim: &Claim, class: Option<&Class>) -> bool {
    let named = claim.class.as_ref();
    class.is_some_and(|class| {
        class.binding_mode == BindingMode::Immediate && named == Some(&class.name)
    })
}
