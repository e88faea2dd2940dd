//! The bytes of device-mapper's ioctls (`linux/dm-ioctl.h`, version 4): a head, and after it targets or an answer.

use atrest_secret::SecretBytes;

/// Bytes of `struct dm_ioctl`.
pub const HEAD: usize = 312;
/// Bytes of `struct dm_target_spec`, in front of each target's line.
const SPEC: usize = 40;
/// Room that an answer gets at first; a table of one line with the longest key fits.
pub const ANSWER: usize = 16 << 10;

const VERSION: [u32; 3] = [4, 0, 0];
const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const TARGET_COUNT: usize = 20;
const OPEN_COUNT: usize = 24;
const FLAGS: usize = 28;
const EVENT: usize = 32;
const DEVICE: usize = 40;
const NAME: usize = 48;
const NAME_LEN: usize = 128;
const UUID: usize = NAME + NAME_LEN;
const UUID_LEN: usize = 129;

/// Bits of the head's flags.
pub mod flag {
    /// The mapping refuses writes.
    pub const READ_ONLY: u32 = 1 << 0;
    /// In a request: stop all I/O instead of letting it go on. In an answer: it is stopped.
    pub const SUSPEND: u32 = 1 << 1;
    /// An answer holds the table instead of the state.
    pub const STATUS_TABLE: u32 = 1 << 4;
    /// A table is loaded beside the one in use.
    pub const INACTIVE_PRESENT: u32 = 1 << 6;
    /// The answer did not fit.
    pub const BUFFER_FULL: u32 = 1 << 8;
    /// File systems are not frozen before it stops.
    pub const SKIP_LOCKFS: u32 = 1 << 10;
    /// The kernel has sent an event to udev.
    pub const UEVENT_GENERATED: u32 = 1 << 13;
    /// The kernel wipes its copy of the message.
    pub const SECURE_DATA: u32 = 1 << 15;
    /// Remove it as soon as nobody uses it any more.
    pub const DEFERRED_REMOVE: u32 = 1 << 17;
}

/// A request, and then the answer to it. It lies in locked memory, as a table holds a key.
pub struct Message {
    bytes: SecretBytes,
    used: usize,
}

impl Message {
    /// A request about the mapping of that name.
    pub fn new(name: &str) -> Self {
        Self::with_room(name, ANSWER)
    }

    /// A request about the mapping of that name, with room for an answer of `room` bytes behind the head.
    pub fn with_room(name: &str, room: usize) -> Self {
        let mut message = Self { bytes: SecretBytes::zeroed(HEAD + room), used: HEAD };
        for (i, number) in VERSION.into_iter().enumerate() {
            message.set(4 * i, number);
        }
        message.set(DATA_START, HEAD as u32);
        message.set(FLAGS, flag::SECURE_DATA);
        message.text(NAME, NAME_LEN, name);
        message
    }

