//! What the models in here say, held against counting.

mod chips;
