//! Reads what a driver has in its storage: every call has a deadline, lists come page by page.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use csi_proto::csi::volume_content_source::Type as Source;
use csi_proto::csi::{
    ControllerGetVolumeRequest, GetSnapshotRequest, ListSnapshotsRequest, ListVolumesRequest,
};
use sidecar::csi::connection::{Address, AddressError, ConnectError, OnLoss, Options};
use sidecar::csi::identity::{
    ControllerCapabilities, IdentityError, controller_capabilities, driver_name,
};
use sidecar::csi::rpc;
use sidecar::csi::{Channel, call, connection};
use sidecar::rpc_code;
use tonic::{Code, Status};

use super::pages::{Page, listed};
use crate::plan::{Stock, Storage, Stored};

use csi_proto::csi::controller_service_capability::rpc::Type as Rpc;

/// Entries per page.
const PAGE: i32 = 100;
/// Consecutive failures after which single volumes or snapshots are not looked up any more.
const FAILURES: usize = 5;
/// The driver cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// `--csi-address` is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The connection failed.
    #[error("--csi-address: {0}")]
    Connect(#[from] ConnectError),
    /// GetPluginInfo failed.
    #[error("--csi-address: {0}")]
    Identity(#[from] IdentityError),
    /// A call failed.
    #[error("{method} failed, so that nothing can be compared: {}", rpc_code::text(.status))]
    Call {
        /// The CSI method.
        method: &'static str,
        /// The driver's error.
        status: Status,
    },
    /// The driver restarted under another name, or is not the one that `--driver` names.
    #[error("the driver at --csi-address is {is}, not {wanted}")]
    Other {
        /// The driver's name.
        is: String,
        /// The expected name.
        wanted: String,
    },
    /// The pages of a list do not end.
    #[error(
        "{method}: the driver's list has no end: {why}. Nothing is compared with a part of a list"
    )]
    Endless {
        /// The CSI method.
        method: &'static str,
        /// The sign of it.
        why: String,
    },
}

/// A connection to a driver.
#[derive(Debug)]
pub struct Driver {
    channel: Channel,
    timeout: Duration,
}

/// Source volumes and snapshots, each with a listed one that was created from it.
type Sources = BTreeMap<Box<str>, Box<str>>;

fn is_made_of(sources: &RefCell<Sources>, made: &str, source: String) {
    if !source.is_empty() && source != made {
        { sources.borrow_mut() }.insert(source.into_boxed_str(), made.into());
    }
}

impl Driver {
    /// Connects; `timeout` is the deadline of each call.
    ///
    /// # Errors
    /// Nobody listens at the address.
    pub async fn connect(address: &str, timeout: Duration) -> Result<Self, DriverError> {
        let address = Address::parse(address, OnLoss::Reconnect)?;
        let options = Options {
            timeout: Some(timeout.min(connection::DEFAULT_TIMEOUT)),
            ..Options::new(OnLoss::Reconnect)
        };
        let channel = connection::connect(&address, options).await?.channel();
        Ok(Self { channel, timeout })
    }

