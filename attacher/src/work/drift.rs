//! Compares VolumeAttachments with the driver's list, again and again, and sends those that differ
//! through the ordinary path.

use std::time::Duration;

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::{ListVolumesRequest, ListVolumesResponse};
use sidecar::csi::{Channel, Deadline, call};
use sidecar::{rpc_code, verbose};
use tokio::time::sleep;

use super::attachment::Attacher;
use crate::model::Attachment;
use crate::plan::View;
use crate::plan::drift::{Expected, Listing, expected};
use crate::plan::outcome::RpcError;

/// How often a driver that does not list published nodes is looked at again, at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Attacher {
    /// Compares at once, then `pause` after each end. A driver that does not list published nodes
    /// is left alone; it may learn to.
    pub async fn watch_drift(&self, pause: Duration, max_entries: i32) -> std::convert::Infallible {
        loop {
            let can = self.driver.current().abilities;
            let pause = match can.publish && can.list_published {
                true => {
                    self.compare(max_entries).await;
                    pause
                }
                // Without a call in between, `--reconcile-sync=0` would be a busy loop.
                false => pause.max(LOOK_AGAIN),
            };
            sleep(pause).await;
        }
    }

    async fn compare(&self, max_entries: i32) {
        self.cluster.memory().begin_comparison();
        let expected = self.expectations();
        let listing = self.list(&expected, max_entries).await;
        let touched = self.cluster.memory().end_comparison();
        let listing = match listing {
            Ok(listing) => listing,
            Err(error) => {
                tracing::error!(
                    err = format!("failed to ListVolumes: failed to list volumes: {error}"),
                    "Failed to reconcile VolumeAttachment"
                );
                return;
            }
        };
        for entry in &expected {
            // What was worked on meanwhile may have changed on either side.
            if touched.contains(&entry.name) || !listing.contradicts(entry) {
                continue;
            }
            tracing::warn!(
                attachment = &*entry.name,
                volume_handle = &*entry.handle,
                node_id = &*entry.node_id,
                attached = entry.attached,
                "The driver's list of published volumes says otherwise, processing again"
            );
            self.cluster.memory().force(entry.name.clone());
            self.cluster.wake(&entry.name);
        }
    }

    fn expectations(&self) -> Vec<Expected> {
        let driver = self.driver.current();
        let mut ours = Vec::new();
        self.cluster.attachments.for_each(|_, attachment| {
            if *attachment.attacher == *driver.name {
                ours.push(std::sync::Arc::clone(attachment));
            }
        });
        { ours.iter() }
            .filter_map(|attachment| self.expectation(attachment))
            .collect()
    }

    fn expectation(&self, attachment: &Attachment) -> Option<Expected> {
        let name = attachment.volume.as_ref();
        let volume = name.and_then(|name| self.cluster.volumes.get(name));
        let node = self.cluster.nodes.get(&attachment.node);
        let view = View {
            driver: &self.driver.current(),
            attachment,
            volume: volume.as_deref(),
            node: node.as_deref(),
        };
        let result = expected(&view);
        if let Err(failure) = &result {
            let attachment = &*attachment.name;
            tracing::error!(attachment, err = %failure, "Failed to reconcile VolumeAttachment");
        }
        result.ok()
    }

    /// All pages, within one deadline.
    async fn list(&self, expected: &[Expected], max_entries: i32) -> Result<Listing, RpcError> {
        let channel = self.driver.channel().await?;
        let deadline = Deadline::after(self.driver.timeout());
        let mut listing = Listing::for_volumes_of(expected);
        let mut token = String::new();
        loop {
            let request = ListVolumesRequest {
                max_entries,
                starting_token: std::mem::take(&mut token),
            };
            let mut page = page(channel.clone(), deadline, request).await?;
            token = std::mem::take(&mut page.next_token);
            listing.add(page);
            if token.is_empty() {
                return Ok(listing);
            }
        }
    }
}

async fn page(
    channel: Channel,
    deadline: Deadline,
    request: ListVolumesRequest,
) -> Result<ListVolumesResponse, RpcError> {
    let mut client = ControllerClient::new(channel);
    let answer = call(deadline, request, async |request| {
        client.list_volumes(request).await
    });
    answer.await.map_err(|status| {
        verbose!(4, err = rpc_code::text(&status), "ListVolumes failed");
        RpcError::from(&status)
    })
}
