//! What every new sealed volume begins with: a key, a header in an empty store, and a trusted store that knows nothing yet.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use atrest_engine::TrustedFile;
use atrest_open::sealed::Place;
use atrest_sealedvolume::format::{BLOCK_LEN, FormatId, Keys};
use atrest_sealedvolume::header::{HeaderObject, NewHeader};
use atrest_sealedvolume::store::ObjectStore;
use atrest_sealedvolume::volume::{Freshness, OpenError, Settings};
use atrest_secret::{OsRandom, Passphrase, Random};
use atrest_volume::{Devices, FormatError, FormatOptions, VolumeFormat, VolumeKey};

use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::progress;

/// Bytes in the volume key.
pub(super) const KEY_LEN: usize = 32;
/// Numbers of objects that may be under way at once.
pub(super) const WINDOW: u8 = 32;

/// A volume that is to be made where `look` found nothing.
pub(super) struct NewVolume<'a> {
    pub place: &'a Place,
    pub key: VolumeKey,
    pub passphrase: Passphrase,
    pub options: FormatOptions,
    pub trusted: Option<TrustedFile>,
}

/// A store that has the header of a new volume, and nothing else.
pub(super) struct Begun<'a> {
    pub store: Arc<dyn ObjectStore>,
    pub keys: Keys,
    pub format: FormatId,
    pub freshness: &'a mut Freshness,
    pub settings: &'a mut Settings,
}

/// What was made.
pub(super) struct Made {
    pub uuid: String,
    pub format: FormatId,
}

impl NewVolume<'_> {
    /// Stores the header, then has the first objects of the volume made. The store is held meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the header and of the store, which `at` gives their place, and those of `volume`.
    pub(super) fn begin(
        self,
        output: &Output,
        at: impl Fn(Failure) -> Failure,
        volume: impl FnOnce(Begun<'_>) -> Result<(), Failure>,
    ) -> Result<Made, Failure> {
        let mut format = [0; 16];
        OsRandom.fill(&mut format).map_err(FormatError::from)?;
        let header = NewHeader::new();
        let uuid = fill(&header, (&self.key, format), &self.passphrase, self.options, output).map_err(&at)?;
        let keys = Keys::new(&self.key, format).map_err(|error| at(Failure::new(Code::Device, error)))?;
        let store = make(self.place).map_err(&at)?;
        let _held = store.hold().map_err(|error| at(error.into()))?;
        let mut settings = Settings::default();
        let first =
            HeaderObject::create(&*store, settings.patience, header).map_err(|error| at(error.into()))?;
        if !first {
            return Err(at(OpenError::NotEmpty.into()));
        }
        let mut freshness = match self.trusted {
            Some(file) => Freshness::Record(Box::new(file)),
            None => Freshness::Nothing,
        };
        let (freshness, settings) = (&mut freshness, &mut settings);
        volume(Begun { store: Arc::clone(&store), keys, format, freshness, settings })?;
        Ok(Made { uuid, format })
    }
}

/// The store at a place that is to hold a new volume, its directory made if there is none.
fn make(place: &Place) -> Result<Arc<dyn ObjectStore>, Failure> {
    if let Place::Directory(directory) = place {
        make_directory(directory)?;
    }
    Ok(place.store()?)
}

/// Makes the header that holds a volume's key, with one keyslot. Returns its UUID.
pub(super) fn fill(
    header: &NewHeader,
    (key, format): (&VolumeKey, [u8; 16]),
    passphrase: &Passphrase,
    options: FormatOptions,
    output: &Output,
) -> Result<String, Failure> {
    let data = NewHeader::new();
    let options = FormatOptions {
        sealed: Some(format),
        volume_key: Some(VolumeKey::copy_from(key.expose())),
        data_unit: Some(BLOCK_LEN as u32), // 4096
        ..options
    };
    let spinner = progress::spinner("measuring and deriving the key", output);
    let made =
        atrest_volume::format(Devices::detached(header, &data), VolumeFormat::Luks2, passphrase, &options);
    spinner.finish_and_clear();
    Ok(made?.uuid().to_owned())
}

fn make_directory(place: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io(&error).at(place);
    match std::fs::DirBuilder::new().mode(0o700).create(place) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    // The volume is as durable as the name of its directory.
    let parent = place.parent().unwrap_or(place); // intended: `/` is in no other one.
    std::fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)
}
