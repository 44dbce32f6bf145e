//! Texts that are exactly one statement of a few kinds: a release of a session lock, an acquisition
//! and nothing else, or a statement that must pass at any load.

use crate::mysql::keywords::{is_space, is_word};

/// Longest text that is classified.
pub(super) const EXACT_MAX: usize = 256;

/// What a text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exact {
    /// Takes a session lock for each row of its answer.
    Lock,
    /// Takes one for each true row.
    TryLock,
    /// Releases one for each true row.
    Unlock,
    /// Releases all: pg_advisory_unlock_all() or DISCARD ALL.
    UnlockAll,
    /// Cancels or ends another session: the way out of an overload.
    Signal,
    /// Ends a prepared transaction, which holds locks without a session.
    FinishPrepared,
}

/// What the text is; `None` for everything else.
pub(super) fn parse(text: &[u8]) -> Option<Exact> {
    let mut rest = Rest(text);
    let exact = match rest.word()? {
        word if word.eq_ignore_ascii_case(b"select") => call(&mut rest)?,
        word if word.eq_ignore_ascii_case(b"discard") => {
            rest.word()?.eq_ignore_ascii_case(b"all").then_some(Exact::UnlockAll)?
        }
        word if word.eq_ignore_ascii_case(b"commit") || word.eq_ignore_ascii_case(b"rollback") => {
            rest.word()?.eq_ignore_ascii_case(b"prepared").then_some(())?;
            rest.literal()?;
            Exact::FinishPrepared
        }
        _ => return None,
    };
    rest.blank();
    if rest.0.first() == Some(&b';') {
        rest.0 = &rest.0[1..];
        rest.blank();
    }
    rest.0.is_empty().then_some(exact)
}

/// `[pg_catalog.]name(arguments) [AS name]`.
fn call(rest: &mut Rest<'_>) -> Option<Exact> {
    let mut name = rest.word()?;
    if name.eq_ignore_ascii_case(b"pg_catalog") {
        rest.0 = rest.0.strip_prefix(b".")?;
        name = rest.word()?;
    }
    let name = name.to_ascii_lowercase_array()?;
    let exact = match name.as_slice() {
        b"pg_advisory_lock" | b"pg_advisory_lock_shared" => Exact::Lock,
        b"pg_try_advisory_lock" | b"pg_try_advisory_lock_shared" => Exact::TryLock,
        b"pg_advisory_unlock" | b"pg_advisory_unlock_shared" => Exact::Unlock,
        b"pg_advisory_unlock_all" => Exact::UnlockAll,
        b"pg_cancel_backend" | b"pg_terminate_backend" => Exact::Signal,
        _ => return None,
    };
    let arguments = rest.arguments()?;
    let plain = |byte: &u8| byte.is_ascii_digit() || is_space(*byte) || *byte == b',';
    match exact {
        // The arguments contain no further work.
        Exact::Signal if !arguments.iter().all(plain) => return None,
        // Another call inside would take more locks than the rows show.
        _ if names_a_lock(arguments) => return None,
        _ => {}
    }
    let here = *rest;
    if rest.word().is_some_and(|word| word.eq_ignore_ascii_case(b"as")) {
        if rest.word().is_none() {
            rest.quoted_name()?;
        }
    } else {
        *rest = here;
    }
    Some(exact)
}

