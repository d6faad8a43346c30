//! Rows 1 to 13 of the common specification, as far as they concern the connection itself.

use super::*;
use crate::clock::testing::in_small_steps;
use crate::csi::{identity, loss};
use csi_proto::csi::ProbeResponse;
use sidecar_testkit::driver::scripted::{Answer, Driver, message};
use sidecar_testkit::leave_dead_socket;
use std::path::PathBuf;
use tonic::Code;

const SOON: Duration = Duration::from_secs(60);

fn driver() -> Driver {
    Driver::new(|_, _| message(&ProbeResponse::default()))
}

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
    address: Address,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("csi.sock");
    Place {
        address: Address::Unix(path.clone()),
        path,
        _dir: dir,
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("in time")
}

async fn probe(connection: &Connection) -> Result<bool, Code> {
    let answer = identity::probe(connection.channel(), SOON).await;
    answer.map_err(|status| status.code())
}

#[tokio::test]
async fn row_1_connects_and_says_localhost() {
    let place = place();
    let driver = driver();
    let _server = driver.listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap();
    assert_eq!(probe(&connection).await, Ok(true));
    let call = &driver.calls()[0];
    assert_eq!(call.authority, "localhost");
    assert_eq!(call.path, "/csi.v1.Identity/Probe");
    assert!(
        call.headers.contains_key("grpc-timeout"),
        "the driver knows the deadline"
    );
}

#[tokio::test(start_paused = true)]
async fn row_4_no_socket() {
    let place = place();
    let start = Instant::now();
    let log = crate::log::capture();
    let error = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 30);
    let text = error.to_string();
    assert!(text.contains("context deadline exceeded"), "{text}");
    assert!(text.contains("No such file"), "{text}");
    let lines = log.lines();
    let progress = lines
        .iter()
        .filter(|line| line.contains("Still connecting"))
        .count();
    assert_eq!(progress, 2, "{lines:?}");
    let address = format!("address=\"{}\"", place.address);
    assert!(
        lines.iter().all(|line| line.contains(&address)),
        "{lines:?}"
    );
    let warnings = lines.iter().filter(|line| line.starts_with('W')).count();
    assert_eq!(warnings, 1, "one line per reason: {lines:?}");
}

#[tokio::test(start_paused = true)]
async fn row_5_a_socket_that_appears_late() {
    let place = place();
    let options = Options::new(OnLoss::Stop);
    let start = Instant::now();
    let connecting = connect(&place.address, options);
    let appearing = async {
        tokio::time::sleep(Duration::from_secs(12)).await;
        driver().listen(&place.path)
    };
    let both = async { tokio::join!(connecting, appearing) };
    let (connection, _server) = tokio::select! {
        both = both => both,
        never = in_small_steps() => match never {},
    };
    let took = start.elapsed();
    assert!(took < Duration::from_millis(13_500), "{took:?}");
    // Paused time would run to the limit of the call.
    tokio::time::resume();
    assert_eq!(probe(&connection.unwrap()).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn row_6_a_socket_without_listener() {
    let place = place();
    leave_dead_socket(&place.path);
    let start = Instant::now();
    let error = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 30);
    assert!(error.to_string().contains("Connection refused"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn row_7_without_timeout_it_goes_on_for_ever() {
    let place = place();
    let options = Options {
        timeout: None,
        ..Options::new(OnLoss::Reconnect)
    };
    let hours = Duration::from_secs(3 * 3600);
    let result = tokio::time::timeout(hours, connect(&place.address, options)).await;
    assert!(result.is_err(), "still trying");
}

#[tokio::test]
async fn a_listener_that_does_not_speak_is_no_connection() {
    let place = place();
    let _listener = tokio::net::UnixListener::bind(&place.path).unwrap();
    let options = Options {
        timeout: Some(Duration::from_millis(300)),
        ..Options::new(OnLoss::Stop)
    };
    assert!(within(connect(&place.address, options)).await.is_err());
}

#[tokio::test]
async fn a_listener_that_hangs_up_is_tried_again() {
    let place = place();
    let listener = tokio::net::UnixListener::bind(&place.path).unwrap();
    let (path, server) = (place.path.clone(), driver());
    let hanging_up = tokio::spawn(async move {
        drop(listener.accept().await);
        drop(listener);
        server.listen(&path)
    });
    let connection = within(connect(&place.address, Options::new(OnLoss::Stop))).await;
    assert_eq!(probe(&connection.unwrap()).await, Ok(true));
    hanging_up.await.unwrap().stop();
}

#[tokio::test]
async fn row_8_a_loss_is_noticed_while_no_call_runs() {
    let place = place();
    let server = driver().listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap();
    let lost = connection.lost();
    assert!(connection.state().borrow().connected);
    server.stop();
    within(lost).await;
    assert!(!connection.state().borrow().connected);
}

#[tokio::test]
async fn row_8_also_when_the_driver_says_goodbye() {
    let place = place();
    let server = driver().listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap();
    server.stop_gracefully();
    within(connection.lost()).await;
}

#[tokio::test]
async fn a_listener_that_hangs_does_not_hide_its_successor() {
    let place = place();
    let _hanging = tokio::net::UnixListener::bind(&place.path).unwrap();
    let options = Options {
        timeout: None,
        ..Options::new(OnLoss::Stop)
    };
    let connecting = connect(&place.address, options);
    let replacing = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        tokio::time::pause();
        let server = driver().listen(&place.path);
        tokio::time::sleep(ATTEMPT_TIMEOUT).await;
        tokio::time::resume();
        (server,)
    };
    let (connection, _server) = tokio::join!(connecting, replacing);
    assert_eq!(probe(&connection.unwrap()).await, Ok(true));
}

#[tokio::test]
async fn row_9_the_process_ends_with_a_note() {
    let place = place();
    let log = place.path.with_extension("log");
    let server = driver().listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap();
    server.stop();
    let exit = within(loss::lost(&connection, &log)).await;
    assert_eq!(exit.code, 1);
    assert_eq!(exit.error.as_deref(), Some(loss::LAST_WORDS));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), loss::LAST_WORDS);
}

#[tokio::test]
async fn row_10_a_note_that_cannot_be_left_costs_a_line() {
    let place = place();
    let server = driver().listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap();
    server.stop();
    let log = crate::log::capture();
    let exit = within(loss::lost(
        &connection,
        std::path::Path::new("/no/such/dir"),
    ))
    .await;
    assert_eq!(exit.code, 1);
    let lines = log.lines();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("termination message")),
        "{lines:?}"
    );
}

