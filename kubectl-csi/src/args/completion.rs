//! Shell completion scripts, generated from the table of flags.

use super::{FLAGS, Flag, SHELLS, Takes, audit};
use crate::model::SUBJECTS;

const COMMANDS: &[&str] = &[
    "why",
    "audit",
    "preflight",
    "completion",
    "manual",
    "version",
];

/// The script for a shell.
pub(super) fn script(shell: &str) -> String {
    match shell {
        "zsh" => zsh(),
        "fish" => fish(),
        _ => bash(),
    }
}

fn kinds() -> String {
    let kinds: Vec<_> = SUBJECTS
        .iter()
        .map(|kind| format!("{}/", kind.called()))
        .collect();
    kinds.join(" ")
}

fn long(flags: impl Iterator<Item = &'static Flag>) -> String {
    let flags: Vec<_> = flags.map(|flag| format!("--{}", flag.name)).collect();
    flags.join(" ")
}

/// Every flag once: a flag that both commands have means the same in both.
fn every() -> impl Iterator<Item = &'static Flag> {
    let own = audit().filter(|flag| FLAGS.iter().all(|one| one.name != flag.name));
    FLAGS.iter().chain(own)
}

fn bash() -> String {
    let mut cases = String::new();
    for flag in every() {
        let short = flag
            .short
            .map(|short| format!("|-{short}"))
            .unwrap_or_default();
        let answer = match flag.takes {
            Takes::OneOf(values) => format!(
                "COMPREPLY=($(compgen -W '{}' -- \"$word\"))",
                values.join(" ")
            ),
            Takes::One("FILE") => "COMPREPLY=($(compgen -f -- \"$word\"))".to_owned(),
            Takes::One(_) | Takes::Many(_) => "COMPREPLY=()".to_owned(),
            Takes::Nothing => continue,
        };
        cases.push_str(&format!(
            "        --{}{short}) {answer}; return ;;\n",
            flag.name
        ));
    }
    format!(
        "# kubectl csi completion bash
_kubectl_csi() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} last=${{COMP_WORDS[COMP_CWORD-1]}} first=1
    [ \"${{COMP_WORDS[0]##*/}}\" = csi-why ] && first=0
    case $last in
{cases}        completion) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;
    esac
    if [ \"$first\" = 1 ] && [ \"$COMP_CWORD\" = 1 ]; then
        COMPREPLY=($(compgen -W '{}' -- \"$word\"))
    elif [ \"$first\" = 1 ] && [ \"${{COMP_WORDS[1]}}\" = audit ]; then
        COMPREPLY=($(compgen -W '{}' -- \"$word\"))
    elif [ \"${{word#-}}\" != \"$word\" ]; then
        COMPREPLY=($(compgen -W '{}' -- \"$word\"))
    else
        COMPREPLY=($(compgen -W '{}' -- \"$word\"))
        compopt -o nospace
    fi
}}
complete -F _kubectl_csi kubectl-csi csi-why
",
        SHELLS.join(" "),
        COMMANDS.join(" "),
        long(audit()),
        long(FLAGS.iter()),
        kinds()
    )
}

/// Quoted for a shell and for zsh's lists.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''")
        .replace('[', "\\[")
        .replace(']', "\\]")
        .replace(':', "\\:")
}

/// The flags of a command for zsh, one a line.
fn zsh_flags(flags: impl Iterator<Item = &'static Flag>) -> String {
    let mut lines = String::new();
    for flag in flags {
        let value = match flag.takes {
            Takes::Nothing => String::new(),
            Takes::OneOf(values) => format!(":{}:({})", flag.name, values.join(" ")),
            Takes::One("FILE") => format!(":{}:_files", flag.name),
            Takes::One(name) | Takes::Many(name) => format!(":{}: ", name.to_lowercase()),
        };
        let equals = if value.is_empty() { "" } else { "=" };
        let help = quoted(flag.help);
        lines.push_str(&format!(
            "        '*--{}{equals}[{help}]{value}' \\\n",
            flag.name
        ));
        if let Some(short) = flag.short {
            lines.push_str(&format!("        '*-{short}[{help}]{value}' \\\n"));
        }
    }
    lines
}

fn zsh() -> String {
    let (lines, audits) = (zsh_flags(FLAGS.iter()), zsh_flags(audit()));
    format!(
        "#compdef kubectl-csi csi-why
# kubectl csi completion zsh
_kubectl_csi_why() {{
    _arguments \\
{lines}        '*:subject:({})'
}}
_kubectl_csi_audit() {{
    _arguments \\
{audits}        && return
}}
_kubectl_csi() {{
    if [[ ${{words[1]:t}} == csi-why ]]; then
        _kubectl_csi_why
    elif (( CURRENT == 2 )); then
        compadd {}
    elif [[ ${{words[2]}} == completion ]]; then
        compadd {}
    elif [[ ${{words[2]}} == why ]]; then
        shift words
        (( CURRENT-- ))
        _kubectl_csi_why
    elif [[ ${{words[2]}} == audit ]]; then
        shift words
        (( CURRENT-- ))
        _kubectl_csi_audit
    fi
}}
compdef _kubectl_csi kubectl-csi csi-why
",
        kinds(),
        COMMANDS.join(" "),
        SHELLS.join(" ")
    )
}

fn fish() -> String {
    let mut lines = format!(
        "# kubectl csi completion fish\ncomplete -c kubectl-csi -n __fish_use_subcommand -f -a '{}'\n",
        COMMANDS.join(" ")
    );
    lines.push_str(&format!(
        "complete -c kubectl-csi -n '__fish_seen_subcommand_from completion' -f -a '{}'\n",
        SHELLS.join(" ")
    ));
    for (program, when) in [("kubectl-csi", WHEN_WHY), ("csi-why", "")] {
        lines.push_str(&format!(
            "complete -c {program}{when} -f -a '{}'\n",
            kinds()
        ));
        lines.push_str(&fish_flags(program, when, FLAGS.iter()));
    }
    let when = " -n '__fish_seen_subcommand_from audit'";
    lines.push_str(&fish_flags("kubectl-csi", when, audit()));
    lines
}

const WHEN_WHY: &str = " -n '__fish_seen_subcommand_from why'";

/// The flags of a command for fish, one a line.
fn fish_flags(program: &str, when: &str, flags: impl Iterator<Item = &'static Flag>) -> String {
    let mut lines = String::new();
    for flag in flags {
        let short = flag
            .short
            .map(|short| format!(" -s {short}"))
            .unwrap_or_default();
        let value = match flag.takes {
            Takes::Nothing => String::new(),
            Takes::OneOf(values) => format!(" -x -a '{}'", values.join(" ")),
            Takes::One("FILE") => " -r -F".to_owned(),
            Takes::One(_) | Takes::Many(_) => " -x".to_owned(),
        };
        let help = flag.help.replace('\'', "\\'");
        lines.push_str(&format!(
            "complete -c {program}{when} -l {}{short}{value} -d '{help}'\n",
            flag.name
        ));
    }
    lines
}
