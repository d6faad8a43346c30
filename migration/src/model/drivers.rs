//! The plugins, a table for each.

mod azure_disk;
mod azure_file;
mod cinder;
mod ebs;
mod gce_pd;
mod portworx;
mod vsphere;

pub use azure_disk::AZURE_DISK;
pub use azure_file::AZURE_FILE;
pub use cinder::CINDER;
pub use ebs::EBS;
pub use gce_pd::GCE_PD;
pub use portworx::PORTWORX;
pub use vsphere::VSPHERE;

use super::driver::{Driver, Origin, Otherwise, Restored};

/// All drivers that replaced an in-tree plugin and that this crate translates for.
pub const DRIVERS: [Driver; 7] = [
    EBS, GCE_PD, CINDER, AZURE_DISK, AZURE_FILE, VSPHERE, PORTWORX,
];

/// `fsType` and `readOnly`, which most sources have in the same form as CSI.
const COPIED: &[&str] = &["fsType", "readOnly"];

const FS_TYPE: Restored = Restored {
    field: "fsType",
    from: &[Origin::FsType],
    otherwise: Otherwise::Omit,
};

const READ_ONLY: Restored = Restored {
    field: "readOnly",
    from: &[Origin::ReadOnly],
    otherwise: Otherwise::Omit,
};

/// A field with the driver's handle as its value.
const fn handle(field: &'static str) -> Restored {
    Restored {
        field,
        from: &[Origin::Handle],
        otherwise: Otherwise::Text(""),
    }
}
