//! The structure block, token by token, with every offset checked.

use std::ops::Range;

use atrest_codec::{Be, Reader, Record};

use super::FdtError;

const MAGIC: [u8; 4] = [0xd0, 0x0d, 0xfe, 0xed];
const HEADER: usize = 40;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

/// Where the parts of a blob are, in bytes from its start.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub total: usize,
    pub structure: Range<usize>,
    pub strings: Range<usize>,
    pub reservations: usize,
    pub boot_cpu: u32,
}

/// A token of the structure block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Begin(&'a str),
    Property { name: &'a str, value: Range<usize> },
    Nop,
    EndNode,
    End,
}

impl Layout {
    pub(super) fn read(blob: &[u8]) -> Result<Self, FdtError> {
        if !blob.starts_with(&MAGIC) {
            return Err(FdtError::Magic);
        }
        let cut = |expected| FdtError::Truncated { expected, actual: blob.len() as u64 };
        let header = Record::<HEADER>::new(blob.first_chunk().ok_or_else(|| cut(HEADER as u64))?);
        let (total, structure, strings) = (header.be32::<4>(), header.be32::<8>(), header.be32::<12>());
        let (reservations, version, compatible) =
            (header.be32::<16>(), header.be32::<20>(), header.be32::<24>());
        let (boot_cpu, strings_len) = (header.be32::<28>(), header.be32::<32>());
        if version < 16 || compatible > 17 {
            return Err(FdtError::Version { version });
        }
        if total as usize > blob.len() {
            return Err(cut(u64::from(total)));
        }
        let within = |start: u32, len: u32, align: u32, block| {
            let end = u64::from(start) + u64::from(len);
            match start.is_multiple_of(align) && start as usize >= HEADER && end <= u64::from(total) {
                true => Ok(start as usize..end as usize),
                false => Err(FdtError::Layout { block }),
            }
        };
        let strings = within(strings, strings_len, 1, "block of names")?;
        // Version 16 does not tell how long the structure is.
        let structure_len = match version {
            // cannot be less: compared before.
            16 if strings.start > structure as usize => (strings.start as u32).saturating_sub(structure),
            // intended: a structure behind the end has no length, and is refused below.
            16 => total.saturating_sub(structure),
            _ => header.be32::<36>(),
        };
        let structure = within(structure, structure_len, 4, "structure")?;
        if structure.start < strings.end && strings.start < structure.end {
            return Err(FdtError::Layout { block: "block of names" });
        }
        let reservations = within(reservations, 16, 8, "list of reserved memory")?.start;
        Ok(Self { total: total as usize, structure, strings, reservations, boot_cpu })
    }

    /// The token at `offset` and where the next one is.
    pub(super) fn token<'a>(&self, blob: &'a [u8], offset: usize) -> Result<(Token<'a>, usize), FdtError> {
        let wrong = |what| FdtError::Structure { offset, what };
        let block = blob.get(..self.structure.end).unwrap_or(blob);
        let mut reader = Reader::at(block, offset).map_err(|_| wrong("the structure ends early"))?;
        let tag = reader.be32().map_err(|_| wrong("the structure ends early"))?;
        let at = |reader: &Reader<'_>| block.len() - reader.remaining();
        let after = at(&reader);
        match tag {
            BEGIN_NODE => {
                let name = text(reader.rest()).ok_or_else(|| wrong("a node's name is none"))?;
                Ok((Token::Begin(name), (after + name.len() + 1).next_multiple_of(4)))
            }
            END_NODE => Ok((Token::EndNode, after)),
            PROP => {
                let early = |_| wrong("a property ends early");
                let (Be(len), Be(name)) = reader.field::<(Be<u32>, Be<u32>)>().map_err(early)?;
                let start = at(&reader);
                let value = start..start + reader.bytes(len as usize).map_err(early)?.len();
                let names = blob.get(self.strings.clone()).and_then(|names| names.get(name as usize..));
                let name = names.and_then(text).filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| wrong("a property's name is none"))?;
                let next = value.end.next_multiple_of(4);
                Ok((Token::Property { name, value }, next))
            }
            NOP => Ok((Token::Nop, after)),
            END => Ok((Token::End, after)),
            _ => Err(wrong("this is neither a node nor a property")),
        }
    }
}

/// Text of printable ASCII up to a zero, which must be there.
fn text(bytes: &[u8]) -> Option<&str> {
    let len = bytes.iter().position(|&byte| byte == 0)?;
    let name = bytes.get(..len)?;
    name.iter().all(u8::is_ascii_graphic).then(|| std::str::from_utf8(name).ok())?
}
