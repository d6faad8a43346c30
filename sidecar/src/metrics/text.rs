//! Go's Prometheus text format.

use std::fmt::Write as _;

use prometheus::proto::{Metric, MetricFamily, MetricType};

pub(super) fn encode(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for family in families {
        let kind = match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            // No metric here has these types.
            MetricType::SUMMARY | MetricType::UNTYPED => continue,
        };
        let name = family.name();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {}", escape(family.help(), false));
        let _ = writeln!(text, "# TYPE {name} {kind}");
        for metric in family.get_metric() {
            series(name, family.get_field_type(), metric, &mut text);
        }
    }
    text
}

fn series(name: &str, kind: MetricType, metric: &Metric, text: &mut String) {
    let mut sample = |suffix: &str, le: Option<f64>, value: f64| {
        let _ = writeln!(
            text,
            "{name}{suffix}{} {}",
            labels(metric, le),
            float(value)
        );
    };
    match kind {
        MetricType::COUNTER => sample("", None, metric.get_counter().get_value()),
        MetricType::GAUGE => sample("", None, metric.get_gauge().get_value()),
        MetricType::HISTOGRAM => {
            let histogram = metric.get_histogram();
            for bucket in histogram.get_bucket() {
                let count = count(bucket.cumulative_count());
                sample("_bucket", Some(bucket.upper_bound()), count);
            }
            let total = count(histogram.get_sample_count());
            sample("_bucket", Some(f64::INFINITY), total);
            sample("_sum", None, histogram.get_sample_sum());
            sample("_count", None, total);
        }
        MetricType::SUMMARY | MetricType::UNTYPED => {}
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "as in Go, counts are floats in this format"
)]
fn count(number: u64) -> f64 {
    number as f64
}

/// The labels in braces; the bucket's bound comes last.
fn labels(metric: &Metric, le: Option<f64>) -> String {
    let mut pairs: Vec<_> = metric
        .get_label()
        .iter()
        .map(|label| format!("{}=\"{}\"", label.name(), escape(label.value(), true)))
        .collect();
    if let Some(bound) = le {
        pairs.push(format!("le=\"{}\"", float(bound)));
    }
    if pairs.is_empty() {
        return String::new();
    }
    format!("{{{}}}", pairs.join(","))
}

fn escape(value: &str, quotes: bool) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if quotes => escaped.push_str("\\\""),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A number as Go prints it here (`strconv.FormatFloat(f, 'g', -1, 64)`): the shortest digits, with
/// an exponent below 1e-4 and from a million on.
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}
