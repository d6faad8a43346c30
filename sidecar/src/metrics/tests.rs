//! Rows 36 to 48 of the common specification, as far as they concern the text.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

#[test]
fn numbers_are_printed_as_by_go() {
    // Go 1.26's output for the number on the right, with the format 'g' and precision -1.
    for (expected, number) in [
        ("0", 0.0),
        ("1", 1.0),
        ("20", 20.0),
        ("0.1", 0.1),
        ("2.5", 2.5),
        ("0.0001", 1e-4),
        ("1e-05", 1e-5),
        ("1e-08", 1e-8),
        ("100000", 1e5),
        ("1e+06", 1e6),
        ("1.234567e+06", 1_234_567.0),
        ("1.70408212301e+09", 1_704_082_123.01),
        ("123456", 123_456.0),
        ("1.2345678912e+06", 1_234_567.891_2),
        ("1.8446744073709552e+19", 18_446_744_073_709_552_000.0),
        ("1e+21", 1e21),
        ("-1.5e-07", -1.5e-7),
        ("+Inf", f64::INFINITY),
        ("-Inf", f64::NEG_INFINITY),
        ("NaN", f64::NAN),
    ] {
        assert_eq!(float(number), expected);
    }
}

fn operations(config: OperationsConfig) -> (Registry, CsiOperations) {
    let registry = Registry::new();
    let operations = CsiOperations::new(&registry, config).unwrap();
    (registry, operations)
}

/// The text without the `process_*` family, which differs from run to run.
fn own_text(registry: &Registry) -> String {
    let text = registry.render();
    let own = text.lines().filter(|line| !line.contains("process_"));
    own.map(|line| format!("{line}\n")).collect()
}

#[test]
fn controllers_of_a_process_are_there_or_not() {
    let registry = Registry::new();
    let controllers = ControllerMetrics::new(&registry).unwrap();
    assert_eq!(own_text(&registry), "", "no series before a value");
    controllers.set_up("attacher", true);
    controllers.set_up("resizer", true);
    controllers.set_up("attacher", false);
    let text = own_text(&registry);
    let series: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        series,
        [
            "csi_sidecar_controller_up{controller=\"attacher\"} 0",
            "csi_sidecar_controller_up{controller=\"resizer\"} 1",
        ]
    );
    controllers.set_up("attacher", true);
    let again = "csi_sidecar_controller_up{controller=\"attacher\"} 1";
    assert!(own_text(&registry).contains(again), "A-47");
}

#[test]
fn rows_36_38_39_the_text_is_gos() {
    let (registry, operations) = operations(OperationsConfig::default());
    let method = "/csi.v1.Identity/Probe";
    let labels = Labels::default();
    operations.observe(method, NON_GRPC, false, &labels, Duration::from_secs(20));
    operations.observe(method, NON_GRPC, false, &labels, Duration::from_millis(500));
    assert_eq!(own_text(&registry), include_str!("testdata/operations.txt"));
}

#[test]
fn rows_43_44_45_varying_and_fixed_labels() {
    let config = OperationsConfig {
        fixed: BTreeMap::from([("zone".to_owned(), "a\"\\\n".to_owned())]),
        varying: vec!["a".to_owned(), "b".to_owned()],
        ..OperationsConfig::default()
    };
    let (registry, operations) = operations(config);
    let labels = operations.labels([("a", "1")]).unwrap();
    operations.observe("/m", "OK", false, &labels, Duration::ZERO);
    let text = registry.render();
    let series = r#"csi_sidecar_operations_seconds_count{a="1",b="",driver_name="unknown-driver",grpc_status_code="OK",method_name="/m",zone="a\"\\\n"} 1"#;
    assert!(text.contains(series), "{text}");
    let undefined = operations.labels([("c", "1")]).unwrap_err();
    assert_eq!(undefined, LabelError::Undefined("c".to_owned()));
    let twice = operations.labels([("a", "1"), ("a", "2")]).unwrap_err();
    assert_eq!(twice, LabelError::Twice("a".to_owned()));
}

