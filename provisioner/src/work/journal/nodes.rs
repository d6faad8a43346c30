//! Node deployment: removes empty journals of nodes that are gone, and warns of those with entries, which stay.
//!
//! Does nothing without the permission.

use std::collections::HashSet;
use std::convert::Infallible;

use serde::Deserialize;
use sidecar::kube::api::ApiError;
use sidecar::rt::unit_random;
use sidecar::verbose;
use tokio::time::sleep;

use super::{Keeper, Lease, Metadata};
use crate::plan::journal::{Found, Neighbour, looks_at_empty, pause};
use crate::work::api::{LEASES, NODES, key, page};
use crate::work::executor::Executor;

/// Leases per page.
const PAGE: u32 = 100;

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<Lease<Metadata>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default, rename = "continue")]
    token: Option<String>,
    #[serde(default)]
    remaining_item_count: Option<usize>,
}

/// A missing permission was logged at the start.
fn not_looked_for(error: &ApiError) {
    if !error.is_forbidden() {
        verbose!(2, err = %error, "Cannot look for journals of nodes that are gone");
    }
}

impl Executor {
    /// Looks for journals of nodes that are gone from time to time, for ever.
    pub async fn look_for_gone_nodes(&self) -> Infallible {
        let (Some(journal), Some(node)) = (&self.journal, &self.settings.node) else {
            return std::future::pending().await;
        };
        let mut reported = HashSet::new();
        let mut leases = journal.count().await;
        let mut first = true;
        loop {
            sleep(pause(leases, std::mem::take(&mut first), unit_random())).await;
            match self
                .report_gone_nodes(journal, &node.name, leases, &mut reported)
                .await
            {
                Ok(found) => leases = found,
                Err(error) => not_looked_for(&error),
            }
        }
    }

    /// Warns of each of them once, with what an administrator can do. Returns the number of Leases; `before` is the
    /// estimate so far.
    async fn report_gone_nodes(
        &self,
        journal: &Keeper,
        node: &str,
        before: usize,
        reported: &mut HashSet<String>,
    ) -> Result<usize, ApiError> {
        let driver = self.driver.current().name.clone();
        let (mut leases, mut gone) = (0, 0_u32);
        let mut token = None;
        loop {
            let list = journal.list(PAGE, token.as_deref()).await?;
            leases += list.items.len();
            for lease in list.items {
                let name = lease.metadata.name.clone();
                let found = lease.metadata.found();
                let Some(neighbour) = Neighbour::of(&found, &driver, node) else {
                    continue;
                };
                let empty = neighbour.volumes.is_empty();
                if empty && !looks_at_empty(before, unit_random())
                    || !journal.is_gone(&neighbour.node).await?
                {
                    continue;
                }
                if empty {
                    journal.remove(&name, &found).await;
                    continue;
                }
                gone += 1;
                if reported.insert(name.clone()) {
                    tracing::warn!(
                        lease = name,
                        namespace = journal.namespace,
                        node = neighbour.node,
                        volumes = neighbour.volumes.join(","),
                        "The node of this provisioning journal is gone, and no other process can determine the outcome of the calls in it. Check whether these volumes exist in the node's storage, then delete the Lease"
                    );
                }
            }
            token = list.metadata.token.filter(|token| !token.is_empty());
            if token.is_none() {
                self.metrics.without_node(gone);
                return Ok(leases);
            }
        }
    }
}

impl Keeper {
    async fn list(&self, limit: u32, token: Option<&str>) -> Result<List, ApiError> {
        let namespace = &self.namespace;
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let json = self.api.read(&page(&path, limit, token)).await?;
        serde_json::from_str(&json).map_err(|error| ApiError::unreadable(&error))
    }

    /// Approximate number of Leases.
    async fn count(&self) -> usize {
        match self.list(1, None).await {
            Ok(list) => list.items.len() + list.metadata.remaining_item_count.unwrap_or_default(),
            Err(error) => {
                not_looked_for(&error);
                1
            }
        }
    }

    /// Removes an empty journal, unless it has changed meanwhile. Without the permission it stays.
    async fn remove(&self, name: &str, found: &Found) {
        let removed = async {
            let key = key(Some(&self.namespace), name)?;
            let only = (&*found.uid, &*found.version);
            self.api.delete_unchanged(&LEASES, &key, only).await
        };
        match removed.await {
            Ok(_) => {
                tracing::info!(
                    lease = name,
                    "Removed the empty journal of a node that is gone"
                )
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                verbose!(2, lease = name, err = %error, "Cannot remove the empty journal of a node that is gone");
            }
        }
    }

    async fn is_gone(&self, node: &str) -> Result<bool, ApiError> {
        match self.api.get(&NODES, &key(None, node)?).await {
            Ok(_) => Ok(false),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(error),
        }
    }
}
