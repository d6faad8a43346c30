//! The plots. A panel is drawn when all of its results are recorded, a plot when one of its panels is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::Result;

use crate::captions::{colour, legend, sources};
use crate::folder;
use crate::record::{OURS, Records, Run};
use crate::svg::{self, Bar, Line, Theme};

/// A plot, drawn as a file for each theme.
struct Plot {
    name: &'static str,
    title: &'static str,
    panels: &'static [Panel],
}

struct Panel {
    title: &'static str,
    program: &'static str,
    shows: Shows,
}

enum Shows {
    /// Bars: label, profile, figure.
    Bars(&'static [(&'static str, &'static str, &'static str)]),
    /// The figure of profile `large` by the number of objects, from runs of several `SCALE`s.
    Growth {
        objects: &'static str,
        figure: &'static str,
    },
}

const IDLE: &str = "RSS as idle leader, MB";

/// Name of the figure of one process beside the sum of five.
const BESIDE: &str = "RSS with *, beside the sum, MB";

/// A panel about the five single programs, and all of them together.
const fn growth(title: &'static str, figure: &'static str) -> Panel {
    let shows = Shows::Growth {
        objects: "volumes or snapshots",
        figure,
    };
    Panel {
        title,
        program: "csi-sidecars",
        shows,
    }
}

/// `*` in the name of a figure stands for any text.
static PLOTS: &[Plot] = &[
    Plot {
        name: "chaos",
        title: "1,000 claims while a fault strikes every 3.5 seconds",
        panels: &[
            Panel {
                title: "volumes leaked in the storage",
                program: "chaos",
                shows: Shows::Bars(&[
                    ("seed 1", "seed 1", "volumes in the storage without *"),
                    ("seed 2", "seed 2", "volumes in the storage without *"),
                ]),
            },
            Panel {
                title: "calls by a leader that had lost its lease",
                program: "chaos",
                shows: Shows::Bars(&[
                    ("seed 1", "seed 1", "calls of a thawed or cut-off leader *"),
                    ("seed 2", "seed 2", "calls of a thawed or cut-off leader *"),
                ]),
            },
        ],
    },
    Plot {
        name: "memory",
        title: "Resident memory by the number of objects in the cluster",
        panels: &[
            growth("all five sidecars, MB by volumes", BESIDE),
            growth(
                "csi-provisioner, MB by volumes",
                "csi-provisioner: RSS with *, MB",
            ),
            growth(
                "csi-attacher, MB by volumes",
                "csi-attacher: RSS with *, MB",
            ),
            growth("csi-resizer, MB by volumes", "csi-resizer: RSS with *, MB"),
            Panel {
                title: "csi-snapshotter, MB by snapshots",
                program: "csi-snapshotter",
                shows: Shows::Growth {
                    objects: "csi-snapshotter: volumes or snapshots",
                    figure: "csi-snapshotter: RSS with *, MB",
                },
            },
        ],
    },
    Plot {
        name: "processor",
        title: "Processor time",
        panels: &[
            Panel {
                title: "seconds to provision and delete 1,000 volumes",
                program: "csi-provisioner",
                shows: Shows::Bars(&[("csi-provisioner", "provision", "CPU-s for both")]),
            },
            Panel {
                title: "milliseconds to attach and detach a volume",
                program: "csi-attacher",
                shows: Shows::Bars(&[("csi-attacher", "cycle", "CPU per attach and detach, ms")]),
            },
            Panel {
                title: "milliseconds to expand a volume",
                program: "csi-resizer",
                shows: Shows::Bars(&[("csi-resizer", "expand", "CPU per expansion, ms")]),
            },
            Panel {
                title: "milliseconds to create and delete a snapshot",
                program: "csi-snapshotter",
                shows: Shows::Bars(&[
                    ("csi-snapshotter", "cycle", "csi-snapshotter: CPU per *"),
                    (
                        "snapshot-controller",
                        "cycle",
                        "snapshot-controller: CPU per *",
                    ),
                ]),
            },
        ],
    },
    Plot {
        name: "rate",
        title: "Objects a second, all requested at once",
        panels: &[
            Panel {
                title: "claims provisioned, of 1,000",
                program: "csi-provisioner",
                shows: Shows::Bars(&[(
                    "csi-provisioner",
                    "provision",
                    "claims provisioned per second",
                )]),
            },
            Panel {
                title: "volumes expanded, of 500",
                program: "csi-resizer",
                shows: Shows::Bars(&[("csi-resizer", "expand", "expansions per second")]),
            },
            Panel {
                title: "snapshots ready, of 500",
                program: "csi-snapshotter",
                shows: Shows::Bars(&[(
                    "csi-snapshotter",
                    "cycle",
                    "snapshots ready per second, *",
                )]),
            },
        ],
    },
    Plot {
        name: "together",
        title: "Five sidecars in one process and in five",
        panels: &[
            Panel {
                title: "resident memory, MB",
                program: "csi-sidecars",
                shows: Shows::Bars(&[
                    ("empty cluster", "idle", IDLE),
                    (
                        "50,000 volumes",
                        "large",
                        "RSS with 50000 *, beside the sum, MB",
                    ),
                ]),
            },
            Panel {
                title: "processor time until the caches have 50,000 volumes, s",
                program: "csi-sidecars",
                shows: Shows::Bars(&[(
                    "50,000 volumes",
                    "large",
                    "CPU-s until caches are full, *",
                )]),
            },
            Panel {
                title: "read from the API server until then, MB",
                program: "csi-sidecars",
                shows: Shows::Bars(&[(
                    "50,000 volumes",
                    "large",
                    "MB from the API server until then",
                )]),
            },
        ],
    },
];