    /// An answer that somebody else has: `None` for fewer bytes than a head has.
    pub fn answered(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= HEAD).then(|| Self { bytes: SecretBytes::copy_from(bytes), used: HEAD })
    }

    /// The UUID of a mapping that is made.
    pub fn uuid(&mut self, uuid: &str) {
        self.text(UUID, UUID_LEN, uuid);
    }

    /// Whether the mapping refuses writes.
    pub fn read_only(&mut self, read_only: bool) {
        if read_only {
            self.add_flag(flag::READ_ONLY);
        }
    }

    /// Sets a bit of [`flag`].
    pub fn add_flag(&mut self, flag: u32) {
        let flags = self.number(FLAGS) | flag;
        self.set(FLAGS, flags);
    }

    /// What udev is told with the event.
    pub fn event(&mut self, event: u32) {
        self.set(EVENT, event);
    }

    /// Adds a line to the table: `len` bytes from byte `start` on are of this kind.
    pub fn target(&mut self, start: u64, len: u64, kind: &str, line: &[u8]) {
        let next = (SPEC + line.len() + 1).next_multiple_of(8);
        let at = self.used;
        self.grow(at + next);
        self.bytes[at..at + 8].copy_from_slice(&(start / 512).to_ne_bytes());
        self.bytes[at + 8..at + 16].copy_from_slice(&(len / 512).to_ne_bytes());
        self.set(at + 20, next as u32);
        self.text(at + 24, 16, kind);
        self.bytes[at + SPEC..at + SPEC + line.len()].copy_from_slice(line);
        self.used = at + next;
        let count = self.number(TARGET_COUNT) + 1;
        self.set(TARGET_COUNT, count);
    }

    /// Words for the target at sector 0, or, if they begin with `@`, for the mapping itself.
    pub fn words(&mut self, words: &[u8]) {
        let at = self.used;
        self.grow(at + 8 + words.len() + 1);
        self.bytes[at..at + 8].fill(0);
        self.bytes[at + 8..at + 8 + words.len()].copy_from_slice(words);
        self.bytes[at + 8 + words.len()] = 0;
        self.used = at + 8 + words.len() + 1;
    }

    /// The whole message, for the ioctl.
    pub fn bytes(&mut self) -> &mut [u8] {
        let len = self.bytes.len() as u32;
        self.set(DATA_SIZE, len);
        &mut self.bytes
    }

    /// Whether the answer has this bit of [`flag`].
    pub fn has(&self, flag: u32) -> bool {
        self.number(FLAGS) & flag != 0
    }

    /// The answer's device number.
    pub fn device(&self) -> u64 {
        u64::from_ne_bytes(self.bytes[DEVICE..DEVICE + 8].try_into().expect("eight bytes"))
    }

    /// How often the mapping is open.
    pub fn open_count(&self) -> u32 {
        self.number(OPEN_COUNT)
    }

    /// The mapping's UUID in the answer.
    pub fn answered_uuid(&self) -> String {
        String::from_utf8_lossy(until_zero(&self.bytes[UUID..UUID + UUID_LEN])).into_owned()
    }

    /// The answer behind the head.
    fn data(&self) -> &[u8] {
        let start = (self.number(DATA_START) as usize).min(self.bytes.len());
        let end = (self.number(DATA_SIZE) as usize).clamp(start, self.bytes.len());
        &self.bytes[start..end]
    }

    /// The table of the answer: for each line its first sector, sectors, kind and the line itself. `None` if it makes no sense.
    pub fn targets(&self) -> Option<Vec<Target<'_>>> {
        let data = self.data();
        let mut targets = Vec::new();
        let mut at = 0;
        for _ in 0..self.number(TARGET_COUNT) {
            let spec = data.get(at..at + SPEC)?;
            let quad = |i: usize| u64::from_ne_bytes(spec[i..i + 8].try_into().expect("eight bytes"));
            let next = u32::from_ne_bytes(spec[20..24].try_into().expect("four bytes")) as usize;
            // Offsets in an answer count from the beginning of the data.
            targets.push(Target {
                start: quad(0),
                sectors: quad(8),
                kind: core::str::from_utf8(until_zero(&spec[24..40])).ok()?,
                line: until_zero(data.get(at + SPEC..)?),
            });
            if next <= at {
                break;
            }
            at = next;
        }
        Some(targets)
    }

    /// The names of an answer to "list all". `None` if it makes no sense.
    pub fn names(&self) -> Option<Vec<String>> {
        let data = self.data();
        let mut names = Vec::new();
        let mut at = 0;
        if data.is_empty() {
            return Some(names);
        }
        loop {
            let entry = data.get(at..at + 12)?;
            // Some kernels tell of no mapping by one without a number.
            if entry[..8] == [0; 8] {
                return Some(names);
            }
            names.push(String::from_utf8(until_zero(data.get(at + 12..)?).to_vec()).ok()?);
            match u32::from_ne_bytes(entry[8..12].try_into().expect("four bytes")) as usize {
                0 => return Some(names),
                next => at += next,
            }
        }
    }

    fn grow(&mut self, len: usize) {
        if len > self.bytes.len() {
            let mut more = SecretBytes::zeroed(len.next_power_of_two());
            more[..self.bytes.len()].copy_from_slice(&self.bytes);
            self.bytes = more;
        }
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    fn set(&mut self, at: usize, number: u32) {
        self.bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    }

    /// A string of at most `room - 1` bytes, and zeros.
    fn text(&mut self, at: usize, room: usize, text: &str) {
        let len = text.len().min(room - 1);
        self.bytes[at..at + room].fill(0);
        self.bytes[at..at + len].copy_from_slice(&text.as_bytes()[..len]);
    }
}

