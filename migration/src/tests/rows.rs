//! The rows of the specification of translations, T-1 to T-180, each a line with its whole input and its whole output.

use std::collections::BTreeSet;

use serde_json::Value;

use super::answer::answer;
use super::canonical::canonical;
use super::notation::{request, result};
use crate::{TRANSLATOR, Translator};

const FILES: [(&str, &str); 9] = [
    ("dispatch", include_str!("rows/dispatch.jsonl")),
    ("ebs", include_str!("rows/ebs.jsonl")),
    ("gce_pd", include_str!("rows/gce_pd.jsonl")),
    ("cinder", include_str!("rows/cinder.jsonl")),
    ("azure_disk", include_str!("rows/azure_disk.jsonl")),
    ("azure_file", include_str!("rows/azure_file.jsonl")),
    ("vsphere", include_str!("rows/vsphere.jsonl")),
    ("portworx", include_str!("rows/portworx.jsonl")),
    ("classes", include_str!("rows/classes.jsonl")),
];

/// Number of rows.
const ROWS: u64 = 180;

/// The row that no translation changes its input; every case checks it.
const UNCHANGED: u64 = 9;

/// One input of a row.
pub(super) struct Case {
    pub(super) row: u64,
    pub(super) request: Value,
    /// The object, or the text of the error.
    expected: Result<Value, String>,
    /// Upstream's result where it differs.
    pub(super) upstream: Option<String>,
}

pub(super) fn cases() -> Vec<Case> {
    let lines = FILES.iter().flat_map(|(_, text)| text.lines());
    lines.flat_map(read).collect()
}

fn read(line: &str) -> Vec<Case> {
    let row: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let choices = row["each"].as_array().cloned();
    let choices = choices.unwrap_or_else(|| vec![Value::Null]).into_iter();
    let texts = |choice: Value| -> Vec<String> {
        match choice {
            Value::Array(texts) => texts
                .iter()
                .map(|one| one.as_str().unwrap().into())
                .collect(),
            Value::String(text) => vec![text],
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
        }
    };
    let cases = choices.map(texts).map(|texts| {
        let with = |field: &str| substituted(&row[field], &texts);
        let op = row["op"].as_str().unwrap();
        Case {
            row: row["row"].as_u64().unwrap(),
            request: request(op, &with("in")),
            expected: match with("error").as_str() {
                Some(error) => Err(error.to_owned()),
                None => Ok(result(op, &with("out"))),
            },
            upstream: row["upstream"].as_str().map(str::to_owned),
        }
    });
    cases.collect()
}

/// `value` with `$0`, `$1` replaced by `texts`.
fn substituted(value: &Value, texts: &[String]) -> Value {
    let text = |text: &String| {
        let numbered = texts.iter().enumerate();
        numbered.fold(text.clone(), |text, (number, with)| {
            text.replace(&format!("${number}"), with)
        })
    };
    match value {
        Value::String(said) => text(said).into(),
        Value::Array(list) => list.iter().map(|one| substituted(one, texts)).collect(),
        Value::Object(fields) => { fields.iter() }
            .map(|(key, value)| (text(key), substituted(value, texts)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The error in the answer to a case.
pub(super) fn fault(translator: &Translator<'_>, case: &Case) -> Option<String> {
    let given = case.request.clone();
    let answered = answer(translator, &given);
    if given != case.request {
        return Some("the input has changed".to_owned());
    }
    match (answered, &case.expected) {
        (Ok(mut answered), Ok(expected)) => {
            let mut expected = expected.clone();
            canonical(&mut answered);
            canonical(&mut expected);
            (answered != expected).then(|| format!("gives {answered}\nnot   {expected}"))
        }
        (Err(error), Err(expected)) => {
            let text = error.to_string();
            // Upstream's text comes first, then the place and the way out.
            let says = text.contains(expected) && text.ends_with(')');
            (!says).then(|| format!("says {text}\nnot  {expected}"))
        }
        (Ok(answered), Err(expected)) => Some(format!("gives {answered}\nnot error {expected}")),
        (Err(error), Ok(expected)) => Some(format!("says {error}\nand does not give {expected}")),
    }
}

#[test]
fn t_1_to_180_every_row_gives_what_the_specification_says() {
    let (mut ran, mut faults) = (BTreeSet::from([UNCHANGED]), Vec::new());
    let cases = cases();
    for case in &cases {
        ran.insert(case.row);
        if let Some(fault) = fault(&TRANSLATOR, case) {
            faults.push(format!("T-{}: {}\n{fault}\n", case.row, case.request));
        }
    }
    println!("{} rows in {} cases", ran.len(), cases.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let all: BTreeSet<u64> = (1..=ROWS).collect();
    let missing: Vec<&u64> = all.difference(&ran).collect();
    assert_eq!(ran, all, "rows without a case: {missing:?}");
}

#[test]
fn t_9_a_case_whose_answer_is_another_fails() {
    for case in cases().iter_mut() {
        case.expected = match &case.expected {
            Ok(_) => Err("something".to_owned()),
            Err(_) => Ok(Value::Null),
        };
        assert!(fault(&TRANSLATOR, case).is_some(), "T-{}", case.row);
    }
}
