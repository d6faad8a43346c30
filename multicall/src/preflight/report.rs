//! The output of preflight.

use serde_json::{Value, json};
use sidecar::redact::plain;
use sidecar::text::truncated;
use sidecar::visible::visible;

use super::verdict::{Answer, Remark, Verdict};

/// The complete result of preflight.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) answers: Vec<Answer>,
    /// Remarks about several workloads, or about none in particular.
    pub(crate) around: Vec<Remark>,
    /// Containers without a check, by workload.
    pub(crate) left: Vec<(String, Vec<String>)>,
    pub(crate) passed_over: usize,
    pub(crate) unreadable: Vec<String>,
}

impl Report {
    /// The worst verdict.
    pub(crate) fn verdict(&self) -> Verdict {
        let around = self.around.iter().map(|remark| remark.verdict);
        let all = self.answers.iter().map(Answer::verdict).chain(around);
        all.max().unwrap_or_default()
    }

    /// The exit code. An unreadable document may have been the decisive one.
    pub(crate) fn code(&self) -> u8 {
        match self.verdict() {
            _ if !self.unreadable.is_empty() => 1,
            Verdict::Swap => 0,
            Verdict::Unknown | Verdict::Loss => 5,
            Verdict::Change | Verdict::Cannot => 3,
        }
    }
}

fn human_remark(remark: &Remark, text: &mut String) {
    let verdict = match remark.verdict == Verdict::Swap {
        true => String::new(),
        false => format!("{}: ", remark.verdict.words()),
    };
    let place = remark
        .place
        .as_ref()
        .map(|place| format!(" ({})", visible(place)));
    let says = shown(&remark.text);
    text.push_str(&format!(
        "    {:<5} {verdict}{says}{}\n",
        remark.row,
        place.unwrap_or_default()
    ));
    if !remark.way.is_empty() {
        text.push_str(&format!("          {}\n", shown(&remark.way)));
    }
}

/// One line of readable length: texts contain pieces of manifests.
fn shown(text: &str) -> String {
    const LONGEST: usize = 1024;
    let cut = truncated(text, LONGEST);
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", plain(cut))
}

/// The output for people.
pub(crate) fn human(report: &Report) -> String {
    let mut text = String::new();
    let mut workload = "";
    for answer in &report.answers {
        if answer.workload != workload {
            workload = &answer.workload;
            text.push_str(&format!("{}\n", shown(workload)));
        }
        let (name, verdict) = (shown(&answer.container), answer.verdict().words());
        text.push_str(&format!("  {name} ({}): {verdict}\n", answer.program));
        // Worst remarks first.
        let mut remarks: Vec<_> = answer.remarks.iter().collect();
        remarks.sort_by_key(|remark| std::cmp::Reverse(remark.verdict));
        remarks
            .into_iter()
            .for_each(|remark| human_remark(remark, &mut text));
    }
    if !report.around.is_empty() {
        text.push_str("Around them\n");
        report
            .around
            .iter()
            .for_each(|remark| human_remark(remark, &mut text));
    }
    for (workload, names) in &report.left {
        text.push_str(&format!(
            "Left alone in {}: {}\n",
            shown(workload),
            shown(&names.join(", "))
        ));
    }
    if report.passed_over > 0 {
        text.push_str(&format!(
            "Passed over: {} documents of other kinds\n",
            report.passed_over
        ));
    }
    for one in &report.unreadable {
        text.push_str(&format!("Not read: {}\n", shown(one)));
    }
    let count = |verdict| {
        report
            .answers
            .iter()
            .filter(|one| one.verdict() == verdict)
            .count()
    };
    let all = [
        Verdict::Swap,
        Verdict::Loss,
        Verdict::Change,
        Verdict::Cannot,
        Verdict::Unknown,
    ];
    let counts = all.map(|verdict| format!("{} {}", count(verdict), verdict.words()));
    text.push_str(&format!("{}\n", counts.join(", ")));
    text
}

fn json_remark(remark: &Remark) -> Value {
    json!({
        "row": remark.row,
        "verdict": remark.verdict.words(),
        "text": shown(&remark.text),
        "way": shown(&remark.way),
        "place": remark.place,
    })
}

/// The output for programs.
pub(crate) fn json(report: &Report) -> String {
    let answers = report.answers.iter().map(|answer| {
        json!({
            "workload": shown(&answer.workload),
            "container": shown(&answer.container),
            "program": answer.program,
            "verdict": answer.verdict().words(),
            "remarks": answer.remarks.iter().map(json_remark).collect::<Vec<_>>(),
        })
    });
    let left = { report.left.iter() }
        .map(|(workload, names)| json!({"workload": shown(workload), "containers": names}));
    let value = json!({
        "version": 1,
        "verdict": report.verdict().words(),
        "containers": answers.collect::<Vec<_>>(),
        "around": report.around.iter().map(json_remark).collect::<Vec<_>>(),
        "leftAlone": left.collect::<Vec<_>>(),
        "passedOver": report.passed_over,
        "unreadable": report.unreadable.iter().map(|one| shown(one)).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}
