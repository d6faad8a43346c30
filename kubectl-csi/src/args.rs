//! The command line.
//!
//! A person types it, behind `kubectl`, so it is GNU's: short and long flags anywhere, subjects in between. The tables of `sidecar::flags` are of Go's
//! programs, which have no arguments; here clap reads the line, and one table of flags makes the parser, the help, the completions and the manual.
//!
//! | file | holds |
//! |---|---|
//! | `table` | the flags |
//! | `completion` | scripts for shells |
//! | `manual` | the manual |

mod completion;
mod manual;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use sidecar::rt::Exit;

use crate::VERSION;
use crate::model::{Kind, Ref, SUBJECTS};
use crate::show::Format;
use crate::work::Access;

pub use table::{FLAGS, Flag, Takes};

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Ask {
    /// None: everything that is stuck. The namespace is empty where it is the context's.
    pub subject: Option<Ref>,
    pub namespace: String,
    pub everywhere: bool,
    pub format: Format,
    pub all: bool,
    pub watch: bool,
    pub offline: Option<PathBuf>,
    pub access: Access,
}

/// Names of shells for which there are scripts.
pub const SHELLS: &[&str] = &["bash", "zsh", "fish"];

const ABOUT: &str = "Follows a pod, claim, volume, attachment or snapshot to the first thing that holds it up, and says what to do. It only reads.";

const EXAMPLES: &str = "Examples:
  kubectl csi why pod/db-0 -n shop      what holds up this pod
  kubectl csi why pvc data              the same for a claim
  kubectl csi why                       everything stuck in this namespace, by cause
  kubectl csi why -A                    everywhere
  kubectl csi why pod/db-0 --watch      until it is no longer stuck
  kubectl get pods,pvc,pv,sc,volumeattachments,csinodes,csidrivers,nodes,events,leases -A -o json > dump
  kubectl csi why -A --offline dump     the same without the cluster

Exit codes: 0 nothing is stuck, 1 could not look at everything, 2 command line, 3 stuck and the cause found,
4 stuck and no cause found, 5 waits as it should.";

fn flags(command: Command) -> Command {
    FLAGS.iter().fold(command, |command, flag| {
        let arg = Arg::new(flag.name)
            .long(flag.name)
            .help(flag.help)
            .help_heading(flag.heading);
        let arg = match flag.short {
            Some(short) => arg.short(short),
            None => arg,
        };
        let arg = match flag.takes {
            Takes::Nothing => arg.action(ArgAction::SetTrue),
            Takes::One(name) => arg.value_name(name).action(ArgAction::Set),
            Takes::Many(name) => arg.value_name(name).action(ArgAction::Append),
            Takes::OneOf(values) => arg.value_parser(values.to_vec()).action(ArgAction::Set),
        };
        command.arg(arg)
    })
}

fn why() -> Command {
    let subject = Arg::new("subject").value_name("KIND/NAME").num_args(0..=2).help("What is stuck: pod, pvc, pv, volumeattachment, volumesnapshot, volumesnapshotcontent, volumegroupsnapshot, node or csidriver, as KIND/NAME or KIND NAME; without it everything that is stuck");
    flags(Command::new("why").about(ABOUT))
        .arg(subject)
        .after_help(EXAMPLES)
}

fn command(program: &'static str) -> Command {
    let shell = Arg::new("shell")
        .required(true)
        .value_parser(SHELLS.to_vec());
    Command::new(program)
        .about("Why CSI volumes are stuck. Called as csi-why it is `why`.")
        .disable_version_flag(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(why())
        .subcommand(
            Command::new("completion")
                .about("A script that completes this program's command line in a shell")
                .arg(shell),
        )
        .subcommand(Command::new("manual").about("This program's manual page, for man -l -"))
        .subcommand(Command::new("version").about("This program's version"))
}

/// What the command line asks for; the first argument is the program's name.
///
/// # Errors
/// The text to print and the exit code: 2 for a line that cannot be understood, 0 where help, version or a script was asked for.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Ask, Exit> {
    let mut argv: Vec<OsString> = argv.into_iter().collect();
    let name = argv.first().map(Path::new).and_then(Path::file_stem);
    let name = name
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    // `kubectl csi` is found by the name kubectl-csi.
    let program = match &*name {
        "csi-why" => {
            argv.insert(1, "why".into());
            "csi-why"
        }
        _ => "kubectl csi",
    };
    let command = if program == "csi-why" {
        command("csi-why")
    } else {
        command("kubectl csi")
    };
    let matches = match command.try_get_matches_from(argv) {
        Ok(matches) => matches,
        Err(error) => return Err(refused(&error)),
    };
    match matches.subcommand() {
        Some(("completion", matches)) => {
            let shell = matches
                .get_one::<String>("shell")
                .map(String::as_str)
                .unwrap_or_default();
            Err(printed(completion::script(shell)))
        }
        Some(("manual", _)) => Err(printed(manual::page(EXAMPLES))),
        Some(("version", _)) => Err(Exit::version("kubectl-csi", VERSION)),
        Some((_, matches)) => ask(matches),
        // clap asks for one.
        None => Err(misused("name a subcommand: why")),
    }
}

