//! Real mounts; these tests need root and loop devices, and report if they are skipped.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use csi_proto::csi;
use csi_proto::csi::volume_content_source::{self, SnapshotSource};
use csi_test_driver::backing::{loop_device, mount as mounts};
use csi_test_driver::cleanup;

use super::harness::*;

fn can_mount(test: &str) -> bool {
    let able = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
    if !able {
        eprintln!("{test}: skipped, needs root and loop devices");
    }
    able
}

/// A volume on a node.
struct Usage<'a> {
    driver: &'a Driver,
    id: String,
    capability: csi::VolumeCapability,
    staging: PathBuf,
    target: PathBuf,
}

impl<'a> Usage<'a> {
    fn new(place: &Place, driver: &'a Driver, id: &str, capability: csi::VolumeCapability) -> Self {
        Self {
            driver,
            id: id.to_owned(),
            capability,
            staging: place.path(&format!("staging-{id}")),
            target: place.path(&format!("pods/{id}/mount")),
        }
    }

    async fn stage(&self) {
        let request = csi::NodeStageVolumeRequest {
            volume_id: self.id.clone(),
            staging_target_path: self.staging.to_str().unwrap().to_owned(),
            volume_capability: Some(self.capability.clone()),
            ..Default::default()
        };
        self.driver
            .node()
            .await
            .node_stage_volume(request)
            .await
            .unwrap();
    }

    async fn publish(&self, readonly: bool) {
        let request = csi::NodePublishVolumeRequest {
            volume_id: self.id.clone(),
            staging_target_path: self.staging.to_str().unwrap().to_owned(),
            target_path: self.target.to_str().unwrap().to_owned(),
            volume_capability: Some(self.capability.clone()),
            readonly,
            ..Default::default()
        };
        self.driver
            .node()
            .await
            .node_publish_volume(request)
            .await
            .unwrap();
    }

    async fn unpublish(&self) {
        let request = csi::NodeUnpublishVolumeRequest {
            volume_id: self.id.clone(),
            target_path: self.target.to_str().unwrap().to_owned(),
        };
        self.driver
            .node()
            .await
            .node_unpublish_volume(request)
            .await
            .unwrap();
    }

    async fn unstage(&self) {
        let request = csi::NodeUnstageVolumeRequest {
            volume_id: self.id.clone(),
            staging_target_path: self.staging.to_str().unwrap().to_owned(),
        };
        self.driver
            .node()
            .await
            .node_unstage_volume(request)
            .await
            .unwrap();
    }

    async fn expand(&self, bytes: i64) -> i64 {
        let range = Some(csi::CapacityRange {
            required_bytes: bytes,
            limit_bytes: 0,
        });
        let request = csi::ControllerExpandVolumeRequest {
            volume_id: self.id.clone(),
            capacity_range: range,
            ..Default::default()
        };
        let mut controller = self.driver.controller().await;
        let answer = controller
            .controller_expand_volume(request)
            .await
            .unwrap()
            .into_inner();
        assert!(answer.node_expansion_required);
        let request = csi::NodeExpandVolumeRequest {
            volume_id: self.id.clone(),
            volume_path: self.target.to_str().unwrap().to_owned(),
            capacity_range: range,
            ..Default::default()
        };
        let answer = self
            .driver
            .node()
            .await
            .node_expand_volume(request)
            .await
            .unwrap();
        answer.into_inner().capacity_bytes
    }

    async fn stats(&self) -> csi::VolumeUsage {
        let request = csi::NodeGetVolumeStatsRequest {
            volume_id: self.id.clone(),
            volume_path: self.target.to_str().unwrap().to_owned(),
            ..Default::default()
        };
        let answer = self
            .driver
            .node()
            .await
            .node_get_volume_stats(request)
            .await
            .unwrap();
        answer.into_inner().usage[0]
    }

    async fn delete(&self) {
        let request = csi::DeleteVolumeRequest {
            volume_id: self.id.clone(),
            ..Default::default()
        };
        self.driver
            .controller()
            .await
            .delete_volume(request)
            .await
            .unwrap();
    }
}

fn mounted(path: &Path) -> bool {
    mounts::is_mount_point(path).unwrap()
}

