//! Flags and environment variables that decisions depend on.

use crate::model::Text;

/// Settings of decisions; they never change while the process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--volume-name-prefix`
    pub volume_name_prefix: String,
    /// `--volume-name-uuid-length`: -1 is the whole UID with its dashes, any other number is the count of its
    /// characters without dashes.
    pub volume_name_uuid_length: i64,
    /// `--strict-topology`
    pub strict_topology: bool,
    /// `--immediate-topology`
    pub immediate_topology: bool,
    /// `--extra-create-metadata`
    pub extra_create_metadata: bool,
    /// `--default-fstype`
    pub default_fs_type: String,
    /// `--controller-publish-readonly`
    pub publish_readonly: bool,
    /// `--prevent-volume-mode-conversion`
    pub prevent_mode_conversion: bool,
    /// `--provisioning-protection`
    pub protection: Protection,
    /// `--node-deployment`: the node's name and the options of this mode.
    pub node: Option<NodeDeployment>,
    /// Feature gates.
    pub gates: Gates,
    /// Value of [`IDENTITY_ATTRIBUTE`](crate::keys::IDENTITY_ATTRIBUTE) of this process.
    pub identity: String,
}

impl Default for Settings {
    /// The defaults of the flags.
    fn default() -> Self {
        Self {
            volume_name_prefix: "pvc".into(),
            volume_name_uuid_length: -1,
            strict_topology: false,
            immediate_topology: true,
            extra_create_metadata: false,
            default_fs_type: String::new(),
            publish_readonly: false,
            prevent_mode_conversion: true,
            protection: Protection::Journal,
            node: None,
            gates: Gates::default(),
            identity: String::new(),
        }
    }
}

/// Where the provisioner records that a volume may exist for a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// In the provisioning journal, before every first CreateVolume.
    #[default]
    Journal,
    /// In this process's memory.
    Off,
}

/// One provisioner per node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDeployment {
    /// `NODE_NAME`
    pub name: Text,
    /// `--node-deployment-immediate-binding`
    pub immediate_binding: bool,
}

/// Feature gates that decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `Topology`
    pub topology: bool,
    /// `CrossNamespaceVolumeDataSource`
    pub cross_namespace: bool,
    /// `VolumeAttributesClass`; unless it was set, discovery turns it off where the API lacks the kind.
    pub attributes_class: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            topology: true,
            cross_namespace: false,
            attributes_class: true,
        }
    }
}
