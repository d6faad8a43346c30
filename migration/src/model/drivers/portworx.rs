//! Portworx.

use super::{FS_TYPE, READ_ONLY, handle};
use crate::model::driver::{
    AccessModes, ClassRules, Driver, Identity, Inline, InlineMode, Parameter, Part, Secrets, ToCsi,
    ToInTree,
};
use crate::model::keys::{AUTH_SECRET_NAME, AUTH_SECRET_NAMESPACE};

const NAME: &str = "pxd.portworx.com";

/// `kubernetes.io/portworx-volume`
pub const PORTWORX: Driver = Driver {
    plugin: "kubernetes.io/portworx-volume",
    name: NAME,
    source: "portworxVolume",
    to_csi: ToCsi {
        handle: &[Part::Field("volumeID")],
        copied: &["fsType"],
        attributes: &[],
        secrets: Secrets::Annotated {
            name: AUTH_SECRET_NAME,
            namespace: AUTH_SECRET_NAMESPACE,
            references: &[
                "controllerPublishSecretRef",
                "nodeStageSecretRef",
                "nodePublishSecretRef",
                "controllerExpandSecretRef",
                "nodeExpandSecretRef",
            ],
        },
        only: &[],
        access_modes: AccessModes::Keep,
    },
    to_in_tree: ToInTree {
        fields: &[handle("volumeID"), FS_TYPE, READ_ONLY],
        fallback: None,
    },
    topology: None,
    class: Some(ClassRules {
        parameters: &[
            (
                AUTH_SECRET_NAME,
                Parameter::Spread(&[
                    "csi.storage.k8s.io/provisioner-secret-name",
                    "csi.storage.k8s.io/controller-publish-secret-name",
                    "csi.storage.k8s.io/node-publish-secret-name",
                    "csi.storage.k8s.io/node-stage-secret-name",
                    "csi.storage.k8s.io/controller-expand-secret-name",
                    "csi.storage.k8s.io/node-expand-secret-name",
                ]),
            ),
            (
                AUTH_SECRET_NAMESPACE,
                Parameter::Spread(&[
                    "csi.storage.k8s.io/provisioner-secret-namespace",
                    "csi.storage.k8s.io/controller-publish-secret-namespace",
                    "csi.storage.k8s.io/node-publish-secret-namespace",
                    "csi.storage.k8s.io/node-stage-secret-namespace",
                    "csi.storage.k8s.io/controller-expand-secret-namespace",
                    "csi.storage.k8s.io/node-expand-secret-namespace",
                ]),
            ),
        ],
        keep_others: true,
        added: &[],
        zone: None,
        numbers_are_no_zones: false,
        provisioner: Some(NAME),
    }),
    inline: Inline {
        name: &[Part::Text("pxd.portworx.com-"), Part::Field("volumeID")],
        attributes: &[],
        access_mode: InlineMode::ByReadOnly,
    },
    repair: None,
    identity: Identity::Exact,
};
