//! Checks around a command line: images, hooks, probes, permissions, resources.

use serde_json::Value;
use sidecar::kube::access::{Missing, Need, Rule};

use super::container::{Container, Identity, template};
use super::input::{list, text, texts};
use super::verdict::{Case, Remark, Verdict};

/// P-1, P-9, P-24: how the program is packaged.
pub(crate) fn image(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let (container, program) = (case.container, case.program.name);
    let image = case.plan.image(program);
    match container.identity {
        Identity::Inside(_) => remarks.push(
            Remark::new("P-1", Verdict::Cannot, format!("{program} is inside of the image {}, so another image alone does not replace it", container.image))
                .way(format!("set image: {image} and command: [\"/{program}\"], for this container alone")),
        ),
        Identity::Shell(_) => {
            let line = texts(container.value, "/command").into_iter().chain(texts(container.value, "/args"));
            let line: Vec<&str> = line.flat_map(str::split_whitespace).collect();
            let at = line.iter().position(|word| word.rsplit('/').next() == Some(program));
            let arguments = at.map(|at| line.iter().skip(at + 1)).into_iter().flatten();
            let arguments: Vec<_> = arguments.map(|word| format!("\"{}\"", word.trim_matches(['"', '\'']))).collect();
            remarks.push(
                Remark::new("P-9", Verdict::Cannot, format!("{program} is started by a shell or a script, and our images have none"))
                    .way(format!("set command: [\"/{program}\"] and args: [{}]", arguments.join(", "))),
            );
        }
        Identity::Sidecar(_) if case.plan.is_ours(container.image) => {
            remarks.push(ours(container));
        }
        Identity::Sidecar(_) | Identity::Ours | Identity::Other | Identity::Foreign => {}
    }
}

/// P-24: it is one of our images already.
pub(crate) fn ours(container: &Container<'_>) -> Remark {
    let image = container.image;
    Remark::note(
        "P-24",
        format!(
            "the image {image} is one of ours already: these remarks apply to this version of csi-sidecars; see \"Before you upgrade\" in CHANGELOG.md"
        ),
    )
}

/// Hooks and probes that run a program.
const HOOKS: &[(&str, &str, bool)] = &[
    ("preStop", "/lifecycle/preStop/exec/command", true),
    ("postStart", "/lifecycle/postStart/exec/command", false),
    ("livenessProbe", "/livenessProbe/exec/command", false),
    ("readinessProbe", "/readinessProbe/exec/command", false),
    ("startupProbe", "/startupProbe/exec/command", false),
];

/// P-10: our images do not contain the program that a hook or probe runs, except for the registrar's own check.
pub(crate) fn hooks(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    for (name, pointer, may_fail) in HOOKS {
        let command = texts(case.container.value, pointer);
        let Some(first) = command.first() else {
            continue;
        };
        let own = first.rsplit('/').next() == Some(case.program.name);
        if own && { command.join("=") }.contains("-mode=kubelet-registration-probe") {
            remarks.push(Remark::note(
                "P-10",
                format!("the {name} that runs {first} works"),
            ));
            continue;
        }
        let line = command.join(" ");
        let sockets = ["-reg.sock", "plugins_registry", "/registration"];
        let removes = line.contains("rm ") && sockets.iter().any(|word| line.contains(word));
        let remark = match (may_fail, removes) {
            (true, true) => Remark::new("P-10", Verdict::Loss, format!("the {name} hook runs {first}, which is not in our image: it fails with an event FailedPreStopHook and delays nothing else"))
                .way("remove the hook: csi-node-driver-registrar deletes its socket itself"),
            (true, false) => Remark::new("P-10", Verdict::Loss, format!("the {name} hook runs {first}, which is not in our image: it fails with an event FailedPreStopHook, and what it did is not done"))
                .way("remove the hook, or use lifecycle.preStop.sleep"),
            (false, _) => Remark::new("P-10", Verdict::Change, format!("the {name} runs {first}, which is not in our image: the container would be restarted again and again"))
                .way("use httpGet of --http-endpoint: /healthz"),
        };
        remarks.push(remark.at(case.place(name)));
    }
}

