//! The rules for the socket file, against a real file system.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener as Listener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = path(directory.path().to_str().unwrap(), "d.example.com").unwrap();
    (directory, path)
}

#[test]
fn the_path_is_the_directory_as_given_and_the_name() {
    let of = |directory, name| path(directory, name).unwrap().into_os_string();
    assert_eq!(of("/registration", "d"), "/registration/d-reg.sock");
    assert_eq!(of("/r/", "d"), "/r//d-reg.sock", "R-56: not cleaned");
    assert_eq!(of("", "d"), "/d-reg.sock");
    assert!(
        matches!(path("/r", "a/b"), Err(SocketError::Name(_))),
        "R-55"
    );
    assert!(matches!(path("/r", "a\0b"), Err(SocketError::Name(_))));
    let long = |length: usize| path(&"d".repeat(length - "/d-reg.sock".len()), "d");
    assert_eq!(long(107).unwrap().as_os_str().len(), 107, "R-32");
    assert!(matches!(long(108), Err(SocketError::TooLong(_))), "R-32");
}

#[tokio::test]
async fn a_socket_of_an_earlier_process_is_replaced() {
    let (_directory, path) = directory();
    drop(Listener::bind(&path).unwrap());
    let before = Identity::of(&path).unwrap();
    let keep_the_inode = path.with_extension("kept");
    std::fs::hard_link(&path, keep_the_inode).unwrap();
    let socket = RegistrationSocket::create(path.clone()).unwrap();
    assert_ne!(socket.identity, Some(before), "R-27");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700, "R-21");
    assert_eq!(socket.presence().unwrap(), Presence::Ours);
}

#[tokio::test]
async fn a_socket_that_an_earlier_process_has_created_again_meanwhile_is_replaced() {
    let (_directory, path) = directory();
    let earlier = RegistrationSocket::create(path.clone()).unwrap();
    let (_listener, identity) = bind_instead(&path).unwrap();
    assert_eq!(identity, Identity::of(&path).ok(), "R-50");
    assert_eq!(earlier.presence().unwrap(), Presence::Foreign, "R-50");
}

#[tokio::test]
async fn a_socket_that_is_removed_at_once_is_gone_and_no_failure() {
    let (_directory, path) = directory();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = std::fs::remove_file(&path);
            }
        });
        // On a busy machine the two threads can take turns for long: then no removal comes in between.
        let until = Instant::now() + Duration::from_mins(1);
        let mut found = BTreeSet::new();
        let mut rounds = 0;
        while rounds < 5_000 || (!found.contains("Gone") && Instant::now() < until) {
            rounds += 1;
            let created = RegistrationSocket::create(path.clone());
            found.insert(
                match created.and_then(|mut it| it.create_again().map(|()| it)) {
                    Ok(socket) => format!("{:?}", socket.presence().unwrap()),
                    // The first socket was not removed before the second one was created.
                    Err(SocketError::Listen { source, .. })
                        if source.kind() == io::ErrorKind::AddrInUse =>
                    {
                        continue;
                    }
                    Err(error) => format!("{error:?}"),
                },
            );
        }
        is_over.store(true, Ordering::Relaxed);
        found.remove("Ours");
        assert_eq!(found, BTreeSet::from(["Gone".to_owned()]));
    });
}

#[tokio::test]
async fn other_files_are_left_alone() {
    for (row, make) in [
        (
            "R-28",
            (|path| std::fs::write(path, "mine").unwrap()) as fn(&Path),
        ),
        ("R-29", |path| std::fs::create_dir(path).unwrap()),
        ("fifo", |path| {
            assert!(
                std::process::Command::new("mkfifo")
                    .arg(path)
                    .status()
                    .unwrap()
                    .success()
            );
        }),
        ("link to a file", |path| {
            let target = path.with_extension("target");
            std::fs::write(&target, "").unwrap();
            symlink(target, path).unwrap();
        }),
        ("dangling link", |path| {
            symlink("/nonexistent/x", path).unwrap()
        }),
    ] {
        let (_directory, path) = directory();
        make(&path);
        let before = Identity::of(&path).unwrap();
        let error = RegistrationSocket::create(path.clone()).unwrap_err();
        assert!(
            error.to_string().contains("--plugin-registration-path"),
            "{row}: {error}"
        );
        assert_eq!(Identity::of(&path).unwrap(), before, "{row}");
    }
}

#[tokio::test]
async fn a_link_to_a_socket_is_replaced_and_its_target_kept() {
    let (_directory, path) = directory();
    let target = path.with_extension("other");
    let _other = Listener::bind(&target).unwrap();
    symlink(&target, &path).unwrap();
    let _socket = RegistrationSocket::create(path.clone()).unwrap();
    assert!(
        std::fs::symlink_metadata(&path)
            .unwrap()
            .file_type()
            .is_socket(),
        "R-30"
    );
    assert!(target.exists(), "R-30");
}

#[tokio::test]
async fn what_the_directory_lacks_is_said() {
    let (directory, _) = directory();
    let missing = directory.path().join("missing");
    let path = path(missing.to_str().unwrap(), "d").unwrap();
    let error = RegistrationSocket::create(path).unwrap_err();
    assert!(
        error.to_string().contains("plugins_registry"),
        "R-31: {error}"
    );
    assert!(!missing.exists(), "R-31");

    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = RegistrationSocket::create(file.join("d-reg.sock")).unwrap_err();
    assert!(matches!(error, SocketError::Stat { .. }), "{error}");
}

#[tokio::test]
async fn is_created_again_and_removed_by_its_owner_only() {
    let (_directory, path) = directory();
    let mut socket = RegistrationSocket::create(path.clone()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(socket.presence().unwrap(), Presence::Gone);
    let first = socket.identity;
    socket.create_again().unwrap();
    assert_ne!(
        socket.identity, first,
        "the old listener holds the old inode until the new one is there"
    );
    assert_eq!(socket.presence().unwrap(), Presence::Ours);

    let second = RegistrationSocket::create(path.clone()).unwrap();
    assert_eq!(socket.presence().unwrap(), Presence::Foreign);
    assert!(matches!(
        socket.create_again(),
        Err(SocketError::Listen { .. })
    ));
    assert_eq!(socket.remove().unwrap(), Presence::Foreign, "R-50");
    assert!(path.exists(), "R-50");
    assert_eq!(second.remove().unwrap(), Presence::Ours, "R-33");
    assert!(!path.exists(), "R-33");

    let socket = RegistrationSocket::create(path.clone()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(socket.remove().unwrap(), Presence::Gone, "R-34");
}
