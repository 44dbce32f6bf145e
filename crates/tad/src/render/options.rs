//! What a picture is to show, and how.

use crate::model::{Problem, RequestId, StageId};

/// A finding of the checker in the picture: a letter below the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Where.
    pub stage: StageId,
    /// What.
    pub problem: Problem,
    /// Control logic works around it: the letter is struck through.
    pub mitigated: bool,
}

/// Colours of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Dark on white.
    Light,
    /// Light on near black.
    Dark,
    /// What the reader prefers (the media query `prefers-color-scheme`).
    #[default]
    Auto,
}

impl Theme {
    /// The theme with this name on the command line.
    pub fn from_name(name: &str) -> Option<Theme> {
        match name {
            "light" => Some(Theme::Light),
            "dark" => Some(Theme::Dark),
            "auto" => Some(Theme::Auto),
            _ => None,
        }
    }
}

/// Options of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Colours.
    pub theme: Theme,
    /// The path of this request type is drawn strong and its stages are numbered in the order of
    /// its steps; the rest is faded.
    pub highlight: Option<RequestId>,
}
