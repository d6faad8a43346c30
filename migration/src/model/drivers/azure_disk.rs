//! Azure managed disks.

use super::{COPIED, handle};
use crate::model::driver::{
    AccessModes, Attribute, ClassRules, Driver, Identity, Inline, InlineMode, Origin, Otherwise,
    Parameter, Part, Restored, Secrets, ToCsi, ToInTree,
};

const ZONE: &str = "topology.disk.csi.azure.com/zone";
const MANAGED: &str = "Managed";

/// `kubernetes.io/azure-disk`
pub const AZURE_DISK: Driver = Driver {
    plugin: "kubernetes.io/azure-disk",
    name: "disk.csi.azure.com",
    source: "azureDisk",
    to_csi: ToCsi {
        handle: &[Part::Field("diskURI")],
        copied: COPIED,
        attributes: &[
            ("kind", Attribute::Fixed(MANAGED)),
            ("cachingmode", Attribute::IfSet("cachingMode")),
            ("fstype", Attribute::IfSet("fsType")),
        ],
        secrets: Secrets::None,
        only: &[("kind", MANAGED)],
        access_modes: AccessModes::Keep,
    },
    to_in_tree: ToInTree {
        fields: &[
            handle("diskURI"),
            Restored {
                field: "diskName",
                from: &[Origin::AzureDiskName],
                otherwise: Otherwise::Text(""),
            },
            Restored {
                field: "fsType",
                from: &[Origin::AnyCaseUnlessEmpty("fstype"), Origin::FsType],
                otherwise: Otherwise::Text(""),
            },
            Restored {
                field: "readOnly",
                from: &[Origin::ReadOnly],
                otherwise: Otherwise::False,
            },
            Restored {
                field: "cachingMode",
                from: &[Origin::AnyCaseUnlessEmpty("cachingmode")],
                otherwise: Otherwise::Omit,
            },
            Restored {
                field: "kind",
                from: &[Origin::Fixed(MANAGED)],
                otherwise: Otherwise::Omit,
            },
        ],
        fallback: None,
    },
    // Volumes keep the driver's key, and none of its nodes has another.
    topology: None,
    class: Some(ClassRules {
        parameters: &[("zone", Parameter::Zone), ("zones", Parameter::Zones)],
        keep_others: true,
        added: &[],
        zone: Some(ZONE),
        // Regions without zones have fault domains, "0" and "1", instead.
        numbers_are_no_zones: true,
        provisioner: None,
    }),
    inline: Inline {
        name: &[Part::Field("diskURI")],
        attributes: &[
            ("kind", Attribute::Fixed(MANAGED)),
            ("cachingmode", Attribute::UnlessEmpty("cachingMode")),
            ("fstype", Attribute::IfSet("fsType")),
        ],
        access_mode: InlineMode::Always("ReadWriteOnce"),
    },
    repair: None,
    identity: Identity::AnyCase,
};
