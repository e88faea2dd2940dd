//! What stands for TLS in a build without the feature `tls`: nothing of it can be made, so nothing of it is ever called.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::wire::WireError;

/// Certificates and a key of a server. In this build there are none: the feature `tls` is off.
#[derive(Clone, Debug)]
pub enum Tls {}

impl Tls {
    /// Whether only clients with a certificate are served.
    pub fn verifies_peer(&self) -> bool {
        match *self {}
    }

    pub(crate) fn begin(&self) -> Result<Session, WireError> {
        match *self {}
    }
}

/// Whom a client trusts. In this build it trusts nobody: the feature `tls` is off.
#[derive(Clone, Debug)]
pub enum ClientTls {}

impl ClientTls {
    pub(crate) fn begin(&self) -> Result<Session, WireError> {
        match *self {}
    }
}

pub(crate) enum Session {}

impl Session {
    pub fn handshake(&self, _: &OwnedFd, _: Option<Instant>) -> Result<(), WireError> {
        match *self {}
    }

    pub fn send(&self, _: &OwnedFd, _: &mut [IoSlice<'_>]) -> Result<(), WireError> {
        match *self {}
    }

    pub fn receive(&self, _: &OwnedFd, _: &mut [u8], _: Option<Instant>) -> Result<usize, WireError> {
        match *self {}
    }

    pub fn farewell(&self, _: &OwnedFd) {
        match *self {}
    }
}
