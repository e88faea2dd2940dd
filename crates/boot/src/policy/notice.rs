//! Where in the configuration something was said, and what is wrong with it.

use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where something was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<Path>,
    /// Where in it.
    pub place: Place,
}

/// A place in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from 1.
    Line(usize),
    /// A parameter of the kernel command line.
    Parameter(String),
    /// The whole of it.
    File,
}

impl Origin {
    /// A line of a file.
    pub fn line(file: &Arc<Path>, line: usize) -> Self {
        Self { file: file.clone(), place: Place::Line(line) }
    }

    /// A parameter of the kernel command line.
    pub fn parameter(file: &Arc<Path>, name: impl Into<String>) -> Self {
        Self { file: file.clone(), place: Place::Parameter(name.into()) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Line(line) => write!(f, "{}:{line}", self.file.display()),
            Place::Parameter(name) => write!(f, "{}: {name}", self.file.display()),
            Place::File => write!(f, "{}", self.file.display()),
        }
    }
}

/// Something that a person should hear about the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Where.
    pub origin: Origin,
    /// What.
    pub problem: Problem,
}

impl Notice {
    /// Whether a volume is not opened because of it. Otherwise it is a warning.
    pub fn drops_entry(&self) -> bool {
        !matches!(
            self.problem,
            Problem::UnknownOption { .. }
                | Problem::UnknownParameter
                | Problem::NotDone { .. }
                | Problem::PassedOver { .. }
                | Problem::MoreFields
                | Problem::ParameterValue { .. }
                | Problem::NamesNone
        )
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.problem)
    }
}

/// What is wrong, or not done here.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A line without a name and a device.
    FewFields,
    /// A line with more than four fields; the rest is not looked at.
    MoreFields,
    /// A backslash that begins nothing that is known.
    BadEscape {
        /// The field or option.
        text: String,
    },
    /// Not a name for a mapping.
    BadName {
        /// The name.
        name: String,
    },
    /// Not a path, nor a tag.
    BadDevice {
        /// What was found.
        text: String,
    },
    /// A key file that is neither an absolute path nor on a device.
    BadKey {
        /// What was found.
        text: String,
    },
    /// The value of an option makes no sense.
    BadValue {
        /// The option.
        option: String,
        /// Its value.
        value: String,
    },
    /// The value of a kernel parameter makes no sense; the parameter is left out.
    ParameterValue {
        /// The value.
        value: String,
    },
    /// What is demanded of volumes makes no sense; those that it is about are not opened.
    DemandValue {
        /// The value.
        value: String,
    },
    /// Something is demanded of a UUID by which nothing is named that is opened.
    NamesNone,
    /// A name that an earlier entry has.
    Duplicate {
        /// The name.
        name: String,
        /// The entry that is used.
        first: Origin,
    },
    /// Volumes that need each other, for their keys, headers or devices.
    Cycle {
        /// Their names, each needed by the one before it.
        names: Vec<String>,
    },
    /// An option that nobody has heard of.
    UnknownOption {
        /// The option.
        option: String,
    },
    /// A kernel parameter of this kind that nobody has heard of.
    UnknownParameter,
    /// Options that don't fit together.
    Together {
        /// One.
        a: &'static str,
        /// The other.
        b: &'static str,
    },
    /// An option with no effect here.
    NotDone {
        /// The option.
        option: String,
    },
    /// A token or device that holds a key, which can't be served here. Key files and passphrases are taken.
    PassedOver {
        /// The option.
        option: String,
    },
    /// A kind of volume that is not opened here.
    Unsupported {
        /// The option that says so.
        option: String,
        /// Who opens it.
        instead: &'static str,
    },
    /// The file can't be read.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewFields => f.write_str("a line needs a name and a device"),
            Self::MoreFields => f.write_str("there are more than four fields; the rest is ignored"),
            Self::BadEscape { text } => {
                write!(f, "{text:?}: a backslash begins \\\\, \\xHH or three octal digits up to \\377")
            }
            Self::BadName { name } => {
                write!(
                    f,
                    "{name:?} is not a name for a mapping: use up to 127 letters, digits and '#+-.:=@_'"
                )
            }
            Self::BadDevice { text } => {
                write!(f, "{text:?} is no device: write a path, UUID=, LABEL=, PARTUUID= or PARTLABEL=")
            }
            Self::BadKey { text } => {
                write!(f, "{text:?} is no key file: write its path, PATH:DEVICE, or none")
            }
            Self::BadValue { option, value } => write!(f, "{option}={value} makes no sense"),
            Self::ParameterValue { value } => {
                write!(f, "{value:?} makes no sense here; the parameter is ignored")
            }
            Self::DemandValue { value } => {
                write!(f, "{value:?} makes no sense here; the volumes that it is about stay closed")
            }
            Self::NamesNone => f.write_str(
                "no volume is named by this UUID: it holds for the one that has it in its header, and others that \
                 are not named by UUID stay closed",
            ),
            Self::Duplicate { name, first } => write!(f, "{name} is defined already, at {first}"),
            Self::Cycle { names } => {
                write!(f, "these volumes need each other: {}", names.join(" needs "))
            }
            Self::UnknownOption { option } => write!(f, "the option {option} is not known and is ignored"),
            Self::UnknownParameter => f.write_str("this parameter is not known and is ignored"),
            Self::Together { a, b } => write!(f, "{a} and {b} don't go together"),
            Self::NotDone { option } => write!(f, "{option} is not done here"),
            Self::PassedOver { option } => {
                write!(
                    f,
                    "{option} can't be served here and is passed over: the tokens of the header, key file and passphrase are tried"
                )
            }
            Self::Unsupported { option, instead } => {
                write!(f, "a volume with {option} is not opened here; {instead}")
            }
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}
