//! Disks of VMware vSphere.

use super::{FS_TYPE, handle};
use crate::model::driver::{
    AccessModes, Attribute, ClassRules, Driver, Identity, Inline, InlineMode, Origin, Parameter,
    Part, Region, Restored, Secrets, ToCsi, ToInTree, Topology, ZoneLabel,
};
use crate::model::keys::FS_TYPE_PARAMETER;

const ZONE: &str = "topology.csi.vmware.com/zone";
const REGION: &str = "topology.csi.vmware.com/region";

const ATTRIBUTES: &[(&str, Attribute)] = &[(
    "storagepolicyname",
    Attribute::UnlessEmpty("storagePolicyName"),
)];

/// `kubernetes.io/vsphere-volume`
pub const VSPHERE: Driver = Driver {
    plugin: "kubernetes.io/vsphere-volume",
    name: "csi.vsphere.vmware.com",
    source: "vsphereVolume",
    to_csi: ToCsi {
        handle: &[Part::Field("volumePath")],
        copied: &["fsType"],
        attributes: ATTRIBUTES,
        secrets: Secrets::None,
        only: &[],
        access_modes: AccessModes::Keep,
    },
    to_in_tree: ToInTree {
        fields: &[
            // The driver's own handle is another ID.
            Restored {
                from: &[Origin::Attribute("initialvolumefilepath")],
                ..handle("volumePath")
            },
            FS_TYPE,
        ],
        fallback: None,
    },
    topology: Some(Topology {
        zone: ZONE,
        region: Region::Key(REGION),
        label: ZoneLabel::One,
    }),
    class: Some(ClassRules {
        parameters: &[
            ("fstype", Parameter::Renamed(FS_TYPE_PARAMETER)),
            ("storagepolicyname", Parameter::Renamed("storagepolicyname")),
            ("datastore", Parameter::Renamed("datastore-migrationparam")),
            (
                "diskformat",
                Parameter::Renamed("diskformat-migrationparam"),
            ),
            (
                "hostfailurestotolerate",
                Parameter::Renamed("hostfailurestotolerate-migrationparam"),
            ),
            (
                "forceprovisioning",
                Parameter::Renamed("forceprovisioning-migrationparam"),
            ),
            (
                "cachereservation",
                Parameter::Renamed("cachereservation-migrationparam"),
            ),
            (
                "diskstripes",
                Parameter::Renamed("diskstripes-migrationparam"),
            ),
            (
                "objectspacereservation",
                Parameter::Renamed("objectspacereservation-migrationparam"),
            ),
            ("iopslimit", Parameter::Renamed("iopslimit-migrationparam")),
        ],
        keep_others: false,
        added: &[("csimigration", "true")],
        zone: Some(ZONE),
        numbers_are_no_zones: false,
        provisioner: None,
    }),
    inline: Inline {
        name: &[
            Part::Text("csi.vsphere.vmware.com-"),
            Part::Field("volumePath"),
        ],
        attributes: ATTRIBUTES,
        access_mode: InlineMode::Always("ReadWriteOnce"),
    },
    repair: None,
    // Neither side has both the driver's ID and the path.
    identity: Identity::Elsewhere,
};
