//! Checks of a command line against our program (P-3 to P-8, P-20).

use sidecar::flags::{self, Exit, Values};

use super::container::Container;
use super::program::{Program, Read};
use super::verdict::{Case, Remark, Verdict};

/// Reads a container's command line as the program does when it starts.
pub(crate) fn read(program: &Program, container: &Container<'_>) -> Result<(Values, Read), Exit> {
    let line = std::iter::once(program.name).chain(container.arguments.iter().map(String::as_str));
    let values = flags::parse(program.spec, line)?;
    let environment = |name: &str| match name {
        "preflight/namespace" => Some(container.workload.namespace.clone()),
        name => {
            let known = container.environment.get(name).cloned();
            known.or_else(|| {
                container
                    .hidden
                    .contains_key(name)
                    .then(|| name.to_lowercase())
            })
        }
    };
    let read = (program.decide)(&values, &environment)?;
    Ok((values, read))
}

/// The program's message when it refuses a command line.
fn diagnostic(exit: &Exit) -> String {
    if let Some(error) = &exit.error {
        return error.clone();
    }
    // Go's flag package prints it first, pflag last.
    let lines: Vec<&str> = exit
        .stderr
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let first = lines.first().copied().unwrap_or_default();
    let line = if first.starts_with("Usage") {
        lines.last().copied()
    } else {
        Some(first)
    };
    line.unwrap_or_default().to_owned()
}

/// P-3, P-6: the program refuses its command line.
pub(crate) fn refused(case: &Case<'_>, exit: &Exit) -> Remark {
    let text = diagnostic(exit);
    let name = case.program.name;
    let unknown = [
        "flag provided but not defined",
        "unknown flag",
        "unknown shorthand flag",
    ];
    let flag = { text.split([' ', '=', ':', ',', '"']) }
        .find(|word| word.starts_with('-') && word.len() > 1)
        .unwrap_or_default();
    let place = case
        .place(flag.trim_start_matches('-'))
        .filter(|_| !flag.is_empty());
    if unknown.iter().any(|start| text.starts_with(start)) {
        return Remark::new(
            "P-6",
            Verdict::Cannot,
            format!("{name} ends with code {}: {text}. No release of upstream's {name} had that flag, so the image is a fork with flags of its own", exit.code),
        )
        .way("keep this image")
        .at(place);
    }
    Remark::new(
        "P-3",
        Verdict::Change,
        format!("{name} ends with code {}: {text}", exit.code),
    )
    .way("correct it; upstream's newest ends over it as well")
    .at(place)
}

/// P-4, P-5, P-7: accepted, with a warning.
pub(crate) fn warnings(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let Some((values, read)) = &case.read else {
        return;
    };
    for warning in values.warnings().iter().chain(&read.warnings) {
        let gate = warning.contains("eature gate");
        let retired = warning.contains("was retired in");
        let row = match (gate, retired) {
            (true, true) => "P-4",
            (false, true) => "P-5",
            (_, false) => "P-7",
        };
        let mut words = warning.split([' ', '=', ':']);
        let name = match gate {
            true => words.skip_while(|word| *word != "gate").nth(1),
            false => words
                .find(|word| word.starts_with("--"))
                .map(|word| word.trim_start_matches('-')),
        };
        let name = name.unwrap_or_default();
        let remark = Remark::note(row, warning.clone());
        let remark = match retired {
            true => remark.way(format!(
                "take {name} out when you find the time; upstream's newest ends over it"
            )),
            false => remark,
        };
        remarks.push(remark.at(case.place(name).filter(|_| !name.is_empty())));
    }
}

/// P-8: variables in arguments.
pub(crate) fn variables(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    for name in &case.container.unset {
        let text = format!(
            "the container has no variable {name}, so $({name}) stays as it is written; the same with upstream's"
        );
        remarks.push(Remark::note("P-8", text).at(case.place(&format!("$({name})"))));
    }
    for what in &case.container.unknown {
        let text = format!("not checked, since its value is not in the input: {what}");
        remarks.push(
            Remark::new("P-8", Verdict::Unknown, text)
                .way("put the ConfigMap into the input, or look at the value yourself"),
        );
    }
}

/// P-20: the request rate.
pub(crate) fn rate(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let Some((values, _)) = &case.read else {
        return;
    };
    if !values.has("kube-api-qps") {
        return;
    }
    let given = ["kube-api-qps", "kube-api-burst"]
        .into_iter()
        .filter(|name| values.is_set(name));
    let given: Vec<_> = given.map(|name| format!("--{name}")).collect();
    let text = match given.is_empty() {
        true => "without --kube-api-qps and --kube-api-burst there is no limit of this program's own, where upstream's sends five requests a second".to_owned(),
        false => format!("{} stay the limits that they are", given.join(" and ")),
    };
    remarks.push(Remark::note("P-20", text));
}
