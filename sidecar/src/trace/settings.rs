//! Settings of traces from the environment: the variables of OpenTelemetry's specification.
//!
//! Pure. An invalid variable never ends the process: it causes one warning, and traces are off or the default is
//! used.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use http::header::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::ids::Sampler;

/// The default endpoint.
const ENDPOINT: &str = "http://localhost:4317";

/// The default time limit of an export.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Upper bound of all times. gRPC cannot express some that the variables can, and tonic panics at those.
const LONGEST: Duration = Duration::from_secs(3600);

/// Settings of traces and their export.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The collector's address.
    pub endpoint: Uri,
    /// The files of TLS.
    pub files: Files,
    /// Headers of each export.
    pub headers: Headers,
    /// Time limit of an export.
    pub timeout: Duration,
    /// The sampler of traces.
    pub sampler: Sampler,
    /// The resource attributes of all spans of the process.
    pub resource: Vec<(String, String)>,
    /// Maximum number of queued spans.
    pub queue: usize,
    /// Maximum number of spans in a batch.
    pub batch: usize,
    /// How long a span waits for its batch to fill.
    pub delay: Duration,
}

/// TLS files in PEM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Files {
    /// The trusted authorities; the system's if `None`.
    pub authority: Option<PathBuf>,
    /// The client's certificate.
    pub certificate: Option<PathBuf>,
    /// The certificate's key.
    pub key: Option<PathBuf>,
}

/// Headers whose values may be secret.
#[derive(Clone, Default, PartialEq)]
pub struct Headers(pub Vec<(HeaderName, HeaderValue)>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Defaults of the resource attributes that identify the process.
#[derive(Clone, Debug)]
pub struct Process<'a> {
    /// `service.name`
    pub program: &'a str,
    /// `service.version`
    pub version: &'a str,
    /// `service.instance.id`
    pub instance: &'a str,
}

/// The result of reading the environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// `None` disables traces.
    pub settings: Option<Settings>,
    /// Problems, one per line.
    pub warnings: Vec<String>,
}

/// Reads the variables; `variable` returns their values.
#[must_use]
pub fn read(process: &Process<'_>, variable: impl Fn(&str) -> Option<String>) -> Environment {
    let mut reader = Reader {
        // An empty value counts as unset.
        variable: &|name| variable(name).filter(|value| !value.trim().is_empty()),
        warnings: Vec::new(),
    };
    let settings = reader.settings(process);
    Environment {
        settings,
        warnings: reader.warnings,
    }
}