pub(crate) fn pasted(rule: &Rule, verbs: Vec<&'static str>) -> String {
    Missing {
        rule: rule.clone(),
        verbs,
    }
    .to_string()
}

/// P-11 to P-13: permissions that the account lacks.
pub(crate) fn permissions(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let Some((_, read)) = &case.read else {
        return;
    };
    let account = case.account;
    let (mut unknown, mut required) = (false, false);
    if let Some(rule) = &read.rules.journal {
        let (verbs, elsewhere) = account.lacks(rule, None);
        unknown |= elsewhere;
        if !verbs.is_empty() {
            remarks.push(
                Remark::new("P-11", Verdict::Loss, "without Leases there is no provisioning journal: a crash at the wrong moment may leave a volume behind, as with upstream's")
                    .way(pasted(rule, verbs)),
            );
        }
    }
    for rule in &read.rules.always {
        let (verbs, elsewhere) = account.lacks(rule, None);
        unknown |= elsewhere;
        required |= elsewhere && rule.need == Need::Required;
        if verbs.is_empty() {
            continue;
        }
        let what = format!("{} of {}", verbs.join(", "), rule.resource);
        let remark = match rule.need {
            Need::Required => Remark::new(
                "P-12",
                Verdict::Change,
                format!(
                    "the account lacks {what}, without which {} does not work",
                    case.program.name
                ),
            ),
            Need::Optional(without) => Remark::new(
                "P-12",
                Verdict::Loss,
                format!("the account lacks {what}: {without}"),
            ),
        };
        remarks.push(remark.way(pasted(rule, verbs)));
    }
    for rule in &read.rules.sometimes {
        let (verbs, elsewhere) = account.lacks(rule, None);
        unknown |= elsewhere;
        if !verbs.is_empty() {
            let what = format!("{} of {}", verbs.join(", "), rule.resource);
            let without = match rule.need {
                Need::Optional(without) => format!(": {without}"),
                Need::Required => String::new(),
            };
            remarks.push(Remark::note("P-12", format!("the account lacks {what}, which only some drivers need; upstream's lacks it as well{without}")).way(pasted(rule, verbs)));
        }
    }
    if unknown {
        let verdict = match required {
            true => Verdict::Unknown,
            false => Verdict::Swap,
        };
        remarks.push(Remark::new("P-13", verdict, "roles or bindings of the account are not in the input, so some permissions are unknown").way("give preflight the whole output of helm template, or let it look at the cluster"));
    }
}

/// P-16: environment variables of Go's runtime and of connections.
pub(crate) fn environment(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let is_controller = case.program.spec.find("kubeconfig").is_some();
    for (name, value) in &case.container.environment {
        let proxy = matches!(
            &*name.to_ascii_uppercase(),
            "HTTPS_PROXY" | "HTTP_PROXY" | "ALL_PROXY"
        );
        let scheme = value.split_once("://").map_or("", |(scheme, _)| scheme);
        if proxy && is_controller && matches!(scheme, "https" | "socks5" | "socks5h") {
            remarks.push(
                Remark::new("P-16", Verdict::Change, format!("{} ends at its start: a proxy whose own address begins with {scheme}:// is not supported ({name})", case.program.name))
                    .way("use a proxy with http://, or NO_PROXY for the API server")
                    .at(case.place(name)),
            );
        }
        if matches!(
            &**name,
            "GOMEMLIMIT"
                | "GOGC"
                | "GODEBUG"
                | "GOMAXPROCS"
                | "GOTRACEBACK"
                | "ENABLE_VAC_FALLBACK"
        ) {
            remarks.push(
                Remark::note("P-16", format!("the variable {name} has no effect"))
                    .at(case.place(name)),
            );
        }
    }
}

/// A quantity of bytes, in MB.
fn megabytes(quantity: &str) -> Option<u64> {
    let quantity: sidecar::quantity::Quantity = quantity.parse().ok()?;
    u64::try_from(quantity.value())
        .ok()
        .map(|bytes| bytes / 1_000_000)
}

