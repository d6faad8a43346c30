//! Chooses the budget of a request.
//!
//! Pure: method and URL alone decide, so that no caller can forget to choose.

/// A budget of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Watches: opened rarely, open for long, never delayed.
    Watch,
    /// Pages of lists that fill a cache: one after the other, and only at the start and when a watch
    /// cannot resume. Separate from single objects because client-go pays one token for a whole list; a
    /// hard cap, paid for each page, would keep a large cluster's caches empty for minutes.
    List,
    /// Leader election, which must not wait for anything.
    Lease,
    /// Permission checks, a few at the start.
    Review,
    /// Probes of a server that does not answer.
    Probe,
    /// Events.
    Event,
    /// Everything else.
    Object,
}

impl Lane {
    /// The value of the label `lane`.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::List => "list",
            Self::Lease => "lease",
            Self::Review => "review",
            Self::Probe => "probe",
            Self::Event => "event",
            Self::Object => "object",
        }
    }

    /// All lanes.
    pub(super) const ALL: [Self; 7] = [
        Self::Watch,
        Self::List,
        Self::Lease,
        Self::Review,
        Self::Probe,
        Self::Event,
        Self::Object,
    ];
}

/// The lane of a request.
pub(super) fn lane(uri: &http::Uri) -> Lane {
    let query = uri.query().unwrap_or_default();
    let asks = |wanted: &dyn Fn(&str) -> bool| query.split('&').any(wanted);
    if asks(&|part| part == "watch=true" || part == "watch=1") {
        return Lane::Watch;
    }
    // A list in one piece has a resourceVersion instead.
    if asks(&|part| part.starts_with("limit=") || part == "resourceVersion=") {
        return Lane::List;
    }
    let mut segments = uri.path().split('/').filter(|part| !part.is_empty());
    let mut next = || segments.next().unwrap_or_default();
    let (root, group) = (next(), next());
    match (root, group) {
        ("readyz", _) => Lane::Probe,
        ("apis", "coordination.k8s.io") => Lane::Lease,
        ("apis", "authorization.k8s.io") => Lane::Review,
        ("apis", "events.k8s.io") => Lane::Event,
        // /api/v1/namespaces/NAMESPACE/events/…
        ("api", _) if next() == "namespaces" && !next().is_empty() && next() == "events" => {
            Lane::Event
        }
        _ => Lane::Object,
    }
}

/// The API group of a request, empty for the core group.
pub(super) fn group(uri: &http::Uri) -> &str {
    let mut segments = uri.path().split('/').filter(|part| !part.is_empty());
    match (segments.next(), segments.next()) {
        (Some("apis"), Some(group)) => group,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_decides() {
        for (uri, want, want_group) in [
            (
                "/api/v1/nodes?watch=true&resourceVersion=1",
                Lane::Watch,
                "",
            ),
            (
                "/api/v1/namespaces/a/events?limit=1&watch=1",
                Lane::Watch,
                "",
            ),
            ("/api/v1/nodes?labelSelector=watch%3Dtrue", Lane::Object, ""),
            ("/api/v1/nodes?limit=100&continue=t", Lane::List, ""),
            (
                "/apis/storage.k8s.io/v1/csinodes?limit=100",
                Lane::List,
                "storage.k8s.io",
            ),
            ("/api/v1/nodes?labelSelector=limit%3D1", Lane::Object, ""),
            ("/api/v1/nodes?resourceVersion=", Lane::List, ""),
            (
                "https://10.0.0.1:6443/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
                Lane::Lease,
                "coordination.k8s.io",
            ),
            (
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                Lane::Review,
                "authorization.k8s.io",
            ),
            (
                "/apis/events.k8s.io/v1/namespaces/a/events",
                Lane::Event,
                "events.k8s.io",
            ),
            ("/api/v1/namespaces/a/events", Lane::Event, ""),
            ("/api/v1/namespaces/a/events/b.1", Lane::Event, ""),
            ("/api/v1/namespaces/events/secrets/events", Lane::Object, ""),
            ("/api/v1/namespaces/events", Lane::Object, ""),
            (
                "/apis/storage.k8s.io/v1/volumeattachments/a/status",
                Lane::Object,
                "storage.k8s.io",
            ),
            ("/version", Lane::Object, ""),
            ("/readyz", Lane::Probe, ""),
        ] {
            let parsed: http::Uri = uri.parse().unwrap();
            assert_eq!((lane(&parsed), group(&parsed)), (want, want_group), "{uri}");
        }
    }
}
