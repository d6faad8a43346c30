//! Runs the few programs that have no safe library: `losetup`, `mkfs.*`, `cp`, `resize2fs`,
//! `xfs_growfs`.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use super::Error;

/// Runs a program to its end; returns its standard output.
pub fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let output = command.output().map_err(|source| Error::Missing {
        program: program.to_owned(),
        source,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.as_ref().to_string_lossy())
        .collect();
    Err(Error::Failed {
        command: format!("{program} {}", words.join(" ")),
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_the_command_and_its_words() {
        let error = run("sh", &["-c", "echo no >&2; exit 3"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("exit 3") && error.contains("no"), "{error}");
        let error = run("no-such-program", &["x"]).unwrap_err().to_string();
        assert!(error.contains("no-such-program"), "{error}");
        assert_eq!(run("echo", &["yes"]).unwrap(), "yes");
    }
}
