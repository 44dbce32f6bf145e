//! Sets of small numbers, a bit for each.

/// All zero bytes: the empty set. Numbers beyond `64 * WORDS` are never in it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Bits<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> crate::layout::Layout for Bits<WORDS> {
    const HASH: u64 = <[u64; WORDS] as crate::layout::Layout>::HASH;
}

impl<const WORDS: usize> Default for Bits<WORDS> {
    fn default() -> Self {
        Bits([0; WORDS])
    }
}

impl<const WORDS: usize> Bits<WORDS> {
    pub(super) fn has(&self, at: u16) -> bool {
        self.0.get(usize::from(at) / 64).is_some_and(|word| word & 1 << (at % 64) != 0)
    }

    /// Puts a number in or takes it out. Says whether it was in.
    pub(super) fn set(&mut self, at: u16, on: bool) -> bool {
        let Some(word) = self.0.get_mut(usize::from(at) / 64) else { return false };
        let mask = 1 << (at % 64);
        let was = *word & mask != 0;
        if on {
            *word |= mask
        } else {
            *word &= !mask
        }
        was
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// All of them, in order. Looks at the set bits only.
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            core::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    (at * 64 + bit) as u16
                })
            })
        })
    }
}
