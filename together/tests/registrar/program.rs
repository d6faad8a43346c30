//! The program under test, and how to spell csi-node-driver-registrar's flags for it.

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_csi-node-sidecars");

/// Arguments of every start.
pub(crate) const FIRST: &[&str] = &["--controllers=node-driver-registrar"];

/// Flags of its own listeners have its name as prefix.
pub(crate) fn flag(flag: &str) -> String {
    for own in ["--http-endpoint", "--health-port"] {
        if let Some(rest) = flag.strip_prefix(own) {
            return format!(
                "--node-driver-registrar-{}{rest}",
                own.trim_start_matches('-')
            );
        }
    }
    flag.to_owned()
}
