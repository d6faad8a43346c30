//! The calls that every sidecar makes at start: Probe, GetPluginInfo, and the capability calls.

use std::collections::BTreeSet;
use std::time::Duration;

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::controller_service_capability::{self, rpc::Type as ControllerType};
use csi_proto::csi::group_controller_client::GroupControllerClient;
use csi_proto::csi::group_controller_service_capability::{self, rpc::Type as GroupType};
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::node_service_capability::{self, rpc::Type as NodeType};
use csi_proto::csi::plugin_capability::{self, service::Type as ServiceType};
use csi_proto::csi::{
    ControllerGetCapabilitiesRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest,
    GroupControllerGetCapabilitiesRequest, NodeGetCapabilitiesRequest, ProbeRequest,
};
use tokio::time::{Instant, MissedTickBehavior};
use tonic::{Code, Status};

use super::{Channel, Deadline, call};
use crate::rpc_code;

/// Why a query of the driver's identity failed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A driver must have a name; its syntax is not checked.
    #[error("driver name is empty")]
    EmptyName,
    /// A probe failed with a status that waiting does not cure.
    #[error("CSI driver probe failed: {}", rpc_code::text(.0))]
    Probe(Status),
    /// A call failed.
    #[error("{method}: {}", rpc_code::text(.status))]
    Call {
        /// Name of the RPC.
        method: &'static str,
        /// The driver's status.
        status: Status,
    },
}

/// The driver's GetPluginInfo response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// The driver's name, which is not empty.
    pub name: String,
    /// The driver's version, any text.
    pub version: String,
}

/// Gets the driver's name with one GetPluginInfo call.
///
/// # Errors
/// The call failed or the name is empty.
pub async fn driver_name(
    channel: Channel,
    deadline: impl Into<Deadline>,
) -> Result<String, IdentityError> {
    Ok(plugin(channel, deadline).await?.name)
}

/// Gets the driver's name and version with one GetPluginInfo call.
///
/// # Errors
/// The same as those of [`driver_name`].
pub async fn plugin(
    channel: Channel,
    deadline: impl Into<Deadline>,
) -> Result<Plugin, IdentityError> {
    let mut client = IdentityClient::new(channel);
    let request = GetPluginInfoRequest {};
    let answer = call(deadline, request, async |request| {
        client.get_plugin_info(request).await
    });
    let answer = answer.await.map_err(failed("GetPluginInfo"))?;
    if answer.name.is_empty() {
        return Err(IdentityError::EmptyName);
    }
    Ok(Plugin {
        name: answer.name,
        version: answer.vendor_version,
    })
}

/// Repeats a call that failed while this process stood still: starved of CPU, frozen, or on a paused
/// machine. A deadline that passed meanwhile says nothing about the driver, and with one second for
/// everything it would end the process.
///
/// `longest` is the time that all calls of `ask` may take together.
///
/// # Errors
/// The error of `ask`.
pub async fn unless_it_stood_still<T, F>(
    longest: Duration,
    ask: impl Fn() -> F,
) -> Result<T, IdentityError>
where
    F: Future<Output = Result<T, IdentityError>>,
{
    /// In a process that gets CPU time, timers fire at most this late.
    const LATE: Duration = Duration::from_millis(200);
    loop {
        let began = Instant::now();
        let answer = ask().await;
        let took = began.elapsed();
        let timed_out = matches!(
            &answer,
            Err(IdentityError::Call { status, .. }) if status.code() == Code::DeadlineExceeded
        );
        if !timed_out || took <= longest.saturating_add(LATE) {
            return answer;
        }
        let seconds = took.as_secs_f32();
        tracing::warn!(
            seconds,
            "The process was not scheduled until the deadline had passed; probing again"
        );
    }
}

/// Names of capabilities; numbers for those newer than this build.
fn names<'a, T: TryFrom<i32>>(
    numbers: &'a BTreeSet<i32>,
    name: impl Fn(&T) -> &'static str + 'a,
) -> impl Iterator<Item = String> + 'a {
    numbers
        .iter()
        .map(move |number| match T::try_from(*number) {
            Ok(known) => name(&known).to_owned(),
            Err(_) => number.to_string(),
        })
}

