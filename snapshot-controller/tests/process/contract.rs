//! What all controllers do alike.

use super::stage::PROGRAM;

sidecar_testkit::contract!(PROGRAM);
sidecar_testkit::contract_of_traces!(PROGRAM);
