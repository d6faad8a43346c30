//! Amazon Elastic Block Store.

use super::{COPIED, FS_TYPE, READ_ONLY, handle};
use crate::model::driver::{
    AccessModes, Attribute, ClassRules, Driver, Identity, Inline, InlineMode, Origin, Otherwise,
    Parameter, Part, Region, Restored, Secrets, ToCsi, ToInTree, Topology, ZoneForm, ZoneLabel,
};
use crate::model::keys::FS_TYPE_PARAMETER;

const ZONE: &str = "topology.ebs.csi.aws.com/zone";

const ATTRIBUTES: &[(&str, Attribute)] = &[(
    "partition",
    Attribute::Number {
        field: "partition",
        zero: "0",
    },
)];

/// `kubernetes.io/aws-ebs`
pub const EBS: Driver = Driver {
    plugin: "kubernetes.io/aws-ebs",
    name: "ebs.csi.aws.com",
    source: "awsElasticBlockStore",
    to_csi: ToCsi {
        handle: &[Part::AwsId("volumeID")],
        copied: COPIED,
        attributes: ATTRIBUTES,
        secrets: Secrets::None,
        only: &[],
        access_modes: AccessModes::Keep,
    },
    to_in_tree: ToInTree {
        fields: &[
            handle("volumeID"),
            FS_TYPE,
            READ_ONLY,
            Restored {
                field: "partition",
                from: &[Origin::Number {
                    key: "partition",
                    may_be_empty: false,
                }],
                otherwise: Otherwise::Omit,
            },
        ],
        fallback: None,
    },
    topology: Some(Topology {
        zone: ZONE,
        region: Region::OfZones(ZoneForm::Aws),
        label: ZoneLabel::Joined,
    }),
    class: Some(ClassRules {
        parameters: &[
            ("fstype", Parameter::Renamed(FS_TYPE_PARAMETER)),
            ("zone", Parameter::Zone),
            ("zones", Parameter::Zones),
            (
                "iopspergb",
                Parameter::With("allowautoiopspergbincrease", "true"),
            ),
        ],
        keep_others: true,
        added: &[],
        zone: Some(ZONE),
        numbers_are_no_zones: false,
        provisioner: None,
    }),
    inline: Inline {
        name: &[Part::Text("ebs.csi.aws.com-"), Part::AwsId("volumeID")],
        attributes: ATTRIBUTES,
        access_mode: InlineMode::Always("ReadWriteOnce"),
    },
    repair: None,
    identity: Identity::Exact,
};
