//! The model driver: the health of its volumes, and its reports to the running process.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::csi::volume_health::VolumeHealthEntry;
use csi_proto::csi::{
    ControllerGetVolumeHealthResponse, ControllerListVolumeHealthResponse, VolumeHealth,
};
use csi_proto::volume_condition::list_volumes_response::Entry;
use csi_proto::volume_condition::{
    ControllerGetVolumeResponse, ListVolumesResponse, Volume, VolumeCondition, VolumeStatus,
};
use sidecar::controller::CallError;
use sidecar::rpc_code::RpcError;
use sidecar_testkit::sim::Dice;
use tonic::Code;

use crate::plan::request::{Call, Called};

/// Pairs of status and reason, as claims store them.
pub(super) type Pairs = BTreeSet<(String, String)>;

const NAMES: [&str; 3] = ["Degraded", "Inaccessible", "DataLoss"];

#[derive(Default)]
pub(super) struct Driver {
    /// Status numbers and reasons of unhealthy volumes.
    pub(super) health: BTreeMap<String, Vec<(i32, char)>>,
    /// Whether the driver has no call for single volumes.
    pub(super) lists_alone: bool,
    /// All reports about each volume to the running process.
    pub(super) said: BTreeMap<String, BTreeSet<Pairs>>,
    /// The list that the process is reading.
    pub(super) list: BTreeSet<String>,
    /// Number of complete lists in a row without a volume that an earlier list contained or whose claim has conditions.
    pub(super) without: BTreeMap<String, u32>,
    pub(super) messages: u32,
}

impl Driver {
    pub(super) fn pairs(&self, handle: &str) -> Pairs {
        let suffers = self.health.get(handle).into_iter().flatten();
        suffers
            .map(|(status, reason)| (name(*status).to_owned(), reason.to_string()))
            .collect()
    }

    /// Another process starts and has received no reports.
    pub(super) fn forget(&mut self) {
        self.said.clear();
        self.list.clear();
        self.without.clear();
    }

    fn entries(&mut self, handle: &str) -> Vec<VolumeHealthEntry> {
        // Every message differs from the last one.
        self.messages += 1;
        let suffers = self.health.get(handle).into_iter().flatten();
        let entries = suffers.map(|(status, reason)| VolumeHealthEntry {
            status: *status,
            reason: reason.to_string(),
            message: self.messages.to_string(),
        });
        entries.collect()
    }

    fn says(&mut self, handle: &str) {
        let pairs = self.pairs(handle);
        self.said
            .entry(handle.to_owned())
            .or_default()
            .insert(pairs);
    }

    /// A list failed or ended. If the driver cannot be queried, volumes missing from two complete lists are healthy.
    fn listed(&mut self, complete: bool, handles: &[String]) {
        let list = std::mem::take(&mut self.list);
        if !complete {
            self.without.clear();
            return;
        }
        for handle in handles {
            let lists = self.without.entry(handle.clone()).or_default();
            *lists = if list.contains(handle) { 0 } else { *lists + 1 };
            if *lists > 1 && self.lists_alone {
                self.said
                    .entry(handle.clone())
                    .or_default()
                    .insert(Pairs::new());
            }
        }
    }

    fn condition(&self, handle: &str) -> Option<VolumeStatus> {
        let abnormal = self.health.contains_key(handle);
        let message = if abnormal { "gone" } else { "fine" };
        Some(VolumeStatus {
            volume_condition: Some(VolumeCondition {
                abnormal,
                message: message.to_owned(),
            }),
        })
    }

    /// Answers a call about these volumes. `lacks`: the driver does not implement the call.
    #[expect(clippy::too_many_lines, reason = "each call, side by side")]
    pub(super) fn answer(
        &mut self,
        call: Call,
        fails: bool,
        lacks: bool,
        handles: &[String],
        dice: &mut Dice,
    ) -> Called {
        if fails || lacks {
            let codes = [
                Code::Internal,
                Code::NotFound,
                Code::Aborted,
                Code::Unavailable,
                Code::DeadlineExceeded,
            ];
            let code = match lacks {
                true => Code::Unimplemented,
                false => *dice.of(&codes),
            };
            if matches!(call, Call::ListHealth(_)) {
                self.listed(false, handles);
            }
            let error = RpcError {
                code,
                message: "no".to_owned(),
            };
            return sidecar::controller::Calls::failed(call, CallError::Failed(error));
        }
        match call {
            Call::ListHealth(call) => {
                if call.starting_token.is_empty() {
                    self.list.clear();
                }
                let mut rest = handles
                    .iter()
                    .filter(|handle| ***handle >= *call.starting_token);
                let page: Vec<String> = rest.by_ref().take(2).cloned().collect();
                let next_token = rest.next().cloned().unwrap_or_default();
                let mut entries = Vec::new();
                for handle in page {
                    // A list may contain healthy volumes, too.
                    if self.health.contains_key(&handle) || dice.one_in(4) {
                        let health_statuses = self.entries(&handle);
                        self.says(&handle);
                        self.list.insert(handle.clone());
                        entries.push(VolumeHealth {
                            volume_id: handle,
                            health_statuses,
                        });
                    }
                }
                if next_token.is_empty() {
                    self.listed(true, handles);
                }
                let page = ControllerListVolumeHealthResponse {
                    entries,
                    next_token,
                };
                Called::ListHealth(call, Ok(page))
            }
            Call::GetHealth(call) => {
                let health_statuses = self.entries(&call.volume_id);
                self.says(&call.volume_id);
                let volume_health = Some(VolumeHealth {
                    volume_id: call.volume_id.clone(),
                    health_statuses,
                });
                Called::GetHealth(
                    call,
                    Ok(ControllerGetVolumeHealthResponse { volume_health }),
                )
            }
            Call::ListConditions(call) => {
                let entries = handles.iter().map(|handle| Entry {
                    volume: Some(Volume {
                        volume_id: handle.clone(),
                    }),
                    status: self.condition(handle),
                });
                let page = ListVolumesResponse {
                    entries: entries.collect(),
                    next_token: String::new(),
                };
                Called::ListConditions(call, Ok(page))
            }
            Call::GetCondition(call) => {
                let status = self.condition(&call.volume_id);
                let answer = ControllerGetVolumeResponse {
                    volume: None,
                    status,
                };
                Called::GetCondition(call, Ok(answer))
            }
        }
    }
}

fn name(status: i32) -> &'static str {
    let index = usize::try_from(status - 1).unwrap();
    NAMES[index]
}
