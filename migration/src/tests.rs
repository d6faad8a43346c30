//! The rows of the specification, and the comparison with the library of upstream's sidecars.

mod answer;
mod canonical;
mod classes;
mod difference;
mod differential;
mod draw;
mod generator;
mod mutants;
mod notation;
mod oracle;
mod properties;
mod rows;
