//! The manual page, made of the table of flags.

use super::{FLAGS, Takes};
use sidecar::build::VERSION;

/// Text as troff takes it.
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
pub(super) fn page(examples: &str) -> String {
    let mut page = format!(
        ".TH KUBECTL\\-CSI 1 \"\" \"{}\" \"csi\\-sidecars\"\n.SH NAME\nkubectl\\-csi \\- why a pod, claim, volume or snapshot is stuck\n.SH SYNOPSIS\n.B kubectl csi why\n[\\fIKIND\\fR/\\fINAME\\fR] [\\fIflags\\fR]\n.br\n.B csi\\-why\n[\\fIKIND\\fR/\\fINAME\\fR] [\\fIflags\\fR]\n.SH DESCRIPTION\n{}\n",
        plain(VERSION),
        plain(super::ABOUT)
    );
    let mut heading = "";
    for flag in FLAGS {
        if flag.heading != heading {
            heading = flag.heading;
            page.push_str(&format!(".SH {}\n", heading.to_uppercase()));
        }
        let value = match flag.takes {
            Takes::Nothing => String::new(),
            Takes::One(name) | Takes::Many(name) => format!(" \\fI{name}\\fR"),
            Takes::OneOf(values) => format!(" {}", values.join("|")),
        };
        let short = flag
            .short
            .map(|short| format!("\\-{short}, "))
            .unwrap_or_default();
        page.push_str(&format!(
            ".TP\n\\fB{short}\\-\\-{}\\fR{value}\n{}\n",
            plain(flag.name),
            plain(flag.help)
        ));
    }
    page.push_str(&format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", plain(examples)));
    page
}
