//! The first calls to the driver: its name and its capabilities.

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

/// Time limit for the driver's name and capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// This long for the name, and this long for both capability calls together.
    Together(Duration),
    /// This long for each call.
    Each(Duration),
}

/// Settings of calls to the driver.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// `--timeout`
    pub timeout: Duration,
    /// The methods that are called, for the log.
    pub methods: &'static [&'static [Method]],
    /// Most bytes of one text of a response in the log.
    pub response_limit: Option<usize>,
}

impl Calls {
    /// Observes calls for this controller, if the process has several.
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

/// Which capabilities the driver is asked for.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// Asks for the controller's capabilities even if the driver offers no such service.
    any_controller: bool,
    /// Asks for the node service's capabilities if one of these returns true.
    node: Vec<fn(&Capabilities) -> bool>,
    /// Asks for the group controller's capabilities.
    group: bool,
}

impl Questions {
    /// The capabilities that a view with these settings needs.
    #[must_use]
    pub fn of<D: Driver>(with: &D::Settings) -> Self {
        Self {
            any_controller: D::ASKS_ANY_CONTROLLER,
            node: vec![D::asks_node],
            group: D::asks_group(with),
        }
    }

    /// The capabilities that either of the two needs.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.any_controller |= others.any_controller;
        self.node.extend(others.node);
        self.group |= others.group;
        self
    }
}

/// How to connect to a driver and follow it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--csi-address`
    pub address: String,
    /// Settings of calls.
    pub calls: Calls,
    /// Time limit for name and capabilities.
    pub identity: Identity,
    /// How long the driver may be away; `None` means for ever. While other replicas wait for the lease, a
    /// leader without a driver must give way.
    pub patience: Option<Duration>,
    /// The process ends with the driver, and writes the reason to the termination log that kubelet reads. Otherwise
    /// it waits for the driver without limit, from the start, and asks until it gets an answer.
    pub is_last_word: bool,
    /// Exit code if the driver does not report name or capabilities.
    pub mute: u8,
    /// Holds calls back once another replica may lead.
    pub fence: Fence,
    /// Shows on the readiness endpoint that the driver is away.
    pub hindrances: Hindrances,
    /// Shows the driver's identity.
    pub info: DriverInfo,
}

impl Settings {
    /// Asks the driver for the first time, as often as the settings allow.
    ///
    /// # Errors
    /// How the process ends if it ends with the driver.
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

/// The capabilities to assume if the group controller does not report any. A missing service has none;
/// any other one is called when needed, and its answer then shows what is wrong.
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
