//! eCryptfs in between: names and contents are decrypted.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use atrest_filetree::is_valid_name;
use atrest_filetree::posix::{Errno, Outcome};
use atrest_secret::OsRandom;
use rustix::fs::{CWD, Dir, FileType, Mode};

use super::identity::errno;
use super::{Layer, LayerFile};
use crate::ecryptfs::{
    EcryptfsError, EncryptedFile, FileCipher, FileOptions, Keys, LowerFile, NameCipher, NameError, Signature,
};
use crate::flags;

/// The attribute that holds a header where the lower file does not.
const XATTR: &[u8] = b"user.ecryptfs";
/// Bytes in the longest name that is at most 255 bytes once it is encrypted.
const NAME_LEN: u32 = 143;
/// Bytes written at once where zeros are asked for.
const ZEROS_LEN: usize = 1 << 16;

const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;
const PUNCH_INSIDE: u32 = PUNCH_HOLE | KEEP_SIZE;
const ZERO_INSIDE: u32 = ZERO_RANGE | KEEP_SIZE;

/// The keys of a tree, and how what is new in it is encrypted.
#[derive(Debug)]
pub struct EcryptfsLayer {
    keys: Keys,
    new_files: FileOptions,
    /// None where names are left as they are.
    names: Option<NameCipher>,
    passthrough: bool,
}

impl EcryptfsLayer {
    /// New files are encrypted as `new_files` says, and names under the key of signature `names` with the cipher of the files.
    /// With `passthrough`, files without a header are read and written as they are, otherwise they can't be opened.
    ///
    /// # Errors
    /// [`EcryptfsError::NoKey`] if a key of new files or the key of names is not at hand,
    /// [`EcryptfsError::KeyLength`] if the cipher of names takes no key of this length.
    pub fn new(
        keys: Keys,
        new_files: FileOptions,
        names: Option<Signature>,
        passthrough: bool,
    ) -> Result<Self, EcryptfsError> {
        for signature in &new_files.signatures {
            keys.find(*signature).ok_or(EcryptfsError::NoKey { wanted: vec![*signature] })?;
        }
        let (cipher, key_len): (FileCipher, usize) = (new_files.cipher, new_files.key_len);
        let names = names.map(|signature| NameCipher::new(&keys, signature, cipher, key_len)).transpose()?;
        Ok(Self { keys, new_files, names, passthrough })
    }

    /// What is too long for the lower directory is refused by the system.
    fn encode<'a>(&self, plain: &'a [u8]) -> Outcome<Cow<'a, [u8]>> {
        match &self.names {
            None => Ok(Cow::Borrowed(plain)),
            Some(names) => names.encode(plain).map(Cow::Owned).map_err(|error| number(&error)),
        }
    }
}

impl Layer for EcryptfsLayer {
    type File = Contents;

