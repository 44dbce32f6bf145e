//! TPC-C's random strings.

pub use headworks_policy::random::Random;
pub(crate) use headworks_policy::random::scramble;

/// Strings of random characters.
pub(crate) trait Strings {
    /// `random a-string [low .. high]` (clause 4.3.2.2): letters and digits.
    fn a_string(&mut self, low: i64, high: i64) -> String;

    /// `random n-string [low .. high]` (clause 4.3.2.2): digits.
    fn n_string(&mut self, low: i64, high: i64) -> String;
}

impl Strings for Random {
    fn a_string(&mut self, low: i64, high: i64) -> String {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        characters(self, alphabet, low, high)
    }

    fn n_string(&mut self, low: i64, high: i64) -> String {
        characters(self, b"0123456789", low, high)
    }
}

/// Between `low` and `high` characters of `alphabet`.
fn characters(random: &mut Random, alphabet: &[u8], low: i64, high: i64) -> String {
    let length = random.within(low, high).max(0);
    let last = alphabet.len() as i64 - 1;
    (0..length).map(|_| char::from(alphabet[random.within(0, last) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_have_their_lengths() {
        let mut random = Random::stream(7, 2);
        for _ in 0..100 {
            assert!((14..=24).contains(&random.a_string(14, 24).len()));
            assert!(random.n_string(16, 16).bytes().all(|byte| byte.is_ascii_digit()));
        }
    }
}
