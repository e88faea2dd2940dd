//! Opening, from the path of a file to its plaintext.

mod bitlocker;
mod fvault2;
mod opening;
mod reencrypting;
mod tcplay;
mod tcrypt;
mod tcrypt_write;
