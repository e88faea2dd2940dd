//! What encryption costs a controller that lives on a battery: counted instructions (`firmware/figures.tsv`), and data sheets. Nothing is
//! measured here.

use crate::BenchError;

/// How a row comes about. Times are in seconds, energies in joules.
pub const ENERGY_FORMULA: &str = "\
computing  = instructions × cycles an instruction / (MHz × 10^6)
bus        = bytes on the chip / (bus MB/s × 10^6) + transfers × read µs / 10^6
programming = bytes on the chip / page bytes × page ms / 1000
erasing    = bytes on the chip / 4096 × sector ms / 1000
controller = µA/MHz × MHz × 10^-6 A
energy     = volts × (computing × controller + bus × (controller + read A) + (programming + erasing) × program A)
bytes on the chip = bytes stored, sealed: × 4096 / (9 × 424); a transfer is 512 bytes, sealed a unit of 424
writing a KiB: computing, bus, programming, erasing; reading a KiB: computing, bus
a message: written once with its share of the anchors, and read once
erases a block = days × bytes of messages on the chip a day / bytes that the tiles leave free
erases a store page = days × anchors a day / 92
an opening: sealed, closed in good order: chip MiB × 16 × (counted instructions, bytes and reads of 1/16 MiB)";

/// Instructions are executed ones of a Cortex-M4, speed build.
const BOARD: [&str; 2] = ["Cortex-M4", "speed"];
const FIGURES: &str = include_str!("figures.tsv");

const DAYS_A_YEAR: f64 = 365.25;
const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;
const ERASE_BLOCK: f64 = 4096.0;
/// Of units in an erase block, and of bytes in a unit: the desk's default.
const UNITS: f64 = 9.0;
const UNIT: f64 = 424.0;
/// A data unit, and what littlefs reads and programs at a time.
const DATA_UNIT: f64 = 512.0;
/// Records of the trusted store in two pages of the controller's flash.
const RECORDS: f64 = 92.0;

macro_rules! inputs {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $unit:literal, $source:expr;)*) => {
        /// What the table is computed from. The defaults have a source each ([`EnergyInputs::listed`]).
        #[derive(Clone, Debug, PartialEq)]
        pub struct EnergyInputs {
            $($(#[$doc])* pub $name: f64,)*
        }

        impl Default for EnergyInputs {
            fn default() -> Self {
                Self { $($name: $value,)* }
            }
        }

        impl EnergyInputs {
            /// Each input: its name, value and unit, and where the value is from.
            pub fn listed(&self) -> Vec<EnergyInput> {
                vec![$(EnergyInput {
                    name: stringify!($name),
                    value: self.$name,
                    unit: $unit,
                    source: if self.$name == $value { $source } else { "given" },
                },)*]
            }
        }
    };
}

const STM32: &str = "ST, STM32L412xx, DS12469 rev. 7: run mode with LDO, highest clock";
const NOR: &str = "Microchip, serial NOR flash with 4 KiB sectors, onlinedocs.microchip.com, \
    GUID-EF5727DA-42CC-4107-8984-4D8EAF42FF5D, en-US-1: 6.3 DC Characteristics (maximum), Features Overview (typical)";
const EMBEDDED: &str = "assumed, as in docs/EMBEDDED.md";
const PHONE: &str = "assumed: a phone";

inputs! {
    /// Current of the controller that computes, in µA for each MHz.
    mcu_ua_per_mhz = 79.0, "µA/MHz", STM32;
    /// Clock of the controller, in MHz.
    mcu_mhz = 80.0, "MHz", STM32;
    /// Cycles for an instruction.
    cycles_per_instruction = 1.0, "cycles", "assumed: loads and branches take more than one";
    /// Supply of controller and chip, in volts.
    volts = 3.3, "V", "assumed: within both data sheets";
    /// Current of the chip that is read from or written to over its bus, in mA.
    read_ma = 16.0, "mA", NOR;
    /// Current of the chip that programs or erases, in mA.
    program_ma = 15.0, "mA", NOR;
    /// Bytes in a page.
    page_bytes = 256.0, "bytes", NOR;
    /// Time to program a page, in ms.
    page_ms = 0.25, "ms", NOR;
    /// Time to erase 4 KiB, in ms.
    sector_ms = 25.0, "ms", NOR;
    /// Speed of the bus, in MB/s.
    bus_mb_per_s = 10.0, "MB/s", EMBEDDED;
    /// Time that each transfer takes beside its bytes, in µs.
    read_us = 2.0, "µs", EMBEDDED;
    /// Size of the chip, in MiB.
    chip_mib = 32.0, "MiB", PHONE;
    /// Map tiles that are written once, in MiB.
    tiles_mib = 16.0, "MiB", PHONE;
    /// Messages in MiB for each day.
    messages_mib_per_day = 1.0, "MiB", PHONE;
    /// Bytes in a message.
    message_bytes = 1024.0, "bytes", PHONE;
    /// Times a day that a sealed volume is anchored.
    anchors_per_day = 24.0, "a day", PHONE;
    /// Years.
    years = 10.0, "years", PHONE;
}

/// An input, with its source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EnergyInput {
    /// The option that sets it, with underscores.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// The unit.
    pub unit: &'static str,
    /// Where the value is from.
    pub source: &'static str,
}

