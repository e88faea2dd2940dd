//! The client against servers that people use, and against one that breaks the protocol.

mod common;
mod hostile;
mod servers;
#[cfg(feature = "tls")]
mod tls;
