//! Our settings in `hbase-site.xml`: their names, and which values they take. A server passes over
//! what it cannot use, so that a typing error has no other effect than a line in a log.

use headworks_settings::did_you_mean;

/// Where controllers are.
pub const CONTROLLER: &str = "headworks.controller";
/// A file with the word that controllers want.
pub const TOKEN_FILE: &str = "headworks.controller.token.file";
/// Whether controllers are talked to by TLS.
pub const TLS: &str = "headworks.controller.tls";
/// Tenants' weights.
pub const WEIGHTS: &str = "headworks.weights";

/// What all our settings begin with.
pub const OURS: &str = "headworks.";

const WEIGHT_MAX: f64 = 1e6;

#[derive(Clone, Copy)]
enum Kind {
    Flag,
    Weights,
    Number(u64),
    Part,
    Text,
    Controllers,
    Path,
}

/// `plugins/hbase/plugin/.../Settings.java` reads them.
const KNOWN: &[(&str, Kind)] = &[
    ("headworks.enabled", Kind::Flag),
    (WEIGHTS, Kind::Weights),
    ("headworks.tenant.attribute", Kind::Text),
    ("headworks.log.outstanding", Kind::Number(10_000)),
    ("headworks.network.bytes-per-second", Kind::Number(i64::MAX as u64)),
    ("headworks.disk.bytes-per-second", Kind::Number(i64::MAX as u64)),
    ("headworks.responses.bytes-per-tenant", Kind::Number(i64::MAX as u64)),
    ("headworks.handlers.kept", Kind::Part),
    ("headworks.speculate", Kind::Flag),
    (CONTROLLER, Kind::Controllers),
    (TOKEN_FILE, Kind::Path),
    (TLS, Kind::Flag),
];

/// Checks a setting of ours.
///
/// # Errors
/// The plug-in has no setting of this name, or the setting does not take this value.
pub fn check(name: &str, value: &str) -> Result<(), String> {
    let Some((_, kind)) = KNOWN.iter().find(|(known, _)| *known == name) else {
        let near = did_you_mean(name, KNOWN.iter().map(|(known, _)| *known), '`');
        return Err(format!("there is no setting `{name}`. {near}plugins/hbase/README.md has all"));
    };
    let value = value.trim();
    let good = |is: bool, words: &str| if is { Ok(()) } else { Err(format!("{name}: {words}")) };
    match kind {
        Kind::Flag => {
            let is = value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false");
            good(is, "write true or false")
        }
        Kind::Number(most) => {
            let is = value.parse::<u64>().is_ok_and(|number| number <= *most);
            good(is, &format!("write a whole number from 0 to {most}"))
        }
        Kind::Part => {
            let is = value.parse::<f64>().is_ok_and(|part| (0.0..=1.0).contains(&part));
            good(is, "write a number from 0 to 1")
        }
        // Without a value it is not set.
        Kind::Text => Ok(()),
        Kind::Path | Kind::Controllers if value.is_empty() => Ok(()),
        Kind::Path => {
            // It is an argument of DataNodes, in a shell's file.
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-@+:".contains(letter);
            good(
                value.starts_with('/') && value.chars().all(plain),
                "write an absolute path of letters, digits and / . _ - @ + :",
            )
        }
        Kind::Controllers => {
            let all = controllers(value);
            good(
                !all.is_empty() && all.iter().all(|one| is_address(one)),
                "write HOST:PORT, several with commas",
            )
        }
        Kind::Weights => weights(value).map(drop).map_err(|words| format!("{name}: {words}")),
    }
}

/// The controllers of a value.
pub fn controllers(value: &str) -> Vec<&str> {
    value.split([',', ' ']).filter(|one| !one.is_empty()).collect()
}

fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-[]:".contains(letter);
        let is_host = !host.is_empty() && host.chars().all(plain);
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// The weights of a value.
///
/// # Errors
/// A part of the value is no `TENANT=WEIGHT`, or a weight is out of range. The text says which.
pub fn weights(value: &str) -> Result<Vec<(&str, f64)>, String> {
    let one = |part: &'_ str| -> Result<_, String> {
        let wrong =
            || format!("write NAME=WEIGHT, a weight above 0 and up to {WEIGHT_MAX}: `{part}`");
        // A name may contain the sign.
        let (name, weight) = part.rsplit_once('=').ok_or_else(wrong)?;
        let weight: f64 = weight.trim().parse().map_err(|_| wrong())?;
        let good = !name.trim().is_empty() && weight > 0.0 && weight <= WEIGHT_MAX;
        if good { Ok(weight) } else { Err(wrong()) }
    };
    let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let weight = one(part)?;
            Ok((part.rsplit_once('=').map_or("", |(name, _)| name.trim()), weight))
        })
        .collect()
}

/// A name as one word that no shell and no list takes for more: all but letters, digits and few
/// signs as `%XX`. `headworks.fair.Escape` reads it.
pub fn escaped(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-@/+:()".contains(byte);
    let one = |byte: u8| {
        if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    name.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_takes_what_it_can_use_and_nothing_else() {
        for (name, good, wrong) in [
            ("headworks.enabled", &["true", "FALSE"][..], &["yes", "", "1"][..]),
            (
                WEIGHTS,
                &["alice=4, batch=0.5", "a=b=1", ""],
                &["alice=three", "bob=-1", "bob=0", "=1", "alice", "a=nan", "a=inf", "a=1e300"],
            ),
            ("headworks.tenant.attribute", &["", "tenant"], &[]),
            ("headworks.log.outstanding", &["0", "30"], &["many", "-1", "1.5", "nan", "99999"]),
            ("headworks.network.bytes-per-second", &["125000000"], &["64m", "1e9", "-5"]),
            ("headworks.handlers.kept", &["0", "0.1", "1"], &["nan", "inf", "-0.1", "1.5"]),
            (
                CONTROLLER,
                &["", "a:7700", "a:1,b:2", "a:1, b:2", "[::1]:7700"],
                &[",", "a", "a:0", "a:x", "a:99999", "a;b:1", "$(x):1"],
            ),
            (TOKEN_FILE, &["/etc/headworks/token"], &["token", "/a b", "/$x"]),
        ] {
            for value in good {
                assert_eq!(check(name, value), Ok(()), "{name}={value}");
            }
            for value in wrong {
                assert!(check(name, value).is_err(), "{name}={value}");
            }
        }
        let words = check("headworks.wieghts", "alice=3").unwrap_err();
        assert!(words.contains("Did you mean `headworks.weights`?"), "{words}");
        assert_eq!(escaped("x#t=gold, Zoë"), "x%23t%3Dgold%2C%20Zo%C3%AB");
    }
}
