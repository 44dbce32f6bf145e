//! What a figure's picture consists of.

/// A part of the picture with its own axes.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) y_label: String,
    pub(crate) kind: Kind,
    /// Upper end of the vertical axis, unless values are larger.
    pub(crate) at_least: f64,
    /// Points of the sweep are as far apart as their logarithms.
    pub(crate) logarithmic: bool,
    /// Values are drawn as far apart as their logarithms.
    pub(crate) tenfold: bool,
    pub(crate) lines: Vec<Line>,
}

/// What is on the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Points of the sweep.
    Sweep,
    /// Time within a run.
    Time,
    /// Categories, with a bar for each line.
    Bars,
    /// Points of the sweep; a row of coloured cells for each line.
    Heat(Best),
}

/// Which end of a number is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Best {
    High,
    Low,
}

/// A line, or one bar.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) arm: &'static str,
    /// The point; of a time series or a bar.
    pub(crate) at: f64,
    pub(crate) key: String,
    /// Keys of a band around it, instead of the range over the seeds.
    pub(crate) band: Option<(String, String)>,
    /// Place in the palette.
    pub(crate) colour: usize,
    pub(crate) dashed: bool,
    /// Of a bar: what is under it.
    pub(crate) category: String,
}

impl Panel {
    fn new(kind: Kind, title: &str, y_label: &str) -> Self {
        Self {
            title: title.to_owned(),
            y_label: y_label.to_owned(),
            kind,
            at_least: 0.0,
            logarithmic: false,
            tenfold: false,
            lines: Vec::new(),
        }
    }

    /// Lines over the points of the sweep.
    pub(crate) fn sweep(title: &str, y_label: &str) -> Self {
        Self::new(Kind::Sweep, title, y_label)
    }

    /// Lines over time.
    pub(crate) fn time(title: &str, y_label: &str) -> Self {
        Self::new(Kind::Time, title, y_label)
    }

    /// Bars.
    pub(crate) fn bars(title: &str, y_label: &str) -> Self {
        Self::new(Kind::Bars, title, y_label)
    }

    /// A map: each line is a row, each point of the sweep a column.
    pub(crate) fn heat(title: &str, best: Best) -> Self {
        Self::new(Kind::Heat(best), title, "")
    }

    /// Points of the sweep are drawn as far apart as their logarithms.
    pub(crate) fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }

    /// Values differ tenfold: they are drawn as far apart as their logarithms.
    pub(crate) fn tenfold(mut self) -> Self {
        self.tenfold = true;
        self
    }

    /// Draws the vertical axis at least up to here.
    pub(crate) fn up_to(mut self, value: f64) -> Self {
        self.at_least = value;
        self
    }

    /// Adds a line over the sweep.
    pub(crate) fn line(self, label: &str, arm: &'static str, key: &str) -> Self {
        self.at(label, arm, 0.0, key)
    }

    /// Adds lines over the sweep that are called as their arms are.
    pub(crate) fn lines(self, arms: impl AsRef<[&'static str]>, key: &str) -> Self {
        arms.as_ref().iter().fold(self, |panel, arm| panel.line(arm, arm, key))
    }

    /// Adds a line over time, at a point of the sweep.
    pub(crate) fn at(mut self, label: &str, arm: &'static str, at: f64, key: &str) -> Self {
        self.lines.push(Line {
            label: label.to_owned(),
            arm,
            at,
            key: key.to_owned(),
            band: None,
            colour: self.lines.len(),
            dashed: false,
            category: String::new(),
        });
        self
    }

    /// Adds a bar: `label` says which of a category's bars it is.
    pub(crate) fn bar(
        self,
        category: &str,
        label: &str,
        arm: &'static str,
        at: f64,
        key: &str,
    ) -> Self {
        let known = self.lines.iter().find(|line| line.label == label).map(|line| line.colour);
        let mut labels: Vec<&str> = self.lines.iter().map(|line| line.label.as_str()).collect();
        labels.sort_unstable();
        labels.dedup();
        let colour = known.unwrap_or(labels.len());
        let category = category.to_owned();
        self.at(label, arm, at, key).last(|line| {
            line.colour = colour;
            line.category = category;
        })
    }

    /// The same with a bar for each line in each category, if points of the sweep are categories:
    /// `names` has the name of the point 0, 1, and so on.
    pub(crate) fn by_category(&self, names: &[&str], points: &[f64]) -> Panel {
        if self.kind != Kind::Sweep || names.is_empty() {
            return self.clone();
        }
        let bar = |at: f64| {
            let category = names.get(at as usize).copied().unwrap_or_default();
            let of = move |line: &Line| Line { at, category: category.to_owned(), ..line.clone() };
            self.lines.iter().map(of)
        };
        let lines = points.iter().flat_map(|at| bar(*at)).collect();
        Panel { kind: Kind::Bars, lines, ..self.clone() }
    }

    /// Changes the line that was added last.
    pub(crate) fn last(mut self, change: impl FnOnce(&mut Line)) -> Self {
        if let Some(line) = self.lines.last_mut() {
            change(line);
        }
        self
    }

    /// Dashes the line that was added last.
    pub(crate) fn dashed(self) -> Self {
        self.last(|line| line.dashed = true)
    }

    /// Gives the line that was added last a place in the palette.
    pub(crate) fn colour(self, colour: usize) -> Self {
        self.last(|line| line.colour = colour)
    }
}