    fn lower_name<'a>(&self, name: &'a [u8]) -> Outcome<Cow<'a, [u8]>> {
        self.encode(name)
    }

    fn plain_name<'a>(&self, lower: &'a [u8]) -> Cow<'a, [u8]> {
        match self.names.as_ref().map(|names| names.decode(lower)) {
            Some(Ok(plain)) if is_valid_name(&plain) => Cow::Owned(plain),
            _ => Cow::Borrowed(lower),
        }
    }

    fn lower_target<'a>(&self, target: &'a [u8]) -> Outcome<Cow<'a, [u8]>> {
        self.encode(target)
    }

    fn plain_target(&self, lower: Vec<u8>) -> Outcome<Vec<u8>> {
        match self.names.as_ref().map(|names| names.decode(&lower)) {
            None | Some(Err(NameError::Plain)) => Ok(lower),
            Some(Ok(plain)) => Ok(plain),
            Some(Err(NameError::NoKey { .. })) => Err(Errno::NOKEY),
            Some(Err(_)) => Err(Errno::IO),
        }
    }

    fn name_len(&self, lower: u32) -> u32 {
        if self.names.is_some() { lower.min(NAME_LEN) } else { lower }
    }

    fn open(&self, lower: File, writable: bool) -> Outcome<Contents> {
        if is_unmade(&lower)? {
            if self.passthrough {
                // As the module: what has no header is not given one.
                return Ok(Contents::Plain(lower));
            }
            if !writable {
                return Ok(Contents::Empty);
            }
            let made = EncryptedFile::create(lower, &self.keys, &self.new_files, &mut OsRandom);
            return made.map(Contents::Encrypted).map_err(|error| number(&error));
        }
        let plain = if self.passthrough { lower.try_clone().ok() } else { None };
        match (EncryptedFile::open(lower, &self.keys), plain) {
            (Ok(opened), _) => Ok(Contents::Encrypted(opened)),
            (Err(EcryptfsError::NoHeader { .. }), Some(plain)) => Ok(Contents::Plain(plain)),
            (Err(error), _) => Err(number(&error)),
        }
    }

    fn create(&self, lower: File) -> Outcome<Contents> {
        EncryptedFile::create(lower, &self.keys, &self.new_files, &mut OsRandom)
            .map(Contents::Encrypted)
            .map_err(|error| number(&error))
    }

    fn size(&self, lower: &File) -> Option<u64> {
        EncryptedFile::size(lower).ok()
    }

    fn maps_sizes(&self) -> bool {
        true
    }

    fn owns_xattr(&self, name: &[u8]) -> bool {
        name == XATTR
    }
}

/// What a lower directory looks like before it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundNames {
    /// It is empty.
    None,
    /// None of its names is encrypted.
    Plain,
    /// Some are, and the keys are at hand.
    Encrypted,
}

/// Files whose headers are looked at before a mount.
const SAMPLE: usize = 16;

/// Looks at the top of a lower directory before it is mounted, so that nothing is written under another key by mistake.
///
/// # Errors
/// [`EcryptfsError::NoKey`] if a name or one of the first files asks for a key that is not at hand,
/// [`EcryptfsError::Io`] if the directory can't be read.
pub fn look_at(directory: &Path, keys: &Keys) -> Result<FoundNames, EcryptfsError> {
    let names = NameCipher::reading(keys);
    let opened = rustix::fs::openat(CWD, directory, flags::DIRECTORY, Mode::empty())?;
    let mut found = FoundNames::None;
    let mut files = 0_usize;
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match names.decode(name.to_bytes()) {
            Ok(_) => found = FoundNames::Encrypted,
            Err(NameError::NoKey { wanted }) => return Err(EcryptfsError::NoKey { wanted: vec![wanted] }),
            Err(_) if found == FoundNames::None => found = FoundNames::Plain,
            Err(_) => {}
        }
        if entry.file_type() == FileType::RegularFile && files < SAMPLE {
            // intended: a count for people.
            files = files.saturating_add(1);
            let file = rustix::fs::openat(&opened, name, flags::INNER_FILE, Mode::empty());
            let Ok(file) = file else { continue };
            if let Err(error @ EcryptfsError::NoKey { .. }) = EncryptedFile::open(File::from(file), keys) {
                return Err(error);
            }
        }
    }
    Ok(found)
}

/// Whether a lower file was made, and then nothing was written into it.
fn is_unmade(lower: &File) -> Outcome<bool> {
    let empty = LowerFile::is_empty(lower).map_err(|error| errno(&error))?;
    Ok(empty && lower.xattr().map_err(|error| errno(&error))?.is_none())
}

/// The contents of a lower file.
#[derive(Debug)]
pub enum Contents {
    /// Encrypted.
    Encrypted(EncryptedFile),
    /// Without a header, read and written as it is.
    Plain(File),
    /// Without a header or anything else, on what can't be written.
    Empty,
}

impl LayerFile for Contents {
    fn plain_len(&self) -> Option<u64> {
        match self {
            Self::Encrypted(file) => Some(file.len()),
            Self::Plain(_) | Self::Empty => None,
        }
    }

