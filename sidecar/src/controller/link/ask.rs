//! What the driver is asked first: its name and what it can do.

use std::time::Duration;

use csi_proto::csi::group_controller_service_capability::rpc::Type as GroupRpc;
use csi_proto::sanitize::Method;
use tonic::Code;

use super::{Capabilities, until_answered};
use crate::controller::driver_info::DriverInfo;
use crate::controller::serve::Hindrances;
use crate::controller::view::Driver;
use crate::csi::identity::{
    self, ControllerCapabilities, GroupCapabilities, IdentityError, NodeCapabilities, Plugin,
};
use crate::csi::observe::Observer;
use crate::csi::{Channel, Deadline};
use crate::election::Fence;
use crate::error::Chain;
use crate::metrics::CsiOperations;
use crate::rt::Exit;

/// How long the driver may take to say who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// So long for its name, and so long for both capability calls together.
    Together(Duration),
    /// So long for each call.
    Each(Duration),
}

/// How calls are made.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// `--timeout`
    pub timeout: Duration,
    /// The calls that are made, for the log.
    pub methods: &'static [&'static [Method]],
    /// Longest text of an answer in the log.
    pub response_limit: Option<usize>,
}

impl Calls {
    /// Of calls on this controller's account, if there are several.
    pub(in crate::controller) fn observer(
        &self,
        controller: Option<&'static str>,
        operations: &CsiOperations,
    ) -> Observer {
        Observer {
            methods: self.methods,
            response_limit: self.response_limit,
            controller,
            operations: Some(operations.clone()),
        }
    }
}

/// What a driver is asked about what it can do.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// The controller is asked for its calls even if the driver offers no such service.
    any_controller: bool,
    /// The node service is asked for its calls if one of these says so.
    node: Vec<fn(&Capabilities) -> bool>,
    /// The group controller is asked for its calls.
    group: bool,
}

impl Questions {
    /// What a view with these settings needs to know.
    #[must_use]
    pub fn of<D: Driver>(with: &D::Settings) -> Self {
        Self {
            any_controller: D::ASKS_ANY_CONTROLLER,
            node: vec![D::asks_node],
            group: D::asks_group(with),
        }
    }

    /// What either needs to know.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.any_controller |= others.any_controller;
        self.node.extend(others.node);
        self.group |= others.group;
        self
    }
}

/// How a driver is met and followed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--csi-address`
    pub address: String,
    /// For calls.
    pub calls: Calls,
    /// For the first questions.
    pub identity: Identity,
    /// How long the driver may be away; `None` is for ever. With other replicas waiting for the
    /// lease, a leader without driver must make room.
    pub patience: Option<Duration>,
    /// The process ends with the driver, and leaves a note of it where kubelet reads one. Otherwise it waits for
    /// the driver however long, from the start, and asks until it gets an answer.
    pub is_last_word: bool,
    /// Exit code if the driver does not say who it is or what it can do.
    pub mute: u8,
    /// What holds calls back once they are another leader's.
    pub fence: Fence,
    /// Where it is shown that the driver is away.
    pub hindrances: Hindrances,
    /// Where it is shown which driver it is.
    pub info: DriverInfo,
}

impl Settings {
    /// What a first question comes to.
    ///
    /// # Errors
    /// How a process ends that ends with the driver.
    pub(super) async fn first<T>(
        &self,
        ask: impl AsyncFn() -> Result<T, IdentityError>,
    ) -> Result<T, IdentityError> {
        if self.is_last_word {
            return ask().await;
        }
        let ask = async || ask().await.map_err(|error| Chain(&error).to_string());
        Ok(until_answered(ask).await)
    }

    pub(super) fn refused(&self, error: &IdentityError) -> Exit {
        Exit::failure(self.mute, Chain(error))
    }

    pub(super) async fn plugin(&self, channel: Channel) -> Result<Plugin, IdentityError> {
        let (Identity::Together(limit) | Identity::Each(limit)) = self.identity;
        let ask = || identity::plugin(channel.clone(), limit);
        identity::unless_it_stood_still(limit, ask).await
    }

    pub(super) async fn capabilities(
        &self,
        channel: Channel,
        questions: &Questions,
    ) -> Result<Capabilities, IdentityError> {
        let longest = match self.identity {
            Identity::Together(limit) => limit,
            // Plugin, controller, node and groups.
            Identity::Each(limit) => limit.saturating_mul(4),
        };
        let ask = || self.capabilities_once(channel.clone(), questions);
        identity::unless_it_stood_still(longest, ask).await
    }

    async fn capabilities_once(
        &self,
        channel: Channel,
        questions: &Questions,
    ) -> Result<Capabilities, IdentityError> {
        use csi_proto::csi::plugin_capability::service::Type;
        let (first, limit) = match self.identity {
            Identity::Together(limit) => (Some(Deadline::after(limit)), limit),
            Identity::Each(limit) => (None, limit),
        };
        let deadline = || first.unwrap_or_else(|| Deadline::after(limit));
        let plugin = identity::plugin_capabilities(channel.clone(), deadline()).await?;
        let controller = if questions.any_controller || plugin.has(Type::ControllerService) {
            identity::controller_capabilities(channel.clone(), deadline()).await?
        } else {
            ControllerCapabilities::default()
        };
        let mut known = Capabilities {
            plugin,
            controller,
            node: NodeCapabilities::default(),
            group: GroupCapabilities::default(),
        };
        if questions.node.iter().any(|asks| asks(&known)) {
            known.node = identity::node_capabilities(channel.clone(), deadline()).await?;
        }
        if questions.group {
            let answer = identity::group_capabilities(channel, deadline()).await;
            known.group = answer.unwrap_or_else(|error| assumed(&error));
        }
        Ok(known)
    }
}

/// What is made of a group controller that does not say what it can do. One that is not there can do
/// nothing; any other is asked when it is needed, and its answer then says what is wrong.
fn assumed(error: &IdentityError) -> GroupCapabilities {
    tracing::error!(err = %Chain(error), "Cannot determine whether the driver supports group snapshots");
    match error {
        IdentityError::Call { status, .. } if status.code() == Code::Unimplemented => {
            GroupCapabilities::default()
        }
        IdentityError::Call { .. } | IdentityError::EmptyName | IdentityError::Probe(_) => {
            [GroupRpc::CreateDeleteGetVolumeGroupSnapshot]
                .into_iter()
                .collect()
        }
    }
}
