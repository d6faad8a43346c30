//! The Kubernetes side of a controller sidecar.
//!
//! The way to the API server: [`connect`] makes the client, [`rate`] keeps it from asking too much,
//! [`probe`] notices that it answers again,
//! [`access`] checks at the start what it may do, [`discovery`] what there is, [`api`] reads and
//! writes single objects, [`patch`] and [`edit`] build what is written, [`events`] tells users what happened.
//!
//! Watch caches: a [`feed`] lists and watches a kind once ([`reflect`]) for every [`cache`] of it, which
//! holds records decoded through [`lean`] types, keyed by [`key`], with common texts shared through
//! [`interner`]. Where objects are few, an [`informer`] of kube-runtime's parts does. How [`objects`] of Kubernetes' own kinds read is there for all of them.

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
