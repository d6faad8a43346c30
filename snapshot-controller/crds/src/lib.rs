//! The snapshot API as custom resource definitions: six kinds, every version that clusters have had.
//!
//! Types and rules produce the schemas, `kube`'s derive adds the validation rules for the API server, and
//! the CRDs are assembled here, since `kube`'s own `CustomResource` only makes kinds with a
//! `spec`, which classes lack. [`schema`] patches two things: no field is nullable, since the programs
//! omit unknown values, and nothing has a title.
//!
//! The controllers do not use these types: each reads the fields that it needs and keeps no others. A
//! test compares the CRDs with upstream's, field by field and rule by rule.

pub mod definition;
pub mod schema;
pub mod types;

pub use definition::{Definition, all};

/// First line of each file.
const HEADER: &str = "# Written by `make crds` from snapshot-controller/crds.\n";

/// The content of the CRD's file.
///
/// # Errors
/// The CRD cannot be written as YAML.
pub fn text(definition: &Definition) -> anyhow::Result<String> {
    let yaml = serde_saphyr::to_string(&definition.object)?;
    Ok(format!("{HEADER}{yaml}"))
}
