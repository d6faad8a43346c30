//! Asks controllers in pods: through `kubectl port-forward`, since they answer on the pod's loopback address, and who may
//! forward ports into the namespace may ask.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use sidecar::visible::visible;
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines, Take,
};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, timeout_at};

use super::config::Access;
use crate::model::Ref;
use crate::plan::{Answered, Answerer, answered};

/// The program that forwards.
const KUBECTL: &str = "kubectl";
/// Bytes of an answer.
const LARGEST: u64 = 1 << 20;

/// A forwarded port; dropping it ends the forwarding.
struct Forwarded {
    address: SocketAddr,
    _child: Child,
    /// kubectl writes a line for each connection, and would end if nobody could read it.
    _said: Said,
}

/// What kubectl says.
type Said = Lines<BufReader<Take<ChildStdout>>>;

/// Asks at one port of a pod about each of these objects, until `deadline`: the answers, and why there are no more.
pub async fn ask(
    access: &Access,
    of: &Answerer,
    questions: &[(Ref, String)],
    deadline: Instant,
) -> (Vec<Answered>, Option<String>) {
    let mut all = Vec::new();
    let asked = timeout_at(deadline, each(access, of, questions, &mut all)).await;
    let asked = asked.unwrap_or_else(|_elapsed| Err("no answer in time".to_owned()));
    (all, asked.err())
}

async fn each(
    access: &Access,
    of: &Answerer,
    questions: &[(Ref, String)],
    all: &mut Vec<Answered>,
) -> Result<(), String> {
    let forwarded = forward(access, of).await?;
    for (object, path) in questions {
        let answer = get(forwarded.address, path).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let body = body(&answer, of.port)?;
        let told = answered(&of.pod_path(), object, body);
        all.extend(told.ok_or_else(|| no_controller(of.port))?);
    }
    Ok(())
}

fn no_controller(port: u16) -> String {
    format!("what serves port {port} is no controller with --why-endpoint")
}

/// The body of an answer to HTTP/1.1. kubectl accepts the connection before it asks kubelet for the port, and ends it if
/// nothing listens there.
fn body(answer: &[u8], port: u16) -> Result<&[u8], String> {
    if answer.is_empty() {
        return Err(format!("nothing listens at port {port}"));
    }
    if u64::try_from(answer.len()).is_ok_and(|length| length > LARGEST) {
        return Err("the answer is larger than 1 MiB".to_owned());
    }
    let status = answer
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| rest.get(2..5));
    match status {
        Some(b"200" | b"404") => {}
        Some(b"429") => return Err("it has answered too many questions just now (429)".to_owned()),
        Some(status) => {
            let status = String::from_utf8_lossy(status);
            return Err(format!("status {}", visible(&status)));
        }
        None => return Err(no_controller(port)),
    }
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = end.and_then(|end| answer.get(end + 4..));
    Ok(body.unwrap_or_default())
}

/// The arguments of kubectl, with the access that this program was given.
fn arguments(access: &Access, of: &Answerer) -> Vec<OsString> {
    let mut all: Vec<String> = vec![
        "port-forward".to_owned(),
        "--address=127.0.0.1".to_owned(),
        format!("--namespace={}", of.namespace),
    ];
    let flags = [
        ("kubeconfig", &access.kubeconfig),
        ("context", &access.context),
        ("cluster", &access.cluster),
        ("user", &access.user),
        ("server", &access.server),
        ("token", &access.token),
        ("certificate-authority", &access.certificate_authority),
        ("client-certificate", &access.client_certificate),
        ("client-key", &access.client_key),
        ("tls-server-name", &access.tls_server_name),
        ("as", &access.as_user),
        ("as-uid", &access.as_uid),
    ];
    let given = flags.iter().filter(|(_, value)| !value.is_empty());
    all.extend(given.map(|(flag, value)| format!("--{flag}={value}")));
    let groups = access.as_groups.iter();
    all.extend(groups.map(|group| format!("--as-group={group}")));
    if access.insecure {
        all.push("--insecure-skip-tls-verify".to_owned());
    }
    all.push(format!("pod/{}", of.pod));
    all.push(format!(":{}", of.port));
    all.into_iter().map(OsString::from).collect()
}

