//! The program under test, and the form of its flags.

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_csi-node-driver-registrar");

/// Further flags of every start.
pub(crate) const FIRST: &[&str] = &[];

/// A flag of csi-node-driver-registrar.
pub(crate) fn flag(flag: &str) -> String {
    flag.to_owned()
}
