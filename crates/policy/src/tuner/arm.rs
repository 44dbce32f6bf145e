//! Means of throughput at several P, and how well they are known.

/// P that can be measured in one search.
pub(super) const ARMS: usize = 16;

/// Slices of each P before anything is concluded, and after which it is enough in any case.
pub(super) const SLICES_MIN: u32 = 3;
const SLICES_MAX: u32 = 5;

/// Times that a sample is left early before its P is given up. Once may be a stall of the disk.
const LEFT_MAX: u32 = 2;

/// Half of the interval of a P that was left early, and the widest that counts for a lower bound.
const INTERVAL_LEFT: f64 = 0.2;

/// Ratio of two P within which the curve of throughput is near enough to a parabola.
const NEAR: f64 = 1.8;

#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    parallelism: u32,
    count: u32,
    mean: f64,
    /// Sum of squared deviations (Welford).
    squares: f64,
    /// Samples that were left early, as their P was surely worse than another.
    left: u32,
}

impl Arm {
    /// Half of the 95 % confidence interval, relative to the mean.
    fn spread(&self) -> f64 {
        // Student's t for 1, 2, … degrees of freedom.
        const T: [f64; 9] = [12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
        if self.left > 0 && self.whole() < SLICES_MIN {
            return INTERVAL_LEFT;
        }
        if self.count < 2 || self.mean <= 0.0 {
            return f64::INFINITY;
        }
        let freedom = (self.count - 1) as usize;
        let t = T.get(freedom - 1).copied().unwrap_or(2.1);
        let deviation = (self.squares / f64::from(self.count - 1)).sqrt();
        t * deviation / f64::from(self.count).sqrt() / self.mean
    }

    fn known(&self, enough: Enough) -> bool {
        let well = self.whole() >= SLICES_MIN && self.spread() <= enough.precision;
        self.left >= enough.left || self.whole() >= enough.slices || well
    }

    /// Slices that were not left early.
    fn whole(&self) -> u32 {
        self.count.saturating_sub(self.left)
    }

    /// Throughput that it has at least, as far as can be told.
    fn least(&self) -> f64 {
        self.mean * (1.0 - self.spread().min(INTERVAL_LEFT))
    }
}

/// When a P is known well enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enough {
    /// So many slices are enough in any case.
    slices: u32,
    /// Half of the confidence interval at which fewer are.
    precision: f64,
    /// Samples that were left early after which its throughput does not matter.
    left: u32,
}

impl Enough {
    /// One slice: a first impression.
    pub(super) const ONCE: Enough = Enough { slices: 1, precision: 0.0, left: 1 };

    /// Known to this, or as well as five slices tell.
    pub(super) const fn to(precision: f64) -> Enough {
        Enough { slices: SLICES_MAX, precision, left: LEFT_MAX }
    }

    /// A P that was left early is given up only if that happens again.
    pub(super) const fn twice(self) -> Enough {
        Enough { left: LEFT_MAX, ..self }
    }

