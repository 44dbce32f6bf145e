//! What a command is to the gate, by its name.

/// Length of the longest command name that matters.
pub(super) const NAME_MAX: usize = 16;

/// What a command is to the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Like most: one request, one answer.
    Plain,
    /// Never held: it administers the server or concerns the connection itself.
    Pass,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Auth,
    Hello,
    Select,
    /// `CLIENT`, whose next word matters.
    Client,
    /// `CLIENT SETNAME`.
    SetName,
    /// `CLIENT REPLY`, whose next word matters.
    ClientReply,
    ReplyOn,
    ReplyOff,
    ReplySkip,
    Subscribe,
    Unsubscribe,
    Monitor,
    /// `SYNC` or `PSYNC`: a replica asks for the stream of changes.
    Sync,
    Reset,
    Quit,
    /// `SCRIPT` or `FUNCTION`, of which only `KILL` passes.
    Script,
}

/// A word of at most [`NAME_MAX`] letters in upper case, as a number.
const fn word(text: &[u8]) -> u128 {
    let mut number = 0;
    let mut at = 0;
    while at < text.len() {
        number = number << 8 | text[at].to_ascii_uppercase() as u128;
        at += 1;
    }
    number
}

macro_rules! words {
    ($($text:literal => $kind:expr,)*) => {
        const WORDS: &[(u128, &str, Kind)] = &[$((word($text.as_bytes()), $text, $kind),)*];
    };
}

words! {
    "MULTI" => Kind::Multi,
    "EXEC" => Kind::Exec,
    "DISCARD" => Kind::Discard,
    "WATCH" => Kind::Watch,
    "UNWATCH" => Kind::Unwatch,
    "AUTH" => Kind::Auth,
    "HELLO" => Kind::Hello,
    "SELECT" => Kind::Select,
    "CLIENT" => Kind::Client,
    "SUBSCRIBE" => Kind::Subscribe,
    "PSUBSCRIBE" => Kind::Subscribe,
    "SSUBSCRIBE" => Kind::Subscribe,
    "UNSUBSCRIBE" => Kind::Unsubscribe,
    "PUNSUBSCRIBE" => Kind::Unsubscribe,
    "SUNSUBSCRIBE" => Kind::Unsubscribe,
    "MONITOR" => Kind::Monitor,
    "SYNC" => Kind::Sync,
    "PSYNC" => Kind::Sync,
    "RESET" => Kind::Reset,
    "QUIT" => Kind::Quit,
    "SCRIPT" => Kind::Script,
    "FUNCTION" => Kind::Script,
    "REPLCONF" => Kind::Pass,
    "SHUTDOWN" => Kind::Pass,
    "CONFIG" => Kind::Pass,
    "INFO" => Kind::Pass,
    "PING" => Kind::Pass,
    "ACL" => Kind::Pass,
    "CLUSTER" => Kind::Pass,
    "FAILOVER" => Kind::Pass,
    "REPLICAOF" => Kind::Pass,
    "SLAVEOF" => Kind::Pass,
    "SLOWLOG" => Kind::Pass,
    "LATENCY" => Kind::Pass,
    "ROLE" => Kind::Pass,
}

/// Bit `n` of entry `l`: a known word begins with the letter `l` and has `n` letters. Most commands
/// are decided here.
const SHAPES: [u32; 32] = {
    let mut shapes = [0; 32];
    let mut at = 0;
    while at < WORDS.len() {
        let text = WORDS[at].1.as_bytes();
        shapes[(text[0] & 0x1F) as usize] |= 1 << text.len();
        at += 1;
    }
    shapes
};

/// What the command of this name is. Longer names than [`NAME_MAX`] are plain.
pub(super) fn kind_of(name: &[u8]) -> Kind {
    let Some(&first) = name.first() else { return Kind::Plain };
    if name.len() > NAME_MAX || SHAPES[usize::from(first & 0x1F)] & (1 << name.len()) == 0 {
        return Kind::Plain;
    }
    let number = word(name);
    WORDS.iter().find(|(word, ..)| *word == number).map_or(Kind::Plain, |(_, _, kind)| *kind)
}

/// What `CLIENT` or `SCRIPT` becomes with its second word.
pub(super) fn with_second(kind: Kind, second: &[u8]) -> Kind {
    let is = |text: &str| second.eq_ignore_ascii_case(text.as_bytes());
    match kind {
        Kind::Client if is("SETNAME") => Kind::SetName,
        Kind::Client if is("REPLY") => Kind::ClientReply,
        Kind::Script if is("KILL") => Kind::Pass,
        Kind::Script => Kind::Plain,
        Kind::ClientReply if is("ON") => Kind::ReplyOn,
        Kind::ClientReply if is("OFF") => Kind::ReplyOff,
        Kind::ClientReply if is("SKIP") => Kind::ReplySkip,
        Kind::Client | Kind::ClientReply => Kind::Pass,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_any_case_and_others_are_plain() {
        for (_, text, kind) in WORDS {
            assert!(text.len() <= NAME_MAX);
            assert_eq!(kind_of(text.as_bytes()), *kind, "{text}");
            assert_eq!(kind_of(text.to_lowercase().as_bytes()), *kind, "{text}");
        }
        for plain in
            ["", "GET", "SET", "MULTIX", "MULT", "WATCHES", "A-VERY-LONG-COMMAND", "\r\n", "@UTH"]
        {
            assert_eq!(kind_of(plain.as_bytes()), Kind::Plain, "{plain}");
        }
    }

    #[test]
    fn second_words_decide() {
        assert_eq!(with_second(Kind::Client, b"setname"), Kind::SetName);
        assert_eq!(with_second(Kind::Client, b"KILL"), Kind::Pass);
        assert_eq!(with_second(Kind::Script, b"LOAD"), Kind::Plain);
        assert_eq!(with_second(Kind::Script, b"kill"), Kind::Pass);
        assert_eq!(with_second(with_second(Kind::Client, b"Reply"), b"off"), Kind::ReplyOff);
    }
}
