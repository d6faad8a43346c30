//! The parts that all executors share.

use std::collections::BTreeMap;
use std::sync::Arc;

use sidecar::kube::api::Api;

use super::cluster::Cluster;
use super::driver::DriverLink;
use super::metrics::Metrics;
use super::news::News;
use crate::model::{Pairs, SecretRef};
use crate::plan::Settings;
use crate::plan::outcome::ApiError;
use crate::plan::ownership::Pace;

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
    /// Node deployment: how long to wait before a claim is taken.
    pub pace: Pace,
    /// Node deployment: the topology of this process's node, if the driver told one.
    pub node: Option<Pairs>,
}

impl Provisioner {
    /// The values of a Secret, bytes that are no text replaced: what Go makes of them on the wire
    /// would be refused by every driver.
    ///
    /// # Errors
    /// It is not there, or the server did not say.
    pub(super) async fn secret(
        &self,
        reference: &SecretRef,
    ) -> Result<BTreeMap<String, String>, ApiError> {
        let values = self.api.secret(&reference.namespace, &reference.name).await;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok({ values?.into_iter() }
            .map(|(key, bytes)| (key, text(bytes)))
            .collect())
    }
}
