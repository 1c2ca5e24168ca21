//! Whole values and the parts of them that devices hold under a layout.

use super::value::{Array, Buf, Data, Element, Sizes, Value, each};
use crate::diag::{Diagnostic, Result};
use crate::layout::{Layout, Mesh};
use ndarray::AxisDescription;

/// What each device of the mesh holds of a value whose leaves lie as `layouts` say.
///
/// # Errors
/// A split dimension does not divide, or there are fewer layouts than leaves.
pub fn split(value: &Value, layouts: &[Layout], mesh: &Mesh) -> Result<Vec<Value>> {
    (0..mesh.n_devices()).map(|device| part(value, &mut layouts.iter(), device, mesh)).collect()
}

fn part<'a>(
    value: &Value,
    layouts: &mut impl Iterator<Item = &'a Layout>,
    device: i64,
    mesh: &Mesh,
) -> Result<Value> {
    match value {
        Value::Array(array) => {
            let layout = *layouts.next().ok_or_else(missing)?;
            if !layout.divides(&array.dims().iter().map(|&size| size as i64).collect::<Vec<_>>(), mesh) {
                return Err(Diagnostic::error("an array is split unevenly"));
            }
            let sizes = array.dims().iter().enumerate();
            let local: Sizes = sizes.map(|(dim, size)| size / layout.tiles(dim, mesh) as usize).collect();
            let start = corner(layout, &local, device, mesh);
            let limit: Sizes = start.iter().zip(&local).map(|(start, size)| start + size).collect();
            Ok(Value::Array(array.slice(&start, &limit)?))
        }
        Value::Tuple(parts) => {
            let parts = parts.iter().map(|value| part(value, layouts, device, mesh));
            Ok(Value::Tuple(parts.collect::<Result<_>>()?))
        }
        Value::Token => {
            layouts.next();
            Ok(Value::Token)
        }
    }
}

fn missing() -> Diagnostic {
    Diagnostic::error("a value has more parts than layouts")
}

/// Where a device's part starts in the whole array.
fn corner(layout: Layout, local: &[usize], device: i64, mesh: &Mesh) -> Sizes {
    let start = |(dim, &size): (usize, &usize)| layout.tile_of(device, dim, mesh) as usize * size;
    local.iter().enumerate().map(start).collect()
}

/// The whole value of which device `d` of the mesh holds `values[d]`.
///
/// # Errors
/// Devices that should hold the same part hold different ones, or shapes that do not fit each other.
pub fn join(values: &[Value], layouts: &[Layout], mesh: &Mesh) -> Result<Value> {
    joined(&values.iter().collect::<Vec<_>>(), &mut layouts.iter(), mesh)
}

fn joined<'a>(
    values: &[&Value],
    layouts: &mut impl Iterator<Item = &'a Layout>,
    mesh: &Mesh,
) -> Result<Value> {
    match values.first() {
        Some(Value::Tuple(parts)) => {
            let at = |index: usize| -> Result<Vec<&Value>> {
                values.iter().map(|value| element(value, index)).collect()
            };
            let whole = (0..parts.len()).map(|index| joined(&at(index)?, layouts, mesh));
            Ok(Value::Tuple(whole.collect::<Result<_>>()?))
        }
        Some(Value::Array(_)) => {
            let layout = *layouts.next().ok_or_else(missing)?;
            let arrays: Option<Vec<&Array>> = values.iter().map(|value| value.as_array()).collect();
            Ok(Value::Array(whole(&arrays.ok_or_else(unlike)?, layout, mesh)?))
        }
        _ => {
            layouts.next();
            Ok(Value::Token)
        }
    }
}

fn element(value: &Value, index: usize) -> Result<&Value> {
    match value {
        Value::Tuple(parts) => parts.get(index).ok_or_else(unlike),
        _ => Err(unlike()),
    }
}

fn unlike() -> Diagnostic {
    Diagnostic::error("devices hold values of different shapes")
}

