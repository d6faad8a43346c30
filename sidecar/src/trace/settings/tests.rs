use super::*;

/// Reads these variables, and drops settings that do not matter to the row.
fn environment(variables: &[(&str, &str)]) -> Environment {
    let process = Process {
        program: "csi-attacher",
        version: "v1",
        instance: "pod-1",
    };
    read(&process, |name| {
        let mut variables = variables.iter();
        variables
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    })
}

fn settings(variables: &[(&str, &str)]) -> Settings {
    let environment = environment(variables);
    assert_eq!(environment.warnings, <[String; 0]>::default());
    environment.settings.expect("there are traces")
}

/// The only warning, and whether traces are on all the same.
fn warning(variables: &[(&str, &str)]) -> (String, bool) {
    let environment = environment(variables);
    let [warning] = &*environment.warnings else {
        panic!("{variables:?}: {:?}", environment.warnings);
    };
    (warning.clone(), environment.settings.is_some())
}

#[test]
fn o_2_without_a_word_it_is_grpc_on_this_host() {
    let settings = settings(&[]);
    assert_eq!(settings.endpoint, "http://localhost:4317");
    assert_eq!(settings.files, Files::default());
    assert_eq!(settings.sampler, Sampler::AlwaysOn);
}

#[test]
fn o_3_switched_off() {
    for (name, value, on) in [
        ("OTEL_SDK_DISABLED", "TRUE", false),
        ("OTEL_SDK_DISABLED", "true", false),
        ("OTEL_SDK_DISABLED", "1", true),
        ("OTEL_SDK_DISABLED", "false", true),
        ("OTEL_TRACES_EXPORTER", "none", false),
        ("OTEL_TRACES_EXPORTER", "None", false),
        ("OTEL_TRACES_EXPORTER", "OTLP", true),
        ("OTEL_TRACES_EXPORTER", "otlp", true),
    ] {
        let environment = environment(&[(name, value)]);
        assert_eq!(environment.settings.is_some(), on, "{name}={value}");
        assert!(environment.warnings.is_empty(), "{name}={value}");
    }
    let (text, on) = warning(&[("OTEL_TRACES_EXPORTER", "zipkin")]);
    assert!(!on && text.contains("OTEL_TRACES_EXPORTER=\"zipkin\""));
}

#[test]
fn o_4_the_endpoint_of_traces_wins_and_an_empty_value_is_none() {
    let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4317");
    let traces = |value| ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value);
    for (variables, endpoint) in [
        (vec![all], "http://all:4317/"),
        (vec![all, traces("https://traces/")], "https://traces/"),
        (vec![all, traces("")], "http://all:4317/"),
        (vec![all, traces(" ")], "http://all:4317/"),
        (vec![traces("http://[::1]:1/x")], "http://[::1]:1/x"),
    ] {
        let expected: Uri = endpoint.parse().unwrap();
        assert_eq!(settings(&variables).endpoint, expected, "{variables:?}");
    }
    for unusable in [
        "collector:4317",
        "unix:///run/x",
        "http://",
        "nonsense",
        "http://a:b@c",
        "https://collector/?api-key=a:b",
    ] {
        let (text, on) = warning(&[traces(unusable)]);
        assert!(!on && text.contains("_TRACES_ENDPOINT"), "{text}");
        assert!(!text.contains("a:b"), "{text}");
    }
    let empty = [
        "OTEL_SDK_DISABLED",
        "OTEL_TRACES_EXPORTER",
        "OTEL_TRACES_SAMPLER",
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ];
    assert_eq!(settings(&empty.map(|name| (name, ""))), settings(&[]));
}

#[test]
fn o_5_the_files_of_tls() {
    let of_traces = "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE";
    let variables = [
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/all"),
        (of_traces, "/ca"),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/tls.crt"),
        ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/tls.key"),
    ];
    let files = Files {
        authority: Some("/ca".into()),
        certificate: Some("/tls.crt".into()),
        key: Some("/tls.key".into()),
    };
    assert_eq!(settings(&variables).files, files);
}

#[test]
fn o_6_other_protocols_are_a_warning_and_no_traces() {
    let protocol = |value| ("OTEL_EXPORTER_OTLP_PROTOCOL", value);
    settings(&[protocol("grpc")]);
    settings(&[protocol("GRPC")]);
    for other in ["http/protobuf", "http/json", "nonsense"] {
        let (text, on) = warning(&[protocol(other)]);
        assert!(!on && text.contains(other), "{text}");
    }
    let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
    settings(&[protocol("http/json"), of_traces]);
}