fn printed(stdout: String) -> Exit {
    Exit {
        stdout,
        ..Exit::with_code(0)
    }
}

fn misused(problem: &str) -> Exit {
    Exit {
        stderr: format!("error: {problem}\nSee: kubectl csi why --help\n"),
        ..Exit::with_code(2)
    }
}

fn refused(error: &clap::Error) -> Exit {
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelp {
        return printed(text);
    }
    Exit {
        stderr: text,
        ..Exit::with_code(2)
    }
}

fn ask(matches: &ArgMatches) -> Result<Ask, Exit> {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let words: Vec<&str> = { matches.get_many::<String>("subject") }
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let everywhere = matches.get_flag("all-namespaces");
    let namespace = text("namespace");
    check_namespace(&namespace)?;
    let subject = subject(&words, &namespace)?;
    if everywhere
        && subject
            .as_ref()
            .is_some_and(|subject| subject.kind.is_namespaced())
    {
        return Err(misused(
            "-A is for the overview; with one object name its namespace: -n NAMESPACE",
        ));
    }
    let offline = matches.get_one::<String>("offline").map(PathBuf::from);
    let watch = matches.get_flag("watch");
    if watch && offline.is_some() {
        return Err(misused("--watch: a file of --offline does not change"));
    }
    if watch && subject.is_none() {
        return Err(misused("--watch: name what to watch"));
    }
    let timeout = match &*text("request-timeout") {
        "" | "0" => None,
        text => Some(
            seconds(text)
                .ok_or_else(|| misused("--request-timeout: a duration needs a unit: 5s, 1m30s"))?,
        ),
    };
    Ok(Ask {
        subject,
        namespace,
        everywhere,
        format: match &*text("output") {
            "json" => Format::Json,
            "name" => Format::Name,
            _ => Format::Human,
        },
        all: matches.get_flag("all"),
        watch,
        offline,
        access: Access {
            kubeconfig: text("kubeconfig"),
            context: text("context"),
            cluster: text("cluster"),
            user: text("user"),
            server: text("server"),
            token: text("token"),
            certificate_authority: text("certificate-authority"),
            client_certificate: text("client-certificate"),
            client_key: text("client-key"),
            tls_server_name: text("tls-server-name"),
            insecure: matches.get_flag("insecure-skip-tls-verify"),
            as_user: text("as"),
            as_uid: text("as-uid"),
            as_groups: { matches.get_many::<String>("as-group") }
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            timeout,
        },
    })
}

fn seconds(text: &str) -> Option<std::time::Duration> {
    let text = if text.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("{text}s")
    } else {
        text.to_owned()
    };
    let duration: sidecar::duration::GoDuration = text.parse().ok()?;
    duration.to_std()
}

fn check_namespace(namespace: &str) -> Result<(), Exit> {
    if namespace.is_empty() || sidecar::names::is_label(namespace) {
        return Ok(());
    }
    Err(misused(&format!(
        "--namespace={namespace:?}: this is no name of a namespace"
    )))
}

fn subject(words: &[&str], namespace: &str) -> Result<Option<Ref>, Exit> {
    let (kind, name) = match words {
        [] => return Ok(None),
        [one] => one
            .split_once('/')
            .ok_or_else(|| misused(&format!("{one:?}: write KIND/NAME, for example pod/{one}")))?,
        [kind, name, ..] if kind.contains('/') => {
            return Err(misused(&format!("{name:?}: one object at a time")));
        }
        [kind, name, ..] => (*kind, *name),
    };
    let Some(kind) = Kind::of_word(kind) else {
        let known: Vec<_> = SUBJECTS.iter().map(|kind| kind.called()).collect();
        return Err(misused(&format!(
            "{kind:?} is no kind that can be asked about: {}",
            known.join(", ")
        )));
    };
    if !sidecar::names::is_subdomain(name) {
        return Err(misused(&format!("{name:?} is no name of an object")));
    }
    Ok(Some(Ref::new(kind, namespace, name)))
}

#[cfg(test)]
mod tests;
