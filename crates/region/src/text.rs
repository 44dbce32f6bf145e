//! Short texts in shared memory.

use core::sync::atomic::{AtomicU8, Ordering};

/// Bytes that a [`SharedText`] keeps; a longer text is cut at a character's border.
pub const TEXT_BYTES: usize = 64;

/// A text of up to [`TEXT_BYTES`] bytes, padded with zeros. Read and written without a lock: a
/// reader that meets a writer may see a mixture, never anything unsafe.
#[derive(Debug)]
#[repr(C)]
pub struct SharedText([AtomicU8; TEXT_BYTES]);

headworks_policy::layout!(SharedText { 0 });

impl SharedText {
    /// Replaces the text.
    pub fn set(&self, text: &[u8]) {
        let mut length = text.len().min(TEXT_BYTES);
        while length < text.len() && length > 0 && text[length] & 0xC0 == 0x80 {
            length -= 1;
        }
        for (at, byte) in self.0.iter().enumerate() {
            let value = if at < length { text[at] } else { 0 };
            byte.store(value, Ordering::Relaxed);
        }
    }

    /// Copies the text out.
    pub fn get(&self) -> Text {
        let mut bytes = [0; TEXT_BYTES];
        for (to, from) in bytes.iter_mut().zip(&self.0) {
            *to = from.load(Ordering::Relaxed);
        }
        Text(bytes)
    }
}

/// A copy of a [`SharedText`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text([u8; TEXT_BYTES]);

impl Default for Text {
    fn default() -> Self {
        Text::EMPTY
    }
}

impl Text {
    /// No text.
    pub const EMPTY: Text = Text([0; TEXT_BYTES]);

    /// From bytes, cut to [`TEXT_BYTES`].
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = [0; TEXT_BYTES];
        let length = text.len().min(TEXT_BYTES);
        bytes[..length].copy_from_slice(&text[..length]);
        Text(bytes)
    }

    /// Its bytes, to be written by the kernel. What follows a zero is no part of the text.
    pub fn room(&mut self) -> &mut [u8; TEXT_BYTES] {
        &mut self.0
    }

    /// Without the padding.
    pub fn bytes(&self) -> &[u8] {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(TEXT_BYTES);
        &self.0[..length]
    }

    /// For display; bytes that are no UTF-8 are replaced.
    pub fn to_display(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

impl core::fmt::Debug for Text {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}", self.to_display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let shared = SharedText([const { AtomicU8::new(0) }; TEXT_BYTES]);
        let long = "é".repeat(40);
        shared.set(long.as_bytes());
        assert_eq!(shared.get().to_display(), "é".repeat(32));
        shared.set(format!("x{long}").as_bytes());
        assert_eq!(shared.get().to_display(), format!("x{}", "é".repeat(31)));
    }
}
