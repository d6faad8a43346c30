//! Names derived from the driver's name, the host's name and the environment.
//!
//! The names are an interface: a finalizer or lease named differently from upstream's would leave volumes stuck,
//! or let two leaders run, while a cluster migrates.

use std::io;

/// Replaces everything outside `[A-Za-z0-9-]` by `-`, and appends `X` if the result ends in `-`.
///
/// Case is kept. An empty text stays empty.
pub fn sanitize(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let mut sanitized: String = name.chars().map(keep).collect();
    if sanitized.ends_with('-') {
        sanitized.push('X');
    }
    sanitized
}

/// Whether `text` contains the name of this driver, and not a longer name that starts or ends with it.
pub fn names_driver(text: &str, driver: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    text.match_indices(driver).any(|(start, _)| {
        let before = text.get(..start).unwrap_or_default();
        let behind = text.get(start + driver.len()..).unwrap_or_default();
        // Sockets are named after their drivers.
        let ends = behind.starts_with(".sock") || behind.starts_with("-reg.sock");
        !before.ends_with(of_name) && (ends || !behind.starts_with(of_name))
    })
}

/// The finalizer that the attacher puts on volumes and attachments of `driver`.
pub fn finalizer(driver: &str) -> String {
    format!("external-attacher/{}", sanitize(driver))
}

/// The sidecar that names a lease, before [`sanitize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOwner {
    /// `external-attacher-leader-<driver>`
    Attacher,
    /// `<driver>`, without prefix
    Provisioner,
    /// `external-resizer-<driver>`
    Resizer,
    /// `external-snapshotter-leader-<driver>`
    Snapshotter,
    /// `snapshot-controller-leader`, which has no driver
    SnapshotController,
    /// `external-health-monitor-leader-<driver>`
    HealthMonitor,
    /// A program that works in every replica and takes no lease.
    Nobody,
}

/// The lease name before sanitizing; the source component of leader election events has this form.
pub fn lease_unsanitized(owner: LeaseOwner, driver: &str) -> String {
    match owner {
        LeaseOwner::Attacher => format!("external-attacher-leader-{driver}"),
        LeaseOwner::Provisioner => driver.replace('/', "-"),
        LeaseOwner::Resizer => format!("external-resizer-{driver}"),
        LeaseOwner::Snapshotter => format!("external-snapshotter-leader-{driver}"),
        LeaseOwner::SnapshotController => "snapshot-controller-leader".to_owned(),
        LeaseOwner::HealthMonitor => format!("external-health-monitor-leader-{driver}"),
        LeaseOwner::Nobody => String::new(),
    }
}

/// The name of the Lease object.
pub fn lease(owner: LeaseOwner, driver: &str) -> String {
    sanitize(&lease_unsanitized(owner, driver))
}

/// Whether `text` is a DNS-1123 label, the syntax of namespace names.
pub fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// Whether `text` is a DNS-1123 subdomain, the syntax of most object names: Kubernetes limits the whole length,
/// not its labels'.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(fits) && text.ends_with(fits) && text.chars().all(|c| fits(c) || c == '-')
}

/// Whether `text` is a label key: a name, perhaps after a lower case DNS subdomain and `/`.
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_name(name),
        None => is_label_name(text),
    }
}

/// Whether `text` is a label value: empty, or a name.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label_name(text)
}

fn is_label_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63 && text.starts_with(ends) && text.ends_with(ends) && text.chars().all(inner)
}

/// The operating system's host name; `$HOSTNAME` is ignored.
pub fn hostname() -> io::Result<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().trim().to_owned();
    if name.is_empty() {
        return Err(io::Error::other(
            "the operating system reports an empty host name",
        ));
    }
    Ok(name)
}

/// The holder identity written into the lease of a process on `hostname`.
pub fn identity(hostname: &str) -> String {
    sanitize(hostname)
}

