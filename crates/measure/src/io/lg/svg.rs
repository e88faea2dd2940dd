//! The slides' charts drawn again with our figures: bars for each contender, a series for each number of cores or way of reading, and what the slides
//! state about it above.

use std::fmt::Write as _;

use super::slides::{SOURCE, STATEMENTS};
use super::{Contender, LgRow, Work};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 40.0;
const COLOURS: [&str; 6] = ["#9ecae1", "#4292c6", "#084594", "#fdae6b", "#e6550d", "#a63603"];

/// What is in one chart, and which slides have the same.
const CHARTS: [(&str, &[Work], &[u32]); 4] = [
    ("Sequential write, MiB/s", &[Work::Write], &[4, 15]),
    ("Sequential read, MiB/s", &[Work::Read, Work::ReadOneThread], &[4, 13, 18, 21]),
    ("Sequential read by 4 KiB, MiB/s", &[Work::ReadPages, Work::ReadNotAhead], &[]),
    ("Random read of 4 KiB, requests/s", &[Work::Random, Work::RandomNotAhead], &[21]),
];

/// Four charts, two in a row.
pub fn lg_chart(rows: &[LgRow]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        2.0 * WIDTH,
        2.0 * HEIGHT + 30.0
    );
    for (i, (title, works, slides)) in CHARTS.into_iter().enumerate() {
        let series: Vec<&LgRow> = rows.iter().filter(|row| works.contains(&row.work)).collect();
        let (x0, y0) = ((i % 2) as f64 * WIDTH, (i / 2) as f64 * HEIGHT);
        chart(&mut svg, (x0, y0), title, &series, slides);
    }
    // Writing to a String can't fail, here and below.
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\">Bars: measured here. Labels in grey: {}</text>\n</svg>",
        2.0 * HEIGHT + 15.0,
        SOURCE.replace('"', "&quot;")
    );
    svg
}

fn chart(svg: &mut String, (x0, y0): (f64, f64), title: &str, series: &[&LgRow], slides: &[u32]) {
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let most = series.iter().flat_map(|row| row.speeds).fold(0.0, f64::max).max(1e-3);
    let top = round_up(most);
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" font-size=\"15\">{title}</text>", x0 + LEFT, y0 + 20.0);
    let labels: Vec<String> = STATEMENTS
        .iter()
        .filter(|(slide, what, _)| slides.contains(slide) && about(title, what))
        .map(|(slide, _, labels)| format!("slide {slide}: {labels}"))
        .collect();
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" fill=\"#777\">{}</text>",
        x0 + LEFT,
        y0 + 38.0,
        labels.join("; ")
    );
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
        let way = match row.work {
            Work::ReadOneThread => ", 1 thread",
            Work::RandomNotAhead => ", not ahead",
            _ => "",
        };
        let cores = if row.cores == 1 { "core" } else { "cores" };
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{} {cores}{way}</text>",
            left + 15.0,
            y + 9.0,
            row.cores
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
