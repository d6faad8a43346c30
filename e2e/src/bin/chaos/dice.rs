//! Pseudo-random numbers: a seed gives the same ones on every machine.

/// splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// A sequence for one purpose: draws from one sequence do not affect another.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        let mut dice = Self(seed);
        for byte in purpose.bytes() {
            dice.0 = dice.next() ^ u64::from(byte);
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high.saturating_sub(low) + 1)
    }

    /// True with this percentage.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    /// A random item.
    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let last = u64::try_from(items.len()).ok()?.checked_sub(1)?;
        let index = usize::try_from(self.between(0, last)).ok()?;
        items.get(index).cloned()
    }

    /// The items in random order.
    pub(crate) fn shuffle<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        let mut shuffled = Vec::with_capacity(items.len());
        while let Some(last) = items.len().checked_sub(1) {
            let index = self.between(0, last as u64);
            shuffled.push(items.swap_remove(usize::try_from(index).unwrap_or(last)));
        }
        shuffled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_with_seed_and_purpose() {
        let throws = |seed, purpose| {
            let mut dice = Dice::new(seed, purpose);
            (0..50).map(|_| dice.between(0, 999)).collect::<Vec<_>>()
        };
        assert_eq!(throws(1, "faults"), throws(1, "faults"));
        assert_ne!(throws(1, "faults"), throws(2, "faults"));
        assert_ne!(throws(1, "faults"), throws(1, "claims"));
    }

    #[test]
    fn numbers_keep_to_their_bounds_and_reach_them() {
        let mut dice = Dice::new(3, "");
        let mut seen = [0; 4];
        for _ in 0..1000 {
            seen[usize::try_from(dice.between(2, 5)).unwrap() - 2] += 1;
        }
        assert!(seen.iter().all(|count| *count > 150), "{seen:?}");
        assert_eq!(dice.pick::<u8>(&[]), None);
        let mut shuffled = dice.shuffle((0..100).collect());
        assert_ne!(shuffled, (0..100).collect::<Vec<_>>());
        shuffled.sort_unstable();
        assert_eq!(shuffled, (0..100).collect::<Vec<_>>());
    }
}
