//! The front end for kernels with ublk.

#![allow(dead_code)]
mod abi;
mod request;
