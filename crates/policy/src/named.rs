//! Kinds that configuration names: `Display`, `FromStr` and the error of an unknown name.

/// Implements [`Display`](core::fmt::Display) and [`FromStr`](core::str::FromStr) for a kind with
/// `ALL` and `name`, and declares the error. A name may have another spelling.
macro_rules! named {
    ($kind:ident, $error:ident, $what:literal $(, $alias:literal => $same:literal)* $(,)?) => {
        impl core::fmt::Display for $kind {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }

        /// There is no such scheduler.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $error {
            /// As written.
            pub name: String,
        }

        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let known = $kind::ALL.map($kind::name).join(", ");
                write!(f, concat!("there is no ", $what, " `{}`; write one of: {}"), self.name, known)
            }
        }

        impl core::error::Error for $error {}

        impl core::str::FromStr for $kind {
            type Err = $error;

            fn from_str(name: &str) -> Result<Self, $error> {
                let name = match name {
                    $($alias => $same,)*
                    name => name,
                };
                let found = $kind::ALL.into_iter().find(|kind| kind.name() == name);
                found.ok_or_else(|| $error { name: name.to_owned() })
            }
        }
    };
}

pub(crate) use named;