/// The result of [`draw`].
#[derive(Debug, Default)]
pub struct Drawn {
    /// File contents by file name.
    pub files: BTreeMap<String, String>,
    /// Name and title of each plot.
    pub plots: Vec<(&'static str, &'static str)>,
    /// Panels without results.
    pub missing: Vec<String>,
}

/// Draws the recorded results.
pub fn draw(records: &Records) -> Drawn {
    let mut drawn = Drawn::default();
    for plot in PLOTS {
        let (mut panels, mut runs) = (Vec::new(), Vec::new());
        for panel in plot.panels {
            match panel.of(records) {
                Some((content, of)) => {
                    panels.push((panel.title, content));
                    runs.extend(of);
                }
                None => drawn.missing.push(format!(
                    "{}: {} ({})",
                    plot.name, panel.title, panel.program
                )),
            }
        }
        if panels.is_empty() {
            continue;
        }
        drawn.plots.push((plot.name, plot.title));
        let legend = legend(&runs);
        for theme in &Theme::ALL {
            let text = svg::plot(theme, plot.title, &legend, &panels, &sources(&runs));
            let file = format!("{}-{}.svg", plot.name, theme.name);
            drawn.files.insert(file, text);
        }
    }
    drawn
}

/// Pictures in the folder of figures that [`draw`] no longer makes.
///
/// # Errors
///
/// The folder cannot be read.
pub fn superfluous(drawn: &Drawn) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_plot = Theme::ALL
            .iter()
            .any(|theme| name.ends_with(&format!("-{}.svg", theme.name)));
        if is_plot && !drawn.files.contains_key(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

impl Panel {
    fn of<'a>(&self, records: &'a Records) -> Option<(svg::Content, Vec<&'a Run>)> {
        let runs = records.get(self.program)?;
        match &self.shows {
            Shows::Bars(rows) => bars(runs, rows),
            Shows::Growth { objects, figure } => lines(runs, objects, figure),
        }
    }
}

fn bars<'a>(
    runs: &'a [Run],
    rows: &[(&'static str, &'static str, &'static str)],
) -> Option<(svg::Content, Vec<&'a Run>)> {
    let (mut bars, mut used) = (Vec::new(), Vec::new());
    for (label, profile, figure) in rows {
        let mut whole: Vec<_> = { runs.iter() }
            .filter(|run| run.profile == *profile && run.scale == 1.0)
            .collect();
        // Our program comes first.
        whole.sort_by_key(|run| run.of != OURS);
        let [ours, other, ..] = *whole else {
            return None;
        };
        if ours.of != OURS {
            return None;
        }
        let values = [value(ours, figure)?, value(other, figure)?];
        bars.push(Bar { label, values });
        used.extend([ours, other]);
    }
    Some((svg::Content::Bars(bars), used))
}

fn lines<'a>(runs: &'a [Run], objects: &str, figure: &str) -> Option<(svg::Content, Vec<&'a Run>)> {
    let (mut lines, mut used) = (Vec::new(), Vec::new());
    let whose: BTreeSet<&str> = runs.iter().map(|run| run.of.as_str()).collect();
    for of in whose {
        let (mut points, mut from) = (Vec::new(), Vec::new());
        for run in { runs.iter() }.filter(|run| run.of == of && run.profile == "large") {
            if let Some(point) = value(run, objects).zip(value(run, figure)) {
                points.push(point);
                from.push(run);
            }
        }
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        // A line needs two points.
        if points.len() > 1 {
            lines.push(Line {
                colour: colour(of),
                points,
            });
            used.extend(from);
        }
    }
    (!lines.is_empty()).then_some((svg::Content::Lines(lines), used))
}

/// The value of the only figure with that name, in which `*` is any text.
pub(crate) fn value(run: &Run, name: &str) -> Option<f64> {
    named(run, name).map(|(_, value)| value)
}

