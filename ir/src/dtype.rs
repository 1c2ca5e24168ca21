//! Element types of HLO and their widths.

macro_rules! dtypes {
    ($($variant:ident $text:literal $bits:literal $class:ident,)*) => {
        /// An HLO element type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the names are HLO's own")]
        pub enum DType { $($variant),* }

        impl DType {
            /// Every element type, in declaration order.
            pub const ALL: &[DType] = &[$(DType::$variant),*];

            /// The type's name in HLO text.
            pub fn as_str(self) -> &'static str {
                match self { $(DType::$variant => $text),* }
            }

            /// The type with this name in HLO text.
            pub fn parse(text: &str) -> Option<DType> {
                match text { $($text => Some(DType::$variant),)* _ => None }
            }

            /// Bits of one element; sub-byte types are packed.
            pub fn bits(self) -> u32 {
                match self { $(DType::$variant => $bits),* }
            }

            /// What kind of number it is.
            pub fn class(self) -> Class {
                match self { $(DType::$variant => Class::$class),* }
            }
        }
    };
}

/// The kinds of element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `pred`.
    Bool,
    /// Signed integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Floating point.
    Float,
    /// Complex numbers.
    Complex,
}

dtypes! {
    Pred "pred" 8 Bool,
    S1 "s1" 1 Signed,
    S2 "s2" 2 Signed,
    S4 "s4" 4 Signed,
    S8 "s8" 8 Signed,
    S16 "s16" 16 Signed,
    S32 "s32" 32 Signed,
    S64 "s64" 64 Signed,
    U1 "u1" 1 Unsigned,
    U2 "u2" 2 Unsigned,
    U4 "u4" 4 Unsigned,
    U8 "u8" 8 Unsigned,
    U16 "u16" 16 Unsigned,
    U32 "u32" 32 Unsigned,
    U64 "u64" 64 Unsigned,
    F4e2m1fn "f4e2m1fn" 4 Float,
    F8e8m0fnu "f8e8m0fnu" 8 Float,
    F8e3m4 "f8e3m4" 8 Float,
    F8e4m3 "f8e4m3" 8 Float,
    F8e4m3fn "f8e4m3fn" 8 Float,
    F8e4m3b11fnuz "f8e4m3b11fnuz" 8 Float,
    F8e4m3fnuz "f8e4m3fnuz" 8 Float,
    F8e5m2 "f8e5m2" 8 Float,
    F8e5m2fnuz "f8e5m2fnuz" 8 Float,
    F16 "f16" 16 Float,
    Bf16 "bf16" 16 Float,
    F32 "f32" 32 Float,
    F64 "f64" 64 Float,
    C64 "c64" 64 Complex,
    C128 "c128" 128 Complex,
}

impl DType {
    /// Bytes that `n_elements` of this type take, sub-byte types packed.
    pub fn bytes_of(self, n_elements: f64) -> f64 {
        n_elements * f64::from(self.bits()) / 8.0
    }

    /// Whether values are real or complex floating point.
    pub fn is_inexact(self) -> bool {
        matches!(self.class(), Class::Float | Class::Complex)
    }
}
