//! Parses objects of the API server into the records of [`model`](crate::model).
//!
//! Any object that an API server may send parses: absent and `null` are the same everywhere.

mod class;
mod content;

#[cfg(test)]
mod tests;
