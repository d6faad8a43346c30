//! Answers that count for a short time, in a bounded number.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Answers by question.
#[derive(Debug)]
pub struct Cache<K, V> {
    answers: BTreeMap<K, (Instant, V)>,
    /// By age; one that was answered again is not removed from its old place.
    order: VecDeque<(Instant, K)>,
    life: Duration,
    most: usize,
}

impl<K: Ord + Clone, V: Clone> Cache<K, V> {
    /// At most so many answers, each for so long.
    #[must_use]
    pub fn new(most: usize, life: Duration) -> Self {
        Self {
            answers: BTreeMap::new(),
            order: VecDeque::new(),
            life,
            most,
        }
    }

    /// The answer, if it still counts.
    #[must_use]
    pub fn get(&self, key: &K, now: Instant) -> Option<V> {
        let (since, value) = self.answers.get(key)?;
        (now.saturating_duration_since(*since) < self.life).then(|| value.clone())
    }

    /// How many answers are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.answers.len()
    }

    /// Remembers an answer and forgets those that no longer count, or the oldest one.
    pub fn put(&mut self, key: K, value: V, now: Instant) {
        while let Some((since, oldest)) = self.order.front() {
            let is_old = now.saturating_duration_since(*since) >= self.life;
            if !is_old && self.order.len() < self.most {
                break;
            }
            if self.answers.get(oldest).is_some_and(|(at, _)| at == since) {
                self.answers.remove(oldest);
            }
            self.order.pop_front();
        }
        self.order.push_back((now, key.clone()));
        self.answers.insert(key, (now, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_its_time_and_makes_room_for_newer_ones() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut cache = Cache::new(2, Duration::from_secs(10));
        cache.put("a", 1, at(0));
        assert_eq!(cache.get(&"a", at(9)), Some(1));
        assert_eq!(cache.get(&"a", at(10)), None);
        cache.put("b", 2, at(1));
        cache.put("c", 3, at(2));
        assert_eq!(
            (cache.get(&"a", at(2)), cache.get(&"b", at(2))),
            (None, Some(2))
        );
        cache.put("c", 4, at(3));
        assert_eq!(cache.get(&"c", at(12)), Some(4));
        for n in 0..1000 {
            cache.put("c", n, at(4));
        }
        assert!(cache.order.len() <= 2 && cache.answers.len() <= 2);
    }
}
