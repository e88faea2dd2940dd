//! The tests of this crate that are no programs of their own: one program links in the time of one.

#[path = "../../../flash/tests/it/any.rs"]
#[allow(dead_code, reason = "these tests have no use for all of it")]
mod any;
mod both_ways;
#[path = "../../../flash/tests/it/faces.rs"]
#[allow(dead_code, reason = "these tests have no use for all of it")]
mod faces;
mod hostile;
mod sealed;
#[path = "../../../flash/tests/it/waits.rs"]
mod waits;
