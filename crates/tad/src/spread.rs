//! Means over seeds, and how sure they are.

use serde::Serialize;

/// A mean with its confidence interval of 95 % (Student's t).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Half of the interval's width; nothing for a single value, which says nothing about others.
    pub half_95: Option<f64>,
}

/// The 97.5th percentile of Student's t, by degrees of freedom from 1.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

impl Spread {
    /// Of independent values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        let half_95 = (values.len() > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let error = (squares / (count - 1.0) / count).sqrt();
            // Beyond the table the normal distribution is right within 4 %.
            STUDENT.get(values.len() - 2).copied().unwrap_or(1.96) * error
        });
        Spread { mean, half_95 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Mean 10, standard deviation 1, five values: 2.776 / √5.
        let spread = Spread::of([9.0, 9.0, 10.0, 11.0, 11.0]);
        assert_eq!(spread.mean, 10.0);
        assert!((spread.half_95.unwrap() - 2.776 / 5f64.sqrt()).abs() < 1e-9);
        assert_eq!(Spread::of([3.0]), Spread { mean: 3.0, half_95: None });
    }
}
