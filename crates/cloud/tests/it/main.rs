//! The clients of clouds, against real servers and against hostile ones.
mod azure;
mod azure_environment;
mod azure_lies;
mod environment;
mod google;
mod lies;
mod questions;
mod requests;
mod server;
