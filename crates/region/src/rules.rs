//! Which class a connection belongs to.
//!
//! Rules are tried in order and the first that fits decides. They live in the region, so that a
//! connection is classified the moment its identity is known. The daemon replaces them as a whole,
//! under a version number that is odd while it writes.

use crate::text::{SharedText, Text};
use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering};

/// Rules that a region can hold.
pub const RULES: usize = 128;

/// What is known of a connection when it is classified.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Database account.
    pub account: Text,
    /// Database named at connection.
    pub database: Text,
    /// Application name given by the client.
    pub application: Text,
    /// Client's address; empty on a Unix socket.
    pub address: Text,
    /// Local TCP port; zero on a Unix socket.
    pub local_port: u32,
}

/// What a rule says of the connections it fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Index of the class.
    pub class: u32,
    /// Never hold it.
    pub bypass: bool,
}

/// One rule. An empty pattern fits everything.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Pattern with `*` and `?` for the account.
    pub account: Text,
    /// Pattern for the database.
    pub database: Text,
    /// Pattern for the application name.
    pub application: Text,
    /// Pattern for the address, or a network such as `10.0.0.0/8`; `local` is the Unix socket.
    pub address: Text,
    /// Local port; zero fits all.
    pub local_port: u32,
    /// What it says.
    pub verdict: Verdict,
}

impl Rule {
    /// Whether the rule speaks of this connection.
    pub fn fits(&self, identity: &Identity) -> bool {
        let fits = |pattern: &Text, value: &Text| {
            pattern.bytes().is_empty() || glob(pattern.bytes(), value.bytes())
        };
        (self.local_port == 0 || self.local_port == identity.local_port)
            && fits(&self.account, &identity.account)
            && fits(&self.database, &identity.database)
            && fits(&self.application, &identity.application)
            && address_fits(self.address.bytes(), identity.address.bytes())
    }
}

fn address_fits(pattern: &[u8], address: &[u8]) -> bool {
    if pattern.is_empty() {
        return true;
    }
    if pattern == b"local" {
        return address.is_empty();
    }
    match core::str::from_utf8(pattern).ok().and_then(parse_network) {
        Some((network, bits)) => core::str::from_utf8(address)
            .ok()
            .and_then(|text| text.parse::<IpAddr>().ok())
            .is_some_and(|address| in_network(address, network, bits)),
        None => glob(pattern, address),
    }
}

/// `10.0.0.0/8` or `fd00::/8`.
pub fn parse_network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u32 = bits.parse().ok()?;
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

