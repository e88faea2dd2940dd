//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod c_program;
mod chip;
mod its_program;
mod library;
mod platforms;
mod pointers;
mod sealed_program;
