//! A store that fails and lies on purpose, a trusted store that is cut, and what a volume over them must have held.

pub mod bytes;
pub mod disk;
pub mod plain;
pub mod through;
pub mod trusted;
pub mod truth;
pub mod wild;
