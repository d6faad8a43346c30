//! Behaviour that all controllers share.

use super::stage::PROGRAM;

sidecar_testkit::contract!(PROGRAM);
sidecar_testkit::contract_with_a_driver!(PROGRAM);
