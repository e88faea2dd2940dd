//! The client against a server of S3 that is not ours, and against servers that lie.

mod environment;
mod lies;
mod server;
