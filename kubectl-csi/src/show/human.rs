//! The format for people, who may read it at night during an outage.

use super::controllers;
use crate::model::{Kind, Ref};
use crate::plan::{Certainty, Finding, Overview, State, Verdict, listed, span, title};
use sidecar::redact::{plain, told, words};

/// Default line width.
const WIDE: usize = 100;
/// Least line width.
const NARROW: usize = 40;
/// Length at which the path cuts names of objects; commands have them in full.
const NAME: usize = 40;

/// The style of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub width: usize,
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            width: WIDE,
            colour: false,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Ink {
    Bold,
    Dim,
    Red,
    Yellow,
    Green,
}

impl Style {
    /// A terminal of this width.
    #[must_use]
    pub fn terminal(width: usize, colour: bool) -> Self {
        Self {
            width: width.clamp(NARROW, 120),
            colour,
        }
    }

    pub(super) fn ink(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Bold => 1,
            Ink::Dim => 2,
            Ink::Red => 31,
            Ink::Yellow => 33,
            Ink::Green => 32,
        };
        if self.colour && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// `text` in lines of at most `width`, each behind `indent` spaces.
pub(super) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut lines = Vec::new();
    let mut line = String::new();
    let room = width.saturating_sub(indent).max(20);
    for word in text.split_whitespace() {
        let longer = line.chars().count() + usize::from(!line.is_empty()) + word.chars().count();
        if longer > room && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    let separator = format!("\n{}", " ".repeat(indent));
    lines.join(&separator)
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= NAME {
        return text.to_owned();
    }
    let front: String = text.chars().take(NAME - 1).collect();
    format!("{front}…")
}

fn headline(verdict: &Verdict) -> String {
    let subject = plain(&verdict.subject.to_string());
    let since = verdict
        .since
        .map(|since| span(verdict.now.duration_since(since)));
    let since = since
        .map(|since| format!(" for {since}"))
        .unwrap_or_default();
    match verdict.state {
        State::Fine => format!("{subject}: nothing is stuck"),
        State::Waits if verdict.causes.is_empty() => {
            format!("{subject} has been waiting{since}, which is not long")
        }
        State::Waits => format!("{subject} has been waiting{since}, as it should"),
        State::Stuck => format!("{subject} has been waiting{since}"),
        State::Unknown if verdict.absent => {
            let namespace = match &*verdict.subject.namespace {
                "" => String::new(),
                namespace => format!(" -n {}", plain(namespace)),
            };
            let plural = verdict.subject.kind.plural();
            format!("{subject} does not exist; kubectl get {plural}{namespace} lists those that do")
        }
        State::Unknown => format!("{subject}: could not be determined"),
    }
}

fn path(verdict: &Verdict, style: Style, text: &mut String) {
    let label = |depth: usize, object: &Ref| {
        let name = shortened(&plain(&object.path()));
        match depth {
            0 => format!("{} {name}", object.kind.noun()),
            depth => format!("{}└ {} {name}", "  ".repeat(depth - 1), object.kind.noun()),
        }
    };
    let labels: Vec<_> = verdict
        .path
        .iter()
        .map(|one| label(one.depth, &one.object))
        .collect();
    let widest = labels
        .iter()
        .map(|label| label.chars().count())
        .max()
        .unwrap_or(0);
    // With short lines, the text goes below the label.
    let column = if widest + 30 > style.width {
        0
    } else {
        widest + 4
    };
    for (step, label) in verdict.path.iter().zip(&labels) {
        let says = told(&step.says);
        let mark = step.cause.map(|id| format!("  ◄ {id}")).unwrap_or_default();
        let waits = verdict.state == State::Waits;
        let marked = style.ink(if waits { Ink::Yellow } else { Ink::Red }, &mark);
        let line = if column == 0 {
            let indent = 4 + 2 * step.depth;
            format!(
                "  {label}\n{}{}{marked}",
                " ".repeat(indent),
                wrapped(
                    &says,
                    style.width.saturating_sub(mark.chars().count()),
                    indent
                )
            )
        } else {
            let gap = " ".repeat(column.saturating_sub(label.chars().count()));
            let indent = 2 + column;
            format!(
                "  {label}{gap}{}{marked}",
                wrapped(
                    &says,
                    style.width.saturating_sub(mark.chars().count()),
                    indent
                )
            )
        };
        text.push_str(&line);
        text.push('\n');
    }
}

fn cause(finding: &Finding, style: Style, text: &mut String) {
    let certain = match finding.certainty {
        Certainty::Guessed => "Probably (not proved): ",
        Certainty::Proved | Certainty::Said => "",
    };
    text.push_str(&wrapped(
        &format!("{certain}{}", told(&finding.text)),
        style.width,
        0,
    ));
    text.push('\n');
    let quoted = finding
        .quoted
        .as_deref()
        .map(words)
        .filter(|words| !words.is_empty());
    if let Some(quoted) = quoted {
        text.push_str("  ");
        text.push_str(&style.ink(Ink::Dim, &wrapped(&format!("“{quoted}”"), style.width, 2)));
        text.push('\n');
    }
    if !finding.remedies.is_empty() {
        text.push_str(&style.ink(Ink::Bold, "What to do"));
        text.push('\n');
    }
    let column = if style.width < 70 { 4 } else { 18 };
    for remedy in &finding.remedies {
        let who = remedy.who.word();
        let indent = " ".repeat(column);
        let gap = if column < 18 {
            format!("\n{indent}")
        } else {
            " ".repeat(column.saturating_sub(2 + who.len()))
        };
        text.push_str(&format!(
            "  {who}{gap}{}\n",
            wrapped(&plain(&remedy.text), style.width, column)
        ));
        if let Some(command) = &remedy.command {
            // On one line, so that users can copy it.
            text.push_str(&format!(
                "{indent}{}\n",
                style.ink(Ink::Bold, &plain(command))
            ));
        }
        if let Some(risk) = &remedy.risk {
            let risk = wrapped(&format!("risk: {}", plain(risk)), style.width, column);
            text.push_str(&format!("{indent}{}\n", style.ink(Ink::Red, &risk)));
        }
    }
}

pub(super) fn unseen<'a>(
    parts: impl Iterator<Item = &'a (String, String)>,
    style: Style,
    text: &mut String,
) {
    let parts: Vec<_> = parts
        .map(|(what, why)| format!("{} ({})", plain(what), words(why)))
        .collect();
    if !parts.is_empty() {
        text.push_str(&wrapped(
            &format!("Not looked at: {}", parts.join(", ")),
            style.width,
            2,
        ));
        text.push('\n');
    }
}

