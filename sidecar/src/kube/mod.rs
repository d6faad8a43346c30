//! The Kubernetes side of a controller sidecar.
//!
//! Watch caches: [`reflect`] feeds [`cache`] with records decoded through [`lean`] types, keyed by
//! [`key`], with common texts shared through [`interner`].

pub mod cache;
pub mod interner;
pub mod key;
pub mod lean;
pub mod reflect;