#[tokio::test]
async fn row_11_nothing_ends_an_idle_connection() {
    let place = place();
    let server = driver();
    let _handle = server.listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap();
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(31 * 60)).await;
    tokio::time::resume();
    assert_eq!(connection.state().borrow().losses, 0);
    assert_eq!(probe(&connection).await, Ok(true));
}

#[tokio::test]
async fn row_12_reconnects_without_being_asked() {
    let place = place();
    let mut server = driver().listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Reconnect))
        .await
        .unwrap();
    let mut state = connection.state();
    for losses in 1..=3 {
        assert_eq!(probe(&connection).await, Ok(true), "before loss {losses}");
        assert!(state.borrow().connected);
        server.stop();
        within(state.wait_for(|state| state.losses == losses))
            .await
            .unwrap();
        std::fs::remove_file(&place.path).unwrap();
        assert_eq!(probe(&connection).await, Err(Code::Unavailable));
        server = driver().listen(&place.path);
    }
    assert_eq!(probe(&connection).await, Ok(true), "in the end");
}

#[tokio::test]
async fn row_13_never_connects_again() {
    let place = place();
    let server = driver().listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap();
    server.stop();
    within(connection.lost()).await;
    let second = driver();
    let _server = second.listen(&place.path);
    for _ in 0..3 {
        assert_eq!(probe(&connection).await, Err(Code::Unavailable));
    }
    assert!(second.calls().is_empty());
    assert_eq!(connection.state().borrow().losses, 1);
}

#[tokio::test]
async fn a_call_in_flight_fails_as_unavailable_when_the_driver_goes() {
    let place = place();
    let silent = Driver::new(|_, _| Answer::Never);
    let server = silent.listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Stop))
        .await
        .unwrap();
    let call = probe(&connection);
    let stop = async {
        while silent.calls().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.stop();
    };
    let (result, ()) = within(async { tokio::join!(call, stop) }).await;
    assert_eq!(result, Err(Code::Unavailable));
}

#[tokio::test]
async fn fs_9_a_call_that_waited_for_the_driver_is_not_sent_without_the_lease() {
    let place = place();
    let server = driver().listen(&place.path);
    let options = Options::new(OnLoss::Reconnect);
    let fence = options.fence.clone();
    let connection = connect(&place.address, options).await.unwrap();
    fence.hold_until(crate::clock::now() + Duration::from_secs(3600));
    assert_eq!(probe(&connection).await, Ok(true));
    server.stop();
    within(connection.lost()).await;
    std::fs::remove_file(&place.path).unwrap();
    // The driver accepts connections and sends nothing yet.
    let listener = std::os::unix::net::UnixListener::bind(&place.path).unwrap();
    let call = tokio::spawn({
        let connection = connection.clone();
        async move { probe(&connection).await }
    });
    let reader = tokio::task::spawn_blocking(move || {
        use std::io::Read;
        let (mut socket, _) = listener.accept().unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let mut sent = Vec::new();
        // Ends with the timeout.
        let _ = socket.read_to_end(&mut sent);
        sent
    });
    crate::clock::testing::SUSPENDED.set(Duration::from_secs(3600));
    assert_eq!(within(reader).await.unwrap(), b"");
    assert!(!call.is_finished(), "nobody is told, the process ends");
}

#[tokio::test]
async fn each_loss_is_handed_out_once_and_none_is_missed() {
    let place = place();
    let mut server = driver().listen(&place.path);
    let connection = connect(&place.address, Options::new(OnLoss::Reconnect))
        .await
        .unwrap();
    let mut early = connection.losses();
    let mut counted = connection.state();
    for losses in 1..=2 {
        assert!(pending(&mut early).await, "before loss {losses}");
        server.stop();
        within(early.next()).await;
        std::fs::remove_file(&place.path).unwrap();
        server = driver().listen(&place.path);
        assert_eq!(probe(&connection).await, Ok(true));
    }
    // Both losses came before this cursor was created, and count as one.
    let mut late = connection.losses();
    within(late.next()).await;
    assert!(pending(&mut late).await);
    assert!(pending(&mut early).await);
    // A cursor outlives its connection and keeps it open.
    drop(connection);
    assert!(pending(&mut early).await);
    server.stop();
    within(counted.wait_for(|state| state.losses == 3))
        .await
        .unwrap();
    within(early.next()).await;
    within(late.next()).await;
}

/// Whether the cursor has no loss to return.
async fn pending(losses: &mut Losses) -> bool {
    let soon = Duration::from_millis(50);
    tokio::time::timeout(soon, losses.next()).await.is_err()
}
