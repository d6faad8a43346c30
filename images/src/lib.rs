//! Container images without a container engine: OCI archives of files that are there.
//!
//! An archive is a tar file in the OCI image layout, as `ctr images import`, `skopeo copy
//! oci-archive:`, `podman load`, `docker load` and kind take it. The same content gives the same bytes: no time, user or
//! order of a directory enters.

mod archive;
pub mod catalogue;
mod layer;
mod listing;
mod program;

pub use archive::{Archive, Image, sha256};
pub use layer::Layer;
pub use listing::names;
pub use program::Program;

/// Why an archive cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that an image is made of cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// A program that cannot run in an image of its own.
    #[error("{} {reason}", path.display())]
    Unfit {
        /// The program.
        path: std::path::PathBuf,
        /// What is wrong with it, and the way out.
        reason: String,
    },
    /// A name that the tar format cannot carry, or a disk that is full.
    #[error("cannot write {what}")]
    Write {
        /// The entry or file.
        what: String,
        /// What the operating system or the format says.
        source: std::io::Error,
    },
}
