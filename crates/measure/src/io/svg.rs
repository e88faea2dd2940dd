//! The article's two charts drawn again, as SVG: speed by size, ours beside its own. Speeds are on a logarithmic scale, as a server's disk and an SD
//! card would not fit on another.

use std::fmt::Write as _;

use super::{IoRow, Pair, zynq};

const WIDTH: f64 = 660.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 70.0;
/// Below both charts: what the lines are.
const NOTES: f64 = 40.0;
/// Name, colour, whether dashed; in the order of the lines.
const LINES: [(&str, &str, bool); 4] = [
    ("here, plain", "#1b6ca8", false),
    ("here, encrypted", "#d1495b", false),
    ("published, plain", "#1b6ca8", true),
    ("published, encrypted", "#d1495b", true),
];

/// A chart of writing beside one of reading. Random requests are left out, as in the article.
pub fn chart(rows: &[IoRow]) -> String {
    let sequential: Vec<(u64, Pair, Pair)> = rows
        .iter()
        .filter_map(|row| match *row {
            IoRow::Sequential { size, write, read } => Some((size, write, read)),
            IoRow::Random { .. } => None,
        })
        .collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        2.0 * WIDTH,
        HEIGHT + NOTES
    );
    for (i, title) in ["Writing a file", "Reading a file"].into_iter().enumerate() {
        let points = sequential.iter().map(|(size, write, read)| {
            let ours = if i == 0 { write } else { read };
            let source = zynq::row(*size).map(|(write, read)| if i == 0 { write } else { read });
            (*size, [Some(ours.plain), Some(ours.encrypted), source.map(|s| s.0), source.map(|s| s.1)])
        });
        panel(&mut svg, i as f64 * WIDTH, title, &points.collect::<Vec<_>>());
    }
    let notes = [
        "Solid lines: measured here, AES-XTS with a key of 256 bits. Dashed lines: published figures. Higher is better.",
        &format!("Published: {}", zynq::SOURCE.replace('"', "&quot;")),
    ];
    for (number, note) in notes.into_iter().enumerate() {
        // Writing to a String can't fail, here and below.
        let _ =
            writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">{note}</text>", HEIGHT + 5.0 + 18.0 * number as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, x0: f64, title: &str, points: &[(u64, [Option<f64>; 4])]) {
    let speeds = || points.iter().flat_map(|(_, speeds)| speeds.iter().flatten().copied());
    let low = speeds().fold(f64::INFINITY, f64::min).max(1e-3).log10().floor();
    let high = speeds().fold(0.0, f64::max).max(1e-2).log10().ceil().max(low + 1.0);
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let x = |i: usize| x0 + LEFT + width * (i as f64 + 0.5) / points.len().max(1) as f64;
    let y = |speed: f64| TOP + height * (1.0 - (speed.log10() - low) / (high - low));
    let _ = writeln!(svg, "<text x=\"{}\" y=\"25\" font-size=\"16\">{title}</text>", x0 + LEFT);
    let (axis_x, axis_y) = (x0 + 18.0, TOP + height / 2.0);
    let _ = writeln!(
        svg,
        "<text transform=\"rotate(-90 {axis_x} {axis_y})\" x=\"{axis_x}\" y=\"{axis_y}\" text-anchor=\"middle\">speed in MiB/s (logarithmic scale)</text>"
    );
    // The lines between powers of ten show that the scale is logarithmic.
    for exponent in low as i32..high as i32 {
        for part in 2..=9 {
            let at = y(10_f64.powi(exponent) * f64::from(part));
            let _ = writeln!(
                svg,
                "<line x1=\"{}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" stroke=\"#f2f2f2\"/>",
                x0 + LEFT,
                x0 + LEFT + width
            );
        }
    }
    for exponent in low as i32..=high as i32 {
        let speed = 10_f64.powi(exponent);
        let (left, right, at) = (x0 + LEFT, x0 + LEFT + width, y(speed));
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{speed}</text>",
            left - 6.0,
            at + 4.0
        );
    }
    for (i, (size, _)) in points.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x(i),
            HEIGHT - BOTTOM + 20.0,
            size >> 20
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">size of the file in MiB (steps, not to scale)</text>",
        x0 + LEFT + width / 2.0,
        HEIGHT - BOTTOM + 42.0
    );
    for (number, (name, colour, dashed)) in LINES.into_iter().enumerate() {
        let dash = if dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let line: Vec<String> = points
            .iter()
            .enumerate()
            .filter_map(|(i, (_, speeds))| Some(format!("{:.1},{:.1}", x(i), y(speeds[number]?))))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
            line.join(" ")
        );
        let (left, at) = (x0 + LEFT + width + 12.0, TOP + 20.0 * number as f64 + 10.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{at}\" x2=\"{}\" y2=\"{at}\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>\
             <text x=\"{}\" y=\"{}\">{name}</text>",
            left + 24.0,
            left + 30.0,
            at + 4.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_point_for_each_size() {
        let pair = Pair { plain: 900.0, encrypted: 800.0 };
        let rows: Vec<IoRow> =
            zynq::SIZES.map(|mib| IoRow::Sequential { size: mib << 20, write: pair, read: pair }).to_vec();
        let svg = chart(&rows);
        let lines: Vec<&str> = svg.lines().filter(|line| line.starts_with("<polyline")).collect();
        assert_eq!(lines.len(), 8);
        for line in lines {
            let points = line.split('"').nth(1).expect("points");
            assert_eq!(points.split(' ').count(), 8, "{line}");
        }
        // 900 lies between 100 and 1000, nearer to the upper line.
        assert!(svg.contains(">1000</text>") && svg.contains(">10</text>") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("speed in MiB/s (logarithmic scale)").count(), 2);
        assert_eq!(svg.matches("size of the file in MiB").count(), 2);
    }
}