fn failed(method: &'static str) -> impl Fn(Status) -> IdentityError {
    move |status| IdentityError::Call { method, status }
}

/// Services that the driver offers, by number, so that those newer than this build are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginCapabilities(BTreeSet<i32>);

impl PluginCapabilities {
    /// The driver offers `service`.
    pub fn has(&self, service: ServiceType) -> bool {
        self.0.contains(&i32::from(service))
    }

    /// The names of all services.
    pub fn names(&self) -> impl Iterator<Item = String> {
        names(&self.0, ServiceType::as_str_name)
    }
}

impl FromIterator<ServiceType> for PluginCapabilities {
    fn from_iter<I: IntoIterator<Item = ServiceType>>(services: I) -> Self {
        Self(services.into_iter().map(i32::from).collect())
    }
}

/// Capabilities of the driver's controller service, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerCapabilities(BTreeSet<i32>);

impl ControllerCapabilities {
    /// The driver supports `rpc`.
    pub fn has(&self, rpc: ControllerType) -> bool {
        self.has_number(i32::from(rpc))
    }

    /// The driver supports the capability with this number, which may be from another version of CSI.
    pub fn has_number(&self, rpc: i32) -> bool {
        self.0.contains(&rpc)
    }

    /// The names of all capabilities.
    pub fn names(&self) -> impl Iterator<Item = String> {
        names(&self.0, ControllerType::as_str_name)
    }
}

impl FromIterator<ControllerType> for ControllerCapabilities {
    fn from_iter<I: IntoIterator<Item = ControllerType>>(calls: I) -> Self {
        Self(calls.into_iter().map(i32::from).collect())
    }
}

/// Capabilities of the driver's node service, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCapabilities(BTreeSet<i32>);

impl NodeCapabilities {
    /// The driver supports `rpc`.
    pub fn has(&self, rpc: NodeType) -> bool {
        self.0.contains(&i32::from(rpc))
    }

    /// The names of all capabilities.
    pub fn names(&self) -> impl Iterator<Item = String> {
        names(&self.0, NodeType::as_str_name)
    }
}

impl FromIterator<NodeType> for NodeCapabilities {
    fn from_iter<I: IntoIterator<Item = NodeType>>(calls: I) -> Self {
        Self(calls.into_iter().map(i32::from).collect())
    }
}

/// Capabilities of the driver's group controller service, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupCapabilities(BTreeSet<i32>);

impl GroupCapabilities {
    /// The driver supports `rpc`.
    pub fn has(&self, rpc: GroupType) -> bool {
        self.0.contains(&i32::from(rpc))
    }

    /// The names of all capabilities.
    pub fn names(&self) -> impl Iterator<Item = String> {
        names(&self.0, GroupType::as_str_name)
    }
}

impl FromIterator<GroupType> for GroupCapabilities {
    fn from_iter<I: IntoIterator<Item = GroupType>>(calls: I) -> Self {
        Self(calls.into_iter().map(i32::from).collect())
    }
}

/// Calls GetPluginCapabilities. Entries of other kinds, and empty ones, are skipped.
///
/// # Errors
/// The call failed.
pub async fn plugin_capabilities(
    channel: Channel,
    deadline: impl Into<Deadline>,
) -> Result<PluginCapabilities, IdentityError> {
    use plugin_capability::Type;
    let mut client = IdentityClient::new(channel);
    let request = GetPluginCapabilitiesRequest {};
    let answer = call(deadline, request, async |request| {
        client.get_plugin_capabilities(request).await
    });
    let answer = answer.await.map_err(failed("GetPluginCapabilities"))?;
    let services = answer
        .capabilities
        .iter()
        .filter_map(|entry| match &entry.r#type {
            Some(Type::Service(service)) => Some(service.r#type),
            Some(Type::VolumeExpansion(_)) | None => None,
        });
    Ok(PluginCapabilities(services.collect()))
}

