//! Volumes and classes of in-tree plugins in the words of the CSI drivers that replaced them, and
//! back.
//!
//! Seven volume plugins were part of Kubernetes before CSI. Objects in clusters still carry their
//! sources (`awsElasticBlockStore`, `gcePersistentDisk`, …), and the CSI driver of the same storage
//! serves them. [`TRANSLATOR`] says each such object in the driver's words. It is a pure function
//! of the object: what is said about a plugin is in its table ([`model::drivers`]), and the code in
//! [`plan`] knows no plugin.
//!
//! Volumes are taken as the API server serves them, in JSON, and are given back with everything
//! that the translation does not concern, also what this version of the program has never heard
//! of. A caller that keeps only parts of an object hands over an object of those parts: a
//! translation to CSI reads `metadata.name`, the zone and region labels, three annotations
//! ([`model::keys`]), `spec.claimRef.namespace`, `spec.accessModes`, `spec.nodeAffinity` and the
//! source.

pub mod model;
pub mod plan;

pub use model::class::{Class, Requirement};
pub use model::driver::Driver;
pub use model::error::{Cause, Error};
pub use plan::translator::{TRANSLATOR, Translator};

#[cfg(test)]
mod tests;
