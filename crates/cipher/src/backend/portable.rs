//! AES (FIPS 197) for any CPU, constant-time, by the `aes` crate.

pub(crate) use crate::library::Aes as PortableAes;
