//! Rows about the program's listeners.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::process::{
    self, NAME, Process, Serving, free_address, get, is_foreign, listening, port, program, until,
    usual_flags,
};

/// Local addresses that the process listens on, as `/proc/net` writes them.
fn listeners(id: u32) -> BTreeSet<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
    let inode = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = std::fs::read_link(entry.ok()?.path()).ok()?;
        let inode = target
            .to_str()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?;
        Some(inode.to_owned())
    };
    let own: BTreeSet<String> = descriptors.filter_map(inode).collect();
    let mut found = BTreeSet::new();
    for family in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{id}/net/{family}")).unwrap();
        for line in table.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            if fields[3] == "0A" && own.contains(fields[9]) {
                found.insert(format!("{family} {}", fields[1]));
            }
        }
    }
    found
}

/// Go takes `0.0.0.0` for every address of either family where there is IPv6; the specification requires IPv4 only.
fn everywhere(port: &str) -> String {
    if is_foreign() && std::path::Path::new("/proc/net/if_inet6").exists() {
        return format!("tcp6 {}:{port}", "0".repeat(32));
    }
    format!("tcp 00000000:{port}")
}

fn hexadecimal(address: &str) -> String {
    format!("{:04X}", port(address).parse::<u16>().unwrap())
}

/// In a network namespace of its own, where the port is free.
#[tokio::test]
async fn l_2_l_3_the_default_is_port_9808_on_ipv4() {
    let driver = process::driver();
    let mut command = Command::new("unshare");
    let script = "ip link set lo up || exit 99; exec \"$0\" \"$@\"";
    command.args(["--net", "sh", "-c", script, &program()]);
    command.args(usual_flags(&driver));
    let mut process = Process::start(command);
    let listens = |process: &Process| listeners(process.id());
    let mut ended = false;
    until("a listener", async || {
        ended = !process.is_running();
        ended || !listens(&process).is_empty()
    })
    .await;
    if ended {
        eprintln!("skipped: no network namespace: {}", process.log());
        return;
    }
    let expected = BTreeSet::from([everywhere("2650")]);
    assert_eq!(listens(&process), expected, "L-3");

    let request = "exec 3<>/dev/tcp/127.0.0.1/9808; \
                   printf 'GET /healthz HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n' >&3; \
                   cat <&3";
    let namespace = format!("--net=/proc/{}/ns/net", process.id());
    let answer = tokio::task::spawn_blocking(move || {
        let mut command = Command::new("nsenter");
        command.args([&namespace, "bash", "-c", request]);
        command.stdin(Stdio::null()).output().unwrap()
    });
    let answer = String::from_utf8(answer.await.unwrap().stdout).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "L-2: {answer}");
    assert!(answer.ends_with("\r\n\r\nok"), "L-2: {answer}");
}

#[tokio::test]
async fn l_4_l_6_one_endpoint_for_all() {
    for (row, flags) in [("L-4", &[][..]), ("L-6", &["--health-port=9808"])] {
        let driver = process::driver();
        let serving = Serving::beside(&driver, flags).await;
        serving.is_healthy().await;
        let metrics = get(&serving.address, "/metrics").await;
        assert_eq!(metrics.status, 200, "{row}");
        assert!(metrics.body.contains(NAME), "{row}: {}", metrics.body);
        let expected = format!("tcp 0100007F:{}", hexadecimal(&serving.address));
        assert_eq!(
            listeners(serving.process.id()),
            BTreeSet::from([expected]),
            "{row}"
        );
    }
}

/// An IPv6 address has brackets, and the program listens on nothing else.
#[tokio::test]
async fn an_endpoint_of_ipv6_alone() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: the machine has no IPv6");
        return;
    }
    let address = format!("[::1]:{}", port(&free_address()));
    let driver = process::driver();
    let mut process = process::start(&driver, &["--http-endpoint", &address]);
    listening(&mut process, &address).await;
    let answer = get(&address, "/healthz").await;
    assert_eq!((answer.status, &*answer.body), (200, "ok"));
    let expected = format!("tcp6 {}01000000:{}", "0".repeat(24), hexadecimal(&address));
    assert_eq!(listeners(process.id()), BTreeSet::from([expected]));
}

#[tokio::test]
async fn l_8_metrics_apart() {
    let driver = process::driver();
    let (health, metrics) = (free_address(), free_address());
    let flags = [
        &format!("--health-port={}", port(&health)),
        &format!("--metrics-address={metrics}"),
        "--metrics-path=/m",
    ];
    let mut process = process::start(&driver, &flags);
    listening(&mut process, &health).await;
    listening(&mut process, &metrics).await;
    for (address, path, status) in [
        (&health, "/healthz", 200),
        (&health, "/m", 404),
        (&health, "/metrics", 404),
        (&metrics, "/m", 200),
        (&metrics, "/healthz", 404),
        (&metrics, "/metrics", 404),
    ] {
        let answer = get(address, path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
    let both = BTreeSet::from([
        everywhere(&hexadecimal(&health)),
        format!("tcp 0100007F:{}", hexadecimal(&metrics)),
    ]);
    assert_eq!(listeners(process.id()), both, "L-3");
}

#[tokio::test]
async fn l_9_no_metrics_beside_the_health_port() {
    let driver = process::driver();
    let health = free_address();
    let mut process = process::start(&driver, &["--health-port", port(&health)]);
    listening(&mut process, &health).await;
    for (path, status) in [
        ("/healthz", 200),
        ("/metrics", 404),
        ("/healthz/", 404),
        ("/", 404),
    ] {
        let answer = get(&health, path).await;
        assert_eq!(answer.status, status, "{path}");
        if status == 404 {
            assert_eq!(answer.body, "404 page not found\n", "{path}");
        }
    }
}
