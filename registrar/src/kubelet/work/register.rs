//! The two operations on a socket: registering its plugin, and deregistering it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use csi_proto::registration::PluginInfo;
use sidecar::{rpc_code, verbose};
use tracing::info;

use super::plugin::{Handlers, PluginHandler};
use super::registration::{DialError, Registrar};
use crate::kubelet::plan::keys::clip;
use crate::kubelet::plan::registration::{Refusal, endpoint_or, undelivered};
use crate::kubelet::plan::world::{Actual, Desired, Incarnation, Plugin};

/// Desired and actual sockets, shared by the watcher, the operations and the metrics.
#[derive(Debug, Default)]
pub struct World {
    desired: Mutex<Desired>,
    actual: Mutex<Actual>,
}

impl World {
    /// The sockets that exist.
    pub fn desired(&self) -> MutexGuard<'_, Desired> {
        self.desired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sockets that are registered.
    pub fn actual(&self) -> MutexGuard<'_, Actual> {
        self.actual.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an operation failed and has to be repeated.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The registrar does not answer on the socket.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// `GetInfo` failed.
    #[error("failed to get plugin info: {0}")]
    Info(String),
    /// The plugin was refused, and the registrar was notified (or could not be).
    #[error("{0}")]
    Refused(String),
    /// The registrar could not be notified of the success, so the plugin was deregistered.
    #[error("RegisterPlugin error -- failed to send registration status: {0}")]
    Notify(String),
    /// The handler of a registered plugin is gone.
    #[error("UnregisterPlugin error -- no handler for plugin type: {0}")]
    NoHandler(String),
}

/// Registers the plugin of the registrar behind `socket`.
///
/// # Errors
/// [`OperationError`]; nothing stays registered then.
pub async fn register(
    world: &World,
    handlers: &Handlers,
    socket: &Path,
    incarnation: Incarnation,
) -> Result<(), OperationError> {
    let mut registrar = Registrar::dial(socket).await?;
    let info = registrar.info().await;
    let info = info.map_err(|status| OperationError::Info(clipped(&rpc_code::text(&status))))?;
    verbose!(
        4,
        socket = %socket.display(),
        name = clip(&info.name),
        endpoint = clip(&info.endpoint),
        "registrar answered"
    );
    if let Err(refusal) = introduce(world, handlers, socket, incarnation, &info).await {
        let refusal = refusal.to_string();
        let notified = registrar.notify(Some(refusal.clone())).await;
        return Err(OperationError::Refused(match notified {
            Ok(()) => refusal,
            Err(status) => undelivered(&refusal, &clipped(&rpc_code::text(&status))),
        }));
    }
    if let Err(status) = registrar.notify(None).await {
        let plugin = world.actual().remove(socket);
        if let (Some(plugin), Some(handler)) = (plugin, handlers.get(&info.r#type)) {
            handler.deregister(&plugin.name, &plugin.endpoint).await;
        }
        return Err(OperationError::Notify(clipped(&rpc_code::text(&status))));
    }
    info!(socket = %socket.display(), name = clip(&info.name), "plugin registered");
    Ok(())
}

/// Gives the plugin to its handler. It is added to the actual sockets before that, so that a socket that vanishes
/// meanwhile leads to a deregistration.
async fn introduce(
    world: &World,
    handlers: &Handlers,
    socket: &Path,
    incarnation: Incarnation,
    info: &PluginInfo,
) -> Result<(), Refusal> {
    let PluginInfo {
        r#type: kind,
        name,
        endpoint,
        supported_versions: versions,
    } = info;
    let handler: Arc<dyn PluginHandler> =
        Arc::clone(handlers.get(kind).ok_or_else(|| Refusal::NoHandler {
            kind: kind.clone(),
            socket: socket.display().to_string(),
        })?);
    let endpoint = endpoint_or(endpoint.clone(), socket);
    handler
        .validate(name, versions)
        .map_err(|error| Refusal::Invalid(error.to_string()))?;
    let plugin = Plugin {
        incarnation,
        kind: kind.clone(),
        name: name.clone(),
        endpoint: endpoint.clone(),
    };
    world.actual().add(socket.to_path_buf(), plugin);
    if let Err(error) = handler.register(name, &endpoint, versions).await {
        world.actual().remove(socket);
        return Err(Refusal::Failed(error.to_string()));
    }
    Ok(())
}

/// Deregisters the plugin of `socket`, without dialling it.
///
/// # Errors
/// [`OperationError::NoHandler`]
pub async fn unregister(
    world: &World,
    handlers: &Handlers,
    socket: &Path,
) -> Result<(), OperationError> {
    let Some(plugin) = world.actual().plugin(socket).cloned() else {
        return Ok(());
    };
    let handler = handlers
        .get(&plugin.kind)
        .ok_or_else(|| OperationError::NoHandler(clipped(&plugin.kind)))?;
    world.actual().remove(socket);
    handler.deregister(&plugin.name, &plugin.endpoint).await;
    info!(socket = %socket.display(), name = clip(&plugin.name), "plugin deregistered");
    Ok(())
}

fn clipped(text: &str) -> String {
    clip(text).to_owned()
}
