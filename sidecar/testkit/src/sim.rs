//! The foundation of crash simulations: a seed determines an interleaving, the same on every
//! machine.

#[cfg(feature = "watch")]
pub mod attempts;
pub mod fate;
#[cfg(feature = "watch")]
pub mod informer;
pub mod mutant;
pub mod rest;
#[cfg(feature = "watch")]
pub mod server;
pub mod storage;
#[cfg(feature = "watch")]
pub mod watch;

/// Random numbers of one run (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

// Inlined: simulations are compiled with optimizations, this crate is not.
impl Dice {
    /// The run of `seed`.
    #[inline]
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// The next number without drawing it.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> u64 {
        self.clone().draw()
    }

    /// A number below `limit`.
    ///
    /// # Panics
    /// There is no number below 0.
    #[inline]
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.draw() % limit as u64).expect("less than a usize")
    }

    /// Returns true once in `times`.
    #[inline]
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One element of this list, which must not be empty.
    #[inline]
    pub fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Number of runs of each kind: `usual`, unless the environment variable `SIMULATION_RUNS` sets
/// another one.
#[must_use]
pub fn runs(usual: u64) -> u64 {
    let asked = std::env::var("SIMULATION_RUNS").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(usual)
}
