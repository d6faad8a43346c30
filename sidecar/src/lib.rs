//! What all CSI sidecars share.