/// What one mode costs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EnergyRow {
    /// The mode.
    pub mode: &'static str,
    /// Whether it is authenticated: units have tags, and openings look at them.
    pub sealed: bool,
    /// Writing a KiB: seconds.
    pub write_seconds: f64,
    /// Writing a KiB: joules.
    pub write_joules: f64,
    /// Reading a KiB: seconds.
    pub read_seconds: f64,
    /// Reading a KiB: joules.
    pub read_joules: f64,
    /// Writing a message and reading it once, in joules.
    pub message_joules: f64,
    /// Erases of each block that holds messages, in all years.
    pub erases_per_block: f64,
    /// Erases of each page of the trusted store, in all years.
    pub erases_per_store_page: Option<f64>,
    /// Seconds to open the volume: to expand a key, or to look at a sealed volume that was closed in good order.
    pub opening_seconds: f64,
}

/// What is counted of a mode: instructions for `bytes` written and read.
struct Counted {
    mode: &'static str,
    program: &'static str,
    sealed: bool,
}

const MODES: [Counted; 9] = [
    Counted { mode: "AES-128-XTS", program: "aes_128_xts", sealed: false },
    Counted { mode: "AES-256-XTS", program: "aes_256_xts", sealed: false },
    Counted { mode: "Adiantum-XChaCha12", program: "adiantum_12", sealed: false },
    Counted { mode: "HPolyC-XChaCha12", program: "hpolyc_12", sealed: false },
    Counted { mode: "AES-256-HCTR2", program: "aes_256_hctr2", sealed: false },
    Counted { mode: "sealed, Ascon-AEAD128", program: "ascon_aead128", sealed: true },
    Counted { mode: "sealed, ChaCha20-Poly1305", program: "chacha20_poly1305", sealed: true },
    Counted { mode: "sealed, AES-128-CCM", program: "aes_128_ccm", sealed: true },
    Counted { mode: "sealed, AES-128-GCM", program: "aes_128_gcm", sealed: true },
];

/// Computes the table: first what no encryption costs, then each mode.
///
/// # Errors
/// [`BenchError::Input`] if an input is no positive number, or the tiles leave nothing of the chip. [`BenchError::Figure`] if an
/// instruction count is missing.
pub fn energy(inputs: &EnergyInputs) -> Result<Vec<EnergyRow>, BenchError> {
    for input in inputs.listed() {
        // What is bought of may be free; what is divided by may not.
        let may_be_zero = matches!(input.name, "tiles_mib" | "anchors_per_day" | "read_us");
        if !input.value.is_finite() || input.value < 0.0 || input.value == 0.0 && !may_be_zero {
            return Err(BenchError::Input { name: input.name });
        }
    }
    if inputs.tiles_mib >= inputs.chip_mib {
        return Err(BenchError::Input { name: "tiles_mib" });
    }
    let plain = Cost { write: 0.0, read: 0.0, anchor: 0.0, opening: 0.0 };
    let mut rows = vec![row(inputs, "not encrypted", false, &plain)];
    for mode in &MODES {
        rows.push(row(inputs, mode.mode, mode.sealed, &cost(inputs, mode)?));
    }
    Ok(rows)
}

/// Instructions to write and read a byte and to anchor, and seconds to open.
struct Cost {
    write: f64,
    read: f64,
    anchor: f64,
    opening: f64,
}

fn cost(inputs: &EnergyInputs, mode: &Counted) -> Result<Cost, BenchError> {
    let of = |what| figure(mode.program, what);
    if !mode.sealed {
        // Of eight data units of 512 bytes in a run of 4096.
        let (write, read) = (of("encrypt 512")? / 4096.0, of("decrypt 512")? / 4096.0);
        return Ok(Cost { write, read, anchor: 0.0, opening: inputs.computing(of("setup 512")?) });
    }
    let (write, read) = (of("prog 4096")? / 4096.0, of("read 4096")? / 4096.0);
    let opened = |what| figure("opening", what);
    let opening =
        inputs.computing(opened("serials")?) + inputs.bus(opened("serials 1")?, opened("serials 2")?);
    Ok(Cost { write, read, anchor: of("anchor")?, opening: inputs.chip_mib * 16.0 * opening })
}

