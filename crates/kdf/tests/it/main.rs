//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod backends;
mod catena;
mod limit;
mod prf;
mod vectors;
mod words;
mod wycheproof;
