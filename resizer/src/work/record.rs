//! Parses objects of the API server into the records of [`model`](crate::model).
//!
//! Any object that an API server may send parses: absent and `null` are the same everywhere.

mod claim;
mod class;
mod pod;
mod volume;

#[cfg(test)]
mod tests;
