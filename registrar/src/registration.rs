//! The service that kubelet calls on the registration socket.
//!
//! kubelet's refusal ends the process, but not here: it becomes a value that `run` waits for.

use std::sync::Arc;
use std::time::Instant;

use csi_proto::registration::registration_server::{Registration, RegistrationServer};
use csi_proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use sidecar::verbose;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::registration_status::RegistrationProgress;

/// The type of plugin that kubelet expects for CSI drivers.
const PLUGIN_TYPE: &str = "CSIPlugin";
/// kubelet accepts any 1.x; this is not the CSI version of the driver.
const VERSIONS: [&str; 1] = ["1.0.0"];

/// The driver's registration data, and kubelet's progress so far.
#[derive(Debug)]
pub struct Plugin {
    info: PluginInfo,
    progress: watch::Sender<RegistrationProgress>,
    refusal: watch::Sender<Option<String>>,
    starts: watch::Sender<()>,
}

impl Plugin {
    /// A driver by its name, and the path of its socket on the host.
    pub fn new(name: &str, endpoint: &str) -> Self {
        let info = PluginInfo {
            r#type: PLUGIN_TYPE.to_owned(),
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            supported_versions: VERSIONS.map(str::to_owned).to_vec(),
        };
        let (refusal, _) = watch::channel(None);
        Self {
            info,
            progress: watch::Sender::default(),
            refusal,
            starts: watch::Sender::new(()),
        }
    }

    /// The driver's name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// kubelet's progress.
    pub fn progress(&self) -> RegistrationProgress {
        *self.progress.borrow()
    }

    /// Subscribes to kubelet's progress.
    pub fn follow(&self) -> watch::Receiver<RegistrationProgress> {
        self.progress.subscribe()
    }

    /// Resets the progress for a new socket: kubelet starts over.
    pub fn start_over(&self) {
        self.progress.send_replace(RegistrationProgress::default());
        self.starts.send_replace(());
    }

    /// Subscribes to resets of the progress.
    pub fn starts(&self) -> watch::Receiver<()> {
        self.starts.subscribe()
    }

    /// Resolves to kubelet's reason once it has refused to register the driver.
    pub async fn refused(&self) -> String {
        let mut refusal = self.refusal.subscribe();
        match refusal.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The sender is part of `self`.
            Err(_) => std::future::pending().await,
        }
    }
}

/// The service as one peer sees it.
#[derive(Debug)]
struct Peer {
    plugin: Arc<Plugin>,
    is_kubelet: bool,
}

/// The service for a peer; calls of this process's own health check do not count as progress.
pub fn service(plugin: Arc<Plugin>, is_kubelet: bool) -> RegistrationServer<impl Registration> {
    RegistrationServer::new(Peer { plugin, is_kubelet })
}

#[tonic::async_trait]
impl Registration for Peer {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        if self.is_kubelet {
            verbose!(4, "Received GetInfo call");
            let now = Instant::now();
            let asked = |progress: &mut RegistrationProgress| progress.asked = Some(now);
            self.plugin.progress.send_modify(asked);
        }
        Ok(Response::new(self.plugin.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        if !status.plugin_registered {
            self.plugin.refusal.send_replace(Some(status.error));
            // The connection ends. kubelet gets no answer, as from upstream.
            return std::future::pending().await;
        }
        tracing::info!(
            driver = self.plugin.name(),
            "kubelet has registered the driver"
        );
        let now = Instant::now();
        let confirmed = |progress: &mut RegistrationProgress| progress.confirmed = Some(now);
        self.plugin.progress.send_modify(confirmed);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
