//! TLS servers that ask the API server who their clients are and what they may do.
//!
//! | file | contents |
//! |---|---|
//! | `settings` | TLS versions, cipher suites and curves, from flags |
//! | `certificates` | the server's certificate, reloaded when its files change |
//! | `der` | fields of a certificate |
//! | `reviews` | TokenReview and SubjectAccessReview of a client |
//! | `cache` | a bounded cache of the API server's answers |
//! | `concurrency` | limits concurrent operations, in all and for each client |
//! | `handshakes` | TLS handshakes, one step at a time |
//! | `access` | authorization of a client's requests to an HTTP server |

pub mod access;
pub mod cache;
pub mod certificates;
pub mod concurrency;
pub mod der;
pub mod handshakes;
pub mod reviews;
pub mod settings;