fn in_network(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address.to_canonical(), network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => {
            (a.to_bits() ^ n.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(n)) => {
            (a.to_bits() ^ n.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for any bytes and `?` for one.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                retry = Some((p, t));
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    p = after_star;
                    t = from + 1;
                    retry = Some((after_star, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[derive(Debug)]
#[repr(C)]
struct SharedRule {
    account: SharedText,
    database: SharedText,
    application: SharedText,
    address: SharedText,
    local_port: AtomicU32,
    class: AtomicU32,
    bypass: AtomicU32,
    _pad: AtomicU32,
}

/// The rules in the region. All zero bytes: no rule, all sessions in class 0.
#[derive(Debug)]
#[repr(C)]
pub struct RuleTable {
    epoch: AtomicU32,
    len: AtomicU32,
    rules: [SharedRule; RULES],
}

headworks_policy::layout!(SharedRule {
    account,
    database,
    application,
    address,
    local_port,
    class,
    bypass,
    _pad,
});
headworks_policy::layout!(RuleTable { epoch, len, rules });

impl RuleTable {
    /// Version of the rules; changes whenever they do.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Replaces all rules; those beyond [`RULES`] are the caller's mistake and left out.
    pub fn replace(&self, rules: &[Rule]) {
        self.epoch.fetch_or(1, Ordering::AcqRel);
        core::sync::atomic::fence(Ordering::SeqCst);
        for (shared, rule) in self.rules.iter().zip(rules) {
            shared.account.set(rule.account.bytes());
            shared.database.set(rule.database.bytes());
            shared.application.set(rule.application.bytes());
            shared.address.set(rule.address.bytes());
            shared.local_port.store(rule.local_port, Ordering::Relaxed);
            shared.class.store(rule.verdict.class, Ordering::Relaxed);
            shared.bypass.store(u32::from(rule.verdict.bypass), Ordering::Relaxed);
        }
        self.len.store(rules.len().min(RULES) as u32, Ordering::Relaxed);
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Finds the class of a connection, and the version of the rules that said so. If the rules
    /// change meanwhile, the version is one that the daemon will find outdated and correct.
    pub fn classify(&self, identity: &Identity) -> (Verdict, u32) {
        let epoch = self.epoch();
        let len = (self.len.load(Ordering::Relaxed) as usize).min(RULES);
        let mut verdict = Verdict::default();
        // One copy of one rule at a time: the caller's stack may be small.
        for shared in &self.rules[..len] {
            let rule = Rule {
                account: shared.account.get(),
                database: shared.database.get(),
                application: shared.application.get(),
                address: shared.address.get(),
                local_port: shared.local_port.load(Ordering::Relaxed),
                verdict: Verdict {
                    class: shared.class.load(Ordering::Relaxed),
                    bypass: shared.bypass.load(Ordering::Relaxed) != 0,
                },
            };
            if rule.fits(identity) {
                verdict = rule.verdict;
                break;
            }
        }
        core::sync::atomic::fence(Ordering::Acquire);
        let same = epoch.is_multiple_of(2) && self.epoch.load(Ordering::Relaxed) == epoch;
        (verdict, if same { epoch } else { epoch.wrapping_sub(2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(account: &str, address: &str, local_port: u32) -> Identity {
        Identity {
            account: Text::new(account.as_bytes()),
            database: Text::new(b"shop"),
            application: Text::new(b""),
            address: Text::new(address.as_bytes()),
            local_port,
        }
    }

    fn rule(account: &str, address: &str) -> Rule {
        Rule {
            account: Text::new(account.as_bytes()),
            database: Text::new(b""),
            application: Text::new(b""),
            address: Text::new(address.as_bytes()),
            local_port: 0,
            verdict: Verdict { class: 1, bypass: false },
        }
    }

    #[test]
    fn globs() {
        for (pattern, text, fits) in [
            ("web*", "web-1", true),
            ("web*", "batch", false),
            ("*", "", true),
            ("?", "", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*.example", "db.example", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn networks_and_the_local_socket() {
        assert!(rule("", "10.0.0.0/8").fits(&identity("x", "10.2.3.4", 3306)));
        assert!(!rule("", "10.0.0.0/8").fits(&identity("x", "11.2.3.4", 3306)));
        assert!(rule("", "0.0.0.0/0").fits(&identity("x", "11.2.3.4", 3306)));
        assert!(rule("", "fd00::/8").fits(&identity("x", "fd12::1", 3306)));
        assert!(rule("", "10.0.0.0/8").fits(&identity("x", "::ffff:10.1.1.1", 3306)));
        assert!(rule("", "local").fits(&identity("x", "", 0)));
        assert!(!rule("", "local").fits(&identity("x", "127.0.0.1", 3306)));
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_without_one_it_is_class_zero() {
        // SAFETY: all zero bytes are a valid table.
        let table: Box<RuleTable> = unsafe { Box::new(core::mem::zeroed()) };
        let mut admin = rule("root", "");
        admin.verdict = Verdict { class: 0, bypass: true };
        table.replace(&[admin, rule("web*", "")]);
        assert!(table.classify(&identity("root", "", 0)).0.bypass);
        assert_eq!(table.classify(&identity("web7", "", 0)).0, Verdict { class: 1, bypass: false });
        assert_eq!(table.classify(&identity("other", "", 0)).0, Verdict::default());
        assert_eq!(table.classify(&identity("other", "", 0)).1, table.epoch());
    }
}
