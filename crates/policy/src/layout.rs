//! A number that tells one layout of a structure in shared memory from another.
//!
//! Two builds may only share a region if each field lies where the other expects it. The number is
//! worked out when the program is compiled, from the name, place and type of every field, so it
//! need not be raised by hand.

use crate::Nanos;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// A structure whose layout has a number.
pub trait Layout {
    /// Differs when the layout does.
    const HASH: u64;
}

/// Takes a number into a hash (FNV-1a).
pub const fn mix(hash: u64, value: u64) -> u64 {
    let bytes = value.to_le_bytes();
    mix_bytes(hash, &bytes)
}

/// Takes bytes into a hash.
pub const fn mix_bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// Begins the hash of a structure of this size and alignment.
pub const fn start(size: usize, align: usize) -> u64 {
    mix(mix(0xcbf2_9ce4_8422_2325, size as u64), align as u64)
}

/// Takes a field into the hash of its structure. `_of` is never called: it says the field's type.
pub const fn field<S, T: Layout>(hash: u64, name: &str, at: usize, _of: fn(&S) -> &T) -> u64 {
    mix(mix(mix_bytes(hash, name.as_bytes()), at as u64), T::HASH)
}

/// Gives a structure its number, from all of its fields. One that is left out does not compile.
#[macro_export]
macro_rules! layout {
    ($whole:ident { $($field:tt),+ $(,)? }) => {
        impl $crate::layout::Layout for $whole {
            const HASH: u64 = {
                let mut hash = $crate::layout::start(size_of::<$whole>(), align_of::<$whole>());
                $(hash = $crate::layout::field(
                    hash,
                    stringify!($field),
                    core::mem::offset_of!($whole, $field),
                    |whole: &$whole| &whole.$field,
                );)+
                hash
            };
        }
        const _: fn(&$whole) = |whole| {
            let $whole { $($field: _),+ } = whole;
        };
    };
}

macro_rules! words {
    ($($word:ty),+) => {
        $(impl Layout for $word {
            const HASH: u64 =
                mix_bytes(start(size_of::<$word>(), align_of::<$word>()), stringify!($word).as_bytes());
        })+
    };
}

words!(u8, u16, u32, u64, i64, i128, AtomicU8, AtomicU16, AtomicU32, AtomicU64);

impl Layout for Nanos {
    const HASH: u64 = mix_bytes(u64::HASH, b"Nanos");
}

impl<T: Layout, const N: usize> Layout for [T; N] {
    const HASH: u64 = mix(mix(start(size_of::<Self>(), align_of::<Self>()), N as u64), T::HASH);
}

impl<T: Layout> Layout for UnsafeCell<T> {
    const HASH: u64 = T::HASH;
}

#[cfg(test)]
mod tests {
    use super::*;

    mod one {
        #[repr(C)]
        pub struct It {
            pub a: u32,
            pub b: u32,
            pub c: [u64; 2],
        }
        crate::layout!(It { a, b, c });
    }

    mod same {
        #[repr(C)]
        pub struct It {
            pub a: u32,
            pub b: u32,
            pub c: [u64; 2],
        }
        crate::layout!(It { a, b, c });
    }

    mod swapped {
        #[repr(C)]
        pub struct It {
            pub b: u32,
            pub a: u32,
            pub c: [u64; 2],
        }
        crate::layout!(It { b, a, c });
    }

    mod wider {
        #[repr(C)]
        pub struct It {
            pub a: u32,
            pub b: u32,
            pub c: [u32; 4],
        }
        crate::layout!(It { a, b, c });
    }

    mod inside {
        #[repr(C)]
        pub struct It(pub super::one::It);
        crate::layout!(It { 0 });
    }

    mod inside_another {
        #[repr(C)]
        pub struct It(pub super::swapped::It);
        crate::layout!(It { 0 });
    }

    #[test]
    fn the_number_follows_from_the_layout() {
        assert_eq!(one::It::HASH, same::It::HASH);
        let all = [
            one::It::HASH,
            swapped::It::HASH,
            wider::It::HASH,
            inside::It::HASH,
            inside_another::It::HASH,
            <[one::It; 2]>::HASH,
        ];
        for (at, each) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != each), "{at}");
        }
    }
}
