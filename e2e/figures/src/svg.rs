//! Bars and lines as SVG, without measuring texts: they are placed so that any font fits.

use std::fmt::Write as _;

/// A theme's colours.
#[derive(Debug)]
pub(crate) struct Theme {
    pub(crate) name: &'static str,
    background: &'static str,
    text: &'static str,
    faint: &'static str,
    /// Colours of our program, the other one, and a third one.
    colours: [&'static str; 3],
}

impl Theme {
    pub(crate) const ALL: [Self; 2] = [
        Self {
            name: "light",
            background: "#ffffff",
            text: "#1f2328",
            faint: "#59636e",
            colours: ["#0969da", "#8c959f", "#1a7f37"],
        },
        Self {
            name: "dark",
            background: "#0d1117",
            text: "#f0f6fc",
            faint: "#9198a1",
            colours: ["#4493f8", "#656c76", "#3fb950"],
        },
    ];
}

impl Theme {
    fn colour(&self, colour: Colour) -> &'static str {
        self.colours.get(colour).unwrap_or(&self.text)
    }
}

/// Index of a theme's colour: our program, the other one, a third one.
pub(crate) type Colour = usize;

/// Our value and the other program's.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) label: &'static str,
    pub(crate) values: [f64; 2],
}

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) colour: Colour,
    /// Sorted by the first coordinate.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Content of a panel.
#[derive(Debug)]
pub(crate) enum Content {
    Bars(Vec<Bar>),
    Lines(Vec<Line>),
}

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 20.0;
/// Where bars begin, and the length of the longest.
const BARS: (f64, f64) = (200.0, 440.0);
const THICK: f64 = 14.0;
/// Size of a panel with lines.
const AREA: (f64, f64) = (340.0, 190.0);

pub(crate) fn plot(
    theme: &Theme,
    title: &str,
    legend: &[(Colour, String)],
    panels: &[(&str, Content)],
    sources: &[String],
) -> String {
    let mut body = Body {
        theme,
        out: String::new(),
    };
    body.text((MARGIN, 30.0), "t", title);
    let mut x = MARGIN;
    for (colour, name) in legend {
        body.bar((x, 44.0), (THICK, THICK), theme.colour(*colour));
        body.text((x + 20.0, 56.0), "", name);
        x += 60.0 + 8.0 * width(name);
    }
    let mut y = 72.0;
    let mut is_left = true;
    for (title, content) in panels {
        match content {
            Content::Bars(bars) => y = body.bars(y, title, bars),
            Content::Lines(lines) => {
                let x = if is_left { MARGIN } else { WIDTH / 2.0 };
                body.lines((x, y), title, lines);
                if !is_left {
                    y += AREA.1;
                }
                is_left = !is_left;
            }
        }
    }
    if !is_left {
        y += AREA.1;
    }
    y += 8.0;
    for source in sources {
        y += 15.0;
        body.text((MARGIN, y), "s", source);
    }
    let height = y + 16.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{}</title>\n\
         <style>text{{font:13px system-ui,sans-serif;fill:{}}}.t{{font-size:17px;font-weight:600}}.p{{font-weight:600}}\
         .s{{font-size:11px;fill:{faint}}}.e{{text-anchor:end}}line{{stroke:{faint};stroke-width:.5}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n{}</svg>\n",
        escaped(title),
        theme.text,
        theme.background,
        body.out,
        faint = theme.faint,
    )
}

struct Body<'a> {
    theme: &'a Theme,
    out: String,
}

impl Body<'_> {
    fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let class = if class.is_empty() {
            String::new()
        } else {
            format!(" class=\"{class}\"")
        };
        let text = escaped(text);
        let (x, y) = (short(x), short(y));
        self.push(&format!("<text x=\"{x}\" y=\"{y}\"{class}>{text}</text>"));
    }

    fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        let (x, y, width, height) = (short(x), short(y), short(width), short(height));
        self.push(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
        ));
    }

    fn push(&mut self, element: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{element}");
    }

    /// Draws bars, all with the same scale. Returns where the next panel begins.
    fn bars(&mut self, top: f64, title: &str, bars: &[Bar]) -> f64 {
        let largest = bars.iter().flat_map(|bar| bar.values).fold(0.0, f64::max);
        let mut y = top + 18.0;
        self.text((MARGIN, y), "p", title);
        y += 10.0;
        for bar in bars {
            self.text((MARGIN, y + THICK + 4.0), "", bar.label);
            for (value, colour) in bar.values.into_iter().zip(self.theme.colours) {
                let long = if largest > 0.0 {
                    value / largest * BARS.1
                } else {
                    0.0
                };
                // A value of zero is drawn as a thin line.
                self.bar((BARS.0, y), (long.max(1.0), THICK - 2.0), colour);
                let end = (BARS.0 + long + 8.0, y + THICK - 3.0);
                self.text(end, "", &digits(value));
                y += THICK;
            }
            y += 10.0;
        }
        y
    }

    /// Draws lines from zero in both coordinates; each line ends with its last value.
    fn lines(&mut self, (left, top): (f64, f64), title: &str, lines: &[Line]) {
        self.text((left, top + 18.0), "p", title);
        let all = || lines.iter().flat_map(|line| line.points.iter().copied());
        let most = all().fold((0.0, 0.0), |most: (f64, f64), point| {
            (most.0.max(point.0), most.1.max(point.1))
        });
        let (width, height) = (AREA.0 - 90.0, AREA.1 - 70.0);
        let (x0, y0) = (left + 10.0, top + 34.0 + height);
        let place = |(x, y): (f64, f64)| (x0 + x / most.0 * width, y0 - y / most.1 * height);
        let (right, baseline) = (short(x0 + width), short(y0));
        let from = short(x0);
        self.push(&format!(
            "<line x1=\"{from}\" y1=\"{baseline}\" x2=\"{right}\" y2=\"{baseline}\"/>"
        ));
        self.text((x0, y0 + 16.0), "s", "0");
        self.text((x0 + width, y0 + 16.0), "s e", &thousands(most.0));
        for line in lines {
            let colour = self.theme.colour(line.colour);
            let mut points = String::new();
            for point in &line.points {
                let (x, y) = place(*point);
                let _ = write!(points, "{},{} ", short(x), short(y));
            }
            let points = points.trim_end();
            self.push(&format!(
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            ));
            for point in &line.points {
                let (x, y) = place(*point);
                let (x, y) = (short(x), short(y));
                self.push(&format!(
                    "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>"
                ));
            }
        }
        // Where lines end close to each other, their numbers are stacked, the lowest at its own place.
        let ends = lines.iter().filter_map(|line| line.points.last());
        let mut ends: Vec<_> = ends.map(|last| (place(*last), last.1)).collect();
        ends.sort_by(|((_, a), _), ((_, b), _)| b.total_cmp(a));
        let mut free = f64::INFINITY;
        for ((x, y), value) in ends {
            let y = free.min(y + 4.0);
            self.text((x + 8.0, y), "", &digits(value));
            free = y - THICK;
        }
    }
}

/// Formats a length as briefly as SVG allows.
fn short(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Formats with three significant digits.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "a text is short")]
fn width(text: &str) -> f64 {
    text.chars().count() as f64
}

pub(crate) fn escaped(text: &str) -> String {
    { text.replace('&', "&amp;") }
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