#[test]
fn o_7_headers_are_decoded_and_never_shown() {
    let headers = |text| ("OTEL_EXPORTER_OTLP_HEADERS", text);
    let read = settings(&[headers(
        "a=1,b=%20x, authorization = Bearer%20planted ,empty=",
    )]);
    let pairs: Vec<_> = read.headers.0.iter().collect();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    let expected = [
        ("a", "1"),
        ("b", " x"),
        ("authorization", "Bearer planted"),
        ("empty", ""),
    ];
    assert_eq!(pairs, expected);
    let shown = format!("{read:?}");
    assert!(
        shown.contains("authorization") && !shown.contains("planted"),
        "{shown}"
    );
    for unusable in [
        "planted-secret",
        "=planted-secret",
        "ü=planted-secret",
        "a=planted%0asecret",
        "a=planted-secret%ff",
        "grpc-timeout=planted-secret",
        "x-bin=planted-secret",
    ] {
        let (text, on) = warning(&[headers(unusable)]);
        assert!(on && !text.contains("planted"), "{text}");
    }
}

#[test]
fn o_8_who_makes_the_spans() {
    let attributes = (
        "OTEL_RESOURCE_ATTRIBUTES",
        "service.name=a,k8s.x=%2Cy,service.version=v2",
    );
    for (variables, expected) in [
        (
            vec![],
            vec![
                ("service.name", "csi-attacher"),
                ("service.version", "v1"),
                ("service.instance.id", "pod-1"),
            ],
        ),
        (
            vec![attributes],
            vec![
                ("service.name", "a"),
                ("service.version", "v2"),
                ("service.instance.id", "pod-1"),
                ("k8s.x", ",y"),
            ],
        ),
        (
            vec![attributes, ("OTEL_SERVICE_NAME", "b")],
            vec![
                ("service.name", "b"),
                ("service.version", "v2"),
                ("service.instance.id", "pod-1"),
                ("k8s.x", ",y"),
            ],
        ),
    ] {
        let resource = settings(&variables).resource;
        let resource = resource.iter().map(|(key, value)| (&**key, &**value));
        assert_eq!(resource.collect::<Vec<_>>(), expected, "{variables:?}");
    }
    let (text, on) = warning(&[("OTEL_RESOURCE_ATTRIBUTES", "a=1,b")]);
    assert!(on && text.contains("OTEL_RESOURCE_ATTRIBUTES"), "{text}");
}

#[test]
fn o_9_which_traces_are_recorded() {
    let sampler = |value| ("OTEL_TRACES_SAMPLER", value);
    let share = |value| ("OTEL_TRACES_SAMPLER_ARG", value);
    for (name, sampled) in [
        ("always_on", Sampler::AlwaysOn),
        ("always_off", Sampler::AlwaysOff),
        ("ALWAYS_OFF", Sampler::AlwaysOff),
        ("traceidratio", Sampler::Ratio(0.25)),
        ("parentbased_always_on", Sampler::AlwaysOn),
        ("parentbased_always_off", Sampler::AlwaysOff),
        ("parentbased_traceidratio", Sampler::Ratio(0.25)),
    ] {
        assert_eq!(settings(&[sampler(name), share("0.25")]).sampler, sampled);
    }
    assert_eq!(
        settings(&[sampler("traceidratio")]).sampler,
        Sampler::Ratio(1.0)
    );
    for unusable in ["2", "-0.1", "NaN", "x"] {
        let variables = [sampler("traceidratio"), share(unusable)];
        let read = environment(&variables);
        assert_eq!(read.warnings.len(), 1, "{unusable}");
        assert_eq!(read.settings.unwrap().sampler, Sampler::AlwaysOn);
    }
    let (text, on) = warning(&[sampler("jaeger_remote")]);
    assert!(on && text.contains("jaeger_remote"), "{text}");
}

#[test]
fn o_10_sizes_and_times() {
    let defaults = settings(&[]);
    assert_eq!((defaults.queue, defaults.batch), (2048, 512));
    let seconds = Duration::from_secs;
    assert_eq!(
        (defaults.delay, defaults.timeout),
        (seconds(5), seconds(10))
    );
    let set = settings(&[
        ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "200"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2000"),
    ]);
    assert_eq!((set.queue, set.batch), (100, 100));
    assert_eq!((set.delay, set.timeout), (seconds(1) / 10, seconds(2)));
    for name in [
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
        "OTEL_BSP_SCHEDULE_DELAY",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ] {
        let read = environment(&[(name, "-1")]);
        assert_eq!(read.settings.as_ref(), Some(&defaults), "{name}");
        assert!(matches!(&*read.warnings, [text] if text.contains(name)));
    }
    let huge = settings(&[("OTEL_BSP_MAX_QUEUE_SIZE", "18446744073709551615")]);
    assert_eq!(huge.queue, 1 << 16);
    for (value, timeout) in [("18446744073709551615", LONGEST), ("0", LONGEST)] {
        let set = settings(&[("OTEL_EXPORTER_OTLP_TIMEOUT", value)]);
        assert_eq!(set.timeout, timeout, "{value}");
    }
    let huge = settings(&[("OTEL_BSP_SCHEDULE_DELAY", "18446744073709551615")]);
    assert_eq!(huge.delay, LONGEST);
    assert_eq!(settings(&[("OTEL_BSP_MAX_QUEUE_SIZE", "0")]).queue, 2048);
}
