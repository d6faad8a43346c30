//! `csi-sidecars`: all programs in one file, for an image that a node pulls once, and the controllers of
//! a driver in one process.
//!
//! A pod with five sidecars then has one file in memory and on disk instead of five with much the same
//! code. Links in the image's root directory carry the programs' names, so that a container selects its
//! program with `command: ["/csi-attacher"]`; everything else stays as usual. Called by its own name with
//! flags only, it runs the controllers listed in `--controllers` together.

#[cfg(test)]
mod command_lines;
mod preflight;
mod programs;

use std::ffi::OsString;
use std::process::ExitCode;

use sidecar::rt::{self, Exit};

use crate::programs::Program;

const NAME: &str = "csi-sidecars";

fn main() -> ExitCode {
    match choose(std::env::args_os().collect()) {
        Ok((program, argv)) => rt::run((program.main)(argv)),
        Err(exit) => rt::finish(&exit),
    }
}

/// Selects the program. The command line starts with the name that it was called by.
fn choose(argv: Vec<OsString>) -> Result<(&'static Program, Vec<OsString>), Exit> {
    if let Some(program) = argv.first().and_then(|name| programs::named(name)) {
        return Ok((program, argv));
    }
    let argv: Vec<OsString> = argv.into_iter().skip(1).collect();
    let first = argv.first();
    if let Some(program) = first.and_then(|name| programs::named(name)) {
        return Ok((program, argv));
    }
    let first = first.map(|first| first.to_string_lossy());
    match first.as_deref() {
        Some("preflight") => Ok((&programs::PREFLIGHT, argv)),
        Some("-version") => Err(Exit::version(NAME)),
        Some("-help") => Err(Exit {
            stdout: usage(),
            ..Exit::with_code(0)
        }),
        Some(flag) if flag.starts_with('-') => {
            let argv = std::iter::once(NAME.into()).chain(argv);
            Ok((&programs::TOGETHER, argv.collect()))
        }
        Some(other) => Err(misused(&format!("there is no program {other:?}"))),
        None => Err(misused("no program is named")),
    }
}

fn misused(reason: &str) -> Exit {
    Exit {
        stderr: format!("{NAME}: {reason}\n{}", usage()),
        ..Exit::with_code(2)
    }
}

fn usage() -> String {
    let names = programs::ALL.iter().map(|program| program.name);
    format!(
        "Usage: {NAME} PROGRAM [FLAGS], or a link to it that has the program's name\n       {NAME} \
         --controllers=LIST [FLAGS], for the controllers of a driver in one process (--help)\n       {NAME} \
         preflight FILE|-|KIND/NAME, for what changes if a driver's images change (preflight --help)\n\
         Programs: {}\n",
        names.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(line: &str) -> Result<(&'static str, String), Exit> {
        let argv = line.split(' ').filter(|word| !word.is_empty());
        let (program, argv) = choose(argv.map(OsString::from).collect())?;
        let argv: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
        Ok((program.name, argv.join(" ")))
    }

    #[test]
    fn the_name_it_is_called_by_chooses_and_nothing_of_the_line_changes() {
        for line in [
            "/csi-attacher --v=5",
            "csi-attacher csi-resizer",
            "./x/csi-attacher",
        ] {
            assert_eq!(chosen(line), Ok(("csi-attacher", line.to_owned())));
        }
    }

    #[test]
    fn otherwise_the_first_argument_chooses() {
        for (line, rest) in [
            ("/csi-sidecars livenessprobe --v=5", "livenessprobe --v=5"),
            ("renamed /livenessprobe", "/livenessprobe"),
        ] {
            assert_eq!(chosen(line), Ok(("livenessprobe", rest.to_owned())));
        }
    }

    #[test]
    fn a_line_without_program_is_answered_with_the_list_of_them() {
        for (line, said) in [
            ("csi-sidecars", "no program is named"),
            ("", "no program is named"),
            (
                "csi-sidecars csi-snapshoter",
                "no program \"csi-snapshoter\"",
            ),
        ] {
            let exit = chosen(line).unwrap_err();
            assert_eq!((exit.code, exit.stdout.as_str()), (2, ""), "{line}");
            assert!(exit.stderr.contains(said), "{}", exit.stderr);
            for program in programs::ALL {
                let listed = exit.stderr.contains(program.name);
                assert!(listed, "{} is not in {}", program.name, exit.stderr);
            }
        }
    }

    #[test]
    fn it_has_a_version_and_help_of_its_own() {
        let version = chosen("csi-sidecars -version").unwrap_err();
        assert_eq!(version, Exit::version("csi-sidecars"));
        let help = chosen("csi-sidecars -help").unwrap_err();
        assert_eq!((help.code, help.stdout), (0, usage()));
    }

    #[test]
    fn preflight_is_a_word_of_its_own() {
        let line = "csi-sidecars preflight - -n csi";
        assert_eq!(
            chosen(line),
            Ok(("preflight", "preflight - -n csi".to_owned()))
        );
        // Called through a link, the program takes it as any other argument.
        let line = "/csi-attacher preflight";
        assert_eq!(chosen(line), Ok(("csi-attacher", line.to_owned())));
    }

    #[test]
    fn a_14_a_flag_first_means_several_in_one_process() {
        for line in [
            "csi-sidecars --controllers=attacher --csi-address=/x",
            "csi-sidecars --csi-address=/x csi-attacher",
            "csi-sidecars --version",
            "csi-sidecars --help",
        ] {
            assert_eq!(chosen(line), Ok(("csi-sidecars", line.to_owned())));
        }
    }
}
