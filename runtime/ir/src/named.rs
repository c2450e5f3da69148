//! Enums whose values have names in texts.

/// Defines an enum whose values have names in texts.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            /// All values.
            pub const ALL: [$name; [$($text),*].len()] = [$($name::$variant),*];

            /// Returns the name, as texts show it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            /// Returns the value of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|op| op.name() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use named;
