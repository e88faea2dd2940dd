//! Where security keys are: devices of the kernel, or the socket of a software key, which carries the same reports.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Fido2Error;
use crate::hid::{REPORT, Reports};

/// The environment variable that names one security key instead of those that are plugged in: a path, or `unix:PATH`.
pub const FIDO2_VARIABLE: &str = "ATREST_FIDO2";

/// Where the kernel lists devices of this kind.
const LIST: &str = "/sys/class/hidraw";

/// How many are looked at.
const DEVICES: usize = 64;

/// The longest that a report may take to be sent.
const SENDING: Duration = Duration::from_secs(4);

/// Where a security key is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    /// A device of the kernel.
    Path(PathBuf),
    /// The Unix socket of a software key.
    Unix(PathBuf),
}

impl Device {
    /// The device that [`FIDO2_VARIABLE`] names, or else all security keys that are plugged in.
    ///
    /// # Errors
    /// [`Fido2Error::BadPlace`]; [`Fido2Error::NoDevice`] if there is none.
    pub fn all() -> Result<Vec<Self>, Fido2Error> {
        let found = match std::env::var_os(FIDO2_VARIABLE) {
            Some(place) => vec![Self::parse(&place.to_string_lossy())?],
            None => plugged_in(Path::new(LIST)),
        };
        if found.is_empty() { Err(Fido2Error::NoDevice) } else { Ok(found) }
    }

    /// The device with this name.
    ///
    /// # Errors
    /// [`Fido2Error::BadPlace`].
    pub fn parse(place: &str) -> Result<Self, Fido2Error> {
        match place.strip_prefix("unix:") {
            Some(path) => Ok(Self::Unix(path.into())),
            None if place.starts_with('/') => Ok(Self::Path(place.into())),
            None => Err(Fido2Error::BadPlace { place: place.into() }),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`Fido2Error::NotThere`] if nothing is there, otherwise [`Fido2Error::Io`].
    pub fn open(&self) -> Result<Box<dyn Reports>, Fido2Error> {
        match self {
            Self::Path(path) => {
                let file = OpenOptions::new().read(true).write(true).open(path);
                Ok(Box::new(Hidraw(file.map_err(|error| absent(&error, path))?)))
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(|error| absent(&error, path))?;
                stream.set_write_timeout(Some(SENDING)).map_err(|error| failed(&error))?;
                Ok(Box::new(Socket(stream)))
            }
        }
    }
}

fn absent(error: &io::Error, place: &Path) -> Fido2Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Fido2Error::NotThere { place: place.display().to_string() }
        }
        _ => failed(error),
    }
}

fn failed(error: &io::Error) -> Fido2Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Fido2Error::Slow,
        _ => Fido2Error::Io(error.to_string()),
    }
}

/// The devices whose description says that they are security keys. One that can't be read, or is gone meanwhile, is none.
fn plugged_in(list: &Path) -> Vec<Device> {
    let Ok(entries) = fs::read_dir(list) else { return Vec::new() };
    let names = entries.take(DEVICES).filter_map(|entry| Some(entry.ok()?.file_name()));
    let is_key = |name: &std::ffi::OsString| {
        let description = fs::read(list.join(name).join("device/report_descriptor"));
        description.is_ok_and(|description| is_security_key(&description))
    };
    let mut found: Vec<Device> =
        names.filter(is_key).map(|name| Device::Path(Path::new("/dev").join(name))).collect();
    found.sort();
    found
}

/// Whether a report descriptor (HID 1.11, section 6.2.2) has the usage page of FIDO.
fn is_security_key(mut description: &[u8]) -> bool {
    while let Some((head, rest)) = description.split_first() {
        // The last two bits say how long the data is; long items are not in use.
        let len = [0, 1, 2, 4][usize::from(head & 3)];
        let Some((data, rest)) = rest.split_at_checked(len) else { return false };
        if head & 0xfc == 0x04 && data == [0xd0, 0xf1] {
            return true;
        }
        description = rest;
    }
    false
}

/// The kernel's device: each report is written and read as a whole, written with its number in front.
struct Hidraw(File);

impl Reports for Hidraw {
    fn send(&mut self, report: &[u8; REPORT]) -> Result<(), Fido2Error> {
        let mut numbered = [0; REPORT + 1];
        numbered.iter_mut().skip(1).zip(report).for_each(|(to, from)| *to = *from);
        match self.0.write(&numbered) {
            Ok(len) if len == numbered.len() => Ok(()),
            Ok(_) => Err(Fido2Error::Io("a report was cut off".into())),
            Err(error) => Err(failed(&error)),
        }
    }

