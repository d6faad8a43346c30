//! As whom a process of several controllers holds leases.
//!
//! Single sidecars, upstream's and ours, hold theirs as their host, and take a lease that names their host
//! at once. One that was left in the pod of this process would take its leases under its hands, and a mark
//! beside the holder would not help: client-go writes the holder and leaves everything around it as it is.
//! So the name itself differs. It says under which head its holder works, too: whoever has that head knows
//! that this holder has lost it.

/// Not in the name of a host, and not in that of any single sidecar, which replaces it.
const SEPARATOR: char = '_';

/// What ends the names of all processes that work under the lease of `head`.
#[must_use]
pub fn mark(head: &str) -> String {
    format!("{SEPARATOR}{head}{SEPARATOR}together")
}

/// The name of the process on `host` that works under the lease of `head`.
#[must_use]
pub fn identity(host: &str, head: &str) -> String {
    format!("{host}{}", mark(head))
}

#[cfg(test)]
mod tests {
    use sidecar::names;

    use super::*;

    #[test]
    fn a_41_no_single_sidecar_has_the_name_of_this_process() {
        for host in ["pod-0", "node-1.example.com", "pod_provisioner_together"] {
            let ours = identity(host, "provisioner");
            assert_ne!(names::identity(host), ours);
            // Whatever a host is called, what a single sidecar writes has no such letter.
            assert!(!names::identity(&ours).contains(SEPARATOR));
        }
    }

    #[test]
    fn the_mark_is_that_of_one_head() {
        let ours = identity("pod-0", "provisioner");
        assert_eq!(ours, "pod-0_provisioner_together");
        assert!(ours.ends_with(&mark("provisioner")));
        assert!(!ours.ends_with(&mark("attacher")));
    }
}
