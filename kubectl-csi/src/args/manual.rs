//! The manual page, generated from the table of flags.

use super::audit::ABOUT as AUDITS;
use super::{FLAGS, Flag, Takes, audit};
use sidecar::build::VERSION;

/// Escapes a text for troff.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text
        .lines()
        .map(|line| match line.starts_with(['.', '\'']) {
            true => format!("\\&{line}"),
            false => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// kubectl-csi(1).
pub(super) fn page(examples: &str, audits: &str) -> String {
    let mut page = format!(
        ".TH KUBECTL\\-CSI 1 \"\" \"{}\" \"csi\\-sidecars\"\n.SH NAME\nkubectl\\-csi \\- why a pod, claim, volume or snapshot is stuck\n.SH SYNOPSIS\n.B kubectl csi why\n[\\fIKIND\\fR/\\fINAME\\fR] [\\fIflags\\fR]\n.br\n.B csi\\-why\n[\\fIKIND\\fR/\\fINAME\\fR] [\\fIflags\\fR]\n.br\n.B kubectl csi audit\n[\\fIflags\\fR]\n.SH DESCRIPTION\n{}\n",
        plain(VERSION),
        plain(super::ABOUT)
    );
    let mut heading = "";
    for flag in FLAGS {
        if flag.heading != heading {
            heading = flag.heading;
            page.push_str(&format!(".SH {}\n", heading.to_uppercase()));
        }
        page.push_str(&paragraph(flag));
    }
    page.push_str(&format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", plain(examples)));
    page.push_str(&format!(".SH AUDIT\n{}\n", plain(AUDITS)));
    let of_why = |flag: &&Flag| FLAGS.iter().any(|one| one.name == flag.name);
    for flag in audit().filter(|flag| !of_why(flag)) {
        page.push_str(&paragraph(flag));
    }
    page.push_str(&format!(".PP\n.nf\n{}\n.fi\n", plain(audits)));
    page
}

/// The paragraph of one flag.
fn paragraph(flag: &Flag) -> String {
    let value = match flag.takes {
        Takes::Nothing => String::new(),
        Takes::One(name) | Takes::Many(name) => format!(" \\fI{name}\\fR"),
        Takes::OneOf(values) => format!(" {}", values.join("|")),
    };
    let short = flag
        .short
        .map(|short| format!("\\-{short}, "))
        .unwrap_or_default();
    format!(
        ".TP\n\\fB{short}\\-\\-{}\\fR{value}\n{}\n",
        plain(flag.name),
        plain(flag.help)
    )
}
