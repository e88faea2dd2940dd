//! Every target over its seeds, the corpus of the campaigns and a seeded sample of mutations.

mod corpus;
mod sample;
mod seeds;
