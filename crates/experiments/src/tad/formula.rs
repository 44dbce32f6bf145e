//! Small formulas over what was recorded: `original:C1_per_s@200 / original:C1_per_s@40`.
//!
//! Words are apart by spaces, as keys have dots and hyphens. What a word stands for is the caller's
//! matter: one value, or several where a number at all points of an arm is meant. Functions take
//! all values of all their arguments; operators take single ones.

use serde::Deserialize;

use crate::sweep::found::largest;

/// A formula.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Formula(Term);

#[derive(Debug)]
enum Term {
    Number(f64),
    Word(String),
    Of(Function, Vec<Term>),
    /// Left, operator, right.
    Two(Box<Term>, char, Box<Term>),
}

type Function = fn(&[f64]) -> f64;

/// Their names in formulas.
const FUNCTIONS: [(&str, Function); 5] = [
    ("min", |all| all.iter().copied().reduce(smallest).unwrap_or(f64::NAN)),
    ("max", |all| all.iter().copied().reduce(largest).unwrap_or(f64::NAN)),
    ("ceil", |all| single(all).ceil()),
    ("drift", drift),
    ("off-weights", off_weights),
];

impl Formula {
    /// Its value; not a number if one is missing.
    pub(super) fn value(&self, of: &dyn Fn(&str) -> Vec<f64>) -> f64 {
        single(&self.0.values(of))
    }
}

impl TryFrom<String> for Formula {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let signs = ["(", ")", ","];
        let spaced = signs
            .iter()
            .fold(text.clone(), |spaced, sign| spaced.replace(sign, &format!(" {sign} ")));
        let mut words = spaced.split_whitespace().peekable();
        let term = sum(&mut words).ok_or_else(|| format!("`{text}` is no formula"))?;
        match words.next() {
            None => Ok(Self(term)),
            Some(word) => Err(format!("`{text}`: nothing may follow before `{word}`")),
        }
    }
}

impl Term {
    fn values(&self, of: &dyn Fn(&str) -> Vec<f64>) -> Vec<f64> {
        match self {
            Self::Number(number) => vec![*number],
            Self::Word(word) => of(word),
            Self::Of(function, arguments) => {
                let all: Vec<f64> = arguments.iter().flat_map(|each| each.values(of)).collect();
                vec![function(&all)]
            }
            Self::Two(left, operator, right) => {
                let (left, right) = (single(&left.values(of)), single(&right.values(of)));
                vec![match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }]
            }
        }
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn sum(words: &mut Words<'_>) -> Option<Term> {
    operators(words, ["+", "-"], product)
}

fn product(words: &mut Words<'_>) -> Option<Term> {
    operators(words, ["*", "/"], one)
}

/// Operators of one rank, from left to right.
fn operators(
    words: &mut Words<'_>,
    rank: [&str; 2],
    next: fn(&mut Words<'_>) -> Option<Term>,
) -> Option<Term> {
    let mut left = next(words)?;
    while let Some(operator) = words.next_if(|word| rank.contains(word)) {
        let operator = operator.chars().next()?;
        left = Term::Two(Box::new(left), operator, Box::new(next(words)?));
    }
    Some(left)
}

fn one(words: &mut Words<'_>) -> Option<Term> {
    let word = words.next()?;
    if word == "(" {
        let inner = sum(words)?;
        return words.next_if_eq(&")").map(|_| inner);
    }
    if let Ok(number) = word.parse() {
        return Some(Term::Number(number));
    }
    if words.next_if_eq(&"(").is_none() {
        return word.starts_with(char::is_alphabetic).then(|| Term::Word(word.to_owned()));
    }
    let (_, function) = FUNCTIONS.iter().find(|(name, _)| *name == word)?;
    let mut arguments = vec![sum(words)?];
    while words.next_if_eq(&",").is_some() {
        arguments.push(sum(words)?);
    }
    words.next_if_eq(&")").map(|_| Term::Of(*function, arguments))
}

fn single(values: &[f64]) -> f64 {
    if let [value] = values { *value } else { f64::NAN }
}

/// The smaller one; not a number if one is not.
fn smallest(a: f64, b: f64) -> f64 {
    -largest(-a, -b)
}

/// The largest relative distance of a value from the first one.
fn drift(all: &[f64]) -> f64 {
    let first = all.first().copied().unwrap_or(f64::NAN);
    all.iter().map(|value| (value / first - 1.0).abs()).fold(0.0, largest)
}

/// The largest relative distance of a value from its part of all, if these are as 1 to 2 to 3 …
fn off_weights(all: &[f64]) -> f64 {
    let sum: f64 = all.iter().sum();
    let weights: f64 = (1..=all.len()).map(|weight| weight as f64).sum();
    let apart = all.iter().zip(1..).map(|(value, weight)| {
        let fair = f64::from(weight) / weights;
        (value / sum / fair - 1.0).abs()
    });
    apart.fold(0.0, largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        let known = |word: &str| match word {
            "a.b-c@2" => vec![6.0],
            "all" => vec![4.0, 2.0, 5.0],
            _ => vec![],
        };
        Formula::try_from(text.to_owned()).expect(text).value(&known)
    }

    #[test]
    fn operators_have_their_rank_and_functions_take_all_values() {
        assert_eq!(value("1 + a.b-c@2 / 2 - 3 * (1 - 2)"), 7.0);
        assert_eq!(value("max(all, 1) - min(all)"), 3.0);
        assert_eq!(value("drift(all)"), 0.5);
        assert_eq!(value("ceil(10 / 3)"), 4.0);
        assert_eq!(value("off-weights(10, 20, 30)"), 0.0);
        assert!(value("all / 2").is_nan() && value("max(none)").is_nan());
    }

    #[test]
    fn what_is_no_formula_is_refused() {
        for text in ["", "1 +", "1 2", "(1", "sine(1)", "min()", "1 / / 2"] {
            assert!(Formula::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