fn figure(program: &'static str, what: &'static str) -> Result<f64, BenchError> {
    let row = [BOARD[0], BOARD[1], program, what];
    let found = FIGURES.lines().find_map(|line| {
        let mut fields = line.split('\t');
        row.iter().all(|field| fields.next() == Some(field)).then(|| fields.next()?.parse().ok())?
    });
    found.ok_or(BenchError::Figure { program, what })
}

fn row(inputs: &EnergyInputs, mode: &'static str, sealed: bool, cost: &Cost) -> EnergyRow {
    let (growth, transfer) = if sealed { (ERASE_BLOCK / (UNITS * UNIT), UNIT) } else { (1.0, DATA_UNIT) };
    let stored = KIB * growth;
    let bus = inputs.bus(stored, KIB / transfer);
    let chip = stored / inputs.page_bytes * inputs.page_ms / 1000.0
        + stored / ERASE_BLOCK * inputs.sector_ms / 1000.0;
    let (write, read) = (inputs.computing(cost.write * KIB), inputs.computing(cost.read * KIB));
    let write_joules = inputs.joules(write, bus, chip);
    let read_joules = inputs.joules(read, bus, 0.0);
    let messages_a_day = inputs.messages_mib_per_day * MIB / inputs.message_bytes;
    let anchors = inputs.joules(inputs.computing(cost.anchor), 0.0, 0.0) * inputs.anchors_per_day;
    let days = inputs.years * DAYS_A_YEAR;
    EnergyRow {
        mode,
        sealed,
        write_seconds: write + bus + chip,
        write_joules,
        read_seconds: read + bus,
        read_joules,
        message_joules: (write_joules + read_joules) * inputs.message_bytes / KIB + anchors / messages_a_day,
        erases_per_block: days * inputs.messages_mib_per_day * growth / (inputs.chip_mib - inputs.tiles_mib),
        erases_per_store_page: sealed.then_some(days * inputs.anchors_per_day / RECORDS),
        opening_seconds: cost.opening,
    }
}

impl EnergyInputs {
    /// Seconds for instructions.
    fn computing(&self, instructions: f64) -> f64 {
        instructions * self.cycles_per_instruction / (self.mcu_mhz * 1e6)
    }

    /// Seconds for bytes in so many transfers.
    fn bus(&self, bytes: f64, transfers: f64) -> f64 {
        bytes / (self.bus_mb_per_s * 1e6) + transfers * self.read_us / 1e6
    }

