//! The parts that all executors share.

use std::string::FromUtf8Error;
use std::sync::Arc;

use sidecar::kube::api::Api;
use tokio::sync::SetOnce;

use super::cluster::Cluster;
use super::driver::DriverLink;
use super::journal::Keeper;
use super::metrics::Metrics;
use super::news::News;
use crate::model::{Pairs, SecretRef};
use crate::plan::Settings;
use crate::plan::outcome::ApiError;
use crate::plan::ownership::Pace;
use crate::plan::request::Secrets;

/// Works on claims, on volumes, and on what hangs on them.
pub struct Provisioner {
    /// Caches, queues and books.
    pub cluster: Arc<Cluster>,
    /// The driver.
    pub driver: Arc<DriverLink>,
    /// The API server, for single objects.
    pub api: Api,
    /// What the command line says about decisions.
    pub settings: Settings,
    /// What is counted.
    pub metrics: Metrics,
    /// What users read.
    pub news: News,
    /// The provisioning journal, if there is one.
    pub journal: Option<Keeper>,
    /// What earlier processes have left in it is known, or there is none.
    pub recovered: SetOnce<()>,
    /// Node deployment: how long to wait before a claim is taken.
    pub pace: Pace,
    /// Node deployment: the topology of this process's node, if the driver told one.
    pub node: Option<Pairs>,
}

/// Why the values of a Secret cannot be used.
pub(super) enum SecretError {
    /// It could not be read.
    Unread(ApiError),
    /// A value is not text, so that no request can carry it.
    NotText,
}

impl Provisioner {
    /// The values of a Secret.
    ///
    /// # Errors
    /// It is not there, the server did not say, or no request can carry it.
    pub(super) async fn secret(&self, reference: &SecretRef) -> Result<Secrets, SecretError> {
        let values = self.api.secret(&reference.namespace, &reference.name).await;
        let values = values.map_err(|error| SecretError::Unread(error.into()))?;
        { values.into_iter() }
            .map(|(key, bytes)| Ok((key, String::from_utf8(bytes)?)))
            .collect::<Result<_, FromUtf8Error>>()
            .map_err(|_| SecretError::NotText)
    }
}
