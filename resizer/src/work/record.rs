//! Reads objects of the API server into the records of [`model`](crate::model).
//!
//! How an object reads on the wire is the API's affair. Nothing an API server may send fails to
//! decode: absent and `null` are alike everywhere.

mod claim;
mod class;
mod pod;
mod volume;

#[cfg(test)]
mod tests;
