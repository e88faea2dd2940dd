//! Opening, from the path of a file to its plaintext.

mod opening;
mod tcrypt;
mod tcrypt_write;
