//! The part of what a reactor remembers that is about one key.

/// The entry that was looked up, as a map of its own: of a map that may have 50,000.
pub fn only<'a, K, V, M>(entry: Option<(&'a K, &'a V)>) -> M
where
    K: Clone + 'a,
    V: Clone + 'a,
    M: FromIterator<(K, V)>,
{
    let entry = entry.map(|(key, value)| (key.clone(), value.clone()));
    entry.into_iter().collect()
}
