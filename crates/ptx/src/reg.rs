//! Virtual registers, typed by class. Owns their names in the text; knows nothing of physical registers.

use std::fmt;

/// The register classes that a kernel declares, one PTX type each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// `.pred`
    Pred,
    /// `.b16`
    B16,
    /// `.b32`
    B32,
    /// `.b64`
    B64,
    /// `.f32`
    F32,
}

impl Class {
    /// All classes, in the order in which a kernel declares them.
    pub const ALL: [Class; 5] = [Class::Pred, Class::B16, Class::B32, Class::B64, Class::F32];

    /// The prefix of the class's names: `%p`, `%h`, `%r`, `%rd`, `%f`.
    pub fn prefix(self) -> &'static str {
        match self {
            Class::Pred => "%p",
            Class::B16 => "%h",
            Class::B32 => "%r",
            Class::B64 => "%rd",
            Class::F32 => "%f",
        }
    }

    /// The PTX type of the declaration.
    pub fn ptx_type(self) -> &'static str {
        match self {
            Class::Pred => ".pred",
            Class::B16 => ".b16",
            Class::B32 => ".b32",
            Class::B64 => ".b64",
            Class::F32 => ".f32",
        }
    }
}

/// A virtual register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg {
    /// Its class.
    pub class: Class,
    /// Its number within the class.
    pub index: u32,
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.class.prefix(), self.index)
    }
}

macro_rules! typed {
    ($($(#[$doc:meta])* $name:ident = $class:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// The register of this class with the given number.
            pub fn new(index: u32) -> Self {
                Self(index)
            }

            /// The same register without its static type.
            pub fn reg(self) -> Reg {
                Reg { class: Class::$class, index: self.0 }
            }
        }

        impl From<$name> for Reg {
            fn from(r: $name) -> Reg {
                r.reg()
            }
        }
    )*};
}

typed! {
    /// A `.pred` register.
    Pred = Pred;
    /// A `.b16` register.
    R16 = B16;
    /// A `.b32` register.
    R32 = B32;
    /// A `.b64` register.
    R64 = B64;
    /// An `.f32` register.
    F32 = F32;
}
