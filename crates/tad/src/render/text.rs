//! Texts: their width, line breaks, and XML.

/// Approximate width of a text in a sans-serif font of this size. The reader's font is unknown, so
/// the widths are those of a wide one (DejaVu Sans): texts do not overflow, but may leave room.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | NO_BREAK | 'I' => 0.33,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '"' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '×' | '→' | '…' => 0.98,
        'A'..='Z' => 0.72,
        '\u{0}'..='\u{10ff}' => 0.63,
        _ => 1.05,
    }
}

/// Breaks a text at spaces (and after hyphens) into lines of at most this width. A word that is too
/// long for a line is cut with an ellipsis; more lines than `most` end in one too.
pub(super) fn wrap(text: &str, size: f64, limit: f64, most: usize) -> Vec<String> {
    let clean = one_line(text);
    let mut lines: Vec<String> = Vec::new();
    for word in clean.split_inclusive([' ', '-']) {
        let joined = lines.last().map(|line| format!("{line}{word}"));
        match joined {
            Some(joined) if width(joined.trim_end(), size) <= limit => {
                if let Some(last) = lines.last_mut() {
                    *last = joined;
                }
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let more = lines.len() > most;
    lines.truncate(most);
    let count = lines.len();
    for (index, line) in lines.iter_mut().enumerate() {
        *line = cut(line.trim_end(), size, limit, more && index + 1 == count);
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// The text, or as much of it as fits with an ellipsis. `always` puts the ellipsis there even if
/// the text fits.
pub(super) fn cut(text: &str, size: f64, limit: f64, always: bool) -> String {
    if !always && width(text, size) <= limit {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while !kept.is_empty() && width(&kept, size) + width("…", size) > limit {
        kept.pop();
    }
    format!("{}…", kept.trim_end())
}

/// Keeps a number and its unit on one line.
pub(super) const NO_BREAK: char = '\u{a0}';

/// The text on one line: newlines, tabs and runs of spaces become one space.
pub(super) fn one_line(text: &str) -> String {
    let breaks = |c: char| c != NO_BREAK && c.is_whitespace();
    text.split(breaks).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// As character data or an attribute's value in XML. Characters that XML 1.0 does not allow at all
/// become the replacement character.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' | '\r' => out.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_hyphens() {
        assert_eq!(wrap("RPC Handle", 10.0, 50.0, 3), ["RPC", "Handle"]);
        assert_eq!(wrap("View-Mutation", 10.0, 60.0, 3), ["View-", "Mutation"]);
        assert_eq!(wrap("short", 10.0, 60.0, 3), ["short"]);
        assert_eq!(wrap(" \n ", 10.0, 60.0, 3), [""]);
    }

    #[test]
    fn what_does_not_fit_ends_in_an_ellipsis() {
        assert!(wrap("one two three four", 10.0, 40.0, 2)[1].ends_with('…'));
        let long = &wrap("Donaudampfschifffahrtsgesellschaft", 10.0, 80.0, 2)[0];
        assert!(long.ends_with('…') && width(long, 10.0) <= 80.0, "{long}");
    }

    #[test]
    fn what_xml_does_not_allow_is_escaped_or_replaced() {
        assert_eq!(escape("<a&\"b'>"), "&lt;a&amp;&quot;b&#39;&gt;");
        assert_eq!(escape("a\nb\u{1}\u{ffff}é"), "a b\u{fffd}\u{fffd}é");
    }
}