/// The only figure with that name, in which `*` is any text: its full name and its value.
pub(crate) fn named<'a>(run: &'a Run, name: &str) -> Option<(&'a str, f64)> {
    let (begin, end) = name.split_once('*').unwrap_or((name, ""));
    let is_it = |known: &str| {
        if name.contains('*') {
            known
                .strip_prefix(begin)
                .is_some_and(|it| it.ends_with(end))
        } else {
            known == name
        }
    };
    let mut found = run.figures.iter().filter(|(known, _)| is_it(known));
    let first = found.next().map(|(known, value)| (known.as_str(), *value));
    first.filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(profile: &str, of: &str, scale: f64, figures: &[(&str, f64)]) -> Run {
        let figures = figures.iter().map(|(name, it)| ((*name).to_owned(), *it));
        Run {
            profile: profile.to_owned(),
            of: of.to_owned(),
            version: (of != OURS).then(|| "v6.4.0".to_owned()),
            commit: Some("0123456789ab".to_owned()),
            command: "make bench".to_owned(),
            machine: String::new(),
            scale,
            figures: figures.collect(),
        }
    }

    /// Results for every plot, with made-up numbers that are never written anywhere.
    fn everything() -> Records {
        let mut records = Records::new();
        for panel in PLOTS.iter().flat_map(|plot| plot.panels) {
            let runs = records.entry(panel.program.to_owned()).or_default();
            let mut add = |profile: &str, scale: f64, figures: &[(&str, f64)]| {
                for of in [OURS, "upstream"] {
                    let same =
                        |it: &&mut Run| it.profile == profile && it.of == of && it.scale == scale;
                    let new = run(profile, of, scale, figures);
                    match runs.iter_mut().find(same) {
                        Some(old) => old.figures.extend(new.figures),
                        None => runs.push(new),
                    }
                }
            };
            match &panel.shows {
                Shows::Bars(rows) => {
                    for (_, profile, figure) in *rows {
                        add(profile, 1.0, &[(figure.replace('*', "x").as_str(), 3.0)]);
                    }
                }
                Shows::Growth { objects, figure } => {
                    for scale in [0.1, 1.0] {
                        let figure = figure.replace('*', "50000 x");
                        let figures = [(*objects, scale * 5e4), (figure.as_str(), scale * 30.0)];
                        add("large", scale, &figures);
                    }
                }
            }
        }
        records
    }

    #[test]
    fn what_is_recorded_is_drawn_in_both_themes() {
        let drawn = draw(&everything());
        assert_eq!(drawn.missing, [""; 0]);
        assert_eq!(drawn.files.len(), 2 * PLOTS.len());
        for (name, text) in &drawn.files {
            assert!(
                text.starts_with("<svg ") && text.ends_with("</svg>\n"),
                "{name}"
            );
            assert!(text.contains(" at 0123456789ab: make bench"), "{name}");
            let upstream = "upstream v6.4.0, beside 0123456789ab";
            assert!(text.contains(upstream), "{name}");
            assert!(
                !text.contains(">ours "),
                "{name}: a name that no legend has"
            );
            assert!(!text.contains("NaN"), "{name}: {text}");
        }
    }

    #[test]
    fn what_is_not_recorded_is_named_and_not_drawn() {
        let mut records = everything();
        let runs = records.get_mut("csi-provisioner").unwrap();
        runs.retain(|run| run.of == OURS);
        let runs = records.get_mut("csi-sidecars").unwrap();
        runs.retain(|run| run.profile == "large" && run.of == OURS);
        let drawn = draw(&records);
        assert!(!drawn.files.contains_key("together-dark.svg"));
        let named = |text: &str| drawn.missing.iter().any(|it| it.contains(text));
        assert!(named("rate: claims provisioned"), "{:?}", drawn.missing);
        assert!(named("together: resident memory"), "{:?}", drawn.missing);
        // Memory is drawn without another program to compare with.
        assert!(!named("memory:"), "{:?}", drawn.missing);
    }

    #[test]
    fn numbers_at_ends_that_meet_stand_above_one_another() {
        let drawn = draw(&everything());
        let text = &drawn.files["memory-light.svg"];
        // Both lines of a panel have the same values.
        let tall = |line: &str| Some(line.split_once("y=\"")?.1.split_once('"')?.0.to_owned());
        let ends = text.lines().filter(|line| line.contains(">30</text>"));
        let ends: Vec<_> = ends.filter_map(tall).take(2).collect();
        assert!(ends.len() == 2 && ends[0] != ends[1], "{ends:?}");
    }

    #[test]
    fn a_name_that_fits_two_figures_is_none() {
        let two = run("large", OURS, 1.0, &[("RSS a", 1.0), ("RSS b", 2.0)]);
        assert_eq!(value(&two, "RSS *"), None);
        assert_eq!(value(&two, "RSS b"), Some(2.0));
    }
}
