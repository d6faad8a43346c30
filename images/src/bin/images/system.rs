//! Libraries besides crates that a program is linked from: Rust's standard library, the C library
//! and the compiler's own.
//!
//! A scanner finds an advisory only by the distribution's package and revision of a library: `2.36`
//! alone does not show which fixes Debian has added.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A linked library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) version: String,
    /// SPDX expression.
    pub(crate) license: &'static str,
    /// Package URL.
    pub(crate) purl: String,
    /// Names of this machine's packages that it comes from; empty if unknown.
    pub(crate) packages: Vec<String>,
}

/// The toolchain that linked the programs.
#[derive(Debug)]
pub(crate) struct Toolchain {
    /// Rust's standard library first.
    pub(crate) parts: Vec<Part>,
    /// Rust's sysroot.
    pub(crate) sysroot: PathBuf,
}

impl Toolchain {
    /// Detects the toolchain of this machine.
    pub(crate) fn here(target: &str) -> Result<Self> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let said = said(&rustc, &["-vV"]).context("cannot run rustc")?;
        let release = said.lines().find_map(|line| line.strip_prefix("release: "));
        let release = release.context("rustc -vV names no release")?;
        let sysroot =
            self::said(&rustc, &["--print", "sysroot"]).context("rustc has no sysroot")?;
        let mut parts = vec![generic("rust-std", release, "MIT OR Apache-2.0")];
        if target.ends_with("-musl") {
            // musl comes with the standard library, which does not report its version.
            let version = format!("rust-std-{release}");
            parts.push(generic("musl", &version, "MIT"));
        } else {
            parts.extend(c_libraries()?);
        }
        Ok(Self {
            parts,
            sysroot: sysroot.into(),
        })
    }
}

fn generic(name: &str, version: &str, license: &'static str) -> Part {
    Part {
        name: name.to_owned(),
        version: version.to_owned(),
        license,
        purl: format!("pkg:generic/{name}@{}", escaped(version)),
        packages: Vec::new(),
    }
}

/// A static program for glibc is linked with `libc.a` and, for panics, with gcc's unwinder.
fn c_libraries() -> Result<Vec<Part>> {
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let system = System::here();
    let mut parts = Vec::new();
    for (name, file, license, asked) in [
        ("glibc", "libc.a", "LGPL-2.1-or-later", "getconf"),
        (
            "libgcc",
            "libgcc_eh.a",
            "GPL-3.0-or-later WITH GCC-exception-3.1",
            "cc",
        ),
    ] {
        let found = said(&cc, &[&format!("-print-file-name={file}")]);
        let path = found.and_then(|path| Path::new(&path).canonicalize().ok());
        let owner = path.and_then(|path| system.owner(&path));
        parts.push(match owner {
            Some(owner) => owner.part(name, license),
            // Only the version that the library itself reports.
            None => {
                let version = match asked {
                    "getconf" => said(&"getconf".into(), &["GNU_LIBC_VERSION"]),
                    _ => said(&cc, &["-dumpfullversion"]),
                };
                let version =
                    version.with_context(|| format!("nobody says which {name} this is"))?;
                let version = version.trim_start_matches("glibc ");
                ensure!(!version.is_empty(), "nobody says which {name} this is");
                generic(name, version, license)
            }
        });
    }
    Ok(parts)
}

/// A program's output; `None` if it fails.
fn said(program: &OsString, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    done.status.success().then_some(text)
}

/// The distribution of this machine.
struct System {
    /// `os-release`: `debian`, and `12`.
    id: String,
    version: String,
}

/// The package that a file belongs to.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    package: String,
    source: String,
    version: String,
    purl: String,
}

impl Owner {
    fn part(self, name: &str, license: &'static str) -> Part {
        Part {
            name: name.to_owned(),
            version: self.version,
            license,
            purl: self.purl,
            packages: vec![self.package, self.source],
        }
    }
}

impl System {
    fn here() -> Self {
        let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        Self::read(&text)
    }

    fn read(os_release: &str) -> Self {
        let fields = os_release.lines().filter_map(|line| line.split_once('='));
        let fields: BTreeMap<_, _> = fields.collect();
        let field = |name: &str| {
            let value = fields.get(name).copied().unwrap_or_default();
            value.trim_matches(['"', '\'']).to_lowercase()
        };
        Self {
            id: field("ID"),
            version: field("VERSION_ID"),
        }
    }

    fn distro(&self) -> String {
        match self.version.as_str() {
            "" => self.id.clone(),
            version => format!("{}-{version}", self.id),
        }
    }

    /// Asks the package manager of this machine.
    fn owner(&self, file: &Path) -> Option<Owner> {
        let file = file.to_str()?;
        let dpkg = || {
            let owner = said(&"dpkg-query".into(), &["-S", file])?;
            let package = deb_owner(&owner)?;
            let format = "-f=${source:Package}\t${source:Version}";
            self.deb(
                &package,
                &said(&"dpkg-query".into(), &["-W", format, &package])?,
            )
        };
        let rpm = || {
            let format = "--qf=%{NAME}\t%{VERSION}-%{RELEASE}\t%{SOURCERPM}\n";
            self.rpm(&said(&"rpm".into(), &["-qf", format, file])?)
        };
        let apk = || self.apk(&said(&"apk".into(), &["info", "--who-owns", file])?);
        dpkg().or_else(rpm).or_else(apk)
    }

