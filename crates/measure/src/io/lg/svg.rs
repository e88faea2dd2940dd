//! The slides' charts drawn again with our figures: bars for each contender, a series for each number of cores or way of reading, and what the slides
//! state about it above.

use std::fmt::Write as _;

use super::slides::{SOURCE, STATEMENTS};
use super::{Contender, LgRow, Work};

const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 390.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
/// Room for the title and four lines of what was published.
const TOP: f64 = 108.0;
const BOTTOM: f64 = 40.0;
const LINE: f64 = 15.0;
const COLOURS: [&str; 6] = ["#9ecae1", "#4292c6", "#084594", "#fdae6b", "#e6550d", "#a63603"];

/// Title, unit, what is in the chart, and which slides have the same.
const CHARTS: [(&str, &str, &[Work], &[u32]); 4] = [
    ("Sequential write", "MiB/s", &[Work::Write], &[4, 15]),
    ("Sequential read", "MiB/s", &[Work::Read, Work::ReadOneThread], &[4, 13, 18, 21]),
    ("Sequential read by 4 KiB", "MiB/s", &[Work::ReadPages, Work::ReadNotAhead], &[]),
    ("Random read of 4 KiB", "requests per second", &[Work::Random, Work::RandomNotAhead], &[21]),
];

/// What the names below the bars mean.
const NAMES: [&str; 2] = [
    "plain: no encryption. volume CBC: dm-crypt with AES-128-CBC. volume XTS: LUKS2 with AES-256-XTS. fscrypt: AES-256-XTS, a key for each file.",
    "eCryptfs: AES-128-CBC, a key for each file. Bars: measured here, higher is better, from 0 on a linear scale. Grey text: published figures, from",
];

/// Four charts, two in a row.
pub fn lg_chart(rows: &[LgRow]) -> String {
    let bottom = 2.0 * HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        2.0 * WIDTH,
        bottom + 4.0 * LINE
    );
    for (i, (title, unit, works, slides)) in CHARTS.into_iter().enumerate() {
        let series: Vec<&LgRow> = rows.iter().filter(|row| works.contains(&row.work)).collect();
        let (x0, y0) = ((i % 2) as f64 * WIDTH, (i / 2) as f64 * HEIGHT);
        chart(&mut svg, (x0, y0), (title, unit), &series, slides);
    }
    let source = SOURCE.replace('"', "&quot;");
    for (number, line) in NAMES.into_iter().chain([source.as_str()]).enumerate() {
        let y = bottom + LINE * (number as f64 + 1.0);
        // Writing to a String can't fail, here and below.
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{y}\">{line}</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

/// What tells a series from the others of its chart.
fn label(row: &LgRow) -> String {
    let cores = if row.cores == 1 { "core" } else { "cores" };
    let way = match row.work {
        Work::Write => "",
        Work::Read => ", all threads",
        Work::ReadOneThread => ", one thread",
        Work::ReadPages | Work::Random => ", read-ahead",
        Work::ReadNotAhead | Work::RandomNotAhead => ", no read-ahead",
    };
    format!("{} {cores}{way}", row.cores)
}

fn chart(
    svg: &mut String,
    (x0, y0): (f64, f64),
    (title, unit): (&str, &str),
    series: &[&LgRow],
    slides: &[u32],
) {
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let most = series.iter().flat_map(|row| row.speeds).fold(0.0, f64::max).max(1e-3);
    let top = round_up(most);
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" font-size=\"15\">{title}, {unit}</text>",
        x0 + LEFT,
        y0 + 20.0
    );
    let (axis_x, axis_y) = (x0 + 16.0, y0 + TOP + height / 2.0);
    let _ = writeln!(
        svg,
        "<text class=\"unit\" transform=\"rotate(-90 {axis_x} {axis_y})\" x=\"{axis_x}\" y=\"{axis_y}\" text-anchor=\"middle\">{unit}</text>"
    );
    let published = STATEMENTS.iter().filter(|(slide, what, _)| slides.contains(slide) && about(title, what));
    for (number, (_, what, labels)) in published.enumerate() {
        let y = y0 + 38.0 + LINE * number as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{y}\" fill=\"#777\">Published: {what}: {labels}</text>",
            x0 + LEFT
        );
    }
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let y = y0 + TOP + height * (1.0 - value / top);
        let _ = writeln!(
            svg,
            "<line x1=\"{}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            x0 + LEFT,
            x0 + LEFT + width,
            x0 + LEFT - 6.0,
            y + 4.0
        );
    }
    let group = width / Contender::ALL.len() as f64;
    let bar = group * 0.8 / series.len().max(1) as f64;
    for (i, contender) in Contender::ALL.into_iter().enumerate() {
        let left = x0 + LEFT + group * (i as f64 + 0.1);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            left + group * 0.4,
            y0 + HEIGHT - BOTTOM + 16.0,
            contender.name()
        );
        for ((number, row), colour) in series.iter().enumerate().zip(COLOURS.into_iter().cycle()) {
            let tall = height * row.of(contender) / top;
            let _ = writeln!(
                svg,
                "<rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"{colour}\"/>",
                left + bar * number as f64,
                y0 + TOP + height - tall,
                bar * 0.95
            );
        }
    }
    for ((number, row), colour) in series.iter().enumerate().zip(COLOURS.into_iter().cycle()) {
        let (left, y) = (x0 + LEFT + width + 10.0, y0 + TOP + 18.0 * number as f64);
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text class=\"legend\" x=\"{}\" y=\"{}\">{}</text>",
            left + 15.0,
            y + 9.0,
            label(row)
        );
    }
}

/// Whether a statement belongs to a chart: a slide may have charts of several kinds.
fn about(title: &str, what: &str) -> bool {
    let random = title.starts_with("Random");
    let write = title.starts_with("Sequential write");
    what.starts_with("random") == random && (random || what.contains(if write { "write" } else { "read" }))
}

/// The next of 1, 2, 4, 8, 10, 20 …
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * decade).find(|top| *top >= value).unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_legend_is_another_and_every_axis_has_its_unit() {
        let row = |work, cores| LgRow { work, cores, speeds: [900.0, 300.0, 800.0, 850.0, 280.0] };
        let rows: Vec<LgRow> = Work::ALL
            .into_iter()
            .flat_map(|work| [1, 2, 4].map(|cores| row(work, cores)))
            .filter(|row| !(row.work == Work::ReadOneThread && row.cores == 1))
            .collect();
        let svg = lg_chart(&rows);
        for chart in svg.split("font-size=\"15\"").skip(1) {
            let legend: Vec<&str> = chart
                .split("class=\"legend\"")
                .skip(1)
                .filter_map(|text| text.split(['>', '<']).nth(1))
                .collect();
            let different: std::collections::BTreeSet<&&str> = legend.iter().collect();
            assert!(legend.len() >= 3 && different.len() == legend.len(), "{legend:?}");
            assert_eq!(chart.matches("class=\"unit\"").count(), 1);
        }
        assert!(
            !svg.contains("slide 4") && svg.contains("Published: ") && svg.contains("linear scale"),
            "{svg}"
        );
    }
}
