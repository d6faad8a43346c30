//! The flags of `why` and of `audit`.

/// The value that a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// One value; the placeholder for the help.
    One(&'static str),
    /// A value, repeatable; the placeholder for the help.
    Many(&'static str),
    OneOf(&'static [&'static str]),
}

/// A flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    pub name: &'static str,
    pub short: Option<char>,
    pub takes: Takes,
    pub help: &'static str,
    pub heading: &'static str,
}

const WHAT: &str = "What is looked at";
const HOW: &str = "Output";
const WHERE: &str = "Cluster, as in kubectl";

const fn flag(
    name: &'static str,
    short: Option<char>,
    takes: Takes,
    help: &'static str,
    heading: &'static str,
) -> Flag {
    Flag {
        name,
        short,
        takes,
        help,
        heading,
    }
}

/// Flags that only `audit` has.
#[rustfmt::skip]
static AUDIT: &[Flag] = &[
    flag("csi-address", None, Takes::One("ADDRESS"), "Socket of the driver's controller, from where this program runs: unix:///csi/csi.sock", WHAT),
    flag("driver", None, Takes::One("NAME"), "The driver's name; a driver with another name at the address is an error", WHAT),
    flag("grace", None, Takes::One("DURATION"), "Pause before the second look, longer than the driver's longest call; 15m unless given", WHAT),
    flag("owned-by", None, Takes::One("PREFIX"), "Prefix of the handles of this cluster's volumes and snapshots; unknown ones with other handles are counted and not listed", WHAT),
    flag("csi-timeout", None, Takes::One("DURATION"), "Timeout of each call to the driver, a page of a list being one; 2m unless given", WHAT),
];

/// The flags of `audit`: its own, the output format, the access to the cluster.
pub fn audit() -> impl Iterator<Item = &'static Flag> {
    let shared = |flag: &&Flag| flag.heading == WHERE || flag.name == "output";
    AUDIT.iter().chain(FLAGS.iter().filter(shared))
}

/// The flags of `why`.
#[rustfmt::skip]
pub static FLAGS: &[Flag] = &[
    flag("namespace", Some('n'), Takes::One("NAMESPACE"), "Namespace; the context's unless given", WHAT),
    flag("all-namespaces", Some('A'), Takes::Nothing, "Without a subject: everything stuck in the cluster, volumes and attachments too", WHAT),
    flag("all", None, Takes::Nothing, "All causes that are found on the way, not only the first", WHAT),
    flag("offline", None, Takes::One("FILE"), "Look into a file of kubectl get -o json, a folder of such files or of a must-gather, or standard input (-), instead of a cluster. If the file has one object of a kind, the program assumes that it has all objects of that kind", WHAT),
    flag("no-endpoint", None, Takes::Nothing, "Do not ask controllers that answer (--why-endpoint); by default kubectl port-forward reaches those whose pods have the annotation csi-sidecars.io/why", WHAT),
    flag("watch", Some('w'), Takes::Nothing, "Look again every five seconds until it is no longer stuck, and print each change", WHAT),
    flag("output", Some('o'), Takes::OneOf(&["human", "json", "name"]), "Form: for people, for programs, or names of what is in the way", HOW),
    flag("kubeconfig", None, Takes::One("FILE"), "Kubeconfig file; $KUBECONFIG or ~/.kube/config unless given", WHERE),
    flag("context", None, Takes::One("NAME"), "Context of the kubeconfig", WHERE),
    flag("cluster", None, Takes::One("NAME"), "Cluster of the kubeconfig", WHERE),
    flag("user", None, Takes::One("NAME"), "User of the kubeconfig", WHERE),
    flag("as", None, Takes::One("USER"), "Ask as this user", WHERE),
    flag("as-group", None, Takes::Many("GROUP"), "Ask as a member of this group; may be repeated", WHERE),
    flag("as-uid", None, Takes::One("UID"), "Ask as the user with this UID", WHERE),
    flag("server", Some('s'), Takes::One("URL"), "API server", WHERE),
    flag("token", None, Takes::One("TOKEN"), "Bearer token", WHERE),
    flag("certificate-authority", None, Takes::One("FILE"), "Certificate authority of the API server", WHERE),
    flag("client-certificate", None, Takes::One("FILE"), "Client certificate", WHERE),
    flag("client-key", None, Takes::One("FILE"), "Key of the client certificate", WHERE),
    flag("tls-server-name", None, Takes::One("NAME"), "Name that the API server's certificate must have", WHERE),
    flag("insecure-skip-tls-verify", None, Takes::Nothing, "Accept any certificate of the API server; anyone on the network path can then read the traffic", WHERE),
    flag("request-timeout", None, Takes::One("DURATION"), "How long to wait for an answer: 5s, 1m30s; 65s unless given", WHERE),
];
