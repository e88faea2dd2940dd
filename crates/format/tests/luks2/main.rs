//! LUKS2 headers: one defect at a time, rewrites that keep what they do not mean, hostile bytes.

mod binary;
mod edits;
mod hostile;
mod limits;
mod reencryption;
mod rules;
mod sample;
