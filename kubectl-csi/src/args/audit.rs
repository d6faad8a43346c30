//! The command line of `audit`.

use std::time::Duration;

use clap::{ArgMatches, Command};

use super::{access, duration, format};
use crate::show::Format;
use crate::work::Access;

/// The parsed command line of `audit`.
#[derive(Clone, Debug)]
pub struct AuditAsk {
    pub address: String,
    /// `None`: accepts any driver at the address.
    pub driver: Option<String>,
    pub grace: Duration,
    pub owned: String,
    pub timeout: Duration,
    pub format: Format,
    pub access: Access,
}

pub(super) const ABOUT: &str = "Compares the volumes and snapshots that a driver has with those of the cluster, twice, and lists what still differs. It deletes nothing, with no flag: it prints the handles for whoever runs the storage.";

/// Text of `--help` behind the flags of `audit`.
pub(super) const HELP: &str = "Examples:
  kubectl csi audit --csi-address=/csi/csi.sock                    in the pod of the driver's controller
  ssh -NL /tmp/csi.sock:/var/lib/kubelet/plugins/DRIVER/csi.sock NODE &
  kubectl csi audit --csi-address=/tmp/csi.sock --driver=DRIVER    from elsewhere, where the socket is on a node's disk

Exit codes: 0 nothing differs, 1 could not look at everything, or of something nobody can tell, 2 command line,
3 something differs, 4 the driver cannot be audited.";

pub(super) fn command() -> Command {
    super::flags(Command::new("audit").about(ABOUT), super::audit()).after_help(HELP)
}

/// Pause between the two looks of an audit: calls that were under way at the first have ended by
/// the second.
pub(super) const GRACE: Duration = Duration::from_secs(15 * 60);
/// Some drivers need most of a minute for a page of volumes.
pub(super) const CALL: Duration = Duration::from_secs(120);

pub(super) fn ask(matches: &ArgMatches) -> Result<AuditAsk, String> {
    let text = |name| super::text(matches, name);
    let (address, driver) = (text("csi-address"), text("driver"));
    if address.is_empty() {
        return Err("--csi-address: name the socket of the driver's controller, such as unix:///csi/csi.sock: what is in the storage only the driver can tell".to_owned());
    }
    let timeout = duration(matches, "csi-timeout")?.unwrap_or(CALL);
    if timeout.is_zero() {
        return Err("--csi-timeout: a call needs some time; leave the flag out for 2m".to_owned());
    }
    Ok(AuditAsk {
        address,
        driver: (!driver.is_empty()).then_some(driver),
        grace: duration(matches, "grace")?.unwrap_or(GRACE),
        owned: text("owned-by"),
        timeout,
        format: format(matches),
        access: access(matches)?,
    })
}
