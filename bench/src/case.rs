//! What is measured: a cipher on data units of one size, in one direction, somewhere in memory.

/// The ciphers that are held against peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    Aes128Xts,
    Aes256Xts,
    CbcEssiv,
    Adiantum12,
    Adiantum20,
    HPolyC12,
    HPolyC20,
    Hctr2,
}

impl Cipher {
    pub const ALL: [Self; 8] = [
        Self::Aes256Xts,
        Self::Aes128Xts,
        Self::CbcEssiv,
        Self::Adiantum12,
        Self::Adiantum20,
        Self::HPolyC12,
        Self::HPolyC20,
        Self::Hctr2,
    ];

    /// As people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Aes128Xts => "AES-128-XTS",
            Self::Aes256Xts => "AES-256-XTS",
            Self::CbcEssiv => "AES-256-CBC-ESSIV",
            Self::Adiantum12 => "Adiantum-XChaCha12-AES",
            Self::Adiantum20 => "Adiantum-XChaCha20-AES",
            Self::HPolyC12 => "HPolyC-XChaCha12-AES",
            Self::HPolyC20 => "HPolyC-XChaCha20-AES",
            Self::Hctr2 => "HCTR2-AES-256",
        }
    }

    /// As dm-crypt calls it.
    pub fn spec(self) -> &'static str {
        match self {
            Self::Aes128Xts | Self::Aes256Xts => "aes-xts-plain64",
            Self::CbcEssiv => "aes-cbc-essiv:sha256",
            Self::Adiantum12 => "xchacha12,aes-adiantum-plain64",
            Self::Adiantum20 => "xchacha20,aes-adiantum-plain64",
            Self::HPolyC12 => "xchacha12,aes-hpolyc-plain64",
            Self::HPolyC20 => "xchacha20,aes-hpolyc-plain64",
            Self::Hctr2 => "aes-hctr2-plain64",
        }
    }

    /// The key that all contenders get.
    pub fn key(self) -> Vec<u8> {
        let len = if self == Self::Aes256Xts { 64 } else { 32 };
        (0..len).map(|index| (index * 11 + 3) as u8).collect()
    }

    /// Rounds of AES over all data; `None` if other work counts as well.
    pub fn aes_rounds(self) -> Option<u32> {
        match self {
            Self::Aes128Xts => Some(10),
            Self::Aes256Xts | Self::CbcEssiv => Some(14),
            _ => None,
        }
    }

    /// Whether it encrypts a data unit as one block.
    pub fn is_wide_block(self) -> bool {
        self.aes_rounds().is_none()
    }

    /// Whether most of its work is done by vector instructions that are not those of AES.
    pub fn is_mostly_vectors(self) -> bool {
        self.is_wide_block() && self != Self::Hctr2
    }
}

/// Where the data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// 128 KiB, which stay in the core's cache.
    Cache,
    /// 256 MiB in pages of 4 KiB.
    Memory,
    /// 256 MiB in huge pages.
    HugePages,
}

/// One column of a table. Data units are numbered from 0 on, each number being a tweak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub cipher: Cipher,
    pub unit: usize,
    pub encrypt: bool,
    pub place: Place,
}

impl Case {
    /// The columns of a cipher's table.
    pub fn of(cipher: Cipher) -> Vec<Self> {
        let units = [512, 4096];
        let columns = |encrypt, place| units.map(|unit| Self { cipher, unit, encrypt, place });
        let mut cases = Vec::new();
        cases.extend(columns(true, Place::Cache));
        if matches!(cipher, Cipher::Aes128Xts | Cipher::Aes256Xts | Cipher::CbcEssiv) {
            cases.extend(columns(false, Place::Cache));
        }
        if matches!(cipher, Cipher::Aes128Xts | Cipher::Aes256Xts | Cipher::Adiantum12) {
            cases.extend(columns(true, Place::Memory));
            cases.extend(columns(true, Place::HugePages));
        }
        cases
    }

    /// The head of its column.
    pub fn head(&self) -> String {
        let direction = if self.encrypt { "encrypt" } else { "decrypt" };
        let place = match self.place {
            Place::Cache => "",
            Place::Memory => ", memory",
            Place::HugePages => ", memory, huge pages",
        };
        format!("{direction} {}{place}", self.unit)
    }
}
