//! Rows about the time from the start to the socket.

use std::time::Duration;

use crate::driver::{Driver, NAME};
use crate::process::{PROGRAM, Process, Seat, until};

/// Three waits of thirty seconds at once, which saves time.
#[tokio::test]
async fn r_16_r_54_no_driver_for_thirty_seconds() {
    let seat = Seat::new();
    let (silent, relative) = (Seat::new(), Seat::new());
    let _accepts_and_says_nothing = std::os::unix::net::UnixListener::bind(silent.csi()).unwrap();
    let mut processes = [
        seat.start(&[]),
        silent.start(&[]),
        relative.start(&["--csi-address=csi.sock"]),
    ];
    for process in &mut processes {
        let end = process.ended_within(Duration::from_secs(50)).await;
        end.failed_naming(&["--csi-address=", "context deadline exceeded"]);
        let took = end.took.as_secs_f32();
        assert!((28.0..45.0).contains(&took), "took {took} s");
        let progress: Vec<_> = process
            .lines()
            .into_iter()
            .filter(|(_, line)| line.contains("Still connecting"))
            .map(|(at, _)| at)
            .collect();
        assert!(progress.len() >= 2, "{}", end.stderr);
        // When this thread reads them, which may be late; `row_4_no_socket` has exactly two of them in thirty seconds.
        assert!(progress[0] >= Duration::from_secs(8), "{progress:?}");
        assert!(progress[1] >= Duration::from_secs(18), "{progress:?}");
    }
    assert!(seat.is_clean() && silent.is_clean() && relative.is_clean());
}

#[tokio::test]
async fn r_17_a_driver_that_comes_late() {
    let seat = Seat::new();
    let mut process = seat.start(&[]);
    // The process must wait meanwhile, and leave nothing behind.
    tokio::time::sleep(Duration::from_secs(5)).await;
    process.must_run();
    assert!(seat.is_clean());
    let _driver = Driver::start(&seat.csi());
    // The row has 2 s; the next test proves that on a clock that a busy machine does not delay.
    process.listening(&seat.socket()).await;
}

#[tokio::test(start_paused = true)]
async fn r_17_is_seen_within_two_seconds() {
    let seat = Seat::new();
    let path = seat.csi();
    let address = path.to_str().unwrap();
    let connecting = registrar::driver::Driver::connect(address, Duration::from_secs(1));
    let coming = async {
        // On a paused clock.
        tokio::time::sleep(Duration::from_secs(5)).await;
        (Driver::start(&path), tokio::time::Instant::now())
    };
    // Paused time runs to the next timer whenever everything waits; a timer that is always near keeps it from running
    // past a deadline.
    let near = async {
        for _ in 0..u64::MAX {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let both = async { tokio::join!(connecting, coming) };
    let (connected, (_driver, came)) = tokio::select! {
        both = both => both,
        () = near => return,
    };
    assert_eq!(connected.unwrap().name(), NAME);
    let took = came.elapsed();
    assert!(took <= Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn r_18_an_empty_name() {
    let seat = Seat::new();
    let _driver = Driver::named(&seat.csi(), "");
    seat.start(&[])
        .ended()
        .await
        .failed_naming(&["driver name is empty", "--csi-address="]);
    assert!(seat.is_clean());
}

#[tokio::test]
async fn r_19_the_timeout_is_for_the_name() {
    let seat = Seat::new();
    let silent = Driver::slow(&seat.csi(), NAME, Duration::from_secs(600));
    // `names_types_and_defaults_are_those_of_the_table_in_the_specification` has that this is the default.
    let end = seat.start(&["--timeout=1s"]).ended().await;
    end.failed_naming(&["--timeout=1s", "context deadline exceeded"]);
    let took = end.took.as_secs_f32();
    assert!(took >= 0.9, "took {took} s");
    assert!(seat.is_clean());
    silent.kill().await;
    let _slow = Driver::slow(&seat.csi(), NAME, Duration::from_secs(2));
    seat.start(&["--timeout=1m"])
        .listening(&seat.socket())
        .await;
}

#[tokio::test]
async fn no_time_at_all_fails_at_once() {
    for timeout in ["--timeout=0", "--timeout=-1s"] {
        let seat = Seat::new();
        let _driver = Driver::start(&seat.csi());
        seat.start(&[timeout])
            .ended()
            .await
            .failed_naming(&["context deadline exceeded"]);
    }
}

#[tokio::test]
async fn r_53_forms_of_the_address() {
    for scheme in ["unix://", "unix:", "unix:///"] {
        let seat = Seat::new();
        let _driver = Driver::start(&seat.csi());
        let address = format!("--csi-address={scheme}{}", seat.csi().display());
        seat.start(&[&address]).listening(&seat.socket()).await;
    }
}

#[tokio::test]
async fn r_55_a_slash_in_the_name() {
    for name in ["a/b", "../d"] {
        let seat = Seat::new();
        let _driver = Driver::named(&seat.csi(), name);
        seat.start(&[])
            .ended()
            .await
            .failed_naming(&[name, "GetPluginInfo"]);
        assert!(seat.is_clean());
        assert!(!seat.path("d-reg.sock").exists());
    }
}

#[tokio::test]
async fn r_56_a_slash_after_the_directory() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let directory = format!("--plugin-registration-path={}/", seat.directory().display());
    seat.start(&[&directory]).listening(&seat.socket()).await;
}

#[tokio::test]
async fn the_driver_is_asked_its_name_once() {
    let seat = Seat::new();
    let (driver, mut process) = seat.running(&[]).await;
    assert_eq!(driver.calls(), 1);
    // No further call may come meanwhile.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    process.must_run();
    assert_eq!(driver.calls(), 1);
}

#[tokio::test]
async fn what_is_wrong_with_an_address_is_said() {
    for (address, words) in [
        ("", &["--csi-address="][..]),
        ("unix://", &["--csi-address=unix://"]),
    ] {
        let seat = Seat::new();
        let end = seat
            .start(&[&format!("--csi-address={address}")])
            .ended()
            .await;
        end.failed_naming(words);
    }
    // These are retried for thirty seconds, and the first error is logged at once.
    for (file, reason) in [
        ("missing", "No such file"),
        ("reg", "refused"),
        ("text", "refused"),
    ] {
        let seat = Seat::new();
        std::fs::write(seat.path("text"), "").unwrap();
        let address = format!("--csi-address={}", seat.path(file).display());
        let process = seat.start(&[&address]);
        until(reason, async || process.log().contains(reason)).await;
    }
}

#[tokio::test]
async fn fa_6_no_core_file() {
    let seat = Seat::new();
    let (_driver, process) = seat.running(&[]).await;
    sidecar_testkit::process::keeps_no_core(process.id());
}

/// Container runtimes start with a soft limit of 1,024.
#[tokio::test]
async fn the_soft_limit_of_open_files_does_not_count() {
    let seat = Seat::new();
    let _driver = Driver::start(&seat.csi());
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -Sn 256; exec \"$0\" \"$@\"", PROGRAM]);
    command.args(seat.flags());
    let mut process = Process::start(command);
    process.listening(&seat.socket()).await;
    sidecar_testkit::process::may_open_all_files(process.id());
}