struct Reader<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn settings(&mut self, process: &Process<'_>) -> Option<Settings> {
        let disabled = self.text("OTEL_SDK_DISABLED");
        if disabled.is_some_and(|text| text.eq_ignore_ascii_case("true")) || !self.exports() {
            return None;
        }
        let endpoint = self.endpoint();
        let speaks = self.speaks_grpc();
        let file = |name| self.of_traces(name).map(|(_, path)| PathBuf::from(path));
        let files = Files {
            authority: file("CERTIFICATE"),
            certificate: file("CLIENT_CERTIFICATE"),
            key: file("CLIENT_KEY"),
        };
        let headers = self.headers();
        let timeout = { self.of_traces("TIMEOUT") }
            .and_then(|(name, text)| self.number(&name, &text))
            .map_or(TIMEOUT, Duration::from_millis);
        // As in OpenTelemetry's configuration files, 0 means no limit.
        let timeout = if timeout.is_zero() { LONGEST } else { timeout };
        let queue = self.size("OTEL_BSP_MAX_QUEUE_SIZE", 2048);
        let batch = self.size("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512);
        let delay = self.millis("OTEL_BSP_SCHEDULE_DELAY", 5_000);
        let settings = Settings {
            endpoint: endpoint?,
            files,
            headers,
            timeout: timeout.min(LONGEST),
            sampler: self.sampler(),
            resource: self.resource(process),
            queue,
            batch: batch.min(queue),
            delay,
        };
        speaks.then_some(settings)
    }

    fn text(&self, name: &str) -> Option<String> {
        let text = (self.variable)(name)?;
        Some(text.trim().to_owned())
    }

    /// The value in lower case: case does not matter for keywords.
    fn word(&self, name: &str) -> Option<String> {
        Some(self.text(name)?.to_ascii_lowercase())
    }

    /// The variable for traces, else that for all signals, with its name.
    fn of_traces(&self, name: &str) -> Option<(String, String)> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"];
        let mut names = names.into_iter().map(|prefix| format!("{prefix}{name}"));
        names.find_map(|name| self.text(&name).map(|text| (name, text)))
    }

    fn exports(&mut self) -> bool {
        const NAME: &str = "OTEL_TRACES_EXPORTER";
        match self.word(NAME).as_deref() {
            None | Some("otlp") => true,
            Some("none") => false,
            Some(other) => {
                self.off(format_args!(
                    "{NAME}={other:?} is not available, set otlp or none"
                ));
                false
            }
        }
    }

    fn off(&mut self, why: fmt::Arguments<'_>) {
        self.warnings.push(format!("No traces: {why}"));
    }

    fn endpoint(&mut self) -> Option<Uri> {
        let (name, text) = self
            .of_traces("ENDPOINT")
            .unwrap_or_else(|| (String::new(), ENDPOINT.to_owned()));
        let uri: Option<Uri> = text.parse().ok();
        let uri = uri.filter(|uri| {
            // They would be logged: users, passwords and keys are refused, which gRPC does not send anyway.
            let plain = uri
                .authority()
                .is_some_and(|host| !host.as_str().contains('@'))
                && uri.query().is_none();
            matches!(uri.scheme_str(), Some("http" | "https")) && plain
        });
        if uri.is_none() {
            self.off(format_args!(
                "{name} is not a URL such as {ENDPOINT} or https://HOST:PORT, without user and query"
            ));
        }
        uri
    }

    fn speaks_grpc(&mut self) -> bool {
        let Some((name, text)) = self.of_traces("PROTOCOL") else {
            return true;
        };
        let is_grpc = text.eq_ignore_ascii_case("grpc");
        if !is_grpc {
            self.off(format_args!("{name}={text:?} is not available, set grpc"));
        }
        is_grpc
    }

    fn headers(&mut self) -> Headers {
        let Some((name, text)) = self.of_traces("HEADERS") else {
            return Headers::default();
        };
        let (mut headers, mut unusable) = (Vec::new(), false);
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            match header(pair) {
                Some(header) => headers.push(header),
                None => unusable = true,
            }
        }
        if unusable {
            // Neither key nor value: a user who swaps them puts the secret into either.
            let text = format!("{name}: ignoring what is not KEY=VALUE of a header of gRPC");
            self.warnings.push(text);
        }
        Headers(headers)
    }

    fn sampler(&mut self) -> Sampler {
        const NAME: &str = "OTEL_TRACES_SAMPLER";
        let Some(name) = self.word(NAME) else {
            return Sampler::AlwaysOn;
        };
        match name.strip_prefix("parentbased_").unwrap_or(&name) {
            "always_on" => Sampler::AlwaysOn,
            "always_off" => Sampler::AlwaysOff,
            "traceidratio" => self.share(),
            _ => {
                let text = format!("{NAME}={name:?} is unknown, recording all traces");
                self.warnings.push(text);
                Sampler::AlwaysOn
            }
        }
    }

    fn share(&mut self) -> Sampler {
        const NAME: &str = "OTEL_TRACES_SAMPLER_ARG";
        let text = self.text(NAME).unwrap_or_else(|| "1".to_owned());
        let share: Option<f64> = text.parse().ok();
        match share.filter(|share| (0.0..=1.0).contains(share)) {
            Some(share) => Sampler::Ratio(share),
            None => {
                let text = format!(
                    "{NAME}={text:?} is not a number between 0 and 1, recording all traces"
                );
                self.warnings.push(text);
                Sampler::AlwaysOn
            }
        }
    }

    fn resource(&mut self, process: &Process<'_>) -> Vec<(String, String)> {
        const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let mut resource: Vec<(String, String)> = [
            ("service.name", process.program),
            ("service.version", process.version),
            ("service.instance.id", process.instance),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
        let mut set =
            |key: String, value: String| match resource.iter_mut().find(|(known, _)| *known == key)
            {
                Some((_, known)) => *known = value,
                None => resource.push((key, value)),
            };
        let text = self.text(NAME).unwrap_or_default();
        let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
        let pairs: Option<Vec<_>> = pairs.map(pair).collect();
        match pairs {
            Some(pairs) => pairs.into_iter().for_each(|(key, value)| set(key, value)),
            // As the specification demands, an error makes the whole value count as unset.
            None => {
                let text = format!("{NAME}: ignoring it, since it is not a list of KEY=VALUE");
                self.warnings.push(text);
            }
        }
        if let Some(name) = self.text("OTEL_SERVICE_NAME") {
            set("service.name".to_owned(), name);
        }
        resource
    }

    fn number(&mut self, name: &str, text: &str) -> Option<u64> {
        let number = text.parse().ok();
        if number.is_none() {
            let text = format!("{name}={text:?} is not a whole number, using the default");
            self.warnings.push(text);
        }
        number
    }

    fn millis(&mut self, name: &str, default: u64) -> Duration {
        let text = self.text(name);
        let millis = text.and_then(|text| self.number(name, &text));
        Duration::from_millis(millis.unwrap_or(default)).min(LONGEST)
    }

    /// Clamps a size: at least 1, and small enough to keep memory bounded.
    fn size(&mut self, name: &str, default: usize) -> usize {
        const MOST: usize = 1 << 16;
        let text = self.text(name);
        let size = text.and_then(|text| self.number(name, &text));
        let size = size.map(|size| usize::try_from(size).unwrap_or(MOST));
        size.filter(|size| *size > 0).unwrap_or(default).min(MOST)
    }
}

/// Parses `KEY=VALUE`, with percent-encoded bytes in both.
fn pair(text: &str) -> Option<(String, String)> {
    let decoded = |text: &str| {
        let bytes = percent_decode_str(text.trim());
        Some(bytes.decode_utf8().ok()?.into_owned())
    };
    let (key, value) = text.split_once('=')?;
    let (key, value) = (decoded(key)?, decoded(value)?);
    (!key.is_empty()).then_some((key, value))
}

/// Parses a header that gRPC carries as text and does not reserve for itself.
fn header(text: &str) -> Option<(HeaderName, HeaderValue)> {
    let (key, value) = pair(text)?;
    let name: HeaderName = key.parse().ok()?;
    let is_own = name.as_str().starts_with("grpc-") || name.as_str().ends_with("-bin");
    let is_own = is_own || matches!(name.as_str(), "te" | "content-type" | "user-agent" | "host");
    let mut value: HeaderValue = value.parse().ok()?;
    value.set_sensitive(true);
    (!is_own && value.to_str().is_ok()).then_some((name, value))
}

#[cfg(test)]
mod tests;
