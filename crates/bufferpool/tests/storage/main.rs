//! Pools on storage that fails, tears, cuts and ends: what is promised, kept, mended and refused.

mod adopt;
mod doublewrite;
mod durability;
mod faults;
mod files;
mod prefetch;
mod small;
