//! The Kubernetes side of a controller sidecar.
//!
//! Requests: [`connect`] makes the client, [`rate`] limits its requests, [`probe`] notices that the API server answers
//! again, [`access`] checks permissions at the start, [`discovery`] the served kinds, [`api`] reads and writes single
//! objects, [`patch`] and [`edit`] build the bodies of writes, [`events`] reports to users.
//!
//! Watch caches: a [`feed`] lists and watches a kind once ([`reflect`]) for every [`cache`] of it, which holds records
//! decoded through [`lean`] types, keyed by [`key`], with common texts shared through [`interner`]. For kinds with few
//! objects, an [`informer`] of kube-runtime's parts suffices. [`objects`] has the wire types of Kubernetes' own kinds.

pub mod access;
pub mod api;
pub mod cache;
pub mod connect;
pub mod discovery;
pub mod edit;
pub mod events;
pub mod feed;
#[cfg(feature = "informer")]
pub mod informer;
pub mod interner;
pub mod key;
pub mod lean;
pub mod objects;
pub mod patch;
pub mod probe;
pub mod rate;
pub mod reflect;
