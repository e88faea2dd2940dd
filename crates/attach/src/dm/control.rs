//! Device-mapper's requests, one function each.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use super::error::DmError;
use super::message::{ANSWER, HEAD, Message, flag};
use super::sys;

const PATH: &str = "/dev/mapper/control";

const LIST: u32 = 2;
const CREATE: u32 = 3;
const REMOVE: u32 = 4;
const SUSPEND: u32 = 6;
const STATUS: u32 = 7;
const LOAD: u32 = 9;
const CLEAR: u32 = 10;
const TABLE: u32 = 12;
const TARGET_MESSAGE: u32 = 14;

/// `_IOWR(0xfd, number, struct dm_ioctl)`.
const fn request(number: u32) -> u32 {
    3 << 30 | (HEAD as u32) << 16 | 0xfd << 8 | number
}

/// Largest answer that is made room for, in bytes.
const LARGEST: usize = 1 << 20;
/// How often a mapping that is in use is tried to be removed, and the pause between: udev may just be looking at it.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// The kernel's device-mapper.
#[derive(Debug)]
pub struct Control(File);

/// What the kernel says of a mapping.
pub struct Found {
    /// Its UUID.
    pub uuid: String,
    /// Its device number.
    pub device: u64,
    /// How often it is open.
    pub open_count: u32,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether all I/O waits.
    pub suspended: bool,
    /// Whether a table is loaded beside the one in use.
    pub loaded: bool,
}

impl Control {
    pub fn open() -> Result<Self, DmError> {
        OpenOptions::new().read(true).write(true).open(PATH).map(Self).map_err(DmError::Control)
    }

    /// Sends a request; the message then holds the answer.
    fn send(&self, number: u32, message: &mut Message) -> io::Result<()> {
        sys::device_mapper(self.0.as_fd(), request(number), message.bytes())
    }

    /// Asks, with more room each time, until the answer fits. A message that holds an answer can't be sent again.
    fn ask(&self, number: u32, name: &str, flags: u32) -> Result<Message, DmError> {
        let mut room = ANSWER;
        while room <= LARGEST {
            let mut message = Message::with_room(name, room);
            message.add_flag(flags);
            self.send(number, &mut message).map_err(|error| match error.raw_os_error() {
                Some(libc::ENXIO) => DmError::NotOpen { name: name.into() },
                _ => DmError::System { request: "look", error },
            })?;
            if !message.has(flag::BUFFER_FULL) {
                return Ok(message);
            }
            room *= 4;
        }
        Err(DmError::Answer)
    }

    /// A mapping; `None` if there is none of that name.
    pub fn status(&self, name: &str) -> Result<Option<Found>, DmError> {
        let mut message = Message::new(name);
        match self.send(STATUS, &mut message) {
            Ok(()) => Ok(Some(Found {
                uuid: message.answered_uuid(),
                device: message.device(),
                open_count: message.open_count(),
                read_only: message.has(flag::READ_ONLY),
                suspended: message.has(flag::SUSPEND),
                loaded: message.has(flag::INACTIVE_PRESENT),
            })),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            Err(error) => Err(DmError::System { request: "status", error }),
        }
    }

    /// A mapping's table, keys and all.
    pub fn table(&self, name: &str) -> Result<Message, DmError> {
        self.ask(TABLE, name, flag::STATUS_TABLE)
    }

    /// What a mapping's targets say of themselves.
    pub fn state(&self, name: &str) -> Result<Message, DmError> {
        self.ask(TABLE, name, 0)
    }

    /// The names of all mappings.
    pub fn names(&self) -> Result<Vec<String>, DmError> {
        self.ask(LIST, "", 0)?.names().ok_or(DmError::Answer)
    }

    /// Makes a mapping without a table.
    pub fn create(&self, name: &str, mut message: Message) -> Result<(), DmError> {
        self.send(CREATE, &mut message).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => DmError::NameTaken { name: name.into() },
            _ => DmError::System { request: "create", error },
        })
    }

    /// Gives a mapping its table.
    pub fn load(&self, mut message: Message) -> Result<(), DmError> {
        self.send(LOAD, &mut message).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => DmError::DeviceBusy,
            _ => DmError::Table(error),
        })
    }

    /// Throws away the table that was loaded. The one in use stays.
    pub fn clear(&self, name: &str) -> Result<(), DmError> {
        self.send(CLEAR, &mut Message::new(name)).map_err(|error| DmError::System { request: "clear", error })
    }

    /// Makes the table that was loaded the one in use. Gives whether udev was told.
    pub fn resume(&self, name: &str, event: u32) -> Result<bool, DmError> {
        let mut message = Message::new(name);
        message.event(event);
        self.send(SUSPEND, &mut message).map_err(|error| DmError::System { request: "resume", error })?;
        Ok(message.has(flag::UEVENT_GENERATED))
    }

    /// Stops all I/O of a mapping, once what was begun is done and file systems are in order.
    pub fn suspend(&self, name: &str) -> Result<(), DmError> {
        let mut message = Message::new(name);
        message.add_flag(flag::SUSPEND);
        self.send(SUSPEND, &mut message).map_err(|error| DmError::System { request: "suspend", error })
    }

    /// Stops all I/O of a mapping, once what was begun is done. File systems on it are not asked: they wait.
    pub fn suspend_at_once(&self, name: &str) -> Result<(), DmError> {
        let mut message = Message::new(name);
        message.add_flag(flag::SUSPEND | flag::SKIP_LOCKFS);
        self.send(SUSPEND, &mut message).map_err(|error| DmError::System { request: "suspend", error })
    }

    /// Tells a mapping's target something. The words may hold a key.
    pub fn tell(&self, name: &str, words: &[u8]) -> Result<(), DmError> {
        let mut message = Message::new(name);
        message.words(words);
        self.send(TARGET_MESSAGE, &mut message).map_err(|error| DmError::System { request: "message", error })
    }

    /// Removes a mapping as soon as nobody uses it. Gives whether udev was told, as it is when that is now.
    pub fn remove_deferred(&self, name: &str, event: u32) -> Result<bool, DmError> {
        let mut message = Message::new(name);
        message.event(event);
        message.add_flag(flag::DEFERRED_REMOVE);
        self.send(REMOVE, &mut message).map_err(|error| DmError::System { request: "remove", error })?;
        Ok(message.has(flag::UEVENT_GENERATED))
    }

    /// Removes a mapping; while it is in use, tries for a second. Gives whether udev was told.
    pub fn remove_patiently(&self, name: &str, event: u32) -> Result<bool, DmError> {
        for _ in 1..TRIES {
            match self.remove(name, event) {
                Err(DmError::Busy { .. }) => std::thread::sleep(PAUSE),
                removed => return removed,
            }
        }
        self.remove(name, event)
    }

    /// Removes a mapping that is not in use. Gives whether udev was told.
    pub fn remove(&self, name: &str, event: u32) -> Result<bool, DmError> {
        let mut message = Message::new(name);
        message.event(event);
        match self.send(REMOVE, &mut message) {
            Ok(()) => Ok(message.has(flag::UEVENT_GENERATED)),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::EBUSY) => DmError::Busy { name: name.into() },
                Some(libc::ENXIO) => DmError::NotOpen { name: name.into() },
                _ => DmError::System { request: "remove", error },
            }),
        }
    }
}
