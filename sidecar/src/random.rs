//! Randomness for jitter.
//!
//! Pure code takes random numbers as arguments; this is where its callers get them. Good enough to
//! spread requests in time and for nothing else.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number in `[0, 1)`.
pub fn unit_random() -> f64 {
    // Each `RandomState` has keys of its own, derived from the system's randomness.
    let bits = RandomState::new().build_hasher().finish() >> 32;
    u32::try_from(bits).map_or(0.0, |bits| f64::from(bits) / 2f64.powi(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_stay_in_range() {
        let numbers: Vec<f64> = (0..1000).map(|_| unit_random()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 1000.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
    }
}