/// P-17: the memory limit.
pub(crate) fn resources(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let limit = text(case.container.value, "/resources/limits/memory");
    let Some(limit) = megabytes(limit) else {
        return;
    };
    let needs = case.program.memory;
    let text = format!(
        "memory limit {limit} MB; {} took {needs} MB in the largest test of docs/figures, less than upstream's in each",
        case.program.name
    );
    let remark = if limit < needs {
        Remark::note("P-17", text).way(format!(
            "raise it to {needs} MB for clusters with 50,000 volumes"
        ))
    } else {
        Remark::note("P-17", text)
    };
    remarks.push(remark);
}

/// The oldest and the newest minor version of Kubernetes tested, as in docs/compatibility.md.
pub(crate) const TRIED: (u32, u32) = (34, 37);

/// P-18: the platform.
pub(crate) fn platform(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let spec = template(case.container.workload);
    let label = |name: &str| {
        let own = spec
            .pointer("/nodeSelector")
            .and_then(|labels| labels.get(name));
        let own = own.and_then(Value::as_str).into_iter();
        let terms = list(
            spec,
            "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
        );
        let wanted = terms
            .iter()
            .flat_map(|term| list(term, "/matchExpressions"));
        let wanted =
            wanted.filter(|one| text(one, "/key") == name && text(one, "/operator") == "In");
        own.chain(wanted.flat_map(|one| texts(one, "/values")))
            .collect::<Vec<_>>()
    };
    let os = [label("kubernetes.io/os"), label("beta.kubernetes.io/os")].concat();
    if os.contains(&"windows") && !os.contains(&"linux") {
        remarks.push(
            Remark::new(
                "P-18",
                Verdict::Cannot,
                "its nodes run Windows, and our images are for Linux",
            )
            .way("keep upstream's image there"),
        );
    }
    let machines = [
        label("kubernetes.io/arch"),
        label("beta.kubernetes.io/arch"),
    ]
    .concat();
    if let Some(machine) = machines.iter().find(|one| **one != "amd64") {
        remarks.push(Remark::new(
            "P-18",
            Verdict::Loss,
            format!("its nodes are {machine}, on which no program of ours was ever run"),
        ));
    }
    if let Some(minor) = case.plan.kubernetes.filter(|minor| *minor < TRIED.0) {
        remarks.push(Remark::new("P-18", Verdict::Loss, format!("Kubernetes 1.{minor} is older than what was tried (1.{} to 1.{}): docs/compatibility.md", TRIED.0, TRIED.1)));
    }
}

/// Differences from upstream that apply to a feature in use: the program, the feature, and the row of docs/parity.md.
const DEVIATIONS: &[(&str, &str, &str)] = &[
    ("csi-provisioner", "enable-capacity", "QP6"),
    ("csi-provisioner", "migrated", "QP1"),
    ("csi-provisioner", "migrated", "QP7"),
    ("csi-provisioner", "migrated", "QP8"),
    ("csi-attacher", "migrated", "QA1"),
    ("csi-attacher", "migrated", "QA2"),
    ("csi-resizer", "migrated", "QR1"),
    ("csi-snapshotter", "node-deployment", "Q28"),
];

/// P-19: rows of docs/parity.md about features that the workload uses.
pub(crate) fn deviations(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let Some((values, _)) = &case.read else {
        return;
    };
    let spec = template(case.container.workload).to_string();
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let mut words = spec.split(|c| !of_name(c));
    let moved = words.any(|word| migration::TRANSLATOR.has_moved_to(word));
    let uses = |what: &str| match what {
        "migrated" => moved,
        flag => values.has(flag) && values.bool(flag),
    };
    let own = DEVIATIONS
        .iter()
        .filter(|(program, what, _)| *program == case.program.name && uses(what));
    let rows: Vec<_> = own.map(|(_, _, row)| *row).collect();
    if !rows.is_empty() {
        remarks.push(Remark::note(
            "P-19",
            format!(
                "differences from upstream that apply here, by their rows in docs/parity.md: {}",
                rows.join(", ")
            ),
        ));
    }
}

/// P-21: profiling.
pub(crate) fn profiles(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let Some((values, _)) = &case.read else {
        return;
    };
    if values.has("enable-pprof") && values.bool("enable-pprof") {
        remarks.push(
            Remark::new(
                "P-21",
                Verdict::Loss,
                "--enable-pprof: there are no Go profiles in this program, and the paths say so",
            )
            .at(case.place("enable-pprof")),
        );
    }
}
