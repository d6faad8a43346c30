//! Translates volumes and classes of in-tree plugins for the CSI drivers that replaced them, and back.
//!
//! Seven volume plugins were part of Kubernetes before CSI. Objects in clusters still carry their sources
//! (`awsElasticBlockStore`, `gcePersistentDisk`, …), and the CSI driver of the same storage serves them. [`TRANSLATOR`]
//! translates each such object. It is a pure function of the object: the rules of a plugin are in its table
//! ([`model::drivers`]), and the code in [`plan`] knows no plugin.
//!
//! Volumes are taken as the API server serves them, in JSON, and are returned with everything that the translation does
//! not concern, including fields that this version of the program does not know. A caller that keeps only parts of an
//! object passes an object of those parts: a translation to CSI reads `metadata.name`, the zone and region labels,
//! three annotations ([`model::keys`]), `spec.claimRef.namespace`, `spec.accessModes`, `spec.nodeAffinity` and the
//! source.

pub mod model;
pub mod plan;

pub use model::class::{Class, Requirement};
pub use model::driver::Driver;
pub use model::error::{Cause, Error};
pub use plan::translator::{TRANSLATOR, Translator};

#[cfg(test)]
mod tests;
