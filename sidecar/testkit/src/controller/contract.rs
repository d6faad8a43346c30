//! The behaviour that all controllers share, tested with each of them.
//!
//! `sidecar_testkit::contract!(PROGRAM);` in a test file of a controller generates the tests, `contract_with_a_driver!`
//! those for programs with a driver, `contract_of_traces!` those for programs that export traces. `PROGRAM` is a static
//! [`Program`](super::Program) with all differences. Numbers in names are rows of `docs/spec/common.md`, those with an
//! O of `docs/spec/observability.md`, those with a W of `docs/spec/why.md`.

pub mod command_line;
pub mod driver;
pub mod election;
pub mod health;
pub mod permission;
pub mod secure;
pub mod shutdown;
pub mod start;
pub mod trace;
pub mod why;

/// Generates the tests of every controller.
#[macro_export]
macro_rules! contract {
    ($program:path) => {
        $crate::contract_of_command_lines!($program);
        $crate::contract_of_starts!($program);
        $crate::contract_of_elections!($program);
        $crate::contract_of_shutdowns!($program);
        $crate::contract_of_permissions!($program);
        $crate::contract_of_health!($program);
        $crate::contract_of_secure_servers!($program);
        $crate::contract_of_secure_connections!($program);
        $crate::contract_of_answers!($program);
    };
}

/// Generates further tests, of a controller with a driver.
#[macro_export]
macro_rules! contract_with_a_driver {
    ($program:path) => {
        $crate::contract_of_drivers!($program);
        $crate::contract_of_health_with_a_driver!($program);
        $crate::contract_of_answers_with_a_driver!($program);
    };
}
