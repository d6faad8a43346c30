//! The translator compared with the library of upstream's sidecars, on the rows and on random objects.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::answer::answer;
use super::difference::{Verdict, verdict};
use super::draw::Draw;
use super::generator::{OPERATIONS, request};
use super::oracle;
use super::rows;
use crate::model::drivers::DRIVERS;
use crate::{Driver, TRANSLATOR};

/// Number of objects for each driver and operation, unless `TRANSLATIONS` sets it.
const OBJECTS: u64 = 20_000;

/// Number of differences that are shown for each driver and operation.
const SHOWN: usize = 3;

fn number(variable: &str, otherwise: u64) -> u64 {
    let value = std::env::var(variable);
    value.map_or(otherwise, |value| value.parse().unwrap())
}

#[test]
fn every_row_is_what_upstream_does_unless_it_says_otherwise() {
    let Some(program) = oracle::program() else {
        return;
    };
    let cases = rows::cases();
    let mut differs = cases.iter().map(|case| (case.row, case.upstream.clone()));
    let mut faults = Vec::new();
    let requests: Vec<Value> = cases.iter().map(|case| case.request.clone()).collect();
    oracle::ask(&program, requests.into_iter(), |request, theirs| {
        let ours = answer(&TRANSLATOR, &request);
        let verdict = verdict(&request, &ours, &theirs);
        let (row, differs) = differs.next().unwrap();
        // Where upstream's result is random, it may also equal ours.
        let fits = match (verdict, &differs) {
            (Verdict::Same | Verdict::SameError, None) | (_, Some(_)) => true,
            (Verdict::Meant(_) | Verdict::Fault, None) => false,
        };
        if !fits {
            faults.push(format!(
                "T-{row} {request}\nours   {ours:?}\ntheirs {theirs}\n"
            ));
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn random_objects_are_translated_as_upstream_does() {
    let Some(program) = oracle::program() else {
        return;
    };
    let (objects, seed) = (number("TRANSLATIONS", OBJECTS), number("SEED", 1));
    println!("{objects} objects for each driver and operation, seed {seed}");
    // Each driver has a library process of its own, so that no processor waits for another.
    let faults: Vec<String> = std::thread::scope(|scope| {
        let drivers = DRIVERS.iter().enumerate();
        let compared: Vec<_> = drivers
            .map(|(at, driver)| {
                let (program, seed) = (&program, seed << 16 | u64::try_from(at).unwrap() << 8);
                scope.spawn(move || compare(program, driver, objects, seed))
            })
            .collect();
        let faults = compared.into_iter().flat_map(|one| one.join().unwrap());
        faults.collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Unintended differences, the first one of each operation.
fn compare(program: &Path, driver: &'static Driver, objects: u64, seed: u64) -> Vec<String> {
    let mut faults = Vec::new();
    for (op, salt) in OPERATIONS.into_iter().zip(1..) {
        let mut draw = Draw(seed | salt);
        let requests = (0..objects).map(move |_| request(driver, op, &mut draw));
        let mut found = BTreeMap::new();
        let mut shown = 0;
        oracle::ask(program, requests, |request, theirs| {
            let given = request.clone();
            let ours = answer(&TRANSLATOR, &given);
            assert_eq!(given, request, "the input has changed");
            let verdict = verdict(&request, &ours, &theirs);
            if verdict == Verdict::Fault && shown < SHOWN {
                shown += 1;
                faults.push(format!("{request}\nours   {ours:?}\ntheirs {theirs}\n"));
            }
            *found.entry(verdict).or_insert(0_u64) += 1;
        });
        println!("{:<30} {op:<10} {found:?}", driver.plugin);
        report(driver, op, objects, &found);
    }
    faults
}

/// Objects that cannot be translated prove little: a good part must be translated.
fn report(driver: &Driver, op: &str, objects: u64, found: &BTreeMap<Verdict, u64>) {
    let same = found.get(&Verdict::Same).copied().unwrap_or_default();
    let answers: u64 = found.values().sum();
    assert_eq!(answers, objects, "{} {op}", driver.plugin);
    assert!(
        same * 10 >= objects * 3 || objects < 1000,
        "{} {op}: of {objects} objects only {same} can be translated",
        driver.plugin
    );
}