    /// A P that was left early is given up.
    pub(super) const fn once(self) -> Enough {
        Enough { left: 1, ..self }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Arms {
    arms: [Arm; ARMS],
    len: usize,
    /// Sessions: a P beyond lets in as many as this one.
    sessions: u32,
    /// The ones that are compared at the moment, as bits.
    chosen: u32,
}

impl Arms {
    pub(super) fn clear(&mut self, sessions: u32) {
        *self = Arms { sessions, ..Arms::default() };
    }

    /// Forgets all but these.
    pub(super) fn keep(&mut self, parallelisms: [u32; 2]) {
        let all = std::mem::replace(self, Arms { sessions: self.sessions, ..Arms::default() });
        let kept = all.arms().iter().filter(|arm| parallelisms.contains(&arm.parallelism));
        for arm in kept {
            self.arms[self.len] = *arm;
            self.len += 1;
        }
    }

    /// Whether a P gives more than another by this factor, as far as can be told from few slices.
    pub(super) fn far(&self, better: u32, than: u32, factor: f64) -> bool {
        let both = self.at(better).zip(self.at(than)).map(|(a, b)| (self.arms[a], self.arms[b]));
        both.is_some_and(|(a, b)| {
            let interval = a.spread().min(INTERVAL_LEFT).hypot(b.spread().min(INTERVAL_LEFT));
            let gain = a.mean / b.mean.max(1e-9);
            b.count > 0 && gain >= factor && gain * (1.0 - interval) > 1.0
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn arms(&self) -> &[Arm] {
        &self.arms[..self.len]
    }

    fn at(&self, parallelism: u32) -> Option<usize> {
        self.arms().iter().position(|arm| arm.parallelism == parallelism)
    }

    /// Measures this P too.
    pub(super) fn add(&mut self, parallelism: u32) {
        let at = self.at(parallelism).unwrap_or_else(|| {
            let at = self.len.min(ARMS - 1);
            self.arms[at] = Arm { parallelism, ..Arm::default() };
            self.len = at + 1;
            at
        });
        self.chosen |= 1 << at;
    }

    /// Compares these, and no others.
    pub(super) fn choose(&mut self, parallelisms: &[u32]) {
        self.chosen = 0;
        for &parallelism in parallelisms {
            self.add(parallelism);
        }
    }

    fn compared(&self) -> impl Iterator<Item = &Arm> {
        let chosen = self.chosen;
        self.arms()
            .iter()
            .enumerate()
            .filter(move |(at, _)| chosen & (1 << at) != 0)
            .map(|(_, a)| a)
    }

    /// A slice at this P gave this throughput.
    pub(super) fn record(&mut self, parallelism: u32, rate: f64) {
        if let Some(at) = self.at(parallelism) {
            let arm = &mut self.arms[at];
            arm.count += 1;
            let delta = rate - arm.mean;
            arm.mean += delta / f64::from(arm.count);
            arm.squares += delta * (rate - arm.mean);
        }
    }

    /// A sample at this P was left early, with this throughput.
    pub(super) fn record_left(&mut self, parallelism: u32, rate: f64) {
        self.record(parallelism, rate);
        if let Some(at) = self.at(parallelism) {
            self.arms[at].left += 1;
        }
    }

    /// Nothing is to be found out about this P.
    pub(super) fn give_up(&mut self, parallelism: u32) {
        if let Some(at) = self.at(parallelism) {
            self.arms[at].left = LEFT_MAX;
        }
    }

    /// Whether all that are compared are known well enough.
    pub(super) fn known(&self, enough: Enough) -> bool {
        self.compared().all(|arm| arm.known(enough))
    }

    /// The P to measure next, of those that may be.
    pub(super) fn next(&self, enough: Enough, may: impl Fn(u32) -> bool) -> Option<u32> {
        let open = self.compared().filter(|arm| !arm.known(enough) && may(arm.parallelism));
        open.min_by_key(|arm| arm.count).map(|arm| arm.parallelism)
    }

    /// Of those that are compared the ones, other than `center`, that have not been measured often,
    /// least first, are taken in turn.
    pub(super) fn least_measured(&self, center: u32, may: impl Fn(u32) -> bool) -> Option<u32> {
        let others = self.compared().filter(|arm| {
            let open = arm.count < SLICES_MAX && arm.left < LEFT_MAX;
            arm.parallelism != center && open && may(arm.parallelism)
        });
        others.min_by_key(|arm| arm.count).map(|arm| arm.parallelism)
    }

    /// Whether it was given up.
    pub(super) fn given_up(&self, parallelism: u32) -> bool {
        self.at(parallelism).is_some_and(|at| self.arms[at].left >= LEFT_MAX)
    }

    /// Of those that are compared and may be measured the one with the fewest slices.
    pub(super) fn fewest(&self, may: impl Fn(u32) -> bool) -> Option<u32> {
        let compared = self.compared().filter(|arm| may(arm.parallelism));
        compared.min_by_key(|arm| arm.count).map(|arm| arm.parallelism)
    }

    /// P, mean and relative spread of those that are compared.
    pub(super) fn chosen(&self) -> impl Iterator<Item = (u32, f64, f64)> {
        self.compared().map(|arm| (arm.parallelism, arm.mean, arm.spread()))
    }

    /// The P with the largest mean of all.
    pub(super) fn best_of_all(&self) -> Option<u32> {
        let best = self.arms().iter().max_by(|a, b| a.mean.total_cmp(&b.mean));
        best.map(|arm| arm.parallelism)
    }

    /// Slices at this P.
    pub(super) fn count(&self, parallelism: u32) -> u32 {
        self.at(parallelism).map_or(0, |at| self.arms[at].count)
    }

    /// Whether samples at this P were left early.
    pub(super) fn left(&self, parallelism: u32) -> bool {
        self.at(parallelism).is_some_and(|at| self.arms[at].left > 0)
    }

    /// The best of them other than this one, by what each gives at least, and what that is.
    pub(super) fn surest(&self, but: u32) -> Option<(u32, f64)> {
        let others = self.arms().iter().filter(|arm| arm.parallelism != but && arm.count > 0);
        let each = others.map(|arm| (arm.parallelism, arm.least()));
        each.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// What this P gives at least if it was not measured. It follows from the nearest P that was,
    /// or from `held` with its throughput: throughput does not change by more than P does.
    pub(super) fn guess(&self, parallelism: u32, held: (u32, f64)) -> f64 {
        let p = f64::from(parallelism.min(self.sessions));
        let measured = self.arms().iter().filter(|arm| arm.count > 0);
        let rates = measured.map(|arm| (arm.parallelism, arm.mean)).chain([held]);
        let parts = rates.map(|(other, rate)| {
            let other = f64::from(other.min(self.sessions));
            (p.min(other) / p.max(other), rate)
        });
        let nearest = parts.max_by(|a, b| a.0.total_cmp(&b.0));
        nearest.map_or(0.0, |(part, rate)| part * rate)
    }

    /// Whether each P that is compared has been measured so often, or is so bad, that all may be
    /// forgotten.
    pub(super) fn crowded(&self) -> bool {
        self.compared().all(|arm| arm.count >= SLICES_MAX || arm.left >= LEFT_MAX)
    }

    /// Mean throughput at this P; zero if it was not measured.
    pub(super) fn mean(&self, parallelism: u32) -> f64 {
        self.at(parallelism).map_or(0.0, |at| self.arms[at].mean)
    }

    /// How well that is known: half of the 95 % confidence interval, relative to it; infinite if it
    /// is not known.
    pub(super) fn interval(&self, parallelism: u32) -> f64 {
        self.at(parallelism).map_or(f64::INFINITY, |at| self.arms[at].spread())
    }

    /// The smallest P, of those that are compared, whose throughput is at least this part of the
    /// best that was measured at any P. If only the best of the three counted, the search would go
    /// down a gentle slope step by step. If no P reaches that part, the best of them.
    pub(super) fn best(&self, as_good: f64) -> Option<u32> {
        let best = self.arms().iter().map(|arm| arm.mean).fold(0.0, f64::max);
        let measured = || self.compared().filter(|arm| arm.count > 0);
        let good = measured().filter(|arm| arm.mean >= as_good * best);
        let smallest = good.map(|arm| arm.parallelism).min();
        let largest_mean = measured().max_by(|a, b| a.mean.total_cmp(&b.mean));
        smallest.or(largest_mean.map(|arm| arm.parallelism))
    }

    /// A P that is surely better than `center` by this factor, and by how much it is.
    pub(super) fn better(&self, center: u32, factor: f64) -> Option<(u32, f64)> {
        let middle = self.arms[self.at(center)?];
        let surely = |arm: &&Arm| {
            arm.count >= SLICES_MIN
                && middle.count >= SLICES_MIN
                && arm.mean * (1.0 - arm.spread().min(1.0) / 2.0)
                    > middle.mean * (1.0 + middle.spread().min(1.0) / 2.0)
                && arm.mean > middle.mean * factor
        };
        let best = self.compared().filter(surely).max_by(|a, b| a.mean.total_cmp(&b.mean))?;
        Some((best.parallelism, best.mean / middle.mean))
    }

    /// P at the top of a parabola over log P. The parabola goes through everything that was
    /// measured within a factor of [`NEAR`] of `center`, and each P has the weight of its slices.
    /// All of them together are surer than a comparison of two neighbours. Never outside of what
    /// was measured; `None` if they have no top.
    pub(super) fn peak(&self, center: u32) -> Option<u32> {
        let middle = f64::from(center).ln();
        let log = |arm: &Arm| f64::from(arm.parallelism.min(self.sessions)).ln() - middle;
        let near = || self.arms().iter().filter(|arm| arm.count > 0 && log(arm).abs() <= NEAR.ln());
        let top = top(near().map(|arm| (log(arm), arm.mean, f64::from(arm.count))))?;
        let (least, most) = near().fold((u32::MAX, 0), |(least, most), arm| {
            let inside = arm.parallelism.min(self.sessions);
            (least.min(inside), most.max(inside))
        });
        Some(((middle + top).exp().round() as u32).clamp(least, most))
    }

    /// P, mean, relative spread, slices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, f64, f64, u32)> {
        self.arms().iter().map(|arm| (arm.parallelism, arm.mean, arm.spread(), arm.count))
    }
}

/// The x of the top of the parabola that has the least weighted squares of distances from points
/// (x, y, weight). `None` if it has none, or for less than three different x.
fn top(points: impl Iterator<Item = (f64, f64, f64)>) -> Option<f64> {
    // Sums of w x^n and of w y x^n.
    let (mut x, mut y) = ([0.0; 5], [0.0; 3]);
    for (at, value, weight) in points {
        let mut power = weight;
        for n in 0..5 {
            x[n] += power;
            if n < 3 {
                y[n] += power * value;
            }
            power *= at;
        }
    }
    // The normal equations of a + b x + c x^2, by Cramer's rule: with y in place of a column, or of
    // none.
    let with = |column: usize| {
        let at = |row: usize, n: usize| if n == column { y[row] } else { x[row + n] };
        at(0, 0) * (at(1, 1) * at(2, 2) - at(1, 2) * at(2, 1))
            - at(0, 1) * (at(1, 0) * at(2, 2) - at(1, 2) * at(2, 0))
            + at(0, 2) * (at(1, 0) * at(2, 1) - at(1, 1) * at(2, 0))
    };
    // Zero for less than three x, but for what rounding leaves of the products in it.
    let determinate = with(3) > 1e-9 * x[0] * x[2] * x[4];
    let (b, c) = (with(1), with(2));
    (determinate && c < 0.0).then(|| -b / (2.0 * c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sessions: u32) -> Arms {
        Arms { sessions, ..Arms::default() }
    }

    #[test]
    fn the_top_is_that_of_all_points_together() {
        let parabola = |x: f64| 100.0 - 8.0 * (x - 0.25) * (x - 0.25);
        let points = |xs: &'static [f64]| xs.iter().map(move |&x| (x, parabola(x), 1.0));
        let found = top(points(&[-0.4, 0.0, 0.4, 0.7])).unwrap();
        assert!((found - 0.25).abs() < 1e-9, "{found}");
        // What counts more pulls it: the top of two parabolas lies nearer to the one with more
        // weight.
        let mixed = |weight: f64| {
            let other = [-0.4, 0.0, 0.4, 0.7].map(|x: f64| (x, 100.0 - 8.0 * x * x, weight));
            top(points(&[-0.4, 0.0, 0.4, 0.7]).chain(other)).unwrap()
        };
        assert!((mixed(1.0) - 0.125).abs() < 1e-9 && (mixed(4.0) - 0.05).abs() < 1e-9);
        assert_eq!(top(points(&[-0.4, 0.4])), None);
        assert_eq!(top(points(&[0.1, 0.1, 0.1, 0.4])), None);
        // A valley, and a line.
        assert_eq!(top([(-1.0, 9.0, 1.0), (0.0, 1.0, 1.0), (1.0, 9.0, 1.0)].into_iter()), None);
        assert_eq!(top([(-1.0, 1.0, 1.0), (0.0, 2.0, 1.0), (1.0, 3.0, 1.0)].into_iter()), None);
    }

    #[test]
    fn a_peak_lies_between_what_was_measured() {
        let mut arms = of(256);
        for (parallelism, rate) in [(8, 90.0), (12, 100.0), (18, 110.0), (64, 10.0)] {
            arms.add(parallelism);
            arms.record(parallelism, rate);
        }
        // It rises to the last one that is near; the far one says nothing about the top.
        assert_eq!(arms.peak(12), None);
        arms.add(10);
        arms.record(10, 99.0);
        assert_eq!(arms.peak(12), Some(18));
        assert_eq!(of(256).peak(12), None);
    }

    #[test]
    fn a_mean_is_known_when_its_interval_is_narrow_or_enough_was_tried() {
        let mut arms = of(256);
        arms.choose(&[8, 12, 5]);
        for _ in 0..3 {
            arms.record(8, 100.0);
            arms.record(12, 90.0);
        }
        for (at, rate) in [50.0, 150.0, 100.0, 50.0, 150.0].into_iter().enumerate() {
            assert_eq!(arms.next(Enough::to(0.02), |_| true), Some(5), "still noisy after {at}");
            arms.record(5, rate);
        }
        assert!(arms.known(Enough::to(0.02)));
        // As good as 100 on average, at a smaller P.
        assert_eq!(arms.best(0.99), Some(5));
        arms.record(5, 50.0);
        assert_eq!(arms.best(0.99), Some(8));
    }

    #[test]
    fn a_gentle_slope_is_not_gone_down_step_by_step() {
        let mut arms = of(256);
        for (parallelism, rate) in [(18, 100.0), (12, 99.2), (8, 98.4), (5, 97.6)] {
            arms.add(parallelism);
            arms.record(parallelism, rate);
        }
        arms.choose(&[12, 18, 8]);
        assert_eq!(arms.best(0.99), Some(12));
        arms.choose(&[8, 12, 5]);
        assert_eq!(arms.best(0.99), Some(12), "8 is as good as 12, but not as 18");
        arms.choose(&[8, 5, 5]);
        assert_eq!(arms.best(0.99), Some(8));
    }

    #[test]
    fn better_must_be_sure() {
        let mut arms = of(256);
        arms.choose(&[8, 12, 5]);
        for at in 0..4 {
            arms.record(8, 100.0 + f64::from(at % 2));
            arms.record(12, 110.0 + f64::from(at % 2));
            arms.record(5, if at % 2 == 0 { 20.0 } else { 260.0 });
        }
        assert_eq!(arms.better(8, 1.01).map(|(p, _)| p), Some(12));
        assert_eq!(arms.better(12, 1.01), None);
        assert_eq!(arms.better(99, 1.01), None);
    }
}
