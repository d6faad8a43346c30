//! The built program called through links, as in its image.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use oci_archive::catalogue::PROGRAMS;

const BINARY: &str = env!("CARGO_BIN_EXE_csi-sidecars");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts the program's answer to `--version`.
fn answers(called: &str, output: &Output) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let start = format!("{called} ");
    assert!(stdout.starts_with(&start), "{stdout}{stderr}");
    assert!(output.status.success());
}

#[test]
fn every_link_of_the_image_is_that_program_and_says_its_name() {
    let dir = tempfile::tempdir().unwrap();
    for name in PROGRAMS {
        let link = dir.path().join(name);
        symlink(BINARY, &link).unwrap();
        let output = Command::new(&link).arg("--version").output().unwrap();
        answers(&link.to_string_lossy(), &output);
        let output = Command::new(BINARY)
            .args([name, "--version"])
            .output()
            .unwrap();
        answers(name, &output);
    }
}

#[test]
fn the_list_it_prints_is_the_list_of_the_image() {
    let line = format!("Programs: {}\n", PROGRAMS.join(", "));
    let output = Command::new(BINARY).output().unwrap();
    assert!(text(&output.stderr).ends_with(&line));
    // `-help` in Go's form; `--help` is that of several controllers in one process.
    let output = Command::new(BINARY).arg("-help").output().unwrap();
    assert!(text(&output.stdout).ends_with(&line));
}

#[test]
fn without_a_program_it_ends_with_2() {
    let output = Command::new(BINARY).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}