    /// Parses `source TAB version`, the requested output of dpkg-query.
    fn deb(&self, package: &str, answer: &str) -> Option<Owner> {
        let (source, version) = answer.split_once('\t')?;
        Some(Owner {
            package: package.split(':').next()?.to_owned(),
            source: source.to_owned(),
            version: version.to_owned(),
            purl: self.purl("deb", source, version, "source"),
        })
    }

    /// Parses `package TAB version-release TAB source file`, the requested output of rpm.
    fn rpm(&self, answer: &str) -> Option<Owner> {
        let mut fields = answer.lines().next()?.split('\t');
        let (package, version, source) = (fields.next()?, fields.next()?, fields.next()?);
        // Name, version and release of the source package, separated by dashes.
        let mut parts = source.strip_suffix(".src.rpm")?.rsplitn(3, '-');
        let (_release, _version, source) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Owner {
            package: package.to_owned(),
            source: source.to_owned(),
            version: version.to_owned(),
            purl: self.purl("rpm", source, version, "src"),
        })
    }

    /// Parses `FILE is owned by NAME-VERSION-rRELEASE`.
    fn apk(&self, answer: &str) -> Option<Owner> {
        let owner = answer.lines().next()?.rsplit(' ').next()?;
        let mut parts = owner.rsplitn(3, '-');
        let (release, version, package) = (parts.next()?, parts.next()?, parts.next()?);
        let version = format!("{version}-{release}");
        Some(Owner {
            package: package.to_owned(),
            source: package.to_owned(),
            purl: format!(
                "pkg:apk/{}/{package}@{}?distro={}",
                self.id,
                escaped(&version),
                escaped(&self.distro())
            ),
            version,
        })
    }

    fn purl(&self, kind: &str, source: &str, version: &str, arch: &str) -> String {
        format!(
            "pkg:{kind}/{}/{source}@{}?arch={arch}&distro={}",
            self.id,
            escaped(version),
            escaped(&self.distro())
        )
    }
}

/// The package in `PACKAGE: FILE`; `None` for a file that several packages share, or that is
/// diverted.
fn deb_owner(answer: &str) -> Option<String> {
    let mut lines = answer.lines();
    let (package, _file) = lines.next()?.rsplit_once(": ")?;
    let one = !package.contains([',', ' ']) && lines.next().is_none();
    one.then(|| package.to_owned())
}

/// Escapes a part of a package URL.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(id: &str, version: &str) -> System {
        System::read(&format!("NAME=\"x\"\nID={id}\nVERSION_ID=\"{version}\"\n"))
    }

    #[test]
    fn fr_15_a_library_of_debian_has_the_revision_that_advisories_name() {
        let owner = "libc6-dev:amd64: /usr/lib/x86_64-linux-gnu/libc.a\n";
        let package = deb_owner(owner).unwrap();
        assert_eq!(package, "libc6-dev:amd64");
        let found = system("debian", "12").deb(&package, "glibc\t2.36-9+deb12u14");
        let part = found.unwrap().part("glibc", "LGPL-2.1-or-later");
        assert_eq!(part.version, "2.36-9+deb12u14");
        assert_eq!(
            part.purl,
            "pkg:deb/debian/glibc@2.36-9%2Bdeb12u14?arch=source&distro=debian-12"
        );
        assert_eq!(part.packages, ["libc6-dev", "glibc"]);
    }

    #[test]
    fn fr_15_epochs_and_tildes_are_written_as_package_urls_want_them() {
        let found = system("ubuntu", "24.04").deb("x:amd64", "gcc-14\t1:14~rc1+b2");
        assert_eq!(
            found.unwrap().purl,
            "pkg:deb/ubuntu/gcc-14@1%3A14~rc1%2Bb2?arch=source&distro=ubuntu-24.04"
        );
    }

    #[test]
    fn fr_15_a_library_of_a_distribution_with_rpm_has_its_source_package() {
        let said = "glibc-static\t2.39-6.fc40\tglibc-2.39-6.fc40.src.rpm\n";
        let found = system("fedora", "40").rpm(said).unwrap();
        assert_eq!(found.source, "glibc");
        assert_eq!(
            found.purl,
            "pkg:rpm/fedora/glibc@2.39-6.fc40?arch=src&distro=fedora-40"
        );
        let nobodys = "file /usr/lib64/libc.a is not owned by any package";
        assert_eq!(system("fedora", "40").rpm(nobodys), None);
    }

    #[test]
    fn fr_15_a_library_of_alpine_has_package_and_release() {
        let said = "/usr/lib/gcc/libgcc_eh.a is owned by gcc-13.2.1_git20240309-r0\n";
        let found = system("alpine", "3.20.1").apk(said).unwrap();
        assert_eq!(
            found.purl,
            "pkg:apk/alpine/gcc@13.2.1_git20240309-r0?distro=alpine-3.20.1"
        );
    }

    #[test]
    fn fr_15_what_is_nobodys_or_of_several_has_no_owner() {
        for said in [
            "",
            "a:amd64, b:amd64: /usr/lib/libc.a",
            "diversion by x from: /usr/lib/libc.a\ny: /usr/lib/libc.a",
        ] {
            assert_eq!(deb_owner(said), None, "{said}");
        }
    }
}
