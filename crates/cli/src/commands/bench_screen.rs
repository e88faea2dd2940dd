//! The screen of `atrest bench`: at most 25 lines of at most 80 columns, with bars.

use std::fmt::Write as _;
use std::io::stdout;

use atrest_kdf::Argon2Kind;
use atrest_measure::{CipherRow, KdfCost, KdfRow};

use crate::bars::{bar, columns, has_blocks};

const MIB: f64 = 1_048_576.0;
/// Columns of a bar where there is room.
const BAR: usize = 16;

/// How much room there is, and what can be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Columns.
    pub columns: usize,
    /// Whether there are block characters.
    pub blocks: bool,
}

impl Screen {
    /// That of standard output.
    pub fn of_stdout() -> Self {
        Self { columns: columns(&stdout()), blocks: has_blocks() }
    }

    /// Columns for a bar, beside so many for everything else.
    fn room(self, others: usize) -> usize {
        // intended: a terminal without room has no bar.
        self.columns.saturating_sub(others + 2).min(BAR)
    }
}

/// The whole text.
pub fn text(ciphers: &[CipherRow], kdfs: &[KdfRow], screen: &Screen) -> String {
    let mut text = String::new();
    let most = ciphers.iter().map(|row| row.threads).max().unwrap_or(1);
    let of = |row: &CipherRow, threads| {
        ciphers.iter().find(|other| {
            other.cipher == row.cipher && other.key_bits == row.key_bits && other.threads == threads
        })
    };
    let widest = screen.columns >= 76;
    let room = if widest { screen.room(62) } else { screen.room(46) };
    let fastest = ciphers.iter().map(|row| row.encrypt).fold(0.0, f64::max);
    let backend = ciphers.first().map_or("", |row| row.backend);
    // Writing to a String can't fail, here and below.
    let _ = writeln!(text, "Ciphers in MiB/s, 4 KiB sectors in memory (AES by {backend})\n");
    let heading = match most {
        1 => "1 core".to_owned(),
        most => format!("{most} cores"),
    };
    let rows: Vec<&CipherRow> = ciphers.iter().filter(|row| row.threads == most).collect();
    let head = match widest {
        true => format!("{:<30} {:>4} {:>8} {heading:>8} {:>8}", "", "key", "1 core", "decrypt"),
        false => format!("{:<30} {heading:>8}", ""),
    };
    let _ = writeln!(text, "{}", head.trim_end());
    for row in &rows {
        let name = format!("{}{}", row.cipher, if row.constant_time { "" } else { " *" });
        let one = of(row, 1).map_or(row.encrypt, |one| one.encrypt);
        let bar = bar(row.encrypt, fastest, room, screen.blocks);
        let line = match widest {
            true => format!(
                "{name:<30} {:>4} {:>8.0} {:>8.0} {:>8.0} {bar}",
                row.key_bits,
                one / MIB,
                row.encrypt / MIB,
                row.decrypt / MIB
            ),
            false => format!("{:<30} {:>8.0} {bar}", with_key(name, row.key_bits), row.encrypt / MIB),
        };
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if rows.iter().any(|row| !row.constant_time) {
        text.push_str("* its time depends on key and data: others on this machine may learn\n");
    }
    text.push_str("\nOne try of a passphrase\n\n");
    let slowest = kdfs.iter().map(|row| row.elapsed.as_secs_f64()).fold(0.0, f64::max);
    for row in kdfs {
        let seconds = row.elapsed.as_secs_f64();
        let (name, cost, figure) = match row.cost {
            KdfCost::Argon2(cost) => {
                let name = if cost.kind == Argon2Kind::I { "argon2i" } else { "argon2id" };
                (
                    name.to_owned(),
                    format!("{} MiB, {} passes", cost.memory_kib >> 10, cost.time),
                    format!("{seconds:.2} s"),
                )
            }
            KdfCost::Pbkdf2 { hash, .. } => {
                let rate = row.iterations_per_second().unwrap_or(0.0);
                (
                    format!("pbkdf2-{}", hash.name()),
                    String::new(),
                    format!("{:.1} million rounds/s", rate / 1e6),
                )
            }
            _ => continue,
        };
        let line = match (row.cost, widest) {
            (KdfCost::Argon2(_), true) => {
                format!("{name:<15} {cost:<28} {figure:>17} {}", bar(seconds, slowest, room, screen.blocks))
            }
            (_, true) => format!("{name:<15} {cost:<23} {figure:>22}"),
            (KdfCost::Argon2(cost), false) => {
                format!("{:<16} {figure:>22}", format!("{name} {}M", cost.memory_kib >> 10))
            }
            (_, false) => format!("{name:<14} {figure:>24}"),
        };
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str("\nMore: atrest bench --all, atrest bench io DIR --table zynq\n");
    text
}

/// The name with the bits of its key, where both fit the column.
fn with_key(name: String, bits: usize) -> String {
    let both = format!("{name} {bits}");
    if both.len() <= 30 { both } else { name }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use atrest_measure::{BenchOptions, USUAL_CIPHERS, cipher, usual_kdfs};

    use super::*;

    /// Rows as this machine has them, measured for no longer than it takes to have them.
    fn rows() -> (Vec<CipherRow>, Vec<KdfRow>) {
        let mut options = BenchOptions::usual();
        (options.memory, options.time, options.threads) = (64 << 10, Duration::from_millis(1), vec![1, 2]);
        let (mut ciphers, mut kdfs) = (Vec::new(), Vec::new());
        for (name, bits) in USUAL_CIPHERS {
            let spec = name.parse().expect("a cipher");
            cipher(&spec, bits, &options, &mut |row| ciphers.push(row)).expect("it is measured");
        }
        usual_kdfs(&options, &mut |row| kdfs.push(row)).expect("they are measured");
        (ciphers, kdfs)
    }

    #[test]
    fn the_screen_has_25_lines_of_80_columns_and_a_narrow_one_40() {
        let (ciphers, kdfs) = rows();
        for (columns, blocks) in [(80, true), (80, false), (200, true), (60, true), (40, true), (40, false)] {
            let text = text(&ciphers, &kdfs, &Screen { columns, blocks });
            assert!(text.lines().count() <= 25, "{text}");
            for line in text.lines() {
                let wide = line.chars().count();
                // Sentences wrap at words; the table does not.
                let is_row = line.contains("  ");
                assert!(wide <= if is_row { columns.min(80) } else { 80 }, "{wide} columns: {line}");
            }
            assert_eq!(text.contains('█'), blocks && columns > 40, "{text}");
            assert_eq!(text.is_ascii(), !text.contains('█') && !text.contains('▏'), "{text}");
            for name in ["aes-xts-plain64", "serpent-xts-plain64", "argon2id", "pbkdf2-sha256"] {
                assert!(text.contains(name), "{name} is missing in {text}");
            }
        }
    }
}
