//! NumPy's `.npy` and `.npz` files as arrays and back.

use ndarray::{ArrayD, IxDyn, OwnedRepr};
use ndarray_npy::{NpzReader, NpzWriter, ReadNpyExt, ReadableElement};
use num_complex::Complex;
use phzc_ir::dtype::Class;
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
        found.push(converted(label, place.array(label)?, dtype)?);
        Ok(())
    };
    if bytes.starts_with(b"\x93NUMPY") {
        return append(name, &Place::File(bytes));
    }
    let names = NpzReader::new(Cursor::new(bytes)).and_then(|mut file| file.names());
    let names = in_order(name, names.map_err(|error| unreadable(name, &error))?)?;
    names.iter().try_for_each(|entry| append(&format!("{name}:{entry}"), &Place::Entry(bytes, entry)))
}

fn unreadable(name: &str, error: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::error(format!("`{name}` cannot be read as NumPy arrays: {error}"))
}

/// The names by their numbers: `arr_12.npy` comes after `arr_2.npy`. One alone needs none.
fn in_order(file: &str, names: Vec<String>) -> Result<Vec<String>> {
    let mut numbered: Vec<(Option<u64>, String)> =
        names.into_iter().map(|name| (number(&name), name)).collect();
    numbered.sort();
    let is_unclear = |pair: &&[(Option<u64>, String)]| pair[0].0.is_none() || pair[0].0 == pair[1].0;
    if let Some([(_, first), (_, second)]) = numbered.windows(2).find(is_unclear) {
        let message = format!("`{file}` does not say which of `{first}` and `{second}` comes first");
        return Err(Diagnostic::error(message)
            .help("number the arrays as the parameters are, `np.savez(file, x, y)`, or give one file each"));
    }
    Ok(numbered.into_iter().map(|(_, name)| name).collect())
}

fn number(name: &str) -> Option<u64> {
    let stem = name.trim_end_matches(".npy");
    stem.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// The array in the parameter's type: floats may be rounded, anything else has to be there exactly.
fn converted(label: &str, array: Array, dtype: DType) -> Result<Array> {
    let is_rounding = dtype.class() == Class::Float && array.dtype().class() != Class::Complex;
    if is_rounding || dtype.class() == Class::Complex {
        return Ok(array.converted(dtype));
    }
    let made = array.clone().converted(dtype);
    let is_same = made.clone().converted(array.dtype()) == array;
    if is_same && made.to_f64_vec() == array.to_f64_vec() {
        return Ok(made);
    }
    let (from, to) = (array.dtype().as_str(), dtype.as_str());
    Err(Diagnostic::error(format!("`{label}` holds {from} values that {to} has not")))
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
        let known =
            "no array of bool, int, uint, float32, float64 or complex; float16 is to be saved as float32";
        Err(unreadable(label, &known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dtype: DType, elements: &[f64]) -> Array {
        let wide = Array::from_vec(DType::F64, &[elements.len()], elements.to_vec());
        wide.expect("as many as there are").converted(dtype)
    }

    fn read_as(dtype: DType, elements: &[f64], wanted: DType) -> String {
        let (bytes, mut found) = (write(&[&array(dtype, elements)]).expect("it fits"), Vec::new());
        match read("x.npz", &bytes, &[wanted], &mut found) {
            Ok(()) => format!("{:?}", found[0].to_f64_vec()),
            Err(error) => error.message,
        }
    }

    #[test]
    fn arrays_come_back_in_the_parameters_type() {
        assert_eq!(read_as(DType::F32, &[1.0, -2.0], DType::S32), "[1.0, -2.0]");
        assert_eq!(read_as(DType::F32, &[1.003], DType::Bf16), "[1.0]");
        assert_eq!(read_as(DType::S64, &[0.0, 1.0], DType::Pred), "[0.0, 1.0]");
        let lost = |from: &str, to: &str| format!("`x.npz:0` holds {from} values that {to} has not");
        assert_eq!(read_as(DType::F64, &[1.5], DType::S32), lost("f64", "s32"));
        assert_eq!(read_as(DType::S64, &[300.0], DType::U8), lost("s64", "u8"));
        assert_eq!(read_as(DType::S64, &[-1.0], DType::U64), lost("s64", "u64"));
        assert_eq!(read_as(DType::S64, &[2.0], DType::Pred), lost("s64", "pred"));
    }

    #[test]
    fn names_without_numbers_have_no_order() {
        let order = |names: &[&str]| in_order("x.npz", names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(order(&["arr_10", "arr_2"]).expect("numbered"), ["arr_2", "arr_10"]);
        assert_eq!(order(&["x"]).expect("one alone"), ["x"]);
        let error = order(&["x", "a"]).expect_err("either may be first");
        assert_eq!(error.message, "`x.npz` does not say which of `a` and `x` comes first");
        assert!(order(&["w1", "b1"]).is_err());
    }
}