    fn receive(&mut self, until: Instant) -> Result<[u8; REPORT], Fido2Error> {
        wait(&self.0, until)?;
        let mut report = [0; REPORT];
        match self.0.read(&mut report) {
            Ok(REPORT) => Ok(report),
            Ok(_) => Err(Fido2Error::Malformed),
            Err(error) => Err(failed(&error)),
        }
    }
}

/// The socket of a software key, on which one report follows the other.
struct Socket(UnixStream);

impl Reports for Socket {
    fn send(&mut self, report: &[u8; REPORT]) -> Result<(), Fido2Error> {
        self.0.write_all(report).map_err(|error| failed(&error))
    }

    fn receive(&mut self, until: Instant) -> Result<[u8; REPORT], Fido2Error> {
        let mut report = [0; REPORT];
        let mut left = &mut report[..];
        while !left.is_empty() {
            wait(&self.0, until)?;
            match self.0.read(left) {
                Ok(0) => return Err(Fido2Error::Io("the connection ended".into())),
                Ok(len) => left = left.get_mut(len..).ok_or(Fido2Error::Malformed)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(report)
    }
}

/// Waits until something can be read, or the time is over.
fn wait(from: &impl AsFd, until: Instant) -> Result<(), Fido2Error> {
    loop {
        let left = until.checked_duration_since(Instant::now()).ok_or(Fido2Error::Slow)?;
        let left = Timespec::try_from(left).map_err(|_| Fido2Error::Slow)?;
        match poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(Fido2Error::Slow),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Fido2Error::Io(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The description of a security key (CTAP 2.1, section 11.2.8.1), and that of a mouse whose logical maximum looks like it.
    const KEY: &[u8] =
        &[6, 0xd0, 0xf1, 9, 1, 0xa1, 1, 9, 0x20, 0x15, 0, 0x26, 0xff, 0, 0x75, 8, 0x95, 64, 0x81, 2, 0xc0];
    const MOUSE: &[u8] = &[5, 1, 9, 2, 0xa1, 1, 0x26, 0xd0, 0xf1, 0x27, 6, 0xd0, 0xf1, 0, 0xc0];

    #[test]
    fn security_keys_are_known_by_their_descriptions() {
        assert!(is_security_key(KEY) && !is_security_key(MOUSE) && !is_security_key(&KEY[..2]));
        assert!(!is_security_key(&[]));
        let scratch = atrest_testkit::Scratch::new();
        for (name, description) in [("hidraw1", KEY), ("hidraw0", MOUSE), ("hidraw2", KEY)] {
            let device = scratch.path(name).join("device");
            fs::create_dir_all(&device).expect("a directory");
            fs::write(device.join("report_descriptor"), description).expect("a file");
        }
        fs::create_dir_all(scratch.path("hidraw3")).expect("a directory");
        let expected = ["/dev/hidraw1", "/dev/hidraw2"].map(|path| Device::Path(path.into()));
        assert_eq!(plugged_in(scratch.as_path()), expected);
        assert_eq!(plugged_in(&scratch.path("nothing")), []);
    }

    #[test]
    fn a_key_is_named_by_a_path_or_a_socket() {
        assert_eq!(Device::parse("/dev/hidraw0"), Ok(Device::Path("/dev/hidraw0".into())));
        assert_eq!(Device::parse("unix:/run/key"), Ok(Device::Unix("/run/key".into())));
        assert!(matches!(Device::parse("hidraw0"), Err(Fido2Error::BadPlace { .. })));
        for place in ["/nowhere/key", "unix:/nowhere/key"] {
            let none = Device::parse(place).expect("a name").open().err();
            assert_eq!(none, Some(Fido2Error::NotThere { place: "/nowhere/key".into() }));
        }
    }

    #[test]
    fn reports_are_waited_for_only_until_the_end_however_slowly_they_come() {
        let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
        let mut key = Socket(ours);
        key.send(&[7; REPORT]).expect("it is sent");
        let mut report = [0; REPORT];
        theirs.read_exact(&mut report).expect("a report");
        assert_eq!(report, [7; REPORT]);
        theirs.write_all(&[8; REPORT]).expect("it is sent");
        assert_eq!(key.receive(Instant::now() + SENDING), Ok([8; REPORT]));
        let slow = std::thread::spawn(move || {
            for _ in 0..REPORT / 2 {
                theirs.write_all(&[9]).expect("it is sent");
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        assert_eq!(key.receive(Instant::now() + Duration::from_millis(100)), Err(Fido2Error::Slow));
        slow.join().expect("it ends");
        assert!(matches!(key.receive(Instant::now() + SENDING), Err(Fido2Error::Io(_))));
    }
}
