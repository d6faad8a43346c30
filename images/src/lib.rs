//! Builds container images without a container engine: OCI archives of local files.
//!
//! An archive is a tar file in the OCI image layout, which `ctr images import`, `skopeo copy oci-archive:`,
//! `podman load`, `docker load` and kind accept. The same content gives the same bytes, whatever the time, the user and
//! the order of a directory's entries.

mod archive;
pub mod catalogue;
mod layer;
mod listing;
mod program;

pub use archive::{Archive, Image, sha256};
pub use layer::Layer;
pub use listing::names;
pub use program::Program;

/// Why an archive could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of an image cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A program that cannot run in an image without other files.
    #[error("{} {reason}", path.display())]
    Unfit {
        /// The program.
        path: std::path::PathBuf,
        /// The problem, and the remedy.
        reason: String,
    },
    /// A name that the tar format does not support, or a write error such as a full disk.
    #[error("cannot write {what}")]
    Write {
        /// The entry or file.
        what: String,
        /// The error of the system or of the format.
        source: std::io::Error,
    },
}