/// The file with the namespace of a pod's service account.
pub const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The lease's namespace: the flag, else `$POD_NAMESPACE`, else the content of
/// [`NAMESPACE_FILE`], else `default`.
pub fn namespace(flag: &str, pod_namespace: Option<&str>, file: Option<&str>) -> String {
    let set = |text: &&str| !text.is_empty();
    let choice = Some(flag).filter(set).or(pod_namespace.filter(set));
    let choice = choice.or(file.map(str::trim).filter(set));
    choice.unwrap_or("default").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitizing() {
        for (name, expected) in [
            ("test.csi.driver", "test-csi-driver"),
            ("s!a@b*", "s-a-b-X"),
            ("host.a", "host-a"),
            ("Upper.Case", "Upper-Case"),
            ("x_", "x-X"),
            ("", ""),
            ("\u{e9}", "-X"),
        ] {
            assert_eq!(sanitize(name), expected, "{name}");
        }
    }

    #[test]
    fn what_an_object_can_be_called() {
        for (name, label, subdomain) in [
            ("a", true, true),
            ("a-1", true, true),
            ("a.b-c.d", false, true),
            ("A", false, false),
            ("-a", false, false),
            ("a.-b", false, false),
            ("a-", false, false),
            ("a..b", false, false),
            ("a_b", false, false),
            ("", false, false),
            (&"a".repeat(64), false, true),
            (&"a".repeat(254), false, false),
        ] {
            assert_eq!(
                (is_label(name), is_subdomain(name)),
                (label, subdomain),
                "{name}"
            );
        }
    }

    #[test]
    fn what_a_label_can_be() {
        let (name, long) = ("x".repeat(63), "x".repeat(64));
        let prefix = format!("{}.{}/x", "a".repeat(200), "b".repeat(52));
        for key in ["app", "A_b-c.D", "1", "x.y/App", "x-1/a", &name, &prefix] {
            assert!(is_label_key(key), "{key}");
        }
        let too_long = format!("{}.{}/x", "a".repeat(200), "b".repeat(53));
        let none = [
            "", "/x", "x/", "a/b/c", "-a", "a-", "a b", "a,b", "a=b", "!a", "X.y/a", "x..y/a",
            "x_y/a", "\u{e4}", &long, &too_long,
        ];
        for key in none {
            assert!(!is_label_key(key), "{key}");
        }
        for value in ["", "x", "A_b-c.D", &name] {
            assert!(is_label_value(value), "{value}");
        }
        for value in ["-x", "x_", "x y", "x,y", "x)", "a/b", "\n", &long] {
            assert!(!is_label_value(value), "{value}");
        }
    }

    #[test]
    fn finalizer_of_the_attacher() {
        assert_eq!(
            finalizer("test.csi.driver"),
            "external-attacher/test-csi-driver"
        );
    }

    /// Rows 49, 50, 51 of the common specification.
    #[test]
    fn rows_49_50_51_lease_names() {
        use LeaseOwner::{Attacher, Provisioner, Resizer, Snapshotter};
        let driver = "test.csi.driver";
        assert_eq!(
            lease(Attacher, driver),
            "external-attacher-leader-test-csi-driver"
        );
        assert_eq!(lease(Provisioner, "a.b/c"), "a-b-c");
        assert_eq!(lease(Attacher, "x_"), "external-attacher-leader-x-X");
        assert_eq!(lease(Resizer, driver), "external-resizer-test-csi-driver");
        assert_eq!(
            lease(Snapshotter, driver),
            "external-snapshotter-leader-test-csi-driver"
        );
    }

    /// Rows 52, 53.
    #[test]
    fn rows_52_53_namespace() {
        assert_eq!(namespace("flag", Some("env"), Some("file")), "flag");
        assert_eq!(namespace("", Some("env"), Some("file")), "env");
        assert_eq!(namespace("", Some(""), Some(" file\n")), "file");
        assert_eq!(namespace("", None, Some("\n")), "default");
        assert_eq!(namespace("", None, None), "default");
    }

    /// Row 54: the host name is the operating system's.
    #[test]
    fn row_54_hostname_is_not_from_the_environment() {
        let expected = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(hostname().unwrap(), expected.trim());
    }

    #[test]
    fn a_driver_is_named_only_by_its_whole_name() {
        let driver = "csi.example.com";
        for (text, named) in [
            ("--name=csi.example.com", true),
            ("/var/lib/kubelet/plugins/csi.example.com/csi.sock", true),
            ("registry/csi.example.com:v1", true),
            ("/csi/csi.example.com.sock", true),
            ("csi.example.com-reg.sock", true),
            ("--name=rook.csi.example.com", false),
            ("csi.example.com.v2", false),
            ("csi.example.comet", false),
            ("rook.csi.example.com csi.example.com", true),
            ("", false),
        ] {
            assert_eq!(names_driver(text, driver), named, "{text}");
        }
    }
}
