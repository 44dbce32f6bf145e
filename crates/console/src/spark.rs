//! A series as a line of blocks, for a terminal.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The series in at most `width` blocks, from zero to `top`; each block is the mean of its part.
pub fn sparkline(series: &[f64], top: f64, width: usize) -> String {
    if series.is_empty() || width == 0 {
        return String::new();
    }
    let blocks = series.len().min(width);
    (0..blocks)
        .map(|block| {
            let part = &series[block * series.len() / blocks..(block + 1) * series.len() / blocks];
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            let level = if top > 0.0 { (mean / top * 8.0).ceil() } else { 0.0 };
            BLOCKS[(level as usize).clamp(1, 8) - 1]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_parts_of_the_top() {
        assert_eq!(sparkline(&[0.0, 1.0, 4.0, 8.0], 8.0, 10), "▁▁▄█");
        assert_eq!(sparkline(&[0.0, 0.0], 0.0, 10), "▁▁");
        assert_eq!(sparkline(&[], 1.0, 10), "");
    }

    #[test]
    fn long_series_are_averaged() {
        assert_eq!(sparkline(&[0.0, 8.0, 8.0, 8.0], 8.0, 2), "▄█");
    }
}
