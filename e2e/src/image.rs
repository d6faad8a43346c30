//! Images for pods on a real node, built from local files: there is no registry to pull from.
//!
//! Kubernetes' tests name images by their content. One static busybox replaces all those that only need a shell;
//! agnhost comes from the pinned Kubernetes; a sidecar's image contains its static program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use oci_archive::{Archive, Image, Layer};
use serde_json::Value;

use crate::process;

/// The image of scenarios' shells.
pub const SHELL: &str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2";

/// Images of the pinned Kubernetes' tests whose specs run a shell.
const SHELLS: [&str; 4] = [
    SHELL,
    "registry.k8s.io/e2e-test-images/busybox:1.36.1-1",
    "registry.k8s.io/e2e-test-images/nginx:1.27.0-2",
    "registry.k8s.io/e2e-test-images/nginx:1.28.0-2",
];

/// The image of specs that use options which busybox's dd lacks.
const GNU: &str = "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.1.1";

/// The images of the first process in every pod.
const PAUSE: [&str; 2] = ["registry.k8s.io/pause:3.10.2", "registry.k8s.io/pause:3.10"];

const AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.66.1";

/// This machine's architecture as images name it.
fn architecture() -> String {
    let here = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    here.to_owned()
}

/// The image that every pod needs first, and the busybox for scenarios.
pub fn basic(busybox: &Path) -> Result<Archive> {
    let mut archive = Archive::new();
    archive.add(&SHELLS, shell(busybox)?)?;
    let pause = Image {
        entrypoint: vec!["/bin/sleep".to_owned(), "2147483647".to_owned()],
        ..shell(busybox)?
    };
    archive.add(&PAUSE, pause)?;
    Ok(archive)
}

/// The image for specs of Kubernetes' tests that need GNU tools: this machine's.
pub fn gnu(archive: &mut Archive, busybox: &Path) -> Result<()> {
    let mut image = shell(busybox)?;
    // The shell must not be busybox either: that one prefers its own dd, whatever the search path says.
    for program in ["/bin/sh", "/bin/dd"] {
        let layer = with_libraries(program, Path::new(program))?;
        image.layers.push(layer);
    }
    archive.add(&[GNU], image)?;
    Ok(())
}

/// A layer with a program and, unless it is static, the libraries that this machine loads with it.
fn with_libraries(at: &str, program: &Path) -> Result<Layer> {
    let mut layer = Layer::program(at, program)?;
    // Fails for static programs, which need no libraries.
    let libraries = process::output(Command::new("ldd").arg(program)).unwrap_or_default();
    let words = libraries.split_whitespace();
    for path in words.filter(|word| word.starts_with('/')) {
        layer.copy(path, Path::new(path), 0o755)?;
    }
    Ok(layer)
}

/// The image in which specs run servers and enter the node.
pub fn agnhost(archive: &mut Archive, busybox: &Path, agnhost: &Path) -> Result<()> {
    let mut image = shell(busybox)?;
    image.layers.push(Layer::program("/agnhost", agnhost)?);
    image.entrypoint = vec!["/agnhost".to_owned()];
    image.command = vec!["pause".to_owned()];
    archive.add(&[AGNHOST], image)?;
    Ok(())
}

/// The archive of one of this project's programs in `folder`; an older build's is refused.
pub fn shipped(folder: &Path, program: &Path) -> Result<PathBuf> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let stem = format!("{name}-{}", architecture());
    let way_out = || format!("no archive of {}: run `make archives`", program.display());
    let sbom = fs::read(folder.join(format!("{stem}.cdx.json"))).with_context(way_out)?;
    let sbom: Value = serde_json::from_slice(&sbom).with_context(way_out)?;
    let of = sbom.pointer("/metadata/component/hashes/0/content");
    let hash = oci_archive::sha256(&fs::read(program)?);
    ensure!(of.and_then(Value::as_str) == Some(&hash), way_out());
    Ok(folder.join(format!("{stem}.oci.tar")))
}

