//! Discovery of sockets: K-1 to K-13.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use tokio::time::Instant;

use crate::script::Script;
use crate::stage::{Stage, pass};

#[tokio::test(start_paused = true)]
async fn k_1_a_missing_directory_is_created() {
    let mut stage = Stage::set();
    fs::remove_dir(stage.registry()).unwrap();
    stage.start();
    stage
        .until("the directory exists", |stage| stage.registry().is_dir())
        .await;
    stage.registered().await;
}

#[tokio::test(start_paused = true)]
async fn k_2_a_socket_from_before_the_start_is_asked_within_a_second() {
    let mut stage = Stage::set();
    let registrar = stage.registrar();
    let begin = Instant::now();
    stage.start();
    registrar.asked(1).await;
    assert!(
        begin.elapsed() <= Duration::from_millis(1100),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn k_3_a_socket_created_while_running_is_registered_within_two_seconds() {
    let stage = Stage::started().await;
    let begin = Instant::now();
    stage.registered().await;
    assert!(
        begin.elapsed() <= Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn k_4_sub_directories_are_watched_at_any_depth() {
    for depth in ["a", "a/b", "a/b/c"] {
        let stage = Stage::started().await;
        fs::create_dir_all(stage.registry().join(depth)).unwrap();
        let registrar = stage.script(&format!("{depth}/d-reg.sock")).listen();
        registrar.confirmed().await;
        registrar.remove();
        stage
            .until("it is deregistered", |stage| stage.actual().is_empty())
            .await;
        assert_eq!(stage.csinode_drivers().unwrap(), [""; 0], "{depth}");
    }
}

#[tokio::test(start_paused = true)]
async fn k_5_6_hidden_names_are_ignored_while_running() {
    let stage = Stage::started().await;
    let hidden = stage.script(".hidden.sock").listen();
    fs::create_dir(stage.registry().join(".dir")).unwrap();
    let inside = stage.script(".dir/x.sock").listen();
    pass(30.0).await;
    assert!(stage.desired().is_empty());
    assert!(
        hidden.bytes().is_empty() && inside.bytes().is_empty(),
        "never dialled"
    );
}

#[tokio::test(start_paused = true)]
async fn k_7_hidden_directories_from_before_the_start_are_looked_into() {
    let mut stage = Stage::set();
    fs::create_dir(stage.registry().join(".dir")).unwrap();
    let registrar = stage.script(".dir/x.sock").listen();
    stage.start();
    registrar.confirmed().await;
}

#[tokio::test(start_paused = true)]
async fn k_8_other_files_are_ignored() {
    for before_start in [true, false] {
        let mut stage = Stage::set();
        if !before_start {
            stage.start();
            pass(1.0).await;
        }
        fs::write(stage.socket("file"), "").unwrap();
        symlink("nowhere", stage.socket("dangling")).unwrap();
        let fifo = stage.socket("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        if before_start {
            stage.start();
        }
        pass(30.0).await;
        assert!(stage.desired().is_empty());
        // Deleting them has no effect either.
        fs::remove_file(fifo).unwrap();
        stage.registered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn k_9_a_link_to_a_socket_elsewhere_is_a_socket() {
    let stage = Stage::started().await;
    let script = Script::new(stage.outside("real.sock"));
    let registrar = script
        .endpoint(stage.driver.socket().to_str().unwrap())
        .listen();
    symlink(registrar.socket(), stage.socket("link.sock")).unwrap();
    registrar.confirmed().await;
    assert_eq!(stage.actual(), [stage.socket("link.sock")]);
}

#[tokio::test(start_paused = true)]
async fn k_10_a_socket_that_is_moved_in_is_registered() {
    let stage = Stage::started().await;
    let script = Script::new(stage.outside("d-reg.sock"));
    let registrar = script
        .endpoint(stage.driver.socket().to_str().unwrap())
        .listen();
    fs::rename(registrar.socket(), stage.socket("d-reg.sock")).unwrap();
    registrar.confirmed().await;
}

#[tokio::test(start_paused = true)]
async fn k_11_a_socket_that_is_moved_away_stays_registered() {
    let stage = Stage::started().await;
    let registrar = stage.registered().await;
    fs::rename(registrar.socket(), stage.outside("d-reg.sock")).unwrap();
    pass(30.0).await;
    assert_eq!(stage.actual(), [stage.socket("d-reg.sock")]);
    assert!(stage.entry(crate::stage::D).is_some());
}

#[tokio::test(start_paused = true)]
async fn k_12_touching_a_registered_socket_changes_nothing() {
    let stage = Stage::started().await;
    let registrar = stage.registered().await;
    let incarnations = stage.incarnations();
    fs::set_permissions(registrar.socket(), fs::Permissions::from_mode(0o600)).unwrap();
    rustix::fs::utimensat(
        rustix::fs::CWD,
        registrar.socket(),
        &rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            },
            last_modification: rustix::fs::Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            },
        },
        rustix::fs::AtFlags::empty(),
    )
    .unwrap();
    pass(30.0).await;
    assert_eq!(stage.incarnations(), incarnations);
    assert_eq!(registrar.calls().len(), 2, "GetInfo and Notify, once");
}

#[tokio::test(start_paused = true)]
async fn k_13_ten_sockets_are_ten_series_per_state() {
    let stage = Stage::started().await;
    let mut registrars = Vec::new();
    for number in 0..10 {
        let script = stage.script(&format!("{number}.sock"));
        registrars.push(script.name(&format!("d{number}.example.com")).listen());
    }
    for registrar in &registrars {
        registrar.confirmed().await;
    }
    assert_eq!(stage.actual().len(), 10);
    let metrics = stage.metrics();
    for state in ["actual_state_of_world", "desired_state_of_world"] {
        for registrar in &registrars {
            let socket = registrar.socket().display();
            let series = format!(
                "plugin_manager_total_plugins{{socket_path=\"{socket}\",state=\"{state}\"}} 1\n"
            );
            assert!(metrics.contains(&series), "no {series} in {metrics}");
        }
        let count = metrics.matches(&format!("state=\"{state}\"")).count();
        assert_eq!(count, 10, "{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_renamed_within_the_registry_is_still_watched() {
    let stage = Stage::started().await;
    fs::create_dir(stage.registry().join("a")).unwrap();
    pass(1.0).await;
    fs::rename(stage.registry().join("a"), stage.registry().join("b")).unwrap();
    pass(1.0).await;
    stage.script("b/d-reg.sock").listen().confirmed().await;
}

#[tokio::test(start_paused = true)]
async fn a_registry_behind_a_link_is_looked_into() {
    let mut stage = Stage::set();
    fs::rename(stage.registry(), stage.outside("real")).unwrap();
    symlink("real", stage.registry()).unwrap();
    let before = stage.registrar();
    stage.start();
    before.confirmed().await;
    before.remove();
    stage
        .until("it is deregistered", |stage| stage.actual().is_empty())
        .await;
    stage.registered().await;
}
