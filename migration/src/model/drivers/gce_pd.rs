//! Persistent disks of Google Compute Engine.

use super::{COPIED, FS_TYPE, READ_ONLY};
use crate::model::driver::{
    AccessModes, Attribute, ClassRules, Driver, Identity, Inline, InlineMode, Origin, Otherwise,
    Parameter, Part, Region, Repair, Restored, Secrets, ToCsi, ToInTree, Topology, ZoneForm,
    ZoneLabel,
};
use crate::model::keys::FS_TYPE_PARAMETER;

const ZONE: &str = "topology.gke.io/zone";

const ATTRIBUTES: &[(&str, Attribute)] = &[(
    "partition",
    Attribute::Number {
        field: "partition",
        zero: "",
    },
)];

/// `kubernetes.io/gce-pd`
pub const GCE_PD: Driver = Driver {
    plugin: "kubernetes.io/gce-pd",
    name: "pd.csi.storage.gke.io",
    source: "gcePersistentDisk",
    to_csi: ToCsi {
        handle: &[
            Part::Text("projects/UNSPECIFIED/"),
            Part::Location(ZoneForm::Gce),
            Part::Text("/disks/"),
            Part::Field("pdName"),
        ],
        copied: COPIED,
        attributes: ATTRIBUTES,
        secrets: Secrets::None,
        only: &[],
        access_modes: AccessModes::One,
    },
    to_in_tree: ToInTree {
        fields: &[
            Restored {
                field: "pdName",
                from: &[Origin::HandlePart { part: 5, of: 6 }],
                otherwise: Otherwise::Text(""),
            },
            FS_TYPE,
            READ_ONLY,
            Restored {
                field: "partition",
                from: &[Origin::Number {
                    key: "partition",
                    may_be_empty: true,
                }],
                otherwise: Otherwise::Omit,
            },
        ],
        fallback: None,
    },
    topology: Some(Topology {
        zone: ZONE,
        region: Region::OfZones(ZoneForm::Gce),
        label: ZoneLabel::Joined,
    }),
    class: Some(ClassRules {
        parameters: &[
            ("fstype", Parameter::Renamed(FS_TYPE_PARAMETER)),
            ("zone", Parameter::Zone),
            ("zones", Parameter::Zones),
        ],
        keep_others: true,
        added: &[],
        zone: Some(ZONE),
        numbers_are_no_zones: false,
        provisioner: None,
    }),
    inline: Inline {
        name: &[Part::Text("pd.csi.storage.gke.io-"), Part::Field("pdName")],
        attributes: ATTRIBUTES,
        access_mode: InlineMode::ByReadOnly,
    },
    repair: Some(Repair {
        parts: 6,
        zone: ZoneForm::Gce,
    }),
    identity: Identity::DiskPath,
};
