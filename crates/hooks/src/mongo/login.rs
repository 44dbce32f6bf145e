//! Who logs in, from the first message of a login.
//!
//! Source: RFC 5802 (SCRAM), section 5.1; RFC 4616 (PLAIN), section 2.

use super::command::Login;
use crate::identity::InlineStr;

impl Login {
    /// The first message of a mechanism. Of PLAIN, only the account is read.
    pub(super) fn payload(&mut self, payload: Option<&[u8]>) {
        let Some(payload) = payload else { return };
        let account = if payload.starts_with(b"n,") || payload.starts_with(b"y,") {
            scram(payload)
        } else if self.plain {
            payload.split(|&byte| byte == 0).nth(1).map(|account| {
                let mut text = InlineStr::new();
                account.iter().for_each(|&byte| text.push(byte));
                text
            })
        } else {
            None
        };
        if let Some(account) = account {
            self.account = account;
        }
    }
}

/// `n,,n=USER,r=NONCE`: the account follows two commas; in it a comma is `=2C` and an equals sign
/// `=3D`.
fn scram(payload: &[u8]) -> Option<InlineStr> {
    let mut parts = payload.split(|&byte| byte == b',');
    let mut left = parts.nth(2)?.strip_prefix(b"n=")?;
    let mut account = InlineStr::new();
    while let Some((&byte, after)) = left.split_first() {
        let (byte, after) = match left {
            [b'=', b'2', b'C', after @ ..] => (b',', after),
            [b'=', b'3', b'D', after @ ..] => (b'=', after),
            _ => (byte, after),
        };
        account.push(byte);
        left = after;
    }
    Some(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(plain: bool, payload: &[u8]) -> String {
        let mut login = Login { plain, ..Login::default() };
        login.payload(Some(payload));
        login.account.to_string()
    }

    #[test]
    fn the_account_is_in_the_first_message_of_a_login() {
        assert_eq!(account(false, b"n,,n=app,r=abc"), "app");
        assert_eq!(account(false, b"n,a=admin,n=a=2Cb=3Dc=,r=abc"), "a,b=c=");
        assert_eq!(account(true, b"\0app\0password"), "app");
        assert_eq!(account(false, b"\0app\0password"), "", "of no mechanism that we know");
        for other in [&b""[..], b"n", b"n,,", b"n,,m=x,n=app", b"c=biws,r=abc,p=xyz"] {
            assert_eq!(account(false, other), "");
        }
    }
}
