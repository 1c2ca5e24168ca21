//! NumPy's `.npy` and `.npz` files as arrays and back.

use ndarray::{ArrayD, IxDyn, OwnedRepr};
use ndarray_npy::{NpzReader, NpzWriter, ReadNpyExt, ReadableElement};
use num_complex::Complex;
use phzc_ir::eval::{Array, Data, Element};
use phzc_ir::{DType, Diagnostic, Result};
use std::io::Cursor;

/// A `.npz` file of arrays named `0`, `1`, ….
pub(crate) fn write(arrays: &[&Array]) -> Result<Vec<u8>> {
    write_from(0, arrays)
}

/// The same with the first array named `first`.
pub(crate) fn write_from(first: usize, arrays: &[&Array]) -> Result<Vec<u8>> {
    let mut file = NpzWriter::new(Cursor::new(Vec::new()));
    for (index, array) in (first..).zip(arrays) {
        add(&mut file, &index.to_string(), array)?;
    }
    file.finish().map(Cursor::into_inner).map_err(|error| unwritable(&error))
}

fn unwritable(error: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::error(format!("the arrays cannot be written: {error}"))
}

type Writer = NpzWriter<Cursor<Vec<u8>>>;

fn add(file: &mut Writer, name: &str, array: &Array) -> Result<()> {
    let dtype = array.dtype();
    let added = match array.clone().dense() {
        Data::Pred(buf) => file.add_array(name, &buf),
        Data::F32(buf) => file.add_array(name, &buf),
        Data::F64(buf) => file.add_array(name, &buf),
        Data::C64(buf) => file.add_array(name, &buf),
        Data::C128(buf) => file.add_array(name, &buf),
        Data::Int(buf) => match dtype {
            DType::S1 | DType::S2 | DType::S4 | DType::S8 => file.add_array(name, &buf.mapv(|x| x as i8)),
            DType::S16 => file.add_array(name, &buf.mapv(|x| x as i16)),
            DType::S32 => file.add_array(name, &buf.mapv(|x| x as i32)),
            DType::S64 => file.add_array(name, &buf),
            DType::U16 => file.add_array(name, &buf.mapv(|x| x as u16)),
            DType::U32 => file.add_array(name, &buf.mapv(|x| x as u32)),
            DType::U64 => file.add_array(name, &buf.mapv(|x| x as u64)),
            _ => file.add_array(name, &buf.mapv(|x| x as u8)),
        },
    };
    added.map_err(|error| unwritable(&error))
}

/// Appends the arrays of a file; `wanted` says of which type the array at a position is to be.
pub(crate) fn read(name: &str, bytes: &[u8], wanted: &[DType], found: &mut Vec<Array>) -> Result<()> {
    let mut append = |label: &str, place: &Place| {
        let dtype = wanted.get(found.len()).copied();
        let dtype = dtype.ok_or_else(|| unreadable(label, &"the program takes no more arrays"))?;
        found.push(place.array(label)?.converted(dtype));
        Ok(())
    };
    if bytes.starts_with(b"\x93NUMPY") {
        return append(name, &Place::File(bytes));
    }
    let names = NpzReader::new(Cursor::new(bytes)).and_then(|mut file| file.names());
    let mut names = names.map_err(|error| unreadable(name, &error))?;
    names.sort_by_key(|name| number(name));
    names.iter().try_for_each(|entry| append(&format!("{name}:{entry}"), &Place::Entry(bytes, entry)))
}

fn unreadable(name: &str, error: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::error(format!("`{name}` cannot be read as NumPy arrays: {error}"))
}

/// `arr_12.npy` comes after `arr_2.npy`.
fn number(name: &str) -> (u64, String) {
    let stem = name.trim_end_matches(".npy");
    let digits = stem.trim_start_matches(|c: char| !c.is_ascii_digit());
    (digits.parse().unwrap_or(u64::MAX), name.to_owned())
}

/// Where an array is.
enum Place<'a> {
    /// In a file of its own.
    File(&'a [u8]),
    /// In an archive, under a name.
    Entry(&'a [u8], &'a str),
}

impl Place<'_> {
    fn read<T: ReadableElement>(&self) -> Option<ArrayD<T>> {
        match self {
            Place::File(bytes) => ArrayD::<T>::read_npy(*bytes).ok(),
            Place::Entry(bytes, name) => {
                NpzReader::new(Cursor::new(*bytes)).ok()?.by_name::<OwnedRepr<T>, IxDyn>(name).ok()
            }
        }
    }

    /// The array, of the first element type that fits.
    fn array(&self, label: &str) -> Result<Array> {
        macro_rules! try_as {
            ($($ty:ty, $dtype:ident, $convert:expr;)*) => {$(
                if let Some(array) = self.read::<$ty>() {
                    return Ok(Array::new(DType::$dtype, Element::wrap(array.mapv($convert).into_shared())));
                }
            )*};
        }
        try_as! {
            f32, F32, |x| x;
            f64, F64, |x| x;
            i32, S32, i64::from;
            i64, S64, |x| x;
            u32, U32, i64::from;
            u64, U64, |x| x as i64;
            bool, Pred, |x| x;
            i8, S8, i64::from;
            u8, U8, i64::from;
            i16, S16, i64::from;
            u16, U16, i64::from;
            Complex<f32>, C64, |x| x;
            Complex<f64>, C128, |x| x;
        }
        Err(unreadable(label, &"not a NumPy array of numbers"))
    }
}
