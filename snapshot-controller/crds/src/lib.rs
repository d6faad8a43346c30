//! The snapshot API as custom resource definitions: six kinds, every version that clusters have had.
//!
//! Types and rules give the schemas, `kube`'s derive puts the rules for the API server into them, and
//! the definitions are assembled here, since `kube`'s own `CustomResource` makes only kinds with a
//! `spec`, which classes do not have. Two things are patched, in [`schema`]: no field is nullable, since
//! the programs leave out what is not known, and nothing has a title.
//!
//! The controllers do not use these types: each reads of an object what it needs and keeps no more. A
//! test compares the definitions with upstream's, field by field and rule by rule.

pub mod definition;
pub mod schema;
pub mod types;

pub use definition::{Definition, all};

/// Of each file.
const HEADER: &str = "# Written by `make crds` from snapshot-controller/crds.\n";

/// What the definition's file has in it.
///
/// # Errors
/// It cannot be written as YAML.
pub fn text(definition: &Definition) -> anyhow::Result<String> {
    let yaml = serde_saphyr::to_string(&definition.object)?;
    Ok(format!("{HEADER}{yaml}"))
}
