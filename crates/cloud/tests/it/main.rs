//! Each client against a server that is not ours, and against servers that lie.

mod environment;
mod google;
mod lies;
mod server;
