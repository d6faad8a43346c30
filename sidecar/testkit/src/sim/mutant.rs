//! Runs that must succeed, and faulty controllers that must be caught.

use std::fmt::Debug;

/// Runs `runs` interleavings.
///
/// # Panics
/// If one of them violates an invariant.
pub fn hold(runs: u64, run: impl Fn(u64) -> Result<(), String>) {
    for seed in 0..runs {
        if let Err(violation) = run(seed) {
            panic!("seed {seed}: {violation}");
        }
    }
}

/// The mutants that go unnoticed. Each comes with the faults under which it must be caught, and the
/// text of the first violation then. `run` returns the violation in the run of a seed.
pub fn missed<M: Copy + Debug, F: Copy>(
    mutants: &[(M, F, &str)],
    most: u64,
    run: impl Fn(u64, F, M) -> Result<(), String>,
) -> Vec<String> {
    let missed = mutants
        .iter()
        .filter_map(|mutant| caught(*mutant, 0..most, &run).err());
    missed.collect()
}

/// The first of these seeds whose run catches the mutant.
///
/// # Errors
/// No run catches it: says so, or returns the first violation of another kind.
pub fn caught<M: Copy + Debug, F: Copy>(
    (mutant, faults, expected): (M, F, &str),
    seeds: impl IntoIterator<Item = u64>,
    run: impl Fn(u64, F, M) -> Result<(), String>,
) -> Result<u64, String> {
    let mut others = None;
    for seed in seeds {
        match run(seed, faults, mutant) {
            Err(violation) if violation.contains(expected) => return Ok(seed),
            Err(violation) => others = others.or(Some(violation)),
            Ok(()) => {}
        }
    }
    Err(match others {
        Some(violation) => format!("{mutant:?}: {violation}"),
        None => format!("{mutant:?} was not caught"),
    })
}
