//! Random numbers for latencies: the same sequence for the same seed, so that a run can be repeated.

use std::sync::atomic::{AtomicU64, Ordering};

/// xorshift64*.
#[derive(Debug)]
pub struct Random(AtomicU64);

impl Random {
    /// A generator; its state is never zero.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed | 1))
    }

    /// A number from 0 up to, but not including, 1.
    pub fn unit(&self) -> f64 {
        let step = |mut x: u64| {
            x ^= x >> 12;
            x ^= x << 25;
            x ^= x >> 27;
            Some(x)
        };
        let old = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        let number = old.unwrap_or(1).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from(number).map_or(0.0, f64::from) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_with_the_seed_and_spread() {
        let numbers = |seed| {
            let random = Random::new(seed);
            (0..1000).map(|_| random.unit()).collect::<Vec<f64>>()
        };
        let first = numbers(7);
        assert_eq!(first, numbers(7));
        assert_ne!(first, numbers(8));
        assert!(first.iter().all(|unit| (0.0..1.0).contains(unit)));
        let mean = first.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