pub(super) fn verdict(verdict: &Verdict, style: Style) -> String {
    let mut text = String::new();
    let ink = match verdict.state {
        State::Fine => Ink::Green,
        State::Waits => Ink::Yellow,
        State::Stuck | State::Unknown => Ink::Bold,
    };
    text.push_str(&style.ink(ink, &wrapped(&headline(verdict), style.width, 0)));
    text.push('\n');
    if !verdict.path.is_empty() && (!verdict.absent || verdict.path.len() > 1) {
        text.push('\n');
        path(verdict, style, &mut text);
    }
    for finding in &verdict.causes {
        text.push('\n');
        cause(finding, style, &mut text);
    }
    if verdict.causes.is_empty() && verdict.state == State::Stuck {
        text.push('\n');
        text.push_str(&wrapped("No cause was found: nothing that was looked at matches a cause that this program knows.", style.width, 0));
        text.push('\n');
    }
    if let Some(last) = verdict
        .last_words
        .as_deref()
        .filter(|_| verdict.causes.is_empty() && verdict.state != State::Fine)
    {
        text.push_str(&wrapped(
            &format!("The newest message about it: “{}”", words(last)),
            style.width,
            2,
        ));
        text.push('\n');
    }
    controllers::human(&verdict.controllers, style, &mut text);
    if !verdict.unseen.is_empty() {
        if verdict.causes.is_empty() {
            text.push('\n');
        }
        unseen(verdict.unseen.iter(), style, &mut text);
    }
    text
}

pub(super) fn overview(overview: &Overview, place: &str, style: Style) -> String {
    let mut text = String::new();
    let place = plain(place);
    let heading = match overview.state() {
        State::Fine => style.ink(Ink::Green, &format!("Nothing is stuck {place}\n")),
        State::Unknown => style.ink(
            Ink::Bold,
            &format!("Nothing stuck was found {place}, but not everything could be looked at\n"),
        ),
        State::Waits | State::Stuck => String::new(),
    };
    text.push_str(&heading);
    for found in &overview.found {
        let id = found.id.unwrap_or("?");
        let says = found.id.map_or("no cause was found", title);
        let mark = if found.waits {
            style.ink(Ink::Yellow, "waits")
        } else {
            style.ink(Ink::Red, "stuck")
        };
        let count = counted(&found.subjects);
        text.push_str(&format!(
            "{id:<4} {mark}  {}\n",
            wrapped(&format!("{count}: {says}"), style.width, 12)
        ));
        let names: Vec<_> = found
            .subjects
            .iter()
            .map(|one| format!("{}/{}", one.kind.called(), plain(&one.path())))
            .collect();
        text.push_str(&format!(
            "            {}\n",
            style.ink(Ink::Dim, &wrapped(&listed(&names), style.width, 12))
        ));
    }
    unseen(overview.unseen.iter(), style, &mut text);
    if overview.found.iter().any(|found| !found.waits) {
        text.push_str("For one of them: kubectl csi why KIND/NAME\n");
    }
    text
}

/// `300 claims and 2 pods`.
fn counted(subjects: &[Ref]) -> String {
    let kinds = Kind::all().filter_map(|kind| {
        let count = subjects.iter().filter(|one| one.kind == kind).count();
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {}{plural}", kind.noun()))
    });
    listed(&kinds.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_38_lines_are_as_long_as_the_terminal_is_wide() {
        let text = "one two three four five six seven eight nine ten eleven twelve";
        for width in [24, 40, 80] {
            for line in wrapped(text, width, 4).lines().skip(1) {
                assert!(line.chars().count() <= width, "{line}");
                assert!(line.starts_with("    "));
            }
        }
    }

    #[test]
    fn long_names_are_cut_by_characters() {
        assert_eq!(shortened(&"ä".repeat(41)).chars().count(), NAME);
        assert_eq!(shortened("a"), "a");
    }
}
