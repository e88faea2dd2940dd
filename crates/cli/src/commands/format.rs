//! `atrest format`.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use atrest_device::{BlockDevice, SECTOR_SIZE};
use atrest_engine::{Access, FileDevice, NewFile, is_same};
use atrest_nbd::Uri;
use atrest_open::{Device, DeviceOpenError};
use atrest_secret::OsRandom;
use atrest_volume::{Devices, FormatError, FormatOptions, TagOptions, VolumeFormat, VolumeKey};
use serde_json::json;

#[cfg(feature = "whole")]
use super::flash::format as flash_here;
use super::target::{contents, open_device, open_file};
use super::{flash, integrity, options, veracrypt};
use crate::args::format::{FormatArgs, LuksType};
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};
use crate::progress;
use crate::secrets::{self, Source};

/// Whether a path looks like a URL, of whatever kind. An export of NBD may be a flash chip's image.
#[cfg(feature = "whole")]
fn has_scheme(path: &Path) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-');
    let scheme = path.to_str().and_then(|text| text.split_once("://"));
    scheme.is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.bytes().all(is_letter))
        && !Uri::is_meant(path)
}

pub fn format(args: &FormatArgs, output: &Output) -> Result<(), Failure> {
    #[cfg(feature = "whole")]
    if super::sealed::is_meant(&args.path) || args.kind == LuksType::Sealed && has_scheme(&args.path) {
        return super::sealed::format(args, output);
    }
    if matches!(args.kind, LuksType::Flash | LuksType::Sealed) {
        return flash_here(args, output);
    }
    flash::refuse_sizes(&args.flash)?;
    if args.kind == LuksType::Veracrypt {
        return veracrypt::format(args, output);
    }
    veracrypt::refuse_options(&args.tcrypt)?;
    let mut options = format_options(args)?;
    if let Some(cipher) = options.cipher.as_ref().filter(|cipher| cipher.is_discouraged()) {
        output.warn(format_args!(
            "{cipher} is not recommended for new volumes; aes-xts-plain64 is the default, and \
             xchacha12,aes-adiantum-plain64 is for CPUs without AES instructions"
        ));
    }
    if let Some(header) = &args.header
        && is_same(header, &args.path)
    {
        return Err(Failure::parameters("--header names the volume itself")
            .at(header)
            .hint("leave it out: the header is in front of the data then"));
    }
    let data = Place::look(&args.path, args.size)?;
    let header = match &args.header {
        Some(path) => {
            let size = header_size(args)?;
            let place = Place::look(path, path_is_new(path).then_some(size))?;
            Some(place.at_least(size))
        }
        None => None,
    };
    for place in [Some(&data), header.as_ref()].into_iter().flatten() {
        // With a detached header the data area itself is left as it is, but it is no use to anyone any more.
        place.confirm(output)?;
    }
    if let Some(path) = &args.volume_key_file {
        options.volume_key = Some(secrets::read_volume_key_of(path, options.volume_key_len(), output)?);
    } else if let Some(name) = &args.volume_key_keyring {
        options.volume_key = Some(secrets::read_volume_key_in_keyring(name, output)?);
    }
    let prompt = format!("New passphrase for {}", args.path.display());
    let passphrase = Source::from(&args.passphrase).read_new(&prompt, output)?;

    // All of its data is written with this key.
    if options.tags.is_some() && options.volume_key.is_none() {
        let key = VolumeKey::generate(options.volume_key_len(), &mut OsRandom);
        options.volume_key = Some(key.map_err(FormatError::from)?);
    }

    let data = data.open()?;
    let block = data.device().geometry().logical_block;
    if options.data_unit.is_some_and(|unit| unit < block) {
        output.warn(format_args!(
            "sectors smaller than the device's, which have {block} bytes, make small writes slower"
        ));
    }
    let header = header.map(Place::open).transpose()?;
    let devices = match &header {
        Some(header) => Devices::detached(header.device(), data.device()),
        None => Devices::together(data.device()),
    };
    let kind = match args.kind {
        LuksType::Luks1 => VolumeFormat::Luks1,
        LuksType::Luks2 | LuksType::Veracrypt | LuksType::Flash | LuksType::Sealed => VolumeFormat::Luks2,
    };
    let spinner = progress::spinner("measuring and deriving the key", output);
    let result = atrest_volume::format(devices, kind, &passphrase, &options);
    spinner.finish_and_clear();
    let locked = result.map_err(|error| Failure::from(error).at(&args.path))?;
    if let Some(tags) = &options.tags {
        integrity::lay_out(args, (devices, &data), &locked, (tags, options.volume_key.as_ref()), output)?;
    }
    for media in header.into_iter().chain([data]) {
        media.appear()?;
    }
    let uuid = locked.uuid();
    output.done(
        &json!({ "path": path_text(&args.path), "header": args.header.as_deref().map(path_text), "type": kind, "uuid": uuid }),
        &format!("{}: new {} volume, UUID {uuid}", args.path.display(), name(kind)),
    )
}

