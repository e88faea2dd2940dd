//! What stands for TLS in a build without the feature `tls`: nothing of it can be made, so nothing of it is ever called.

use super::stream::Lost;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Certificates and a key. In this build there are none: the feature `tls` is off.
#[derive(Clone, Debug)]
pub enum Tls {}

impl Tls {
    /// Whether only clients with a certificate are served.
    pub fn verifies_peer(&self) -> bool {
        match *self {}
    }
}

pub(super) enum Session {}

impl Session {
    pub fn handshake(tls: &Tls, _: &OwnedFd, _: Option<Instant>) -> Result<Self, Lost> {
        match *tls {}
    }

    pub fn send(&self, _: &OwnedFd, _: &mut [IoSlice<'_>]) -> Result<(), Lost> {
        match *self {}
    }

    pub fn receive(&self, _: &OwnedFd, _: &mut [u8], _: Option<Instant>) -> Result<usize, Lost> {
        match *self {}
    }

    pub fn farewell(&self, _: &OwnedFd) {
        match *self {}
    }
}
