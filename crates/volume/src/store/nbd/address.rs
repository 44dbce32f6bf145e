//! The address of an export: NBD URIs, as in the NetworkBlockDevice project's `doc/uri.md`.
//!
//! TLS is spoken by another program ([`Address::tls`]): what runs beside a database links no
//! library for it.

use super::NbdError;
use std::fmt;
use std::path::{Path, PathBuf};

/// The port that NBD has.
const PORT: u16 = 10_809;

/// How a server is reached by TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Host, as its certificate names it.
    pub host: String,
    /// Port.
    pub port: u16,
    /// A directory with `ca-cert.pem`, `client-cert.pem` and `client-key.pem`.
    pub certificates: PathBuf,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// By TLS: not from here.
    Tls(Box<Tls>),
    /// Name or address of a host, and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// An export of a server, as `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    pub(super) place: Place,
    pub(super) export: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Address {
    /// Whether a backing looks like an NBD URI, valid or not.
    pub fn looks_like(text: &str) -> bool {
        ["nbd://", "nbds://", "nbd+unix:", "nbds+unix:"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
    }

    /// Reads one.
    ///
    /// # Errors
    /// Tells what is wrong and the right form.
    pub fn parse(text: &str) -> Result<Address, NbdError> {
        let wrong = |problem| NbdError::Address { text: text.to_owned(), problem };
        let schemes =
            [("nbd+unix://", true, false), ("nbd://", false, false), ("nbds://", false, true)];
        let mut found = schemes.into_iter().filter_map(|(scheme, unix, tls)| {
            text.strip_prefix(scheme).map(|rest| (rest, unix, tls))
        });
        let Some((rest, unix, tls)) = found.next() else {
            return Err(wrong("it begins with none of nbd://, nbd+unix:// and nbds://"));
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let decoded = |text: &str| decode(text).ok_or_else(|| wrong("a %XX in it is none"));
        let export = decoded(export)?;
        let place = if unix {
            let socket = query.split('&').find_map(|pair| pair.strip_prefix("socket="));
            match (host, socket) {
                ("", Some(path)) if !path.is_empty() => {
                    let path = decoded(path)?;
                    if !path.starts_with('/') {
                        // The volume's process has another working directory.
                        return Err(wrong("the path of the socket must begin with /"));
                    }
                    Place::Unix(PathBuf::from(path))
                }
                ("", _) => return Err(wrong("it does not say which socket: ?socket=PATH")),
                _ => return Err(wrong("a Unix socket has no host: three slashes")),
            }
        } else {
            let (host, port) = split_host(host).ok_or_else(|| wrong("the port is no number"))?;
            if host.is_empty() {
                return Err(wrong("the host is missing"));
            }
            let dir = query.split('&').find_map(|pair| pair.strip_prefix("tls-certificates="));
            match (tls, dir.map(decoded).transpose()?) {
                (false, _) => Place::Tcp(host, port),
                (true, Some(dir)) if dir.starts_with('/') => {
                    Place::Tls(Box::new(Tls { host, port, certificates: PathBuf::from(dir) }))
                }
                (true, _) => {
                    return Err(wrong(
                        "it does not say where its certificates are: ?tls-certificates=/DIRECTORY",
                    ));
                }
            }
        };
        Ok(Address { text: text.to_owned(), place, export })
    }

    /// How its server is reached by TLS, if that is so.
    pub fn tls(&self) -> Option<&Tls> {
        match &self.place {
            Place::Tls(tls) => Some(tls.as_ref()),
            _ => None,
        }
    }

    /// The same export, by a Unix socket that leads to its server.
    pub fn by(&self, socket: &Path) -> Address {
        Address { place: Place::Unix(socket.to_owned()), ..self.clone() }
    }
}

/// Host and port; addresses of IPv6 stand in brackets.
fn split_host(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, after.strip_prefix(':').or(after.is_empty().then_some(""))?)
        }
        None => text.rsplit_once(':').unwrap_or((text, "")),
    };
    let port = if port.is_empty() { PORT } else { port.parse().ok()? };
    Some((host.to_owned(), port))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read() {
        let parse = |text| {
            let Address { place, export, .. } = Address::parse(text).unwrap();
            (place, export)
        };
        let tcp = |host: &str, port| Place::Tcp(host.to_owned(), port);
        assert_eq!(parse("nbd://store/data"), (tcp("store", 10_809), "data".to_owned()));
        assert_eq!(parse("nbd://store:99"), (tcp("store", 99), String::new()));
        assert_eq!(parse("nbd://[::1]:7/a/b%20c"), (tcp("::1", 7), "a/b c".to_owned()));
        assert_eq!(parse("nbd://[::1]/x"), (tcp("::1", 10_809), "x".to_owned()));
        assert_eq!(
            parse("nbd+unix:///data?socket=/run/my%20nbd"),
            (Place::Unix("/run/my nbd".into()), "data".to_owned())
        );
    }

    #[test]
    fn by_tls_it_says_where_the_certificates_are() {
        let text = "nbds://store:7/data?tls-certificates=/etc/my%20certs";
        let address = Address::parse(text).unwrap();
        let certificates = PathBuf::from("/etc/my certs");
        assert_eq!(address.tls(), Some(&Tls { host: "store".into(), port: 7, certificates }));
        let by = address.by(Path::new("/run/x"));
        assert_eq!((by.tls(), by.export.as_str()), (None, "data"));
        assert_eq!(by.to_string(), text);
    }

    #[test]
    fn what_is_no_uri_is_refused_with_the_reason() {
        for (text, problem) in [
            ("nbds://store/data", "certificates"),
            ("nbds://store/data?tls-certificates=x", "certificates"),
            ("nbd:store", "none of"),
            ("nbd:///data", "host is missing"),
            ("nbd://store:x/data", "no number"),
            ("nbd://store/%zz", "%XX"),
            ("nbd+unix:///data", "?socket=PATH"),
            ("nbd+unix://host/data?socket=/x", "three slashes"),
            ("nbd+unix:///data?socket=x", "begin with /"),
        ] {
            let said = Address::parse(text).unwrap_err().to_string();
            assert!(said.contains(problem) && said.contains("nbd://HOST"), "{said}");
            assert!(Address::looks_like(text) || problem == "none of");
        }
    }
}
