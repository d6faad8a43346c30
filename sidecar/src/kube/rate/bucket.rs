//! A token bucket: the hard cap behind `--kube-api-qps` and `--kube-api-burst`, and the budget of
//! events.
//!
//! Pure. It returns a token or the time until the next one; the shell decides who waits, and in
//! which order.

use std::time::{Duration, Instant};

/// A token bucket that starts full, like client-go's.
#[derive(Clone, Debug)]
pub(in crate::kube) struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    filled: Option<Instant>,
}

impl Bucket {
    /// `rate` tokens per second, of which `burst` can be saved. Both are positive.
    pub(in crate::kube) fn new(rate: f64, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self {
            rate,
            burst,
            tokens: burst,
            filled: None,
        }
    }

    /// Takes a token, or returns the time until there is one.
    pub(in crate::kube) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        if let Some(filled) = self.filled {
            let passed = now.saturating_duration_since(filled).as_secs_f64();
            self.tokens = passed.mul_add(self.rate, self.tokens).min(self.burst);
        }
        self.filled = Some(now);
        // Rounding may have lost a billionth of a token.
        if self.tokens >= 1.0 - 1e-9 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let missing = (1.0 - self.tokens) / self.rate;
        Err(Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times, in milliseconds, at which `count` takers get their tokens.
    fn times(bucket: &mut Bucket, start: Instant, count: usize) -> Vec<u128> {
        let mut now = start;
        let mut times = Vec::new();
        while times.len() < count {
            match bucket.take(now) {
                Ok(()) => times.push((now - start).as_millis()),
                Err(wait) => now += wait,
            }
        }
        times
    }

    #[test]
    fn row_88_one_per_second_after_the_burst() {
        let start = Instant::now();
        assert_eq!(
            times(&mut Bucket::new(1.0, 1), start, 5),
            [0, 1000, 2000, 3000, 4000]
        );
        assert_eq!(
            times(&mut Bucket::new(5.0, 3), start, 6),
            [0, 0, 0, 200, 400, 600]
        );
        assert_eq!(times(&mut Bucket::new(0.2, 1), start, 3), [0, 5000, 10000]);
    }

    #[test]
    fn saves_no_more_than_the_burst() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10.0, 2);
        assert_eq!(times(&mut bucket, start, 2), [0, 0]);
        let later = start + Duration::from_secs(3600);
        assert_eq!(times(&mut bucket, later, 4), [0, 0, 100, 200]);
    }

    #[test]
    fn a_clock_that_steps_back_does_no_harm() {
        let start = Instant::now() + Duration::from_secs(10);
        let mut bucket = Bucket::new(1.0, 1);
        assert_eq!(bucket.take(start), Ok(()));
        let back = start - Duration::from_secs(5);
        assert_eq!(bucket.take(back), Err(Duration::from_secs(1)));
    }
}