fn names_a_lock(arguments: &[u8]) -> bool {
    let word = b"advisory";
    arguments.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

/// A name in lower case.
struct Name([u8; 32], usize);

impl Name {
    fn as_slice(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or(&[])
    }
}

trait ToName {
    fn to_ascii_lowercase_array(&self) -> Option<Name>;
}

impl ToName for [u8] {
    fn to_ascii_lowercase_array(&self) -> Option<Name> {
        let mut name = Name([0; 32], self.len());
        name.0.get_mut(..self.len())?.copy_from_slice(self);
        name.0.make_ascii_lowercase();
        Some(name)
    }
}

/// The part of the text that is not read yet.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// Skips white space and comments; a nested comment ends the search.
    fn blank(&mut self) {
        loop {
            let spaces = self.0.iter().take_while(|byte| is_space(**byte)).count();
            self.0 = self.0.get(spaces..).unwrap_or(&[]);
            let Some(inside) = self.0.strip_prefix(b"/*") else { return };
            let Some(end) = inside.windows(2).position(|pair| pair == b"*/") else { return };
            let (comment, rest) = inside.split_at(end);
            if comment.windows(2).any(|pair| pair == b"/*") {
                return;
            }
            self.0 = rest.get(2..).unwrap_or(&[]);
        }
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        self.blank();
        let size = self.0.iter().take_while(|byte| is_word(**byte)).count();
        let (word, rest) = self.0.split_at(size);
        self.0 = rest;
        (size > 0).then_some(word)
    }

    /// `'…'` without a quote or a backslash in it.
    fn literal(&mut self) -> Option<()> {
        self.between(b'\'')
    }

    fn quoted_name(&mut self) -> Option<()> {
        self.between(b'"')
    }

    fn between(&mut self, quote: u8) -> Option<()> {
        self.blank();
        let inside = self.0.strip_prefix(&[quote])?;
        let end = inside.iter().position(|&byte| byte == quote)?;
        let (text, rest) = inside.split_at(end);
        self.0 = rest.get(1..).unwrap_or(&[]);
        let plain = !text.contains(&b'\\') && self.0.first() != Some(&quote);
        plain.then_some(())
    }

    /// The text between a parenthesis and the one that closes it.
    fn arguments(&mut self) -> Option<&'a [u8]> {
        self.blank();
        let inside = self.0.strip_prefix(b"(")?;
        let (mut depth, mut quoted) = (1u32, false);
        for (at, &byte) in inside.iter().enumerate() {
            match byte {
                b'\'' => quoted = !quoted,
                // After these it is uncertain where a quote or a comment ends.
                b'\\' | b'"' => return None,
                _ if quoted => {}
                b'(' => depth += 1,
                b')' => depth -= 1,
                b';' => return None,
                b'-' if inside.get(at + 1) == Some(&b'-') => return None,
                b'/' if inside.get(at + 1) == Some(&b'*') => return None,
                // A dollar quote; a parameter has a digit there.
                b'$' if !inside.get(at + 1).is_some_and(u8::is_ascii_digit) => return None,
                _ => {}
            }
            if depth == 0 {
                self.0 = inside.get(at + 1..).unwrap_or(&[]);
                return inside.get(..at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_statements_are_known() {
        for (text, exact) in [
            ("SELECT pg_advisory_lock(1)", Exact::Lock),
            (" select  pg_catalog.pg_advisory_lock_shared( 1 , -2 ) ; ", Exact::Lock),
            ("/* app */ select pg_try_advisory_lock($1::bigint) /* trace */", Exact::TryLock),
            ("SELECT pg_try_advisory_lock(hashtext('a;b)c')) AS locked", Exact::TryLock),
            ("SELECT pg_try_advisory_lock(3) as \"t 0\";", Exact::TryLock),
            ("SELECT pg_advisory_unlock(1)", Exact::Unlock),
            ("select PG_ADVISORY_UNLOCK_SHARED(1)", Exact::Unlock),
            ("select pg_advisory_unlock_all()", Exact::UnlockAll),
            ("Discard All;", Exact::UnlockAll),
            ("select pg_cancel_backend(4711)", Exact::Signal),
            ("SELECT pg_terminate_backend(4711, 100);", Exact::Signal),
            ("COMMIT PREPARED 'x-1'", Exact::FinishPrepared),
            ("rollback prepared 'x';", Exact::FinishPrepared),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(exact), "{text}");
        }
    }

    #[test]
    fn whatever_may_be_more_is_not() {
        for text in [
            "",
            "select",
            "select 1",
            "select pg_advisory_unlock(1) from t",
            "select pg_advisory_unlock(1), pg_advisory_lock(2)",
            "select pg_advisory_unlock(pg_advisory_lock(2))",
            "select pg_advisory_unlock(1); select pg_advisory_lock(1)",
            "select pg_advisory_unlock('a\\')",
            "select pg_advisory_unlock(1 -- )\n)",
            "select pg_advisory_unlock(1 /* ) */)",
            "select pg_advisory_unlock($$)$$)",
            "select pg_advisory_unlock(\")\")",
            "select pg_advisory_unlock(1",
            "select f.pg_advisory_unlock(1)",
            "/* a /* b */ c */ select pg_advisory_unlock(1)",
            "select pg_cancel_backend(f())",
            "select pg_cancel_backend(pid) from pg_stat_activity",
            "discard temp",
            "commit",
            "commit prepared x",
            "commit prepared 'it''s'",
            "commit prepared 'x'; select 1",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
