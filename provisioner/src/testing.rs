//! Objects for tests: the fixture of the acceptance tables.
//!
//! Separate, because decision tables and crash simulation start from the same objects.

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
