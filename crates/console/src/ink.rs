//! Colours.

/// How good or bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Worth knowing.
    Notice,
    /// Something is to be done.
    Bad,
}

/// Writes with or without colours.
#[derive(Clone, Copy, Debug)]
pub struct Ink {
    /// With colours.
    pub color: bool,
}

impl Ink {
    fn code(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Strong.
    pub fn bold(self, text: &str) -> String {
        self.code("1", text)
    }

    /// Weak.
    pub fn faint(self, text: &str) -> String {
        self.code("2", text)
    }

    /// As good or bad as it is.
    pub fn tone(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Notice => "33",
            Tone::Bad => "1;31",
        };
        self.code(code, text)
    }
}
