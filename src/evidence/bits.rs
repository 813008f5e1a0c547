//! Words of bits with names, shown as hex: policies, attributes, features.

macro_rules! bits {
    ($type:ident: $($(#[$doc:meta])* $name:ident $bit:literal)*) => {
        impl $type {
            $($(#[$doc])* pub const fn $name(self) -> bool { self.bit($bit) })*

            /// The named bits.
            const NAMED: u64 = 0 $(| 1 << $bit)*;

            /// Returns the word as it stands in the evidence.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Tells whether one bit is set; false for a number above 63.
            pub const fn bit(self, number: u32) -> bool {
                match self.0.checked_shr(number) {
                    Some(shifted) => shifted & 1 == 1,
                    None => false,
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

pub(super) use bits;
