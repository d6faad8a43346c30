//! OpenStack Cinder. Its availability zones have no regions.

use super::{COPIED, FS_TYPE, READ_ONLY, handle};
use crate::model::driver::{
    AccessModes, ClassRules, Driver, Identity, Inline, InlineMode, Parameter, Part, Region,
    Secrets, ToCsi, ToInTree, Topology, ZoneLabel,
};
use crate::model::keys::FS_TYPE_PARAMETER;

const ZONE: &str = "topology.cinder.csi.openstack.org/zone";

/// `kubernetes.io/cinder`
pub const CINDER: Driver = Driver {
    plugin: "kubernetes.io/cinder",
    name: "cinder.csi.openstack.org",
    source: "cinder",
    to_csi: ToCsi {
        handle: &[Part::Field("volumeID")],
        copied: COPIED,
        attributes: &[],
        secrets: Secrets::None,
        only: &[],
        access_modes: AccessModes::Keep,
    },
    to_in_tree: ToInTree {
        fields: &[handle("volumeID"), FS_TYPE, READ_ONLY],
        fallback: None,
    },
    topology: Some(Topology {
        zone: ZONE,
        region: Region::None,
        label: ZoneLabel::Joined,
    }),
    class: Some(ClassRules {
        parameters: &[("fstype", Parameter::Renamed(FS_TYPE_PARAMETER))],
        keep_others: true,
        added: &[],
        zone: Some(ZONE),
        numbers_are_no_zones: false,
        provisioner: None,
    }),
    inline: Inline {
        name: &[
            Part::Text("cinder.csi.openstack.org-"),
            Part::Field("volumeID"),
        ],
        attributes: &[],
        access_mode: InlineMode::Always("ReadWriteOnce"),
    },
    repair: None,
    identity: Identity::Exact,
};
