//! The CSI services: each call is decided on the state, recorded there, and performed.
//!
//! The functions here are synchronous, because all their work blocks; [`grpc`] runs them on
//! blocking threads, where they continue when the caller goes away, as in any driver.

pub mod advertise;
pub mod busy;
pub mod controller;
pub mod grpc;
pub mod health;
pub mod metadata;
pub mod node;
pub mod snapshot;

use std::sync::{Mutex, PoisonError};

use crate::backing::target::Targets;
use crate::instrument::settings::Settings;
use crate::model::topology::Segments;
use crate::plan::Policy;
use crate::plan::node::Here;
use crate::store::Store;
use advertise::Features;
use busy::Busy;

/// Name of the driver and topology of its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Driver name.
    pub name: String,
    /// Version in GetPluginInfo.
    pub vendor_version: String,
    /// Node id.
    pub node: String,
    /// Segments of this node.
    pub topology: Segments,
    /// Volumes on this node at most, 0 for no limit.
    pub max_volumes: i64,
}

/// One driver process.
#[derive(Debug)]
pub struct Driver {
    /// Its identity.
    pub identity: Identity,
    /// Limits and options of its decisions.
    pub policy: Policy,
    /// Its services and capabilities.
    pub features: Features,
    /// The shared state.
    pub store: Store,
    /// Mounts.
    pub targets: Targets,
    /// Operations in progress.
    pub busy: Busy,
    /// Settings that tests have changed.
    pub settings: Mutex<Settings>,
}

impl Driver {
    fn here(&self) -> Here<'_> {
        Here {
            id: &self.identity.node,
            topology: &self.identity.topology,
        }
    }

    /// A copy of the settings that tests have changed.
    pub fn settings(&self) -> Settings {
        self.settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
