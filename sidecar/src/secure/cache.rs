//! A bounded cache of short-lived answers.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Answers by question.
#[derive(Debug)]
pub struct Cache<K, V> {
    answers: BTreeMap<K, (Instant, V)>,
    /// Keys by age; a key that is answered again keeps its old entry as well.
    order: VecDeque<(Instant, K)>,
    life: Duration,
    /// How long a key stays known after its answer.
    known: Duration,
    most: usize,
}

impl<K: Ord + Clone, V: Clone> Cache<K, V> {
    /// At most `most` answers, each valid for `life`.
    #[must_use]
    pub fn new(most: usize, life: Duration) -> Self {
        Self {
            answers: BTreeMap::new(),
            order: VecDeque::new(),
            life,
            known: life,
            most,
        }
    }

    /// The same cache, in which a key stays [known](Self::knows) for `known`.
    #[must_use]
    pub fn known_for(self, known: Duration) -> Self {
        Self { known, ..self }
    }

    /// Whether the key had an answer recently, which may have expired.
    #[must_use]
    pub fn knows(&self, key: &K, now: Instant) -> bool {
        let answer = self.answers.get(key);
        answer.is_some_and(|(since, _)| now.saturating_duration_since(*since) < self.known)
    }

    /// The answer, if it is still valid.
    #[must_use]
    pub fn get(&self, key: &K, now: Instant) -> Option<V> {
        let (since, value) = self.answers.get(key)?;
        (now.saturating_duration_since(*since) < self.life).then(|| value.clone())
    }

    /// Number of remembered answers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.answers.len()
    }

    /// Stores an answer and removes expired ones, or the oldest one.
    pub fn put(&mut self, key: K, value: V, now: Instant) {
        while let Some((since, oldest)) = self.order.front() {
            let is_old = now.saturating_duration_since(*since) >= self.known;
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
    fn whose_answer_no_longer_counts_may_still_be_known() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut cache = Cache::new(9, Duration::from_secs(10)).known_for(Duration::from_secs(60));
        cache.put("a", 1, at(0));
        cache.put("b", 2, at(20));
        assert_eq!(cache.get(&"a", at(20)), None);
        assert!(cache.knows(&"a", at(59)) && !cache.knows(&"a", at(60)));
        assert!(!cache.knows(&"c", at(20)));
        cache.put("c", 3, at(61));
        assert_eq!(cache.count(), 2, "who is no longer known is forgotten");
    }

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