/// A line of a table.
pub struct Target<'a> {
    /// First sector of 512 bytes.
    pub start: u64,
    /// Sectors.
    pub sectors: u64,
    /// Such as `crypt`.
    pub kind: &'a str,
    /// What follows in `dmsetup table --showkeys`: the key is in it.
    pub line: &'a [u8],
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    // cannot be empty: splitting yields one part at least.
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_lies_as_the_kernel_header_says() {
        let mut message = Message::new("root");
        message.uuid("CRYPT-PLAIN-root");
        message.read_only(true);
        message.target(0, 1 << 20, "crypt", b"aes-xts-plain64 00 0 7:0 0");
        message.target(1 << 20, 512, "crypt", b"x");
        let bytes = message.bytes().to_vec();
        assert_eq!(bytes[..12], [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[DATA_SIZE..DATA_SIZE + 4], (bytes.len() as u32).to_ne_bytes());
        assert_eq!(bytes[16..20], 312u32.to_ne_bytes());
        assert_eq!(bytes[20..24], 2u32.to_ne_bytes());
        assert_eq!(bytes[28..32], 0x8001u32.to_ne_bytes());
        assert_eq!(bytes[48..53], *b"root\0");
        assert_eq!(bytes[176..193], *b"CRYPT-PLAIN-root\0");
        // dm_target_spec: start, length, status, next, type.
        assert_eq!(bytes[312..320], 0u64.to_ne_bytes());
        assert_eq!(bytes[320..328], 2048u64.to_ne_bytes());
        let next = u32::from_ne_bytes(bytes[332..336].try_into().expect("four"));
        assert_eq!((next as usize, next % 8), (72, 0));
        assert_eq!(bytes[336..342], *b"crypt\0");
        assert_eq!(bytes[352..379], *b"aes-xts-plain64 00 0 7:0 0\0");
        assert_eq!(bytes[312 + 72..312 + 80], 2048u64.to_ne_bytes());
    }

    #[test]
    fn words_for_a_target_lie_as_the_kernel_header_says() {
        let mut message = Message::new("root");
        message.words(b"key wipe");
        // dm_target_msg: a sector, and a string that ends in a zero byte.
        assert_eq!(message.bytes()[312..329], *b"\0\0\0\0\0\0\0\0key wipe\0");
    }

    #[test]
    fn names_are_found_in_an_answer() {
        let mut answer = Message::new("");
        answer.set(DATA_SIZE, HEAD as u32);
        assert_eq!(answer.names(), Some(vec![]), "an answer without data: there is no mapping");
        for (at, next, name) in [(HEAD, 24_u32, &b"root\0"[..]), (HEAD + 24, 0, b"swap\0")] {
            answer.bytes[at..at + 8].copy_from_slice(&0xfd00_u64.to_ne_bytes());
            answer.set(at + 8, next);
            answer.bytes[at + 12..at + 12 + name.len()].copy_from_slice(name);
        }
        answer.set(DATA_SIZE, (HEAD + 48) as u32);
        assert_eq!(answer.names(), Some(vec!["root".into(), "swap".into()]));
        answer.set(HEAD + 8, 4000);
        assert_eq!(answer.names(), None, "a name beyond the answer");
    }

    #[test]
    fn a_long_key_gets_room() {
        let line = vec![b'k'; 20_000];
        let mut message = Message::new("long");
        message.target(0, 512, "crypt", &line);
        let bytes = message.bytes();
        assert!(bytes.len() > HEAD + SPEC + line.len());
        assert_eq!(&bytes[HEAD + SPEC..][..line.len()], line);
    }
}