#[tokio::test]
async fn a_folder_is_mounted_keeps_its_files_and_can_be_read_only() {
    if !can_mount("a_folder_is_mounted") {
        return;
    }
    let place = Place::new();
    let mut driver = place.start_real("n1", &[]);
    let id = created(&driver, create("a")).await;
    {
        let usage = Usage::new(&place, &driver, &id, mount());
        usage.stage().await;
        usage.publish(false).await;
        usage.publish(false).await;
        assert!(mounted(&usage.staging) && mounted(&usage.target));
        fs::write(usage.target.join("file"), "content").unwrap();
        usage.unpublish().await;
        usage.unpublish().await;
        assert!(!usage.target.exists());
    }
    driver.kill();
    driver.restart();
    let usage = Usage::new(&place, &driver, &id, mount());
    usage.publish(true).await;
    assert_eq!(
        fs::read_to_string(usage.target.join("file")).unwrap(),
        "content"
    );
    assert!(
        fs::write(usage.target.join("file"), "other").is_err(),
        "read-only"
    );
    assert!(usage.stats().await.total > 0);
    usage.unpublish().await;
    usage.unstage().await;
    usage.unstage().await;
    assert!(!mounted(&usage.staging));
    usage.delete().await;
    usage.delete().await;
    assert_eq!(
        fs::read_dir(place.state().join("volumes")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn a_block_volume_is_a_device_that_grows() {
    if !can_mount("a_block_volume") {
        return;
    }
    let place = Place::new();
    let driver = place.start_real("n1", &[]);
    let mut request = create("a");
    request.volume_capabilities = vec![block()];
    let id = created(&driver, request).await;
    let usage = Usage::new(&place, &driver, &id, block());
    usage.stage().await;
    usage.publish(false).await;
    assert!(
        fs::metadata(&usage.target)
            .unwrap()
            .file_type()
            .is_block_device()
    );
    let size = |path: &Path| {
        let mut bytes = Vec::new();
        fs::File::open(path)
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        (bytes.len(), bytes[..4].to_vec())
    };
    let mut device = fs::OpenOptions::new()
        .write(true)
        .open(&usage.target)
        .unwrap();
    device.write_all(b"data").unwrap();
    device.sync_all().unwrap();
    drop(device);
    assert_eq!(size(&usage.target), (1 << 20, b"data".to_vec()));
    assert_eq!(usage.expand(2 << 20).await, 2 << 20);
    assert_eq!(size(&usage.target), (2 << 20, b"data".to_vec()));
    assert_eq!(usage.stats().await.total, 2 << 20);
    usage.unpublish().await;
    usage.unstage().await;
    assert!(
        loop_device::below(&place.state().canonicalize().unwrap())
            .unwrap()
            .is_empty()
    );
    usage.delete().await;
}

#[tokio::test]
async fn an_image_has_a_file_system_that_grows_and_is_copied_into_snapshots() {
    if !can_mount("an_image_has_a_file_system") {
        return;
    }
    let place = Place::new();
    let driver = place.start_real("n1", &["--fs-images"]);
    let mut request = create("a");
    request.capacity_range.as_mut().unwrap().required_bytes = 16 << 20;
    let id = created(&driver, request.clone()).await;
    let usage = Usage::new(&place, &driver, &id, mount());
    usage.stage().await;
    usage.publish(false).await;
    fs::write(usage.target.join("file"), "content").unwrap();
    let before = usage.stats().await.total;
    assert!(before > 0 && before <= 16 << 20, "{before}");
    usage.expand(32 << 20).await;
    let after = usage.stats().await.total;
    assert!(after > before + (8 << 20), "{before} -> {after}");

    let snapshot = csi::CreateSnapshotRequest {
        name: "s".to_owned(),
        source_volume_id: id.clone(),
        ..Default::default()
    };
    let snapshot = driver
        .controller()
        .await
        .create_snapshot(snapshot)
        .await
        .unwrap();
    let snapshot_id = snapshot.into_inner().snapshot.unwrap().snapshot_id;
    let source = volume_content_source::Type::Snapshot(SnapshotSource { snapshot_id });
    request.name = "b".to_owned();
    request.capacity_range.as_mut().unwrap().required_bytes = 64 << 20;
    request.volume_content_source = Some(csi::VolumeContentSource {
        r#type: Some(source),
    });
    let restored = created(&driver, request).await;
    let restored = Usage::new(&place, &driver, &restored, mount());
    restored.stage().await;
    restored.publish(false).await;
    assert_eq!(
        fs::read_to_string(restored.target.join("file")).unwrap(),
        "content"
    );
    let larger = restored.stats().await.total;
    assert!(
        larger > after + (16 << 20),
        "grown to the new volume: {after} -> {larger}"
    );
    for usage in [usage, restored] {
        usage.unpublish().await;
        usage.unstage().await;
        usage.delete().await;
    }
}

#[tokio::test]
async fn an_inline_volume_comes_and_goes_with_its_pod() {
    if !can_mount("an_inline_volume") {
        return;
    }
    let place = Place::new();
    let driver = place.start_real("n1", &["--enable-attach"]);
    let target = place.path("pods/1/mount");
    let request = csi::NodePublishVolumeRequest {
        volume_id: "csi-1234".to_owned(),
        target_path: target.to_str().unwrap().to_owned(),
        volume_capability: Some(mount()),
        volume_context: [("csi.storage.k8s.io/ephemeral".to_owned(), "true".to_owned())].into(),
        ..Default::default()
    };
    let mut node = driver.node().await;
    node.node_publish_volume(request.clone()).await.unwrap();
    node.node_publish_volume(request).await.unwrap();
    assert!(mounted(&target));
    fs::write(target.join("file"), "content").unwrap();
    assert_eq!(driver.left_over("volumes"), 1);
    let request = csi::NodeUnpublishVolumeRequest {
        volume_id: "csi-1234".to_owned(),
        target_path: target.to_str().unwrap().to_owned(),
    };
    node.node_unpublish_volume(request.clone()).await.unwrap();
    node.node_unpublish_volume(request).await.unwrap();
    assert!(!target.exists());
    assert_eq!(driver.left_over("volumes"), 0);
    assert_eq!(
        fs::read_dir(place.state().join("volumes")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn a_failed_mount_leaves_nothing_behind() {
    if !can_mount("a_failed_mount") {
        return;
    }
    let place = Place::new();
    let driver = place.start_real("n1", &[]);
    let id = created(&driver, create("a")).await;
    let usage = Usage::new(&place, &driver, &id, mount());
    usage.stage().await;
    // A file in place of the target folder.
    fs::create_dir_all(usage.target.parent().unwrap()).unwrap();
    fs::write(&usage.target, "").unwrap();
    let request = csi::NodePublishVolumeRequest {
        volume_id: id.clone(),
        staging_target_path: usage.staging.to_str().unwrap().to_owned(),
        target_path: usage.target.to_str().unwrap().to_owned(),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    let refused = driver
        .node()
        .await
        .node_publish_volume(request)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Internal, "{refused}");
    assert_eq!(
        (driver.left_over("published"), driver.left_over("staged")),
        (0, 1)
    );
}

#[tokio::test]
async fn cleaning_up_after_a_killed_driver_removes_every_mount_and_device() {
    if !can_mount("cleaning_up") {
        return;
    }
    let place = Place::new();
    let mut driver = place.start_real("n1", &["--fs-images"]);
    let folder = created(&driver, create("a")).await;
    let mut request = create("b");
    request.volume_capabilities = vec![block()];
    let device = created(&driver, request).await;
    let targets = {
        let folder = Usage::new(&place, &driver, &folder, mount());
        let device = Usage::new(&place, &driver, &device, block());
        for usage in [&folder, &device] {
            usage.stage().await;
            usage.publish(false).await;
        }
        [folder.target, folder.staging, device.target]
    };
    driver.kill();
    assert!(targets.iter().all(|path| mounted(path)));
    let done = cleanup::run(&place.state(), true).unwrap();
    assert_eq!(
        (done.unmounted.len(), done.detached.len()),
        (3, 2),
        "{done:?}"
    );
    assert!(!targets.iter().any(|path| mounted(path)));
    assert!(!place.state().exists());
    assert_eq!(
        cleanup::run(&place.state(), true).unwrap(),
        cleanup::Done::default()
    );
}
