//! Servers that speak TLS, and that ask the API server who their clients are and what they may do.
//!
//! | file | contents |
//! |---|---|
//! | `settings` | what TLS is spoken, from flags |
//! | `certificates` | the server's certificate, as it is in its files now |
//! | `der` | what a certificate says |
//! | `reviews` | what the API server is asked of a client, and what it answers |
//! | `cache` | how long and how many answers count |
//! | `concurrency` | limits how many do something at the same time, in all and for each client |
//! | `handshakes` | TLS handshakes, one step at a time |
//! | `access` | who may read which path of an HTTP server |

pub mod access;
pub mod cache;
pub mod certificates;
pub mod concurrency;
pub mod der;
pub mod handshakes;
pub mod reviews;
pub mod settings;
