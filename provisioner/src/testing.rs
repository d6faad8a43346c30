//! Objects for tests: the fixture of the acceptance tables.
//!
//! Decision tables and crash simulation start from the same objects.

use crate::keys::STORAGE_PROVISIONER;
use crate::model::{BindingMode, Claim, ClaimPhase, Class, Quantity, Text};
use crate::plan::Driver;
use crate::plan::driver::Abilities;

/// The fixture's driver: creates and deletes volumes, nothing else.
pub(crate) fn driver() -> Driver {
    Driver {
        name: "test-driver".into(),
        abilities: Abilities {
            controller: true,
            create_delete: true,
            ..Abilities::default()
        },
    }
}

/// The fixture claim's UID.
pub(crate) const U: &str = "11111111-2222-3333-4444-555555555555";

/// The fixture's claim `ns1/c1`: 1Gi, ReadWriteOnce, class `sc1`.
pub(crate) fn claim() -> Claim {
    Claim {
        namespace: "ns1".into(),
        name: "c1".into(),
        uid: U.into(),
        version: 7,
        annotations: [(STORAGE_PROVISIONER, "test-driver")].into_iter().collect(),
        class: Some("sc1".into()),
        access_modes: [Text::from("ReadWriteOnce")].into(),
        request: Some(Quantity::from_bytes(1 << 30)),
        phase: ClaimPhase::Pending,
        ..Claim::default()
    }
}

/// The fixture's class `sc1`: Immediate, Delete, no parameters.
pub(crate) fn class() -> Class {
    Class {
        name: "sc1".into(),
        uid: "class-uid".into(),
        provisioner: "test-driver".into(),
        reclaim_policy: Some("Delete".into()),
        binding_mode: BindingMode::Immediate,
        ..Class::default()
    }
}
