//! The client: fixed newstyle, `NBD_OPT_GO` or what came before it, simple and structured replies, several connections.

mod connection;
mod covered;
mod dial;
mod export;
mod handshake;
mod input;
mod reply;

pub use dial::Options;
pub use export::Export;
