//! Executors: requests, streams, the TLS server.
//!
//! | file | does |
//! |---|---|
//! | `call` | one call of a client, from its first byte to its status |
//! | `client` | authenticates and authorizes a client, by reviews |
//! | `connection` | a client's connection, as its calls know it, and how many there may be |
//! | `driver` | the connection to the driver and its streams |
//! | `grpc` | gRPC on one stream of HTTP/2, no faster than the client reads |
//! | `health` | gRPC's health check |
//! | `metrics` | the metrics |
//! | `objects` | requests to the API server |
//! | `server` | connections of clients |

pub mod call;
pub mod client;
pub mod connection;
pub mod driver;
pub mod grpc;
pub mod health;
pub mod metrics;
pub mod objects;
pub mod server;