#[test]
fn row_46_the_drivers_side() {
    let (registry, operations) = operations(OperationsConfig {
        side: Side::Plugin,
        ..OperationsConfig::default()
    });
    operations.observe("/m", "OK", false, &Labels::default(), Duration::ZERO);
    assert!(
        registry
            .render()
            .contains("csi_plugin_operations_seconds_count")
    );
}

#[test]
fn no_series_before_the_first_sample() {
    let (registry, _) = operations(OperationsConfig::default());
    assert!(!registry.render().contains("csi_sidecar"));
}

#[test]
fn a_second_histogram_is_refused() {
    let (registry, _) = operations(OperationsConfig::default());
    assert!(CsiOperations::new(&registry, OperationsConfig::default()).is_err());
}

#[test]
fn row_47_the_process_family() {
    let text = Registry::new().render();
    let value = |name: &str| {
        let mut lines = text
            .lines()
            .filter(|line| line.starts_with(&format!("{name} ")));
        let value: f64 = lines
            .next()
            .unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(lines.next().is_none(), "{name} appears once");
        value
    };
    let start = value("process_start_time_seconds");
    let now = std::fs::metadata("/proc/self").unwrap().modified().unwrap();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    assert!((now - start).abs() < 3600.0, "{start} against {now}");
    assert!(text.contains("# HELP process_start_time_seconds [ALPHA] "));
    assert!(value("process_resident_memory_bytes") > 1e5);
    assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
    assert!(value("process_open_fds") >= 3.0);
    assert!(value("process_max_fds") >= value("process_open_fds"));
    for name in [
        "process_cpu_seconds_total",
        "process_virtual_memory_max_bytes",
        "process_network_receive_bytes_total",
        "process_network_transmit_bytes_total",
    ] {
        assert!(value(name) >= 0.0);
    }
}

#[test]
fn row_48_leader_status() {
    let registry = Registry::new();
    let election = ElectionMetrics::new(&registry).unwrap();
    let status = || {
        let text = registry.render();
        let line = text
            .lines()
            .find(|line| line.starts_with("leader_election_master_status"));
        line.map(str::to_owned)
    };
    assert_eq!(status(), None, "election has not started");
    election.set_leading(false);
    assert_eq!(
        status().unwrap(),
        "leader_election_master_status{name=\"\"} 0"
    );
    election.set_leading(true);
    assert_eq!(
        status().unwrap(),
        "leader_election_master_status{name=\"\"} 1"
    );
    assert!(!registry.render().contains("slowpath"));
    election.slow_path();
    assert!(
        registry
            .render()
            .contains("leader_election_slowpath_total{name=\"\"} 1")
    );
}

#[test]
fn the_process_family_may_be_its_start_time_alone() {
    let text = Registry::with_process(Process::StartTime).render();
    let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let [sample] = samples[..] else {
        panic!("{text}");
    };
    let value = sample.strip_prefix("process_start_time_seconds ").unwrap();
    let value: f64 = value.parse().unwrap();
    // The expected time has whole seconds.
    assert!((0.0..1.0).contains(&(value - process_start().unwrap() as f64)));
}

#[test]
fn fp_14_scrapes_are_counted_where_upstream_counts_them() {
    let registry = Registry::new();
    assert!(!registry.render().contains("promhttp_"));
    registry.count_scrapes().unwrap();
    assert!(registry.count_scrapes().is_err());
    for before in ["0", "1"] {
        let text = registry.clone().render();
        for line in [
            "# HELP promhttp_metric_handler_requests_in_flight Current number of scrapes being served.",
            "# TYPE promhttp_metric_handler_requests_in_flight gauge",
            "promhttp_metric_handler_requests_in_flight 1",
            "# HELP promhttp_metric_handler_requests_total Total number of scrapes by HTTP status code.",
            "# TYPE promhttp_metric_handler_requests_total counter",
            "promhttp_metric_handler_requests_total{code=\"500\"} 0",
            "promhttp_metric_handler_requests_total{code=\"503\"} 0",
            &format!("promhttp_metric_handler_requests_total{{code=\"200\"}} {before}"),
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }
}