    /// Joules for seconds of computing, of the bus, and of the chip by itself, during which the controller sleeps.
    fn joules(&self, computing: f64, bus: f64, chip: f64) -> f64 {
        let controller = self.mcu_ua_per_mhz * self.mcu_mhz / 1e6;
        let (read, program) = (self.read_ma / 1000.0, self.program_ma / 1000.0);
        self.volts * (computing * controller + bus * (controller + read) + chip * program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(is: f64, should: f64) {
        assert!((is - should).abs() <= should.abs() * 1e-9, "{is} instead of {should}");
    }

    fn of(rows: &[EnergyRow], mode: &str) -> EnergyRow {
        rows.iter().find(|row| row.mode == mode).cloned().expect("a row")
    }

    #[test]
    fn every_mode_has_its_figures_and_every_input_its_source() {
        let inputs = EnergyInputs::default();
        let rows = energy(&inputs).expect("a table");
        assert_eq!(rows.len(), 10);
        let plain = &rows[0];
        for row in &rows[1..] {
            assert!(row.write_joules > plain.write_joules && row.read_joules > plain.read_joules, "{row:?}");
            assert!(row.opening_seconds > 0.0 && row.message_joules > plain.message_joules, "{row:?}");
            assert_eq!(row.sealed, row.erases_per_block > plain.erases_per_block);
            assert_eq!(row.sealed, row.erases_per_store_page.is_some());
        }
        assert!(inputs.listed().iter().all(|input| input.source != "given" && !input.source.is_empty()));
        let given = EnergyInputs { volts: 1.8, ..inputs }.listed();
        let given: Vec<_> = given.iter().filter(|input| input.source == "given").collect();
        assert_eq!((given.len(), given[0].name, given[0].value, given[0].unit), (1, "volts", 1.8, "V"));
    }

    /// By hand, with round inputs: at 10 MHz and 100 µA a MHz the controller takes 1 mA, at 1 V 1 mW.
    #[test]
    fn a_row_is_what_the_formula_gives_by_hand() {
        let inputs = EnergyInputs {
            mcu_ua_per_mhz: 100.0,
            mcu_mhz: 10.0,
            cycles_per_instruction: 2.0,
            volts: 1.0,
            read_ma: 4.0,
            program_ma: 10.0,
            page_bytes: 256.0,
            page_ms: 1.0,
            sector_ms: 40.0,
            bus_mb_per_s: 1.024,
            read_us: 250.0,
            chip_mib: 12.0,
            tiles_mib: 2.0,
            messages_mib_per_day: 2.0,
            message_bytes: 2048.0,
            anchors_per_day: 46.0,
            years: 4.0,
        };
        let rows = energy(&inputs).expect("a table");

        // Bus: 1 ms and two transfers of 0.25 ms. Chip: four pages of 1 ms, and a quarter of 40 ms.
        let plain = of(&rows, "not encrypted");
        near(plain.write_seconds, 0.0015 + 0.004 + 0.010);
        near(plain.write_joules, 0.0015 * 0.005 + 0.014 * 0.010);
        near(plain.read_seconds, 0.0015);
        near(plain.read_joules, 0.0015 * 0.005);
        near(plain.message_joules, 2.0 * (2.0 * 0.0015 * 0.005 + 0.014 * 0.010));
        near(plain.erases_per_block, 1461.0 * 2.0 / 10.0);
        assert_eq!((plain.erases_per_store_page, plain.opening_seconds), (None, 0.0));

        // With what firmware/figures.tsv says: instructions for 4096 bytes, at 5 million a second.
        let counted = |program, what| figure(program, what).expect("a figure");
        let xts = of(&rows, "AES-128-XTS");
        let (write, read) = (
            counted("aes_128_xts", "encrypt 512") / 4.0 / 5e6,
            counted("aes_128_xts", "decrypt 512") / 4.0 / 5e6,
        );
        near(xts.write_seconds, write + 0.0155);
        near(xts.write_joules, write * 0.001 + plain.write_joules);
        near(xts.read_joules, read * 0.001 + plain.read_joules);
        near(xts.opening_seconds, counted("aes_128_xts", "setup 512") / 5e6);

        let sealed = of(&rows, "sealed, Ascon-AEAD128");
        let growth = 4096.0 / 3816.0;
        let bus = growth * 0.001 + 1024.0 / 424.0 * 0.000_25;
        let write = counted("ascon_aead128", "prog 4096") / 4.0 / 5e6;
        let read = counted("ascon_aead128", "read 4096") / 4.0 / 5e6;
        near(sealed.write_seconds, write + bus + growth * 0.014);
        near(sealed.read_joules, read * 0.001 + bus * 0.005);
        let both = write * 0.001 + bus * 0.005 + growth * 0.014 * 0.010 + read * 0.001 + bus * 0.005;
        // 1024 messages a day, and 46 anchors.
        let anchor = counted("ascon_aead128", "anchor") / 5e6 * 0.001;
        near(sealed.message_joules, 2.0 * both + anchor * 46.0 / 1024.0);
        near(sealed.erases_per_block, 1461.0 * 2.0 * growth / 10.0);
        near(sealed.erases_per_store_page.expect("a store"), 1461.0 / 2.0);
        let opening = counted("opening", "serials") / 5e6
            + counted("opening", "serials 1") / 1.024e6
            + counted("opening", "serials 2") * 0.000_25;
        near(sealed.opening_seconds, 12.0 * 16.0 * opening);
    }

    #[test]
    fn inputs_that_are_no_quantities_are_refused_by_name() {
        let refused = |change: fn(&mut EnergyInputs)| {
            let mut inputs = EnergyInputs::default();
            change(&mut inputs);
            energy(&inputs).expect_err("an input that is none")
        };
        assert_eq!(refused(|inputs| inputs.mcu_mhz = 0.0), BenchError::Input { name: "mcu_mhz" });
        assert_eq!(refused(|inputs| inputs.volts = -1.0), BenchError::Input { name: "volts" });
        assert_eq!(refused(|inputs| inputs.years = f64::NAN), BenchError::Input { name: "years" });
        assert_eq!(refused(|inputs| inputs.tiles_mib = 32.0), BenchError::Input { name: "tiles_mib" });
        let free =
            EnergyInputs { tiles_mib: 0.0, anchors_per_day: 0.0, read_us: 0.0, ..EnergyInputs::default() };
        assert_eq!(energy(&free).expect("a table").len(), 10);
        assert_eq!(
            figure("nothing", "at all"),
            Err(BenchError::Figure { program: "nothing", what: "at all" })
        );
    }
}
