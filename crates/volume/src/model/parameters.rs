//! Parameters of a model: one list of names, units, ranges and defaults, for the reader of device
//! files, for their writer and for the model.

/// One parameter of a device file.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Key in the file, with its unit at the end.
    pub key: &'static str,
    /// What it is, in a sentence or two.
    pub about: &'static str,
    /// Smallest value.
    pub least: f64,
    /// Largest value.
    pub most: f64,
    /// Value if the file has none; without a default the key is required.
    pub default: Option<f64>,
    /// How it is written.
    pub form: Form,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number.
    Number,
    /// A whole number.
    Whole,
    /// `true` or `false`; 1 or 0 as a number.
    Flag,
}

/// A type of a parameter.
pub trait Value {
    /// How it is written.
    const FORM: Form;

    /// From a number that is in range.
    fn from_number(number: f64) -> Self;

    /// As a number.
    fn to_number(&self) -> f64;
}

impl Value for f64 {
    const FORM: Form = Form::Number;

    fn from_number(number: f64) -> Self {
        number
    }

    fn to_number(&self) -> f64 {
        *self
    }
}

impl Value for u32 {
    const FORM: Form = Form::Whole;

    fn from_number(number: f64) -> Self {
        // Ranges of whole parameters are within the type, and a cast saturates.
        number as u32
    }

    fn to_number(&self) -> f64 {
        f64::from(*self)
    }
}

impl Value for bool {
    const FORM: Form = Form::Flag;

    fn from_number(number: f64) -> Self {
        number != 0.0
    }

    fn to_number(&self) -> f64 {
        f64::from(u8::from(*self))
    }
}

/// Declares parameters: `name: type, range, default;`.
macro_rules! parameters {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty, $range:expr, $default:expr;)*) => {
        /// Parameters of the model, in the units at the ends of their names.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Parameters {
            $($(#[doc = $doc])* pub $name: $type,)*
        }

        impl Parameters {
            /// What a file may say.
            pub const FIELDS: &'static [$crate::model::parameters::Field] = &[$(
                $crate::model::parameters::Field {
                    key: stringify!($name),
                    about: concat!($($doc),*),
                    least: *($range).start(),
                    most: *($range).end(),
                    default: $default,
                    form: <$type as $crate::model::parameters::Value>::FORM,
                },
            )*];

            /// From the numbers of [`Self::FIELDS`], which are in range.
            pub fn from_numbers(mut number: impl FnMut(&str) -> f64) -> Self {
                use $crate::model::parameters::Value;
                Parameters { $($name: <$type>::from_number(number(stringify!($name))),)* }
            }

            /// The numbers of [`Self::FIELDS`], in their order.
            pub fn numbers(&self) -> Vec<f64> {
                use $crate::model::parameters::Value;
                vec![$(self.$name.to_number(),)*]
            }
        }
    };
}
pub(crate) use parameters;

/// Microseconds as nanoseconds.
pub fn ns(us: f64) -> u64 {
    // Ranges keep parameters below an hour, far below what the types hold; a cast saturates.
    (us * 1e3).round() as u64
}

/// Time of `bytes` at this speed, in nanoseconds.
pub fn transfer_ns(bytes: u64, mb_per_s: f64) -> u64 {
    // 1 MB/s is a byte in each microsecond. Lengths of commands are far below 2^53.
    ns(bytes as f64 / mb_per_s)
}
