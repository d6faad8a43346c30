//! The holder identity of a process of several controllers.
//!
//! Single sidecars, upstream's and ours, use their host name as identity and take over a lease with
//! their own host name at once. A sidecar left behind in this process's pod would thus take its leases
//! away, and an extra field in the lease would not prevent that: client-go changes the holder and leaves
//! all other fields. So the identity itself differs. It also contains the head: whoever holds that head
//! knows that the process with this identity has lost it.

/// Occurs neither in host names nor in identities of single sidecars, which replace it.
const SEPARATOR: char = '_';

/// Suffix of the identities of all processes whose head is `head`.
#[must_use]
pub fn mark(head: &str) -> String {
    format!("{SEPARATOR}{head}{SEPARATOR}together")
}

/// Identity of the process on `host` whose head is `head`.
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
            // Whatever the host name, a single sidecar's identity never contains the separator.
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