    fn lower(&self) -> Option<(&File, u64)> {
        match self {
            Self::Encrypted(file) => Some((file.lower(), file.contents_at())),
            Self::Plain(file) => Some((file, 0)),
            Self::Empty => None,
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Outcome<usize> {
        match self {
            Self::Encrypted(file) => read_all(file, offset, buf).map_err(|error| number(&error)),
            Self::Plain(file) => LayerFile::read_at(file, offset, buf),
            Self::Empty => Ok(0),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Outcome<()> {
        match self {
            Self::Encrypted(file) => file.write_at(offset, data).map_err(|error| number(&error)),
            Self::Plain(file) => LayerFile::write_at(file, offset, data),
            Self::Empty => Err(Errno::ROFS),
        }
    }

    fn set_len(&self, len: u64) -> Outcome<()> {
        match self {
            Self::Encrypted(file) => file.set_len(len).map_err(|error| number(&error)),
            Self::Plain(file) => LayerFile::set_len(file, len),
            Self::Empty => Err(Errno::ROFS),
        }
    }

    fn sync(&self, data_only: bool) -> Outcome<()> {
        match self {
            // The size is contents of the lower file, or an attribute of it.
            Self::Encrypted(file) => file.sync().map_err(|error| number(&error)),
            Self::Plain(file) => LayerFile::sync(file, data_only),
            Self::Empty => Ok(()),
        }
    }

    /// Holes are not punched but filled with zeros: the module reads none.
    fn allocate(&self, mode: u32, offset: u64, len: u64) -> Outcome<()> {
        let file = match self {
            Self::Encrypted(file) => file,
            Self::Plain(file) => return LayerFile::allocate(file, mode, offset, len),
            Self::Empty => return Err(Errno::ROFS),
        };
        let end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        let has = file.len();
        let zeros_to = match mode {
            0 => {
                if end > has {
                    file.set_len(end).map_err(|error| number(&error))?;
                }
                return Ok(());
            }
            KEEP_SIZE => return file.reserve(offset, len).map_err(|error| number(&error)),
            ZERO_RANGE => end,
            PUNCH_INSIDE | ZERO_INSIDE => end.min(has),
            _ => return Err(Errno::OPNOTSUPP),
        };
        let zeros = vec![0; ZEROS_LEN];
        let mut at = offset;
        while at < zeros_to {
            // intended: nothing is left to do.
            let len = zeros_to.saturating_sub(at).min(ZEROS_LEN as u64);
            // cannot be out of range: at most the length of the zeros.
            let zeros = zeros.get(..len as usize).unwrap_or(&[]);
            file.write_at(at, zeros).map_err(|error| number(&error))?;
            // cannot overflow: at most zeros_to.
            at = at.saturating_add(len);
        }
        Ok(())
    }
}

/// Reads to the end of the file, or fails: the kernel takes less for the end.
fn read_all(file: &EncryptedFile, offset: u64, buf: &mut [u8]) -> Result<usize, EcryptfsError> {
    let mut done = 0_usize;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        // intended: nothing is there behind the end.
        match file.read_at(offset.saturating_add(done as u64), rest)? {
            0 => break,
            // cannot overflow: at most the length of the buffer.
            read => done = done.saturating_add(read),
        }
    }
    Ok(done)
}

/// The number that programs are told.
fn number(error: &EcryptfsError) -> Errno {
    match error {
        EcryptfsError::Io(error) => errno(error),
        EcryptfsError::NoKey { .. } | EcryptfsError::PublicKey { .. } => Errno::NOKEY,
        EcryptfsError::TooLarge { .. } => Errno::FBIG,
        EcryptfsError::NameTooLong { .. } => Errno::NAMETOOLONG,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_program_is_told_what_is_wrong_by_a_number_of_its_own() {
        let signature = Signature([1; 8]);
        for (error, expected) in [
            (EcryptfsError::Io(io::Error::from_raw_os_error(28)), Errno::NOSPC),
            (EcryptfsError::NoKey { wanted: vec![signature] }, Errno::NOKEY),
            (EcryptfsError::PublicKey { signature }, Errno::NOKEY),
            (EcryptfsError::TooLarge { size: 1 }, Errno::FBIG),
            (EcryptfsError::NameTooLong { len: 1 }, Errno::NAMETOOLONG),
            (EcryptfsError::NoHeader { len: 1 }, Errno::IO),
            (EcryptfsError::Truncated { extent: 0, size: 1, lower: 0 }, Errno::IO),
        ] {
            assert_eq!(number(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_holds_nothing_and_takes_nothing() {
        let empty = Contents::Empty;
        assert_eq!((empty.plain_len(), empty.lower().is_none()), (None, true));
        assert_eq!((empty.read_at(0, &mut [0; 4]), empty.sync(false)), (Ok(0), Ok(())));
        for refused in [empty.write_at(0, b"x"), empty.set_len(1), empty.allocate(0, 0, 1)] {
            assert_eq!(refused, Err(Errno::ROFS));
        }
    }

    #[test]
    fn a_plain_file_is_the_system_s() {
        let place = rustix::fs::open("/proc/self/status", flags::PLACE, Mode::empty());
        let plain = Contents::Plain(place.expect("it is there").into());
        assert_eq!(plain.plain_len(), None);
        assert!(matches!(plain.lower(), Some((_, 0))));
        assert_eq!((plain.sync(true), plain.sync(false)), (Err(Errno::BADF), Err(Errno::BADF)));
        for refused in [plain.write_at(0, b"x"), plain.set_len(1), plain.allocate(0, 0, 1)] {
            assert!(refused.is_err());
        }
        assert_eq!(plain.read_at(0, &mut [0; 4]), Err(Errno::BADF));
    }

    /// The contents of one that is encrypted lie behind its header.
    #[test]
    fn an_encrypted_file_tells_where_its_contents_are() {
        let scratch = atrest_testkit::Scratch::new();
        let mut keys = Keys::new();
        let passphrase = atrest_secret::Passphrase::copy_from(b"correct horse");
        let signatures = vec![keys.add_passphrase(&passphrase).expect("short")[0]];
        let place = crate::ecryptfs::MetadataPlace::File;
        let (cipher, key_len) = (FileCipher::Aes128, 16);
        let options = FileOptions { cipher, key_len, signatures, place, encrypted_names: false };
        let layer = EcryptfsLayer::new(keys, options, None, false).expect("the key is there");
        let open = |name| {
            let path = scratch.path(name);
            File::options().read(true).write(true).create(true).truncate(false).open(path).expect("room")
        };
        let made = layer.create(open("file")).expect("room");
        made.write_at(0, b"contents").and_then(|()| made.sync(true)).expect("room");
        assert_eq!(made.plain_len(), Some(8));
        assert!(matches!(made.lower(), Some((_, 8192))));
        assert_eq!(layer.size(&open("file")), Some(8));
        assert_eq!(layer.size(&open("empty")), None);
        assert!(layer.maps_sizes() && layer.owns_xattr(XATTR));
        assert!(!layer.owns_xattr(b"user.ecryptfs2") && !layer.owns_xattr(b"user.ecryptf"));
        assert_eq!((layer.name_len(255), layer.name_len(100)), (255, 100));
        assert!(is_unmade(&open("empty")).expect("readable"));
        assert!(!is_unmade(&open("file")).expect("readable"));
        let attribute = open("attribute");
        attribute.set_xattr(b"anything").expect("room");
        assert!(!is_unmade(&attribute).expect("readable"));
        assert!(matches!(layer.open(open("empty"), false), Ok(Contents::Empty)));
        assert!(matches!(layer.open(open("empty"), true), Ok(Contents::Encrypted(_))));
    }
}