    /// Everything that the driver lists.
    ///
    /// # Errors
    /// A call failed, or the driver is not `wanted`; a partial list is an error too.
    pub async fn storage(&self, wanted: Option<&str>) -> Result<Storage, DriverError> {
        let driver = driver_name(self.channel.clone(), self.timeout).await?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != driver) {
            return Err(DriverError::Other {
                is: driver,
                wanted: wanted.to_owned(),
            });
        }
        let can = self.capabilities().await?;
        let sources = RefCell::new(BTreeMap::new());
        let volumes = match can.has(Rpc::ListVolumes) {
            true => {
                let nodes = can.has(Rpc::ListVolumesPublishedNodes);
                let page = async |token| self.volumes(token, nodes, &sources).await;
                listed("ListVolumes", page).await?
            }
            false => Stock::new(Err(
                "the driver does not list its volumes: it has neither LIST_VOLUMES nor GET_VOLUME among the capabilities of its controller".to_owned(),
            )),
        };
        let snapshots = match can.has(Rpc::ListSnapshots) {
            true => {
                let page = async |token| self.snapshots(token, &sources).await;
                listed("ListSnapshots", page).await?
            }
            false => Stock::new(Err(
                "the driver does not list them: it has neither LIST_SNAPSHOTS nor GET_SNAPSHOT"
                    .to_owned(),
            )),
        };
        Ok(Storage {
            driver,
            volumes,
            snapshots,
            sources: sources.into_inner(),
        })
    }

    /// Looks up each of the cluster's volumes and snapshots by its handle, if the driver has a call for that and does
    /// not list it.
    ///
    /// # Errors
    /// A call failed.
    pub async fn look_up(
        &self,
        storage: &mut Storage,
        volumes: &BTreeSet<String>,
        snapshots: &BTreeSet<String>,
    ) -> Result<(), DriverError> {
        let can = self.capabilities().await?;
        if can.has(Rpc::GetVolume) {
            let is_missing = async |handle: &str| self.lacks_volume(handle).await;
            looked_up(&mut storage.volumes, volumes, is_missing).await?;
        }
        // A driver that lists snapshots also finds one by its handle.
        let by_get = can.has(Rpc::GetSnapshot);
        if by_get || can.has(Rpc::ListSnapshots) {
            let is_missing = async |handle: &str| self.lacks_snapshot(handle, by_get).await;
            looked_up(&mut storage.snapshots, snapshots, is_missing).await?;
        }
        Ok(())
    }

    async fn lacks_volume(&self, handle: &str) -> Result<bool, DriverError> {
        let request = ControllerGetVolumeRequest {
            volume_id: handle.to_owned(),
        };
        is_missing("ControllerGetVolume", self.call(request).await)
    }

    async fn lacks_snapshot(&self, handle: &str, by_get: bool) -> Result<bool, DriverError> {
        if by_get {
            let request = GetSnapshotRequest {
                snapshot_id: handle.to_owned(),
                ..GetSnapshotRequest::default()
            };
            return is_missing("GetSnapshot", self.call(request).await);
        }
        let request = ListSnapshotsRequest {
            snapshot_id: handle.to_owned(),
            ..ListSnapshotsRequest::default()
        };
        match self.call(request).await {
            Ok(answer) => Ok(answer.entries.is_empty() && answer.next_token.is_empty()),
            answer @ Err(_) => is_missing("ListSnapshots", answer),
        }
    }

    async fn call<M: rpc::Rpc>(&self, request: M) -> Result<M::Response, Status> {
        let answer = call(self.timeout, request, async |request| {
            M::send(self.channel.clone(), request).await
        });
        answer.await
    }

    async fn capabilities(&self) -> Result<ControllerCapabilities, DriverError> {
        Ok(controller_capabilities(self.channel.clone(), self.timeout).await?)
    }

    async fn volumes(
        &self,
        starting_token: String,
        nodes: bool,
        sources: &RefCell<Sources>,
    ) -> Result<Page, Status> {
        let request = ListVolumesRequest {
            max_entries: PAGE,
            starting_token,
        };
        let answer = self.call(request).await?;
        let all = answer.entries.len();
        let entries = answer.entries.into_iter().filter_map(|entry| {
            let volume = entry.volume.filter(|one| !one.volume_id.is_empty())?;
            let published = entry.status.map(|status| {
                let ids = status.published_node_ids.into_iter();
                ids.map(String::into_boxed_str).collect::<Vec<_>>()
            });
            let source = match volume.content_source.and_then(|source| source.r#type) {
                Some(Source::Snapshot(source)) => source.snapshot_id,
                Some(Source::Volume(source)) => source.volume_id,
                None => String::new(),
            };
            is_made_of(sources, &volume.volume_id, source);
            let stored = Stored {
                bytes: volume.capacity_bytes,
                attached: published.clone().unwrap_or_default(),
                nodes: published.filter(|_| nodes),
                group: None,
            };
            Some((volume.volume_id, stored))
        });
        let entries: Vec<_> = entries.collect();
        let unnamed = all - entries.len();
        Ok((entries, unnamed, answer.next_token))
    }

    async fn snapshots(
        &self,
        starting_token: String,
        sources: &RefCell<Sources>,
    ) -> Result<Page, Status> {
        let request = ListSnapshotsRequest {
            max_entries: PAGE,
            starting_token,
            ..ListSnapshotsRequest::default()
        };
        let answer = self.call(request).await?;
        let all = answer.entries.len();
        let entries = answer.entries.into_iter().filter_map(|entry| {
            let snapshot = { entry.snapshot }.filter(|one| !one.snapshot_id.is_empty())?;
            is_made_of(sources, &snapshot.snapshot_id, snapshot.source_volume_id);
            let group = snapshot.group_snapshot_id.into_boxed_str();
            let stored = Stored {
                bytes: snapshot.size_bytes,
                group: (!group.is_empty()).then_some(group),
                ..Stored::default()
            };
            Some((snapshot.snapshot_id, stored))
        });
        let entries: Vec<_> = entries.collect();
        let unnamed = all - entries.len();
        Ok((entries, unnamed, answer.next_token))
    }
}

/// Looks up each handle that the list lacks. If there is a list, any response but NOT_FOUND shows that it is
/// incomplete; after `FAILURES` consecutive failures the rest is only counted.
async fn looked_up(
    stock: &mut Stock,
    handles: &BTreeSet<String>,
    is_missing: impl AsyncFn(&str) -> Result<bool, DriverError>,
) -> Result<(), DriverError> {
    let mut missing = BTreeSet::new();
    let (mut failures, mut unasked) = (0, 0);
    for handle in handles.iter().filter(|handle| !stock.has(handle)) {
        if failures >= FAILURES {
            unasked += 1;
            continue;
        }
        let lacks = match is_missing(handle).await {
            Err(_) if stock.listed.is_ok() => {
                failures += 1;
                continue;
            }
            answer => answer?,
        };
        failures = 0;
        if lacks {
            missing.insert(handle.as_str().into());
        }
    }
    (stock.missing, stock.unasked) = (Some(missing), unasked);
    Ok(())
}

/// Whether the response says that the driver does not have it.
fn is_missing<T>(method: &'static str, answer: Result<T, Status>) -> Result<bool, DriverError> {
    match answer {
        Ok(_) => Ok(false),
        Err(status) if status.code() == Code::NotFound => Ok(true),
        Err(status) => Err(DriverError::Call { method, status }),
    }
}
