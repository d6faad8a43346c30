//! The node service.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use csi_proto::csi;
use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_usage::Unit;
use tonic::Code;

use super::Driver;
use super::controller::put;
use crate::backing::target::Publish;
use crate::model::state::Change;
use crate::model::topology;
use crate::model::volume::{Kind, Phase, Volume};
use crate::plan::{Refusal, expand, node, required};

fn mount_options(capability: Option<&csi::VolumeCapability>) -> &[String] {
    match capability.and_then(|capability| capability.access_type.as_ref()) {
        Some(AccessType::Mount(mount)) => &mount.mount_flags,
        Some(AccessType::Block(_)) | None => &[],
    }
}

impl Driver {
    /// NodeStageVolume.
    pub fn stage(
        &self,
        request: &csi::NodeStageVolumeRequest,
    ) -> Result<csi::NodeStageVolumeResponse, Refusal> {
        let _guard = self
            .busy
            .take(format!("volume {} on this node", request.volume_id))?;
        // The state is written first: a mount that is not in the state would never be undone.
        let outcome = self.store.transact(|state| {
            let outcome = node::stage(state, &self.policy, self.here(), request)?;
            let changes = if outcome.repeated {
                vec![]
            } else {
                vec![put(outcome.volume.clone())]
            };
            Ok::<_, Refusal>((changes, outcome))
        })?;
        let staging = Path::new(&request.staging_target_path);
        let options = mount_options(request.volume_capability.as_ref());
        if let Err(error) = self.targets.stage(&outcome.volume, staging, options) {
            if !outcome.repeated {
                self.forget_staging(&request.volume_id, &request.staging_target_path)?;
            }
            return Err(error.into());
        }
        Ok(csi::NodeStageVolumeResponse {})
    }

    fn forget_staging(&self, id: &str, path: &str) -> Result<(), Refusal> {
        self.change_volume(id, |volume| {
            if let Some(paths) = volume.staged.get_mut(&self.identity.node) {
                paths.remove(path);
                if paths.is_empty() {
                    volume.staged.remove(&self.identity.node);
                }
            }
        })
    }

    /// NodeUnstageVolume.
    pub fn unstage(
        &self,
        request: &csi::NodeUnstageVolumeRequest,
    ) -> Result<csi::NodeUnstageVolumeResponse, Refusal> {
        let id = &request.volume_id;
        let _guard = self.busy.take(format!("volume {id} on this node"))?;
        let plan = |state: &_| node::unstage(state, &self.policy, self.here(), request);
        let volume = self.store.read(plan)??;
        self.targets
            .unstage(Path::new(&request.staging_target_path))?;
        if let Some(volume) = volume {
            self.forget_staging(id, &request.staging_target_path)?;
            self.release(&volume)?;
        }
        Ok(csi::NodeUnstageVolumeResponse {})
    }

    /// Detaches the loop device unless some node still uses the volume.
    fn release(&self, volume: &Volume) -> Result<(), Refusal> {
        let in_use = |volume: &Volume| volume.in_use_on_nodes();
        let unused = || {
            let used = self
                .store
                .read(|state| state.volumes.get(&volume.id).is_some_and(in_use));
            // An unreadable state counts as in use.
            used.is_ok_and(|used| !used)
        };
        Ok(self.targets.release(volume, unused)?)
    }