#[cfg(not(feature = "whole"))]
fn flash_here(args: &FormatArgs, _: &Output) -> Result<(), Failure> {
    Err(Failure::parameters("this program makes no flash").at(&args.path).hint("the whole `atrest` does"))
}

/// A format as people write it.
pub fn name(format: VolumeFormat) -> &'static str {
    match format {
        VolumeFormat::Luks1 => "LUKS1",
        VolumeFormat::Luks2 => "LUKS2",
        VolumeFormat::Plain => "plain",
        VolumeFormat::Tcrypt => "TCRYPT",
        VolumeFormat::LoopAes => "loop-AES",
        VolumeFormat::BitLocker => "BitLocker",
        VolumeFormat::FileVault => "FileVault 2",
    }
}

fn format_options(args: &FormatArgs) -> Result<FormatOptions, Failure> {
    let sectors = |sectors: Option<u64>, option: &str| match sectors.map(|n| n.checked_mul(SECTOR_SIZE)) {
        Some(None) => Err(Failure::parameters(format!("{option} does not fit in 64 bits"))),
        Some(bytes) => Ok(bytes),
        None => Ok(None),
    };
    let keyslot = options::keyslot(&args.pbkdf, args.key_slot, None)?;
    let tags = match &args.integrity {
        Some(kind) => Some(tag_options(args, kind)?),
        None => None,
    };
    Ok(FormatOptions {
        sealed: None,
        cipher: match tags {
            Some(_) => None,
            None => args.cipher.as_deref().map(options::cipher).transpose()?,
        },
        tags,
        key_len: options::key_len(args.key_size),
        data_unit: args.sector_size,
        hash: keyslot.pbkdf.hash,
        uuid: args.uuid.clone(),
        label: args.label.clone(),
        subsystem: args.subsystem.clone(),
        data_offset: sectors(args.offset, "--offset")?,
        data_alignment: sectors(args.align_payload, "--align-payload")?,
        metadata_size: args.luks2_metadata_size,
        keyslots_size: args.luks2_keyslots_size,
        volume_key: None,
        keyslot,
    })
}

/// By cryptsetup's names, of which dm-crypt writes one in another way.
fn tag_options(args: &FormatArgs, kind: &str) -> Result<TagOptions, Failure> {
    let kind = match kind.strip_prefix("hmac-") {
        Some(hash) => format!("hmac({hash})"),
        None => kind.to_owned(),
    };
    let cipher = args.cipher.as_deref().unwrap_or("aes-xts-plain64");
    let key_len = options::key_len(args.integrity_key_size);
    TagOptions::new(cipher, &kind, key_len).map_err(|error| Failure::from(FormatError::from(error)))
}

/// Size of a new header file: what cryptsetup's default header takes, or what the sizes asked for add up to.
fn header_size(args: &FormatArgs) -> Result<u64, Failure> {
    const DEFAULT: u64 = 16 << 20;
    let metadata = args.luks2_metadata_size.unwrap_or(16 << 10).checked_mul(2);
    let all = metadata.and_then(|metadata| match args.luks2_keyslots_size {
        Some(keyslots) => metadata.checked_add(keyslots),
        None => Some(metadata.max(DEFAULT)),
    });
    all.ok_or_else(|| {
        Failure::parameters("--luks2-metadata-size and --luks2-keyslots-size are larger than any file")
    })
}

pub(super) fn path_is_new(path: &Path) -> bool {
    // A path that can't be looked at exists as far as we know; opening it will say what is wrong.
    // An export is there or can't be reached.
    !Uri::is_meant(path) && matches!(path.try_exists(), Ok(false))
}

