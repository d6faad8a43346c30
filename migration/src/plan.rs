//! The translations, which know no plugin: what is said about one is in its table.

mod aws;
mod azure;
mod class;
mod handle;
mod inline;
mod object;
mod repair;
mod restore;
mod topology;
pub mod translator;
mod volume;
mod zone;

/// Text in lower case as Go has it: each character becomes one.
fn lower(text: &str) -> String {
    text.chars()
        .map(|c| c.to_lowercase().next().unwrap_or(c))
        .collect()
}
