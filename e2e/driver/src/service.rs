//! The services of CSI: each call is planned on the state, recorded, and performed.
//!
//! The functions here are synchronous, because everything they do blocks; [`grpc`] runs them on
//! blocking threads, where they go on when the caller has gone away, as in any driver.

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

/// Name of the driver and place of its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Driver name.
    pub name: String,
    /// Version of GetPluginInfo.
    pub vendor_version: String,
    /// Node id.
    pub node: String,
    /// Segments of this node.
    pub topology: Segments,
    /// Most volumes on this node, 0 for no limit.
    pub max_volumes: i64,
}

/// One driver process.
#[derive(Debug)]
pub struct Driver {
    /// Who it is.
    pub identity: Identity,
    /// What it allows.
    pub policy: Policy,
    /// What it says it can do.
    pub features: Features,
    /// Shared state.
    pub store: Store,
    /// Mounts.
    pub targets: Targets,
    /// Operations under way.
    pub busy: Busy,
    /// What tests changed at run time.
    pub settings: Mutex<Settings>,
}

impl Driver {
    fn here(&self) -> Here<'_> {
        Here {
            id: &self.identity.node,
            topology: &self.identity.topology,
        }
    }

    /// A copy of what tests changed.
    pub fn settings(&self) -> Settings {
        self.settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
