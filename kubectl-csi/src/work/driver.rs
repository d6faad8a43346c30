//! What a driver has in its storage: calls that read, each with a deadline, page by page.

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

/// Entries of a page.
const PAGE: i32 = 100;
/// Calls for one volume or snapshot that may fail in turn.
const FAILURES: usize = 5;
/// The driver cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// `--csi-address` is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// There is no connection.
    #[error("--csi-address: {0}")]
    Connect(#[from] ConnectError),
    /// It does not say who it is.
    #[error("--csi-address: {0}")]
    Identity(#[from] IdentityError),
    /// A call failed.
    #[error("{method} failed, so that nothing can be compared: {}", rpc_code::text(.status))]
    Call {
        /// The call.
        method: &'static str,
        /// The driver's answer.
        status: Status,
    },
    /// It is another driver than before, or than it is to be.
    #[error("the driver at --csi-address is {is}, not {wanted}")]
    Other {
        /// Its name.
        is: String,
        /// What it should be.
        wanted: String,
    },
    /// Its pages have no end.
    #[error(
        "{method}: the driver's list has no end: {why}. Nothing is compared with a part of a list"
    )]
    Endless {
        /// The call.
        method: &'static str,
        /// What shows it.
        why: String,
    },
}

/// A driver.
#[derive(Debug)]
pub struct Driver {
    channel: Channel,
    timeout: Duration,
}

/// What something is made of, with that.
type Sources = BTreeMap<Box<str>, Box<str>>;

fn is_made_of(sources: &RefCell<Sources>, made: &str, source: String) {
    if !source.is_empty() && source != made {
        { sources.borrow_mut() }.insert(source.into_boxed_str(), made.into());
    }
}

impl Driver {
    /// Connects; `timeout` is that of each call.
    ///
    /// # Errors
    /// There is nobody at the address.
    pub async fn connect(address: &str, timeout: Duration) -> Result<Self, DriverError> {
        let address = Address::parse(address, OnLoss::Reconnect)?;
        let options = Options {
            timeout: Some(timeout.min(connection::DEFAULT_TIMEOUT)),
            ..Options::new(OnLoss::Reconnect)
        };
        let channel = connection::connect(&address, options).await?.channel();
        Ok(Self { channel, timeout })
    }

    /// What it has.
    ///
    /// # Errors
    /// It does not say; no list is half a list.
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

    /// Asks for each volume and snapshot of the cluster by its handle, where the driver can be asked so and has no list, or does not list it.
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
        // A driver that lists snapshots finds one by its handle, too.
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

/// Asks for each handle that is not in the list, if there is one. Of a driver that has a list, any answer but NOT_FOUND means that the list is not whole;
/// after some failures in turn it is asked no more, and how many are left is counted.
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

/// Whether the driver does not have what it was asked for.
fn is_missing<T>(method: &'static str, answer: Result<T, Status>) -> Result<bool, DriverError> {
    match answer {
        Ok(_) => Ok(false),
        Err(status) if status.code() == Code::NotFound => Ok(true),
        Err(status) => Err(DriverError::Call { method, status }),
    }
}