/// A file or device that the new volume goes to, looked at before anything is written.
pub(super) enum Place<'a> {
    /// To be created.
    New { path: &'a Path, size: u64 },
    /// An existing file that holds nothing, which gets its size now.
    Empty { path: &'a Path, size: u64 },
    /// An existing file or device as it is; what is on it.
    Existing { path: &'a Path, size: u64, card: bool, contents: Option<String> },
    /// An export of an NBD server, open already: some servers let in one client alone.
    Export { path: &'a Path, device: Box<Device>, contents: String },
}

impl<'a> Place<'a> {
    pub(super) fn look(path: &'a Path, size: Option<u64>) -> Result<Self, Failure> {
        if Uri::is_meant(path) {
            if size.is_some() {
                return Err(
                    Failure::parameters("--size is for files; an export has the size it has").at(path)
                );
            }
            let device = Box::new(open_device(path, Access::ReadWriteExclusive)?);
            let contents = contents(&device);
            return Ok(Self::Export { path, device, contents });
        }
        match size {
            Some(size) if path_is_new(path) => return Ok(Self::New { path, size }),
            None if path_is_new(path) => {
                return Err(Failure::new(Code::Device, "there is no such file")
                    .at(path)
                    .hint("--size SIZE creates it, as in --size 1G"));
            }
            _ => {}
        }
        let device = open_device(path, Access::ReadOnly)?;
        let contents = device.holds_data().then(|| contents(&device));
        match size {
            Some(_) if device.is_disk() => {
                Err(Failure::parameters("--size is for files; a block device has the size it has").at(path))
            }
            Some(size) if contents.is_none() => Ok(Self::Empty { path, size }),
            Some(_) => {
                Err(Failure::new(Code::Busy, "it exists already and holds data; --size makes new files")
                    .at(path)
                    .hint("leave --size out to format it as large as it is, or remove it first"))
            }
            None => Ok(Self::Existing { path, size: device.size(), card: device.is_disk(), contents }),
        }
    }

    /// A file that is shorter gets that many bytes when it is opened. A block device has those that it has.
    fn at_least(mut self, bytes: u64) -> Self {
        if let Self::Existing { size, card: false, .. } = &mut self {
            *size = bytes.max(*size);
        }
        self
    }

    /// Bytes that it has, or is to have.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::New { size, .. } | Self::Empty { size, .. } | Self::Existing { size, .. } => *size,
            Self::Export { device, .. } => device.size(),
        }
    }

    /// Whether it is a block device.
    pub(super) fn is_card(&self) -> bool {
        matches!(self, Self::Existing { card: true, .. })
    }

    pub(super) fn confirm(&self, output: &Output) -> Result<(), Failure> {
        match self {
            Self::Existing { path, contents: Some(contents), .. } | Self::Export { path, contents, .. } => {
                output
                    .confirm(&format!("{} holds {contents}, which can't be read afterwards", path.display()))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn open(self) -> Result<Media<'a>, Failure> {
        match self {
            Self::New { path, size } => NewFile::create(path, size)
                .map(|file| Media::New(path, file))
                .map_err(|error| Failure::from(error).at(path)),
            Self::Empty { path, size } => FileDevice::overwrite(path, size)
                .map(|device| Media::Existing(Arc::new(device)))
                .map_err(|error| Failure::from(error).at(path)),
            Self::Existing { path, size, .. } => {
                let device = open_file(path, Access::ReadWriteExclusive, "")?;
                if device.is_block_device() || device.size() >= size {
                    return Ok(Media::Existing(Arc::new(device)));
                }
                let longer = OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(size));
                longer.map_err(|error| Failure::io(&error).at(path))?;
                drop(device);
                open_file(path, Access::ReadWriteExclusive, "")
                    .map(|device| Media::Existing(Arc::new(device)))
            }
            Self::Export { device, .. } => Ok(Media::Export(Arc::from(device))),
        }
    }
}

/// A file or device that is being formatted.
pub(super) enum Media<'a> {
    /// A new file. Unless everything goes well, it never was.
    New(&'a Path, NewFile),
    Existing(Arc<FileDevice>),
    Export(Arc<Device>),
}

impl Media<'_> {
    /// The file or block device, for encrypted flash: none is made on an export.
    pub(super) fn shared(&self) -> Result<Arc<FileDevice>, Failure> {
        match self {
            Self::New(_, file) => Ok(file.shared()),
            Self::Existing(device) => Ok(Arc::clone(device)),
            Self::Export(_) => Err(Failure::from(DeviceOpenError::NotHere).hint(flash::COPY_FIRST)),
        }
    }

    /// The file, block device or export, shared.
    pub(super) fn block_device(&self) -> Arc<dyn BlockDevice> {
        match self {
            Self::New(_, file) => file.shared(),
            Self::Existing(device) => Arc::clone(device) as _,
            Self::Export(device) => Arc::clone(device) as _,
        }
    }

    pub(super) fn device(&self) -> &dyn atrest_device::Media {
        match self {
            Self::New(_, file) => file.device(),
            Self::Existing(device) => &**device,
            Self::Export(device) => &**device,
        }
    }

    pub(super) fn appear(self) -> Result<(), Failure> {
        match self {
            Self::New(path, file) => file.appear().map_err(|error| Failure::from(error).at(path)),
            Self::Existing(_) | Self::Export(_) => Ok(()),
        }
    }
}
