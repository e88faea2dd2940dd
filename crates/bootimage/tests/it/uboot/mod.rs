//! Debian's tools for U-Boot's images, and the images that the tests are about.
#![allow(dead_code)] // Each test uses some of it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use atrest_bootimage::fit::{ConfigSpec, FitSpec, HashKind, ImageKind, ImageSpec};
use atrest_testkit::Scratch;
use atrest_testkit::oracle::{Program, workspace};
use atrest_testkit::random::Random;

/// The time in everything that is made.
pub const EPOCH: u32 = 1_700_000_000;

/// The sources below tests/fit.
pub const ITS: [&str; 11] = [
    "01-plain",
    "02-many-hashes",
    "03-many-configurations",
    "04-external",
    "05-external-position",
    "06-wide",
    "07-script",
    "08-signed",
    "09-signed-twice",
    "10-compressed",
    "11-old-names",
];

/// A directory with what the sources include, and a key.
pub struct Uboot {
    directory: Scratch,
    pub kernel: Vec<u8>,
    pub board: Vec<u8>,
    pub ramdisk: Vec<u8>,
}

impl Uboot {
    pub fn new() -> Self {
        let directory = Scratch::new();
        let mut random = Random::new(5);
        let (kernel, ramdisk) = (random.bytes(5000), random.bytes(3001));
        let mut uboot = Self { directory, kernel, board: Vec::new(), ramdisk };
        let source = fs::read_to_string(workspace().join("tests/fit/board.dts")).expect("readable");
        uboot.board = uboot.compile(&source);
        for (name, content) in [
            ("kernel", &uboot.kernel),
            ("ramdisk", &uboot.ramdisk),
            ("board.dtb", &uboot.board),
            ("other.dtb", &uboot.compile("/dts-v1/;\n/ { other; };\n")),
            ("firmware", &b"firmware".to_vec()),
            ("script", &b"echo hi\n".to_vec()),
        ] {
            uboot.file(name, content);
        }
        fs::create_dir(uboot.path("keys")).expect("made");
        // A private key, and the certificate that mkimage takes the public half from.
        Program::named("openssl")
            .words("req -batch -x509 -newkey rsa:2048 -nodes -subj /CN=dev -keyout keys/dev.key -out keys/dev.crt")
            .current_dir(uboot.directory.as_path())
            .ok();
        uboot
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path(name)
    }

    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        fs::write(self.path(name), content).expect("written");
        self.path(name)
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("readable")
    }

    fn tool(&self, name: &str) -> Program {
        Program::named(name).current_dir(self.directory.as_path()).env("SOURCE_DATE_EPOCH", EPOCH.to_string())
    }

    /// mkimage with options, for what is there already.
    pub fn run_mkimage(&self, words: &str) {
        self.tool("mkimage").words(words).ok();
    }

    /// What mkimage makes of a source.
    pub fn mkimage(&self, source: &str, options: &str) -> Vec<u8> {
        self.file("source.its", source.as_bytes());
        self.run_mkimage(&format!("-f source.its {options} out.itb"));
        self.read("out.itb")
    }

    /// What it makes of a source below tests/fit.
    pub fn mkimage_its(&self, name: &str) -> Vec<u8> {
        let source = fs::read_to_string(workspace().join(format!("tests/fit/{name}.its"))).expect("readable");
        let options = match name {
            "04-external" => "-E",
            "05-external-position" => "-E -p 0x10000",
            "08-signed" | "09-signed-twice" => "-k keys",
            _ => "",
        };
        self.mkimage(&source, options)
    }

    pub fn dumpimage_list(&self, file: &[u8]) -> String {
        self.tool("dumpimage").arg("-l").arg(self.file("list.itb", file)).ok().text()
    }

    pub fn dumpimage_extract(&self, file: &[u8], number: usize) -> Vec<u8> {
        let input = self.file("extract.itb", file);
        self.tool("dumpimage")
            .args(["-T", "flat_dt", "-p", &number.to_string(), "-o", "extracted"])
            .arg(input)
            .ok();
        self.read("extracted")
    }

    /// A blob as dtc shows it, names sorted.
    pub fn dtc(&self, blob: &[u8]) -> String {
        let input = self.file("input.dtb", blob);
        self.tool("dtc").words("-q -s -I dtb -O dts").arg(input).ok().text()
    }

    /// What dtc makes of a source, with a node for each label.
    pub fn compile(&self, source: &str) -> Vec<u8> {
        self.tool("dtc").words("-q -@ -I dts -O dtb -").stdin(source).ok().stdout
    }
}

