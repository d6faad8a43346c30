//! Rows about the registration socket as a file.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use sidecar_testkit::leave_dead_socket;

use crate::driver::{Driver, NAME};
use crate::kubelet;
use crate::process::{PROGRAM, Process, Seat};

#[tokio::test]
async fn r_21_r_22_the_socket_is_private_and_the_umask_restored() {
    for umask in ["000", "027"] {
        let seat = Seat::new();
        let _driver = Driver::start(&seat.csi());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\""), PROGRAM]);
        command.args(seat.flags());
        let mut process = Process::start(command);
        process.listening(&seat.socket()).await;
        let metadata = std::fs::symlink_metadata(seat.socket()).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o700);
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        let line = format!("Umask:\t0{umask}");
        assert!(status.lines().any(|found| found == line), "{status}");
    }
}

#[tokio::test]
async fn r_27_a_stale_socket_is_replaced() {
    let seat = Seat::new();
    leave_dead_socket(&seat.socket());
    let stale = std::fs::metadata(seat.socket()).unwrap().ino();
    // A second name keeps the inode from being reused.
    std::fs::hard_link(seat.socket(), seat.path("kept")).unwrap();
    let (_driver, _process) = seat.running(&[]).await;
    assert_ne!(std::fs::metadata(seat.socket()).unwrap().ino(), stale);
    assert_eq!(kubelet::ask(&seat.socket()).await.name, NAME);
}

#[tokio::test]
async fn r_28_r_29_other_files_are_not_touched() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    std::fs::write(seat.socket(), "precious").unwrap();
    let words = ["--plugin-registration-path", "is not a socket"];
    seat.start(&[]).ended().await.failed_naming(&words);
    assert_eq!(std::fs::read(seat.socket()).unwrap(), b"precious");

    std::fs::remove_file(seat.socket()).unwrap();
    std::fs::create_dir(seat.socket()).unwrap();
    seat.start(&[]).ended().await.failed_naming(&words);
    assert!(seat.socket().is_dir());
}

#[tokio::test]
async fn r_30_a_link_is_replaced_and_its_target_kept() {
    let seat = Seat::new();
    let other = seat.path("other.sock");
    let _other = UnixListener::bind(&other).unwrap();
    symlink(&other, seat.socket()).unwrap();
    let (_driver, _process) = seat.running(&[]).await;
    crate::process::until("the link to be replaced", async || {
        std::fs::symlink_metadata(seat.socket()).is_ok_and(|found| found.file_type().is_socket())
    })
    .await;
    assert!(other.exists());
}

#[tokio::test]
async fn a_dangling_link_is_not_touched() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    symlink("/nonexistent/x", seat.socket()).unwrap();
    let end = seat.start(&[]).ended().await;
    end.failed_naming(&["--plugin-registration-path", "link"]);
    assert!(
        std::fs::symlink_metadata(seat.socket())
            .unwrap()
            .is_symlink()
    );
}

#[tokio::test]
async fn r_31_the_directory_is_not_created() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let missing = seat.path("missing");
    let flag = format!("--plugin-registration-path={}", missing.display());
    seat.start(&[&flag])
        .ended()
        .await
        .failed_naming(&["--plugin-registration-path", "not created"]);
    assert!(!missing.exists());
}

#[tokio::test]
async fn r_32_a_path_that_is_too_long() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let deep = seat.path(&"d".repeat(100));
    std::fs::create_dir(&deep).unwrap();
    let flag = format!("--plugin-registration-path={}", deep.display());
    seat.start(&[&flag])
        .ended()
        .await
        .failed_naming(&["--plugin-registration-path", "shorter"]);
    assert!(std::fs::read_dir(deep).unwrap().next().is_none());
}

#[tokio::test]
async fn a_file_in_place_of_the_directory() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let flag = format!("--plugin-registration-path={}", seat.csi().display());
    seat.start(&[&flag])
        .ended()
        .await
        .failed_naming(&["--plugin-registration-path"]);
}
