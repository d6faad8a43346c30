//! Passes the compiler's version and the target to [`build`](src/build.rs).

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC");
    let version = env::var_os("RUSTC").and_then(|rustc| {
        let said = Command::new(rustc).arg("--version").output().ok()?;
        // "rustc 1.95.0 (59807616e 2026-04-14)"
        let said = String::from_utf8(said.stdout).ok()?;
        said.split(' ').nth(1).map(str::to_owned)
    });
    let unknown = || "unknown".to_owned();
    println!(
        "cargo::rustc-env=SIDECAR_RUSTC={}",
        version.unwrap_or_else(unknown)
    );
    let target = env::var("TARGET").unwrap_or_else(|_| unknown());
    println!("cargo::rustc-env=SIDECAR_TARGET={target}");
}
