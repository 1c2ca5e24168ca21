//! A short number by which two results can be told apart.

use super::value::{Array, Data, Value};

/// The 64-bit FNV-1a hash of a stream of bytes.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl Array {
    /// FNV-1a over element type, sizes and elements; all NaNs count as one.
    pub fn digest(&self) -> u64 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        hash.add(self.dtype().as_str().as_bytes());
        self.dims().iter().for_each(|&size| hash.add(&(size as u64).to_le_bytes()));
        let mut single = |x: f32| hash.add(&(if x.is_nan() { f32::NAN } else { x }).to_bits().to_le_bytes());
        match self.clone().dense() {
            Data::F32(buf) => buf.iter().for_each(|&x| single(x)),
            Data::C64(buf) => buf.iter().for_each(|x| [x.re, x.im].into_iter().for_each(&mut single)),
            Data::Pred(buf) => buf.iter().for_each(|&x| hash.add(&[u8::from(x)])),
            Data::Int(buf) => buf.iter().for_each(|x| hash.add(&x.to_le_bytes())),
            Data::F64(buf) => buf.iter().for_each(|&x| hash.double(x)),
            Data::C128(buf) => buf.iter().for_each(|x| [x.re, x.im].into_iter().for_each(|x| hash.double(x))),
        }
        hash.0
    }
}

impl Fnv {
    fn double(&mut self, x: f64) {
        self.add(&(if x.is_nan() { f64::NAN } else { x }).to_bits().to_le_bytes());
    }
}

impl Value {
    /// The digests of all arrays in it, as one.
    pub fn digest(&self) -> u64 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        self.leaves().iter().for_each(|leaf| hash.add(&leaf.digest().to_le_bytes()));
        hash.0
    }
}

#[cfg(test)]
mod tests;