    /// NodePublishVolume.
    pub fn publish(
        &self,
        request: &csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Refusal> {
        let object = format!("volume {} at {}", request.volume_id, request.target_path);
        let _guard = self.busy.take(object)?;
        let outcome = self.store.transact(|state| {
            let outcome = node::publish(state, &self.policy, self.here(), request)?;
            let changes = if outcome.repeated {
                vec![]
            } else {
                vec![put(outcome.volume.clone())]
            };
            Ok::<_, Refusal>((changes, outcome))
        })?;
        if let Err(error) = self.publish_paths(&outcome.volume, request) {
            if !outcome.repeated {
                self.forget_target(&outcome.volume, &request.target_path)?;
            }
            return Err(error);
        }
        Ok(csi::NodePublishVolumeResponse {})
    }

    fn publish_paths(
        &self,
        volume: &Volume,
        request: &csi::NodePublishVolumeRequest,
    ) -> Result<(), Refusal> {
        if volume.ephemeral && volume.phase == Phase::Creating {
            self.targets.storage.make(volume)?;
            self.change_volume(&volume.id, |volume| volume.phase = Phase::Ready)?;
        }
        let staging = Some(Path::new(&request.staging_target_path));
        let publish = Publish {
            target: Path::new(&request.target_path),
            staging: staging.filter(|path| !path.as_os_str().is_empty()),
            readonly: request.readonly,
            options: mount_options(request.volume_capability.as_ref()),
        };
        Ok(self.targets.publish(volume, &publish)?)
    }

    /// Forgets a target path, and an inline volume with it.
    fn forget_target(&self, volume: &Volume, target: &str) -> Result<(), Refusal> {
        self.change_volume(&volume.id, |volume| {
            if let Some(targets) = volume.published.get_mut(&self.identity.node) {
                targets.remove(target);
                if targets.is_empty() {
                    volume.published.remove(&self.identity.node);
                }
            }
        })?;
        if volume.ephemeral {
            self.targets.storage.remove(volume)?;
            return self.change(vec![Change::DropVolume(volume.id.clone())]);
        }
        self.release(volume)
    }

    /// NodeUnpublishVolume.
    pub fn unpublish(
        &self,
        request: &csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Refusal> {
        let object = format!("volume {} at {}", request.volume_id, request.target_path);
        let _guard = self.busy.take(object)?;
        let volume = self
            .store
            .read(|state| node::unpublish(state, self.here(), request))??;
        self.targets.unpublish(Path::new(&request.target_path))?;
        if let Some(volume) = volume {
            self.forget_target(&volume, &request.target_path)?;
        }
        Ok(csi::NodeUnpublishVolumeResponse {})
    }

    /// NodeGetVolumeStats.
    pub fn stats(
        &self,
        request: &csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Refusal> {
        let id = required(&request.volume_id, "volume ID")?;
        let path = Path::new(required(&request.volume_path, "volume path")?);
        let volume = self.volume_at(id, path)?;
        let usage = if volume.kind == Kind::Block {
            vec![usage(Unit::Bytes, (volume.grown_to, 0, 0))]
        } else {
            file_system_usage(path)?
        };
        Ok(csi::NodeGetVolumeStatsResponse { usage })
    }

    /// A volume that is published or staged here at `path`.
    fn volume_at(&self, id: &str, path: &Path) -> Result<Volume, Refusal> {
        let not_found = |what: String| Refusal::new(Code::NotFound, what);
        let volume = self.store.read(|state| state.volumes.get(id).cloned())?;
        let Some(volume) = volume else {
            return Err(not_found(format!("volume {id} does not exist")));
        };
        let Ok(meta) = fs::metadata(path) else {
            return Err(not_found(format!(
                "volume path {} does not exist",
                path.display()
            )));
        };
        let kind = if meta.file_type().is_block_device() || meta.is_file() {
            Kind::Block
        } else {
            Kind::Mount
        };
        if kind != volume.kind {
            let message = format!("{} is no path of volume {id}", path.display());
            return Err(Refusal::new(Code::InvalidArgument, message));
        }
        Ok(volume)
    }

    /// NodeExpandVolume.
    pub fn node_expand(
        &self,
        request: &csi::NodeExpandVolumeRequest,
    ) -> Result<csi::NodeExpandVolumeResponse, Refusal> {
        let _guard = self
            .busy
            .take(format!("volume {} on this node", request.volume_id))?;
        let volume = self
            .store
            .read(|state| expand::node(state, &self.policy, request))??;
        self.volume_at(&request.volume_id, Path::new(&request.volume_path))?;
        self.targets.grow(&volume)?;
        self.change_volume(&volume.id, |now| {
            now.capacity = now.capacity.max(volume.capacity);
            now.grown_to = now.grown_to.max(volume.grown_to);
        })?;
        Ok(csi::NodeExpandVolumeResponse {
            capacity_bytes: volume.capacity,
        })
    }

    /// NodeGetInfo.
    pub fn info(&self) -> csi::NodeGetInfoResponse {
        let settings = self.settings();
        let place = settings
            .topology
            .as_ref()
            .unwrap_or(&self.identity.topology);
        csi::NodeGetInfoResponse {
            node_id: settings
                .node_id
                .unwrap_or_else(|| self.identity.node.clone()),
            max_volumes_per_node: settings.max_volumes.unwrap_or(self.identity.max_volumes),
            accessible_topology: self.features.topology.then(|| topology::message(place)),
        }
    }
}

fn usage(unit: Unit, (total, used, available): (i64, i64, i64)) -> csi::VolumeUsage {
    csi::VolumeUsage {
        available,
        total,
        used,
        unit: unit as i32,
    }
}

fn file_system_usage(path: &Path) -> Result<Vec<csi::VolumeUsage>, Refusal> {
    let stat = rustix::fs::statvfs(path).map_err(|error| {
        Refusal::new(
            Code::Internal,
            format!("cannot stat {}: {error}", path.display()),
        )
    })?;
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let bytes = |blocks: u64| signed(blocks.saturating_mul(stat.f_frsize));
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    let inodes_used = stat.f_files.saturating_sub(stat.f_ffree);
    Ok(vec![
        usage(
            Unit::Bytes,
            (bytes(stat.f_blocks), bytes(used), bytes(stat.f_bavail)),
        ),
        usage(
            Unit::Inodes,
            (
                signed(stat.f_files),
                signed(inodes_used),
                signed(stat.f_favail),
            ),
        ),
    ])
}