/// An image with only a program, as sidecars are shipped: the program is the entry point, and `links` are further names
/// of it.
pub fn program(
    archive: &mut Archive,
    names: &[&str],
    program: &Path,
    links: &[&str],
) -> Result<()> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let at = format!("/{name}");
    let mut layer = with_libraries(&at, program)?;
    for link in links {
        layer.link(link, &at)?;
    }
    let image = Image {
        architecture: architecture(),
        layers: vec![layer],
        entrypoint: vec![at],
        ..Image::default()
    };
    archive.add(names, image)?;
    Ok(())
}

/// A program with a shell and the tools that a driver calls. `first` come before a manifest's arguments.
pub fn program_with_tools(
    archive: &mut Archive,
    names: &[&str],
    busybox: &Path,
    program: &Path,
    first: &[&str],
) -> Result<()> {
    let mut image = shell(busybox)?;
    // busybox has both, but its losetup does not print the device, and its cp knows no sparse files.
    for tool in ["losetup", "cp"] {
        let path = process::output(Command::new("sh").args(["-c", &format!("command -v {tool}")]))?;
        let at = format!("/usr/local/sbin/{tool}");
        image
            .layers
            .push(with_libraries(&at, Path::new(path.trim()))?);
    }
    image.layers.push(with_libraries("/program", program)?);
    let entrypoint = ["/program"].iter().chain(first);
    image.entrypoint = entrypoint.map(|&word| word.to_owned()).collect();
    archive.add(names, image)?;
    Ok(())
}

/// An image with a wget that looks names up in the hosts file, and `sh -c` that runs it; a static busybox's wget crashes there.
pub fn wget(archive: &mut Archive, name: &str, busybox: &Path) -> Result<()> {
    let script = br#"#!/bin/sh
for url; do :; done
url=${url#http://} host=${url%%/*}
address=$(awk -v name="${host%:*}" '$2 == name { print $1 }' /etc/hosts)
answer=$({ printf 'GET /%s HTTP/1.0\r\n\r\n' "${url#*/}"; sleep 1; } | nc -w 10 "$address" "${host#*:}")
echo "$answer"
[ "$(echo "$answer" | head -n 1 | cut -d ' ' -f 2)" = 200 ]
"#;
    // In a script the shell would run the wget that is compiled into it.
    let shell_with_it = br#"#!/bin/sh
exec /bin/sh -c "wget() { /usr/local/bin/wget \"\$@\"; }
$2"
"#;
    let mut image = shell(busybox)?;
    let mut layer = Layer::new();
    layer.file("/usr/local/bin/wget", script, 0o755)?;
    layer.file("/usr/local/bin/sh", shell_with_it, 0o755)?;
    image.layers.push(layer);
    archive.add(&[name], image)?;
    Ok(())
}

fn shell(busybox: &Path) -> Result<Image> {
    Ok(Image {
        architecture: architecture(),
        layers: vec![root(busybox)?],
        ..Image::default()
    })
}

/// A root directory with only busybox.
fn root(busybox: &Path) -> Result<Layer> {
    let mut layer = Layer::new();
    for directory in [
        "/bin",
        "/dev",
        "/etc",
        "/home",
        "/mnt",
        "/proc",
        "/root",
        "/sbin",
        "/sys",
        "/usr",
        "/usr/bin",
        "/usr/sbin",
        "/var",
        "/var/log",
        "/var/run",
    ] {
        layer.directory(directory, 0o755)?;
    }
    layer.directory("/tmp", 0o1777)?;
    layer.file(
        "/etc/passwd",
        b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
        0o644,
    )?;
    // Specs parse numbers in the output of `ls -l`: no group that they use may have a name.
    layer.file("/etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644)?;
    layer.copy("/bin/busybox", busybox, 0o755)?;
    let applets = process::output(Command::new(busybox).arg("--list-full"))?;
    for applet in applets.lines().filter(|path| *path != "bin/busybox") {
        layer.link(applet, "/bin/busybox")?;
    }
    Ok(layer)
}