/// A FIT of so many kernels, device trees and ramdisks.
pub fn spec<'a>(
    uboot: &'a Uboot,
    (kernels, fdts, ramdisks): (usize, usize, usize),
    hashes: &[HashKind],
    external: bool,
    wide: bool,
) -> FitSpec<'a> {
    let mut images = Vec::new();
    for (kind, count, data) in [
        (ImageKind::Kernel, kernels, &uboot.kernel),
        (ImageKind::Fdt, fdts, &uboot.board),
        (ImageKind::Ramdisk, ramdisks, &uboot.ramdisk),
    ] {
        for number in 1..=count {
            let above = if wide { 0x8_0000_0000 } else { 0 };
            let load = (kind == ImageKind::Kernel || wide).then_some(above + 0x20_0000 * number as u64);
            let entry = (kind == ImageKind::Kernel && number == 2).then_some(above + 0x40_0040);
            let compression = if kind == ImageKind::Kernel && number == 2 { "gzip" } else { "none" };
            let name = format!("{}-{number}", kind.name());
            images.push(ImageSpec { name, kind, data, compression: compression.into(), load, entry });
        }
    }
    let mut configurations = Vec::new();
    for kernel in 1..=kernels {
        let mut list = vec![format!("kernel-{kernel}")];
        list.extend((kernel..=fdts).map(|number| format!("fdt-{number}")));
        list.extend((0..ramdisks).map(|_| "ramdisk-1".into()));
        configurations.push(ConfigSpec { name: format!("conf-{kernel}"), images: list });
    }
    FitSpec {
        description: "kernel, device tree and initramfs".into(),
        arch: "arm64".into(),
        timestamp: EPOCH,
        images,
        default: format!("conf-{kernels}"),
        configurations,
        hashes: hashes.to_vec(),
        external,
    }
}

/// The source from which mkimage makes the FIT of `spec`, written as its manual has it.
pub fn source(uboot: &Uboot, spec: &FitSpec<'_>) -> String {
    let mut text = format!("/dts-v1/;\n/ {{\ndescription = \"{}\";\n", spec.description);
    let wide = spec.images.iter().any(|image| image.load.is_some_and(|load| load >> 32 != 0));
    let _ = writeln!(text, "#address-cells = <{}>;\nimages {{", if wide { 2 } else { 1 });
    let address = |address: u64| match wide {
        true => format!("<{:#x} {:#x}>", address >> 32, address & 0xffff_ffff),
        false => format!("<{address:#x}>"),
    };
    for image in &spec.images {
        let (kind, description, file) = match image.kind {
            ImageKind::Kernel => ("kernel", "Linux kernel", "kernel"),
            ImageKind::Fdt => ("flat_dt", "Flattened Device Tree blob", "board.dtb"),
            ImageKind::Ramdisk => ("ramdisk", "initramfs", "ramdisk"),
        };
        let path = uboot.path(file);
        let _ = writeln!(text, "{} {{ description = \"{description}\";", image.name);
        let _ =
            writeln!(text, "data = /incbin/(\"{}\"); type = \"{kind}\"; arch = \"arm64\";", path.display());
        let _ = writeln!(text, "compression = \"{}\";", image.compression);
        if image.kind != ImageKind::Fdt {
            text.push_str("os = \"linux\";\n");
        }
        if let Some(load) = image.load {
            let _ = writeln!(text, "load = {};", address(load));
        }
        if image.kind == ImageKind::Kernel {
            let _ = writeln!(
                text,
                "entry = {};",
                address(image.entry.or(image.load).expect("a kernel is loaded"))
            );
        }
        for (number, hash) in (1..).zip(&spec.hashes) {
            let _ = writeln!(text, "hash-{number} {{ algo = \"{hash}\"; }};");
        }
        text.push_str("};\n");
    }
    let _ = writeln!(text, "}};\nconfigurations {{\ndefault = \"{}\";", spec.default);
    for configuration in &spec.configurations {
        let of = |kind: ImageKind| {
            let prefix = format!("{}-", kind.name());
            let names: Vec<String> = configuration
                .images
                .iter()
                .filter(|name| name.starts_with(&prefix))
                .map(|name| format!("\"{name}\""))
                .collect();
            names.join(", ")
        };
        let kinds = [
            (ImageKind::Kernel, "Linux kernel"),
            (ImageKind::Fdt, "device tree"),
            (ImageKind::Ramdisk, "initramfs"),
        ];
        let there: Vec<&str> =
            kinds.iter().filter(|(kind, _)| !of(*kind).is_empty()).map(|(_, name)| *name).collect();
        let _ = writeln!(text, "{} {{ description = \"{}\";", configuration.name, there.join(", "));
        for (kind, _) in kinds {
            if !of(kind).is_empty() {
                let _ = writeln!(text, "{} = {};", kind.name(), of(kind));
            }
        }
        text.push_str("};\n");
    }
    text.push_str("};\n};\n");
    text
}

/// A path as text.
pub fn text(path: &Path) -> String {
    path.display().to_string()
}