/// Calls ControllerGetCapabilities. Empty entries are skipped.
///
/// # Errors
/// The call failed.
pub async fn controller_capabilities(
    channel: Channel,
    deadline: impl Into<Deadline>,
) -> Result<ControllerCapabilities, IdentityError> {
    use controller_service_capability::Type;
    let mut client = ControllerClient::new(channel);
    let request = ControllerGetCapabilitiesRequest {};
    let answer = call(deadline, request, async |request| {
        client.controller_get_capabilities(request).await
    });
    let answer = answer.await.map_err(failed("ControllerGetCapabilities"))?;
    let entries = answer
        .capabilities
        .iter()
        .filter_map(|entry| entry.r#type.as_ref());
    let calls = entries.map(|Type::Rpc(rpc)| rpc.r#type);
    Ok(ControllerCapabilities(calls.collect()))
}

/// Calls GroupControllerGetCapabilities. Empty entries are skipped.
///
/// # Errors
/// The call failed, as it does where the socket has no group controller.
pub async fn group_capabilities(
    channel: Channel,
    deadline: impl Into<Deadline>,
) -> Result<GroupCapabilities, IdentityError> {
    use group_controller_service_capability::Type;
    let mut client = GroupControllerClient::new(channel);
    let request = GroupControllerGetCapabilitiesRequest {};
    let answer = call(deadline, request, async |request| {
        client.group_controller_get_capabilities(request).await
    });
    let failed = failed("GroupControllerGetCapabilities");
    let answer = answer.await.map_err(failed)?;
    let entries = answer
        .capabilities
        .iter()
        .filter_map(|entry| entry.r#type.as_ref());
    let calls = entries.map(|Type::Rpc(rpc)| rpc.r#type);
    Ok(GroupCapabilities(calls.collect()))
}

/// Calls NodeGetCapabilities. Empty entries are skipped.
///
/// # Errors
/// The call failed, as it does where the socket has no node service.
pub async fn node_capabilities(
    channel: Channel,
    deadline: impl Into<Deadline>,
) -> Result<NodeCapabilities, IdentityError> {
    use node_service_capability::Type;
    let mut client = NodeClient::new(channel);
    let request = NodeGetCapabilitiesRequest {};
    let answer = call(deadline, request, async |request| {
        client.node_get_capabilities(request).await
    });
    let answer = answer.await.map_err(failed("NodeGetCapabilities"))?;
    let entries = answer
        .capabilities
        .iter()
        .filter_map(|entry| entry.r#type.as_ref());
    let calls = entries.map(|Type::Rpc(rpc)| rpc.r#type);
    Ok(NodeCapabilities(calls.collect()))
}

/// Probes the driver once; a response without `ready` means that it is.
///
/// # Errors
/// The driver's status.
pub async fn probe(channel: Channel, deadline: impl Into<Deadline>) -> Result<bool, Status> {
    let mut client = IdentityClient::new(channel);
    let answer = call(deadline, ProbeRequest {}, async |request| {
        client.probe(request).await
    });
    Ok(answer.await?.ready.unwrap_or(true))
}

/// Pause between the starts of two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Probes until the driver is ready, each probe with its own `timeout`.
///
/// The first probe is sent at once, the next ones every second; a probe that took longer than that is
/// followed at once by the next. "Not ready" and timeouts are retried for ever.
///
/// # Errors
/// Any other status ends the waiting.
pub async fn probe_until_ready(channel: Channel, timeout: Duration) -> Result<(), IdentityError> {
    let mut ticks = tokio::time::interval(PROBE_INTERVAL);
    // Like Go's ticker: one missed tick is made up for, further ones are dropped.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        tracing::info!("Probing CSI driver for readiness");
        match probe(channel.clone(), timeout).await {
            Ok(true) => return Ok(()),
            Ok(false) => tracing::warn!("CSI driver is not ready"),
            Err(status) if status.code() == Code::DeadlineExceeded => {
                tracing::warn!("CSI driver probe timed out");
            }
            Err(status) => return Err(IdentityError::Probe(status)),
        }
    }
}

#[cfg(test)]
mod tests;
