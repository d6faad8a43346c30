//! Executors: requests, streams, the TLS server.
//!
//! | file | does |
//! |---|---|
//! | `call` | one call of a client, from its first byte to its status |
//! | `client` | who a client is and what it may do, by reviews |
//! | `driver` | the connection to the driver and its streams |
//! | `grpc` | gRPC on one stream of HTTP/2, no faster than the client reads |
//! | `health` | gRPC's health check |
//! | `metrics` | the metrics |
//! | `objects` | what is asked of the API server |
//! | `server` | connections of clients |

pub mod call;
pub mod client;
pub mod driver;
pub mod grpc;
pub mod health;
pub mod metrics;
pub mod objects;
pub mod server;
