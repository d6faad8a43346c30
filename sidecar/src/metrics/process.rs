//! The `process_*` family, read from `/proc` at each scrape.

use std::fs;

use prometheus::proto::{Counter, Gauge, Metric, MetricFamily, MetricType};

/// All families that can be read; a missing file omits its metrics.
pub(super) fn families() -> Vec<MetricFamily> {
    let mut families = Vec::new();
    if let Some(stat) = Stat::read() {
        stat.push(&mut families);
    }
    push_files(&mut families);
    push_limits(&mut families);
    push_network(&mut families);
    families
}

/// When the process started, in whole seconds since 1970.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time of this century, and the cast saturates"
)]
pub fn start() -> Option<u64> {
    Some(Stat::read()?.start()? as u64)
}

/// The metric of the start time; empty if the operating system does not provide it.
pub(super) fn start_time() -> Vec<MetricFamily> {
    Stat::read()
        .and_then(|stat| stat.start_time())
        .into_iter()
        .collect()
}

fn gauge(name: &str, help: &str, value: f64) -> MetricFamily {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::default();
    metric.set_gauge(gauge);
    family(name, help, MetricType::GAUGE, metric)
}

fn counter(name: &str, help: &str, value: f64) -> MetricFamily {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::default();
    metric.set_counter(counter);
    family(name, help, MetricType::COUNTER, metric)
}

fn family(name: &str, help: &str, kind: MetricType, metric: Metric) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(vec![metric]);
    family
}

/// Fields of `/proc/self/stat`; see proc_pid_stat(5).
struct Stat {
    cpu_ticks: f64,
    start_ticks: f64,
    virtual_bytes: f64,
    resident_pages: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The program's name, in parentheses, may contain spaces and parentheses.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // The manual numbers fields from 1; the first one left here, the state, is number 3.
        let field = |number: usize| fields.get(number - 3)?.trim().parse::<f64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }

    /// The CSI metrics of the Go sidecars register it, hence the stability tag.
    fn start_time(&self) -> Option<MetricFamily> {
        Some(gauge(
            "process_start_time_seconds",
            "[ALPHA] Start time of the process since unix epoch in seconds.",
            self.start()?,
        ))
    }

    fn start(&self) -> Option<f64> {
        Some(boot_time()? + self.start_ticks / ticks_per_second())
    }

    #[expect(clippy::cast_precision_loss, reason = "a page is small")]
    fn push(&self, families: &mut Vec<MetricFamily>) {
        let page = rustix::param::page_size() as f64;
        families.push(counter(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            self.cpu_ticks / ticks_per_second(),
        ));
        families.extend(self.start_time());
        families.push(gauge(
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            self.virtual_bytes,
        ));
        families.push(gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            self.resident_pages * page,
        ));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a hundred, usually")]
fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a number of open files is small"
)]
fn push_files(families: &mut Vec<MetricFamily>) {
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        families.push(gauge(
            "process_open_fds",
            "Number of open file descriptors.",
            files.count() as f64,
        ));
    }
}

fn push_limits(families: &mut Vec<MetricFamily>) {
    let Ok(limits) = fs::read_to_string("/proc/self/limits") else {
        return;
    };
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        match line.split_whitespace().next()? {
            // 2^64-1 as a float, as the Go collector shows it.
            "unlimited" => Some(18_446_744_073_709_552_000.0),
            number => number.parse().ok(),
        }
    };
    if let Some(most) = limit("Max open files") {
        families.push(gauge(
            "process_max_fds",
            "Maximum number of open file descriptors.",
            most,
        ));
    }
    if let Some(most) = limit("Max address space") {
        families.push(gauge(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            most,
        ));
    }
}

/// Bytes through the network namespace, from the two `IpExt` lines.
fn push_network(families: &mut Vec<MetricFamily>) {
    let Ok(netstat) = fs::read_to_string("/proc/self/net/netstat") else {
        return;
    };
    let mut lines = netstat
        .lines()
        .filter_map(|line| line.strip_prefix("IpExt: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return;
    };
    let value = |wanted: &str| {
        let mut pairs = names.split(' ').zip(values.split(' '));
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    if let Some(bytes) = value("InOctets") {
        families.push(counter(
            "process_network_receive_bytes_total",
            "Number of bytes received by the process over the network.",
            bytes,
        ));
    }
    if let Some(bytes) = value("OutOctets") {
        families.push(counter(
            "process_network_transmit_bytes_total",
            "Number of bytes sent by the process over the network.",
            bytes,
        ));
    }
}