async fn forward(access: &Access, of: &Answerer) -> Result<Forwarded, String> {
    let mut child = Command::new(KUBECTL)
        .args(arguments(access, of))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{KUBECTL}, which forwards ports, cannot be started: {error}"))?;
    let (port, said) = told(&mut child).await?;
    Ok(Forwarded {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        _child: child,
        _said: said,
    })
}

/// The port on this machine, once kubectl names it.
async fn told(child: &mut Child) -> Result<(u16, Said), String> {
    let stdout = child.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(stdout.take(LARGEST)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(port) = local_port(&line) {
            return Ok((port, lines));
        }
    }
    let mut error = String::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(LARGEST).read_to_string(&mut error).await;
    }
    let last = error.lines().last().unwrap_or("kubectl port-forward ended");
    Err(visible(last).into_owned())
}

/// `Forwarding from 127.0.0.1:40001 -> 8090`
fn local_port(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("Forwarding from 127.0.0.1:")?;
    rest.split(' ').next()?.parse().ok()
}

/// Everything that comes back, empty if the connection ends without a word.
///
/// Written by hand: hyper's client would need as many lines. It reports "request was canceled" both when the connection
/// ends and when another protocol begins, and the two need different advice.
async fn get(address: SocketAddr, path: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET /why/{path} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let mut limited = stream.take(LARGEST + 1);
    match limited.read_to_end(&mut answer).await {
        Err(error) if error.kind() != ErrorKind::ConnectionReset || !answer.is_empty() => {
            Err(error)
        }
        _ => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_41_kubectl_gets_the_same_access_and_forwards_to_this_machine_alone() {
        let access = Access {
            context: "prod".to_owned(),
            as_user: "me".to_owned(),
            as_groups: vec!["a".to_owned(), "b".to_owned()],
            ..Access::default()
        };
        let of = Answerer {
            namespace: "storage".to_owned(),
            pod: "ctl-0".to_owned(),
            port: 8090,
        };
        let expected = [
            "port-forward",
            "--address=127.0.0.1",
            "--namespace=storage",
            "--context=prod",
            "--as=me",
            "--as-group=a",
            "--as-group=b",
            "pod/ctl-0",
            ":8090",
        ];
        assert_eq!(arguments(&access, &of), expected);
    }

    #[test]
    fn the_port_is_read_from_what_kubectl_says() {
        for (line, port) in [
            ("Forwarding from 127.0.0.1:40001 -> 8090", Some(40001)),
            ("Forwarding from [::1]:40001 -> 8090", None),
            ("Handling connection for 40001", None),
            ("", None),
        ] {
            assert_eq!(local_port(line), port, "{line}");
        }
    }

    #[test]
    fn w_46_what_is_no_answer_of_a_controller_is_named() {
        let large = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[b' '; 1 << 20]].concat();
        for (answer, expected) in [
            (&b"HTTP/1.1 200 OK\r\na: b\r\n\r\n{}"[..], Ok(&b"{}"[..])),
            (b"HTTP/1.1 404 Not Found\r\n\r\n{}", Ok(b"{}")),
            (b"", Err("nothing listens at port 8090")),
            (
                b"HTTP/1.1 429 Too Many Requests\r\n\r\n",
                Err("it has answered too many questions just now (429)"),
            ),
            (b"HTTP/1.1 5\x1b0 x\r\n\r\n{}", Err("status 5\\x1b0")),
            (
                b"SSH-2.0-OpenSSH_9.6\r\n",
                Err("what serves port 8090 is no controller with --why-endpoint"),
            ),
            (&large, Err("the answer is larger than 1 MiB")),
        ] {
            assert_eq!(body(answer, 8090), expected.map_err(str::to_owned));
        }
    }
}
