//! Tests the program as its users see it: real processes, real sockets, and, as root, real mounts.

#[cfg(test)]
mod control;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod metadata;
#[cfg(test)]
mod mounts;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod record;
