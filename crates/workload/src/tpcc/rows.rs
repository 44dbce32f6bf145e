//! The rows of the initial population (clause 4.3.3.1), as tuples of SQL.
//!
//! Every row is a function of the seed and its key, so parallel loading gives the same data. All
//! strings are letters and digits, so they need no escaping.

use std::fmt::Write;

use super::names::last_name;
use super::population::Population;
use crate::random::{Random, Strings};

/// Which rows hold "ORIGINAL" (or bad credit): a tenth, chosen at random, exactly.
pub(super) fn tenth(count: i64, random: &mut Random) -> Vec<bool> {
    let mut chosen: Vec<bool> = (0..count).map(|place| place < count / 10).collect();
    random.shuffle(&mut chosen);
    chosen
}

/// `i_data` and `s_data`: 26 to 50 characters, with "ORIGINAL" at a random place if asked for.
pub(super) fn data(original: bool, random: &mut Random) -> String {
    let mut text = random.a_string(26, 50);
    if original {
        let at = random.within(0, text.len() as i64 - 8) as usize;
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    text
}

/// Streets, city, state and zip code (clauses 4.3.2.7 and 4.3.3.1), as five values.
fn address(random: &mut Random) -> String {
    format!(
        "'{}','{}','{}','{}','{}11111'",
        random.a_string(10, 20),
        random.a_string(10, 20),
        random.a_string(10, 20),
        random.a_string(2, 2).to_ascii_uppercase(),
        random.n_string(4, 4)
    )
}

/// A number of ten-thousandths as a decimal fraction below one.
struct Fraction(i64);

impl std::fmt::Display for Fraction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "0.{:04}", self.0)
    }
}

pub(super) fn item(id: i64, original: bool, random: &mut Random, sql: &mut String) {
    let price = random.within(100, 10_000);
    let _ = write!(
        sql,
        "({id},{},'{}',{}.{:02},'{}')",
        random.within(1, 10_000),
        random.a_string(14, 24),
        price / 100,
        price % 100,
        data(original, random)
    );
}

/// W_YTD is the sum of its customers' payments: 10.00 each, 300,000.00 unscaled.
pub(super) fn warehouse(population: &Population, w: i64, random: &mut Random, sql: &mut String) {
    let name = random.a_string(6, 10);
    let address = address(random);
    let tax = Fraction(random.within(0, 2_000));
    let _ = write!(sql, "({w},'{name}',{address},{tax},{}.00)", population.customers() * 100);
}

pub(super) fn district(
    population: &Population,
    w: i64,
    d: i64,
    random: &mut Random,
    sql: &mut String,
) {
    let name = random.a_string(6, 10);
    let address = address(random);
    let tax = Fraction(random.within(0, 2_000));
    let customers = population.customers();
    let _ =
        write!(sql, "({d},{w},'{name}',{address},{tax},{}.00,{})", customers * 10, customers + 1);
}

pub(super) fn stock(w: i64, item: i64, original: bool, random: &mut Random, sql: &mut String) {
    let _ = write!(sql, "({item},{w},{}", random.within(10, 100));
    for _ in 0..10 {
        let _ = write!(sql, ",'{}'", random.a_string(24, 24));
    }
    let _ = write!(sql, ",0,0,0,'{}')", data(original, random));
}

/// The number of a customer's last name: each of the 1,000 once, then NURand(255, 0, 999).
pub(super) fn name_number(population: &Population, c: i64, random: &mut Random) -> i64 {
    if c <= population.names() {
        c - 1
    } else {
        population.name_choice(population.name_constant()).draw(random)
    }
}

/// `place` is `d_id, c_w_id`; the credit is bad for a tenth.
pub(super) fn customer(
    population: &Population,
    (w, d, c): (i64, i64, i64),
    bad_credit: bool,
    random: &mut Random,
    sql: &mut String,
) {
    let last = last_name(name_number(population, c, random));
    let first = random.a_string(8, 16);
    let address = address(random);
    let phone = random.n_string(16, 16);
    let credit = if bad_credit { "BC" } else { "GC" };
    let discount = Fraction(random.within(0, 5_000));
    let data = random.a_string(300, 500);
    let _ = write!(
        sql,
        "({c},{d},{w},'{first}','OE','{last}',{address},'{phone}',CURRENT_TIMESTAMP,'{credit}',50000.00,{discount},\
         -10.00,10.00,1,0,'{data}')"
    );
}

pub(super) fn history((w, d, c): (i64, i64, i64), random: &mut Random, sql: &mut String) {
    let data = random.a_string(12, 24);
    let _ = write!(sql, "({c},{d},{w},{d},{w},CURRENT_TIMESTAMP,10.00,'{data}')");
}

/// One order with its number of lines.
pub(super) fn order(
    population: &Population,
    (w, d, o): (i64, i64, i64),
    customer: i64,
    random: &mut Random,
    sql: &mut String,
) -> i64 {
    let lines = random.within(5, 15);
    let _ = write!(sql, "({o},{d},{w},{customer},CURRENT_TIMESTAMP,");
    if o <= population.delivered() {
        let _ = write!(sql, "{}", random.within(1, 10));
    } else {
        sql.push_str("NULL");
    }
    let _ = write!(sql, ",{lines},1)");
    lines
}

/// One line: delivered ones have amount zero, others a positive amount (clause 4.3.3.1).
pub(super) fn order_line(
    population: &Population,
    (w, d, o): (i64, i64, i64),
    line: i64,
    random: &mut Random,
    sql: &mut String,
) {
    let item = random.within(1, population.items());
    let (delivered, amount) = if o <= population.delivered() {
        ("CURRENT_TIMESTAMP", 0)
    } else {
        ("NULL", random.within(1, 999_999))
    };
    let _ = write!(
        sql,
        "({o},{d},{w},{line},{item},{w},{delivered},5,{}.{:02},'{}')",
        amount / 100,
        amount % 100,
        random.a_string(24, 24)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_a_tenth_is_original() {
        let mut random = Random::stream(1, 1);
        assert_eq!(tenth(1_000, &mut random).iter().filter(|&&chosen| chosen).count(), 100);
        for _ in 0..200 {
            let text = data(true, &mut random);
            assert!(text.contains("ORIGINAL") && (26..=50).contains(&text.len()), "{text}");
        }
    }

    #[test]
    fn the_first_thousand_customers_have_each_name_once_and_the_others_favour_some() {
        let population = Population::new(1, 1, 5).unwrap();
        let mut random = Random::stream(1, 1);
        let mut seen = vec![0u32; 1_000];
        for c in 1..=3_000 {
            let number = name_number(&population, c, &mut random);
            if c <= 1_000 {
                assert_eq!(number, c - 1);
            } else {
                seen[number as usize] += 1;
            }
        }
        assert_eq!(seen.iter().sum::<u32>(), 2_000);
        // Uniform choice would leave 1,000 e^-2 = 135 names out; NURand leaves far more.
        assert!(seen.iter().filter(|&&n| n == 0).count() > 250);
    }

    #[test]
    fn orders_of_the_last_third_are_open() {
        let population = Population::new(1, 1, 5).unwrap();
        let text = |o| {
            let mut sql = String::new();
            order(&population, (1, 2, o), 9, &mut Random::stream(1, 1), &mut sql);
            order_line(&population, (1, 2, o), 1, &mut Random::stream(1, 1), &mut sql);
            sql
        };
        assert!(!text(2_100).contains("NULL") && text(2_100).contains(",5,0.00,"));
        assert_eq!(text(2_101).matches("NULL").count(), 2);
    }
}