fn whole(arrays: &[&Array], layout: Layout, mesh: &Mesh) -> Result<Array> {
    let first = *arrays.first().ok_or_else(unlike)?;
    if arrays.len() as i64 != mesh.n_devices() || arrays.iter().any(|array| array.dims() != first.dims()) {
        return Err(unlike());
    }
    let starts = (0..arrays.len()).map(|device| corner(layout, first.dims(), device as i64, mesh));
    let sizes = first.dims().iter().enumerate();
    let dims: Sizes = sizes.map(|(dim, size)| size * layout.tiles(dim, mesh) as usize).collect();
    assembled(arrays, starts, &dims)
}

/// The whole array of these sizes of which every device holds the part that starts there.
///
/// # Errors
/// Devices that should hold the same part hold different ones.
pub(super) fn assembled(
    arrays: &[&Array],
    starts: impl Iterator<Item = Sizes>,
    dims: &Sizes,
) -> Result<Array> {
    let dtype = arrays.first().ok_or_else(unlike)?.dtype();
    let mut parts: Vec<(Sizes, &Array)> = Vec::new();
    for (device, (&array, start)) in arrays.iter().zip(starts).enumerate() {
        match parts.iter().find(|(other, _)| *other == start) {
            None => parts.push((start, array)),
            Some((_, other)) if same(other, array) => {}
            Some(_) => {
                let message = format!("device {device} holds another copy of a value than devices before it");
                return Err(Diagnostic::error(message));
            }
        }
    }
    let data = each!(Data::zeros(dtype, dims), buf => filled(buf, &parts)?);
    Ok(Array::exact(dtype, data))
}

/// Equal elements; NaN equals NaN.
fn same(a: &Array, b: &Array) -> bool {
    let equal = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
    let is_inexact = a.dtype() == b.dtype() && a.dtype().is_inexact();
    a == b || (is_inexact && a.to_f64_vec().iter().zip(&b.to_f64_vec()).all(equal))
}

fn filled<T: Element>(mut whole: Buf<T>, parts: &[(Sizes, &Array)]) -> Result<Buf<T>> {
    for (start, array) in parts {
        let size = array.dims();
        let range = |axis: AxisDescription| {
            let dim = axis.axis.0;
            (start[dim]..start[dim] + size[dim]).into()
        };
        whole.slice_each_axis_mut(range).assign(&(*array).clone().buf::<T>()?);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn parts_join_to_the_whole_they_were_cut_from() {
        let mesh = Mesh::new(&[2, 4]);
        let elements: Vec<i64> = (0..64).collect();
        let array = Array::from_vec(DType::S32, &[8, 8], elements).expect("64 elements");
        let value = Value::Tuple(vec![Value::Array(array), Value::Array(Array::zeros(DType::F32, &[]))]);
        let all = [None, Some(0), Some(1)];
        for (x, y) in all.iter().flat_map(|x| all.iter().map(move |y| (*x, *y))) {
            let layouts = [Layout::REPLICATED.with(0, x).with(1, y), Layout::REPLICATED];
            let parts = split(&value, &layouts, &mesh).expect("it divides");
            assert_eq!(join(&parts, &layouts, &mesh).expect("it fits"), value);
        }
    }

    #[test]
    fn copies_that_differ_in_their_imaginary_parts_are_found() {
        let one = |im: f32| {
            let element = ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), num_complex::Complex::new(1.0, im));
            Value::Array(Array::new(DType::C64, Data::C64(element.into_shared())))
        };
        assert!(join(&[one(2.0), one(3.0)], &[Layout::REPLICATED], &Mesh::new(&[2])).is_err());
        assert!(join(&[one(f32::NAN), one(f32::NAN)], &[Layout::REPLICATED], &Mesh::new(&[2])).is_ok());
    }

    #[test]
    fn copies_that_differ_are_found() {
        let mesh = Mesh::new(&[2]);
        let one = |value: i64| Value::Array(Array::from_vec(DType::S32, &[1], vec![value]).expect("one"));
        assert!(join(&[one(1), one(2)], &[Layout::REPLICATED], &mesh).is_err());
        assert!(join(&[one(1), one(2)], &[Layout::REPLICATED.with(0, Some(0))], &mesh).is_ok());
    }
}
