//! Periodically compares VolumeAttachments with the driver's list and requeues those that differ.

use std::time::Duration;

use csi_proto::csi::{ListVolumesRequest, ListVolumesResponse};
use sidecar::csi::rpc::Rpc;
use sidecar::csi::{Channel, Deadline, call};
use sidecar::{rpc_code, verbose};
use tokio::time::sleep;

use super::driver::DriverView;
use super::executor::Engine;
use crate::plan::drift::{Expected, Listing};
use crate::plan::outcome::RpcError;

/// Shortest interval between checks whether a driver has learnt to list published nodes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Compares at once, then again `pause` after each comparison ended. Skips a driver that cannot
/// list published nodes, but checks its capabilities again.
pub async fn watch(engine: &Engine, pause: Duration, max_entries: i32) -> std::convert::Infallible {
    let driver = &engine.shell().driver;
    loop {
        let can = driver.current().abilities;
        let pause = match can.publish && can.list_published {
            true => {
                compare(engine, driver, max_entries).await;
                pause
            }
            // Without a call in between, `--reconcile-sync=0` would be a busy loop.
            false => pause.max(LOOK_AGAIN),
        };
        sleep(pause).await;
    }
}

async fn compare(engine: &Engine, driver: &DriverView, max_entries: i32) {
    let expected = engine.turn(|attacher, informers| attacher.compare(informers));
    let listing = list(driver, &expected, max_entries).await;
    if let Err(error) = &listing {
        tracing::error!(
            err = format!("failed to ListVolumes: failed to list volumes: {error}"),
            "Failed to reconcile VolumeAttachment"
        );
    }
    let listing = listing.ok();
    engine.turn(|attacher, informers| {
        let due = attacher.compared(&expected, listing.as_ref(), informers);
        ((), due)
    });
}

/// Reads all pages within one deadline.
async fn list(
    driver: &DriverView,
    expected: &[Expected],
    max_entries: i32,
) -> Result<Listing, RpcError> {
    let channel = driver.channel().await?;
    let deadline = Deadline::after(driver.timeout());
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

async fn page(
    channel: Channel,
    deadline: Deadline,
    request: ListVolumesRequest,
) -> Result<ListVolumesResponse, RpcError> {
    let answer = call(deadline, request, async |request| {
        Rpc::send(channel, request).await
    });
    answer.await.map_err(|status| {
        verbose!(4, err = rpc_code::text(&status), "ListVolumes failed");
        RpcError::from(&status)
    })
}
