//! x
use crate::instrument::record::Call;
/// o
#[derive(Debug, Clone, Default)]
pub struct Options {}
/// v
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {}
impl std::fmt::Display for Violation {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
/// c
pub fn check(_calls: &[Call], _options: &Options) -> Vec<Violation> {
    Vec::new()
}
