//! Flags, files and ports: rows CB-1 to CB-9.

use std::time::Duration;

use sidecar_testkit::process::Process;

use crate::stage::{Stage, command, free_address, request, run};

#[tokio::test]
async fn cb_1_the_version() {
    for arguments in [
        &["--version"][..],
        &["--version", "--port=0", "--tls-min-version=x"],
    ] {
        let end = run(arguments).await;
        end.with_code(0);
        let name = command().get_program().to_string_lossy().into_owned();
        assert!(
            end.stdout.starts_with(&format!("{name} ")),
            "{}",
            end.stdout
        );
    }
}

#[tokio::test]
async fn cb_2_cb_3_cb_4_command_lines_that_are_refused() {
    let pair = ["--tls-cert=/c", "--tls-key=/k"];
    let with = |flag| [pair[0], pair[1], flag].to_vec();
    for (arguments, code, text) in [
        (vec![], 1, "missing TLSCertFile"),
        (with("--foo"), 2, "foo"),
        (with("--port=0"), 1, "invalid GRPCPort"),
        (with("--timeout=0"), 1, "CSITimeout is required"),
        (with("--csi-address="), 1, "CSIAddress is required"),
        (with("--tls-min-version=1.2"), 1, "1.2"),
        (
            with("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"),
            1,
            "TLS_RSA_WITH_RC4_128_SHA",
        ),
        (with("--tls-curve-preferences=P256"), 1, "P256"),
    ] {
        let end = run(&arguments).await;
        end.with_code(code);
        assert!(end.stderr.contains(text), "{arguments:?}: {}", end.stderr);
        assert!(!end.stderr.contains("panicked"), "{}", end.stderr);
    }
}

#[tokio::test]
async fn cb_5_files_that_hold_no_certificate() {
    let stage = Stage::new().await;
    for (file, content) in [
        ("tls.crt", None),
        ("tls.key", None),
        ("tls.crt", Some("no PEM")),
        ("tls.key", Some("no PEM")),
    ] {
        stage.pair.write(stage.directory.path());
        match content {
            None => std::fs::remove_file(stage.file(file)).unwrap(),
            Some(text) => std::fs::write(stage.file(file), text).unwrap(),
        }
        let before = stage.driver.calls_to("GetPluginInfo").len();
        let end = stage.start(&[]).process.ended().await;
        end.failed_naming(&[file]);
        assert_eq!(stage.driver.calls_to("GetPluginInfo").len(), before + 1);
    }
}

#[tokio::test]
async fn cb_6_no_driver() {
    let stage = Stage::new().await;
    stage.driver.stop();
    let mut running = stage.start(&[]);
    let end = running.process.ended_within(Duration::from_secs(40)).await;
    end.failed_naming(&["CSI driver", "context deadline exceeded"]);
    assert!(end.took >= Duration::from_secs(29), "{:?}", end.took);
}

#[tokio::test]
async fn cb_7_a_driver_without_the_service() {
    let stage = Stage::new().await;
    stage.driver.configure(|model| {
        model.services.pop();
    });
    let end = stage.start(&[]).process.ended().await;
    end.failed_naming(&[
        "CSI driver test.csi.driver does not support the SNAPSHOT_METADATA_SERVICE",
    ]);
    assert_eq!(stage.driver.calls_to("GetMetadataAllocated").len(), 0);
}

#[tokio::test]
async fn cb_8_the_environment_names_the_files() {
    let stage = Stage::new().await;
    let (address, http) = (free_address(), free_address());
    let mut command = command();
    let arguments = stage.arguments(&address, &http);
    let without = arguments.iter().filter(|flag| !flag.starts_with("--tls"));
    command.args(without);
    command.env("TLS_CERT_PATH", stage.file("tls.crt"));
    command.env("TLS_KEY_PATH", stage.file("tls.key"));
    Process::start(command).says(crate::stage::SERVING).await;
}

#[tokio::test]
async fn cb_9_a_port_that_is_taken() {
    let stage = Stage::new().await;
    let (taken, free) = (stage.started(&[]).await, free_address());
    let port = taken.address.rsplit(':').next().unwrap();
    for flag in [
        format!("--port={port}"),
        format!("--http-endpoint={}", taken.http),
    ] {
        let end = stage.start(&[&flag]).process.ended().await;
        end.failed_naming(&[flag.split('=').next().unwrap(), "in use"]);
    }
    drop(free);
    assert!(taken.allocated(request()).await.1.is_ok());
}
