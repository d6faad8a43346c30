//! The translations, which know no plugin: the rules of each are in its table.

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

/// Text in lower case as in Go: each character becomes a single one.
fn lower(text: &str) -> String {
    text.chars()
        .map(|c| c.to_lowercase().next().unwrap_or(c))
        .collect()
}
