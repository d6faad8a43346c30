//! Rows about flags of the process.

use crate::process::{self, free_address, is_foreign, port, run};

#[tokio::test]
async fn l_1_o_68_the_version() {
    let end = run(&["--no-such-flag"]).await;
    assert_eq!(end.status.code(), Some(2), "{}", end.stderr);
    let end = run(&["--version"]).await;
    // Upstream has no such flag.
    if is_foreign() {
        assert_eq!(end.status.code(), Some(2), "{}", end.stderr);
        assert_eq!(end.stdout, "");
        return assert!(end.stderr.contains("version"), "{}", end.stderr);
    }
    assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
    let lines: Vec<&str> = end.stdout.lines().collect();
    let [line] = *lines else {
        panic!("one line, not {lines:?}");
    };
    let (name, version) = line.split_once(' ').unwrap();
    assert!(
        name.ends_with("livenessprobe") && !version.is_empty(),
        "{line}"
    );
}

#[tokio::test]
async fn rows_about_flags_that_contradict_each_other() {
    for (row, flags, name) in [
        (
            "L-5",
            ["--http-endpoint=:1", "--health-port=9999"],
            "health-port",
        ),
        (
            "L-7",
            ["--http-endpoint=:1", "--metrics-address=:2"],
            "metrics-address",
        ),
        ("", ["--logging-format=xml", "--v=1"], "logging-format"),
    ] {
        let end = run(&flags).await;
        assert_eq!(end.status.code(), Some(1), "{row}: {}", end.stderr);
        // Upstream has another text, and only names the format.
        if !is_foreign() {
            end.failed_naming(&["--", name]);
        }
    }
}

/// Upstream panics, after the driver has answered.
#[tokio::test]
async fn a_bad_metrics_path_ends_with_2() {
    let driver = process::driver();
    let endpoint = format!("--http-endpoint={}", free_address());
    for path in ["/healthz", "metrics", "", "/a b"] {
        let flag = format!("--metrics-path={path}");
        let end = process::start(&driver, &[&endpoint, &flag]).ended().await;
        let last = end.with_code(2);
        if !is_foreign() {
            assert!(last.contains("--metrics-path"), "{path}: {last}");
            assert!(driver.calls().is_empty(), "said before connecting");
        }
    }
}

#[tokio::test]
async fn help_is_no_error() {
    let end = run(&["--help"]).await;
    assert_eq!(end.status.code(), Some(0));
    assert!(end.stderr.contains("probe-timeout"), "{}", end.stderr);
}

#[tokio::test]
async fn l_24_l_25_an_address_that_is_taken() {
    // On all interfaces, like the health port.
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let taken = taken.local_addr().unwrap().port();
    let health = format!("--health-port={taken}");
    let endpoint = format!("--http-endpoint=127.0.0.1:{taken}");
    let metrics = format!("--metrics-address=127.0.0.1:{taken}");
    let free = format!("--health-port={}", port(&free_address()));
    for (row, flags, code, named) in [
        ("L-24", &[health.as_str()][..], 0, &health),
        ("L-24", &[&endpoint], 0, &endpoint),
        (
            "L-24",
            &["--health-port=nonsense"],
            0,
            &"--health-port=nonsense".to_owned(),
        ),
        ("L-25", &[&metrics, &free], 1, &metrics),
    ] {
        let driver = process::driver();
        let end = process::start(&driver, flags).ended().await;
        let last = end.with_code(code);
        assert!(last.contains("listen tcp"), "{row}: {last}");
        if !is_foreign() {
            assert!(last.contains(named), "{row}: {last}");
        }
    }
}
