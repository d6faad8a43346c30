//! Azure file shares.

use super::READ_ONLY;
use crate::model::driver::{
    AccessModes, Attribute, Driver, Fallback, Identity, Inline, InlineMode, Origin, Otherwise,
    Part, Restored, Secrets, ToCsi, ToInTree,
};
use crate::model::keys::RESOURCE_GROUP;

/// Resource group, account, share, name of the volume, namespace of the Secret.
const HANDLE: &[Part] = &[
    Part::Annotation(RESOURCE_GROUP),
    Part::Text("#"),
    Part::Account("secretName"),
    Part::Text("#"),
    Part::Field("shareName"),
    Part::Text("#"),
    Part::VolumeName,
    Part::Text("#"),
    Part::Namespace("secretNamespace"),
];

const ATTRIBUTES: &[(&str, Attribute)] = &[("sharename", Attribute::Field("shareName"))];

/// `kubernetes.io/azure-file`
pub const AZURE_FILE: Driver = Driver {
    plugin: "kubernetes.io/azure-file",
    name: "file.csi.azure.com",
    source: "azureFile",
    to_csi: ToCsi {
        handle: HANDLE,
        copied: &["readOnly"],
        attributes: ATTRIBUTES,
        secrets: Secrets::NodeStage {
            name: "secretName",
            namespace: "secretNamespace",
        },
        only: &[],
        access_modes: AccessModes::Keep,
    },
    to_in_tree: ToInTree {
        fields: &[
            Restored {
                field: "shareName",
                from: &[Origin::AnyCaseUnlessEmpty("sharename")],
                otherwise: Otherwise::Text(""),
            },
            Restored {
                field: "secretName",
                from: &[Origin::SecretName, Origin::AnyCaseUnlessEmpty("secretname")],
                otherwise: Otherwise::Text(""),
            },
            Restored {
                field: "secretNamespace",
                from: &[Origin::SecretNamespace, Origin::AnyCase("secretnamespace")],
                otherwise: Otherwise::Text("default"),
            },
            READ_ONLY,
        ],
        fallback: Some(Fallback {
            separator: '#',
            at_least: 3,
            fields: &[
                ("shareName", "", 2, ""),
                ("secretName", "azure-storage-account-", 1, "-secret"),
            ],
            annotation: (RESOURCE_GROUP, 0),
        }),
    },
    topology: None,
    class: None,
    inline: Inline {
        name: HANDLE,
        attributes: ATTRIBUTES,
        access_mode: InlineMode::Always("ReadWriteMany"),
    },
    repair: None,
    // A Secret of any name may belong to the account: only the share identifies the volume.
    identity: Identity::Part('#', 2),
};
