//! Attributes that say sizes, for the sizes of one device.

use phzc_ir::{Attr, Dims, Instr, Key, Opcode, Value};

/// The sizes that an instruction's attributes may repeat.
pub struct Sizes {
    /// Of each operand, in the whole program.
    pub global: Vec<Dims>,
    /// Of each operand, on one device.
    pub local: Vec<Dims>,
    /// Of the result (its first leaf) on one device.
    pub result: Dims,
}

/// The attributes of `instr` as one device's part of it has them.
pub fn local(instr: &Instr, sizes: &Sizes) -> Vec<Attr> {
    let mut attrs: Vec<Attr> = instr.attrs.iter().filter(|attr| attr.key != Key::Sharding).cloned().collect();
    for attr in &mut attrs {
        match (instr.op, &attr.key, &mut attr.value) {
            (Opcode::Slice, Key::Slice, Value::Slices(ranges)) => {
                for (dim, range) in ranges.iter_mut().enumerate() {
                    // Only a dimension that is taken in full is split.
                    if sizes.local[0][dim] != sizes.global[0][dim] {
                        range.limit = sizes.local[0][dim];
                    }
                }
            }
            (Opcode::DynamicSlice, Key::DynamicSliceSizes, value) => {
                *value = super::build::ints(sizes.result.iter().copied());
            }
            (Opcode::Gather, Key::SliceSizes, Value::Ints(windows)) => {
                for (dim, window) in windows.iter_mut().enumerate() {
                    if *window == sizes.global[0][dim] {
                        *window = sizes.local[0][dim];
                    }
                }
            }
            (Opcode::Convolution, _, _) => convolution(instr, attr, sizes),
            _ => {}
        }
    }
    attrs
}

/// Groups that are split are fewer; kernel positions that are split make a smaller window.
fn convolution(instr: &Instr, attr: &mut Attr, sizes: &Sizes) {
    let Some(Value::DimLabels(labels)) = instr.attr(Key::DimLabels) else { return };
    let (lhs, kernel, out) = (&sizes.local[0], &sizes.local[1], &sizes.result);
    match (&attr.key, &mut attr.value) {
        (Key::FeatureGroupCount, Value::Int(count)) => {
            *count = lhs[labels.lhs.minor].checked_div(kernel[labels.rhs.minor]).unwrap_or(*count);
        }
        (Key::BatchGroupCount, Value::Int(count)) => {
            *count = lhs[labels.lhs.major].checked_div(out[labels.out.major]).unwrap_or(*count);
        }
        (Key::Window, Value::Window(window)) => {
            let whole = instr.shape.as_array().map(|array| &array.dims);
            let places = labels.rhs.spatial.iter().zip(&labels.out.spatial);
            for (dim, (&position, &at)) in window.dims.iter_mut().zip(places) {
                // Windows that lie side by side, or interleave, still do.
                if dim.stride == dim.size {
                    dim.stride = kernel[position].max(1);
                }
                if dim.rhs_dilate > 1 && whole.is_some_and(|whole| whole[at] != out[at]) {
                    dim.rhs_dilate = out[at];
                }
                dim.size = kernel[position];
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_group_count_shrinks() {
        let text = "ENTRY e { x = f32[8,32,6] parameter(0) k = f32[1,2,12] parameter(1)
            ROOT c = f32[8,32,12] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=3 }";
        let module = phzc_ir::parse(text).expect("legal");
        let dims = |sizes: &[i64]| Dims::from_slice(sizes);
        let sizes = Sizes {
            global: vec![dims(&[8, 32, 6]), dims(&[1, 2, 12])],
            local: vec![dims(&[8, 32, 2]), dims(&[1, 2, 4])],
            result: dims(&[8, 32, 4]),
        };
        let attrs = local(module.entry().root(), &sizes);
        let count = attrs.iter().find(|attr| attr.key == Key::FeatureGroupCount).map(|attr| &attr.value);
        assert_eq!(count, Some(&Value::Int(1)));
    }

    #[test]
    fn windows_that_interleave_lie_as_far_apart_as_their_part_is_long() {
        let dilation = |dilate: i64, local_out: i64| {
            let text = format!(
                "ENTRY e {{ x = f32[8,24,6] parameter(0) k = f32[3,6,12] parameter(1)
                ROOT c = f32[8,{whole},12] convolution(x, k), window={{size=3 rhs_dilate={dilate}}}, dim_labels=b0f_0io->b0f }}",
                whole = 24 - 2 * dilate
            );
            let module = phzc_ir::parse(&text).expect("legal");
            let dims = |sizes: &[i64]| Dims::from_slice(sizes);
            let sizes = Sizes {
                global: vec![dims(&[8, 24, 6]), dims(&[3, 6, 12])],
                local: vec![dims(&[8, 12, 6]), dims(&[3, 6, 12])],
                result: dims(&[8, local_out, 12]),
            };
            let attrs = local(module.entry().root(), &sizes);
            match attrs.iter().find(|attr| attr.key == Key::Window).map(|attr| &attr.value) {
                Some(Value::Window(window)) => (window.dims[0].rhs_dilate, window.dims[0].size),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(dilation(8, 4), (4, 3));
        assert_eq!(dilation(8, 8), (8, 3));
        assert_eq!(dilation(1, 11), (1, 3));
        assert_eq!(dilation(2, 10), (10, 3));
    }
}
