//! What a driver has in its storage: calls that read, each with a deadline, page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::{
    ControllerGetVolumeRequest, GetSnapshotRequest, ListSnapshotsRequest, ListVolumesRequest,
};
use sidecar::csi::connection::{Address, AddressError, ConnectError, OnLoss, Options};
use sidecar::csi::identity::{
    ControllerCapabilities, IdentityError, controller_capabilities, driver_name,
};
use sidecar::csi::{Channel, LARGEST_LIST, call, connection};
use sidecar::rpc_code;
use tonic::{Code, Status};

use crate::plan::{Stock, Storage, Stored};

use csi_proto::csi::controller_service_capability::rpc::Type as Rpc;

/// Entries of a page.
const PAGE: i32 = 100;
/// How often a list is begun.
const TRIES: u32 = 3;
/// Before a list is begun anew with a driver that is starting.
const PAUSE: Duration = Duration::from_secs(1);

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
        "{0}: the driver gives the same token for the next page again, so that its list has no end"
    )]
    Endless(&'static str),
}

/// A driver.
#[derive(Debug)]
pub struct Driver {
    channel: Channel,
    timeout: Duration,
}

/// A page: its entries, and the token of the next.
type Page = (Vec<(String, Stored)>, String);

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
        let volumes = match can.has(Rpc::ListVolumes) {
            true => {
                let nodes = can.has(Rpc::ListVolumesPublishedNodes);
                let page = async |token| self.volumes(token, nodes).await;
                Stock::Listed(listed("ListVolumes", page).await?)
            }
            false => Stock::Unknown(
                "the driver does not list its volumes: it has neither LIST_VOLUMES nor GET_VOLUME among the capabilities of its controller".to_owned(),
            ),
        };
        let snapshots = match can.has(Rpc::ListSnapshots) {
            true => {
                let page = async |token| self.snapshots(token).await;
                Stock::Listed(listed("ListSnapshots", page).await?)
            }
            false => Stock::Unknown(
                "the driver does not list them: it has neither LIST_SNAPSHOTS nor GET_SNAPSHOT"
                    .to_owned(),
            ),
        };
        Ok(Storage {
            driver,
            volumes,
            snapshots,
        })
    }

    /// Asks for each volume and snapshot of the cluster by its handle, where the driver has no list but can be asked so.
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
        if matches!(storage.volumes, Stock::Unknown(_)) && can.has(Rpc::GetVolume) {
            let mut missing = BTreeSet::new();
            for handle in volumes {
                let request = ControllerGetVolumeRequest {
                    volume_id: handle.clone(),
                };
                let mut client = ControllerClient::new(self.channel.clone());
                let answer = call(self.timeout, request, async |request| {
                    client.controller_get_volume(request).await
                });
                if is_missing("ControllerGetVolume", answer.await)? {
                    missing.insert(handle.as_str().into());
                }
            }
            storage.volumes = Stock::Without(missing);
        }
        if matches!(storage.snapshots, Stock::Unknown(_)) && can.has(Rpc::GetSnapshot) {
            let mut missing = BTreeSet::new();
            for handle in snapshots {
                let request = GetSnapshotRequest {
                    snapshot_id: handle.clone(),
                    ..GetSnapshotRequest::default()
                };
                let mut client = ControllerClient::new(self.channel.clone());
                let answer = call(self.timeout, request, async |request| {
                    client.get_snapshot(request).await
                });
                if is_missing("GetSnapshot", answer.await)? {
                    missing.insert(handle.as_str().into());
                }
            }
            storage.snapshots = Stock::Without(missing);
        }
        Ok(())
    }

    async fn capabilities(&self) -> Result<ControllerCapabilities, DriverError> {
        Ok(controller_capabilities(self.channel.clone(), self.timeout).await?)
    }

    async fn volumes(&self, starting_token: String, nodes: bool) -> Result<Page, Status> {
        let request = ListVolumesRequest {
            max_entries: PAGE,
            starting_token,
        };
        let client = ControllerClient::new(self.channel.clone());
        let mut client = client.max_decoding_message_size(LARGEST_LIST);
        let answer = call(self.timeout, request, async |request| {
            client.list_volumes(request).await
        });
        let answer = answer.await?;
        let entries = answer.entries.into_iter().filter_map(|entry| {
            let volume = entry.volume?;
            let published = entry.status.filter(|_| nodes).map(|status| {
                let ids = status.published_node_ids.into_iter();
                ids.map(String::into_boxed_str).collect()
            });
            let stored = Stored {
                bytes: volume.capacity_bytes,
                nodes: published,
            };
            Some((volume.volume_id, stored))
        });
        Ok((entries.collect(), answer.next_token))
    }

    async fn snapshots(&self, starting_token: String) -> Result<Page, Status> {
        let request = ListSnapshotsRequest {
            max_entries: PAGE,
            starting_token,
            ..ListSnapshotsRequest::default()
        };
        let mut client = ControllerClient::new(self.channel.clone());
        let answer = call(self.timeout, request, async |request| {
            client.list_snapshots(request).await
        });
        let answer = answer.await?;
        let entries = answer.entries.into_iter().filter_map(|entry| {
            let snapshot = entry.snapshot?;
            let stored = Stored {
                bytes: snapshot.size_bytes,
                nodes: None,
            };
            Some((snapshot.snapshot_id, stored))
        });
        Ok((entries.collect(), answer.next_token))
    }
}

/// Whether the driver does not have what it was asked for.
fn is_missing<T>(method: &'static str, answer: Result<T, Status>) -> Result<bool, DriverError> {
    match answer {
        Ok(_) => Ok(false),
        Err(status) if status.code() == Code::NotFound => Ok(true),
        Err(status) => Err(DriverError::Call { method, status }),
    }
}

/// All pages. A token that has expired, and a driver that starts anew in between, let the list begin anew: its first half may be of another time.
async fn listed(
    method: &'static str,
    page: impl AsyncFn(String) -> Result<Page, Status>,
) -> Result<BTreeMap<Box<str>, Stored>, DriverError> {
    let mut tried = 1;
    let (mut all, mut token) = (BTreeMap::new(), String::new());
    loop {
        let (entries, next) = match page(token.clone()).await {
            Ok(page) => page,
            Err(status) if tried < TRIES && is_passing(status.code()) => {
                tried += 1;
                all.clear();
                token.clear();
                if status.code() == Code::Unavailable {
                    tokio::time::sleep(PAUSE).await;
                }
                continue;
            }
            Err(status) => return Err(DriverError::Call { method, status }),
        };
        let entries = entries.into_iter();
        all.extend(entries.map(|(handle, stored)| (handle.into_boxed_str(), stored)));
        if next.is_empty() {
            return Ok(all);
        }
        if next == token {
            return Err(DriverError::Endless(method));
        }
        token = next;
    }
}

/// Whether the list is worth another beginning.
fn is_passing(code: Code) -> bool {
    matches!(code, Code::Aborted | Code::Unavailable)
}
