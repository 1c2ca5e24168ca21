//! Look-ups in split arrays, and what else reads parts of operands, run on all devices and joined.

use super::{COLS_Y, ROWS_X, WHOLE, X_Y, joined, lowered};

/// An array of three dimensions split over both axes, and one split over none.
const X_Y_ALL: &str = "{devices=[2,4,1]<=[8]}";

#[test]
fn vectors_of_indices_lie_along_any_dimension() {
    for (vector, indices) in [(0, "2,3,5"), (1, "3,2,5"), (2, "3,5,2")] {
        let gather = format!(
            "ENTRY e {{
            t = f32[4,8,6] parameter(0), sharding={X_Y_ALL}
            i = s32[{indices}] parameter(1), sharding={WHOLE}
            ROOT g = f32[3,5,6] gather(t, i), offset_dims={{2}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim={vector}, slice_sizes={{1,1,6}}, sharding={WHOLE}
            }}"
        );
        joined(&gather);
        let scatter = format!(
            "add {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }}
            ENTRY e {{
            t = f32[4,8,6] parameter(0), sharding={X_Y_ALL}
            i = s32[{indices}] parameter(1), sharding={WHOLE}
            u = f32[3,5,6] parameter(2), sharding={WHOLE}
            ROOT s = f32[4,8,6] scatter(t, i, u), update_window_dims={{2}}, inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}}, index_vector_dim={vector}, to_apply=add, sharding={X_Y_ALL}
            }}"
        );
        joined(&scatter);
    }
}

#[test]
fn one_component_of_an_index_has_a_dimension_of_its_own() {
    let gather = format!(
        "ENTRY e {{
        t = f32[16,32] parameter(0), sharding={ROWS_X}
        i = s32[1,6] parameter(1), sharding={WHOLE}
        ROOT g = f32[6,32] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=0, slice_sizes={{1,32}}, sharding={WHOLE}
        }}"
    );
    joined(&gather);
    let text = lowered(&gather);
    assert!(!text.contains("slice(") && !text.contains("concatenate("), "{text}");
}

#[test]
fn indices_of_a_part_promise_neither_order_nor_that_they_differ() {
    let scatter = |layout: &str| {
        lowered(&format!(
            "add {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }}
            ENTRY e {{
            t = f32[16,32] parameter(0), sharding={layout}
            i = s32[8,1] parameter(1), sharding={WHOLE}
            u = f32[8,32] parameter(2), sharding={layout2}
            ROOT s = f32[16,32] scatter(t, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, indices_are_sorted=true, unique_indices=true, to_apply=add, sharding={layout}
            }}",
            layout2 = if layout == COLS_Y { COLS_Y } else { WHOLE },
        ))
    };
    let of_rows = scatter(ROWS_X);
    assert!(of_rows.contains(" scatter(") && !of_rows.contains("indices_are_sorted"), "{of_rows}");
    assert!(!of_rows.contains("unique_indices"), "{of_rows}");
    let of_columns = scatter(COLS_Y);
    assert!(of_columns.contains("indices_are_sorted=true, unique_indices=true"), "{of_columns}");
}

#[test]
fn look_ups_that_are_split_count_an_array_s_own_values_once() {
    for apply in ["add", "multiply"] {
        let text = format!(
            "combine {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] {apply}(p, q) }}
            ENTRY e {{
            t = f32[16,32] parameter(0), sharding={WHOLE}
            i = s32[8,1] parameter(1), sharding={ROWS_X}
            u = f32[8,32] parameter(2), sharding={ROWS_X}
            ROOT s = f32[16,32] scatter(t, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=combine, sharding={WHOLE}
            }}"
        );
        joined(&text);
        assert!(lowered(&text).contains("all-reduce("), "{}", lowered(&text));
    }
}

#[test]
fn updates_of_one_row_and_of_several_reach_the_devices_that_hold_them() {
    for (rows, columns) in [(1, 1), (3, 1), (3, 5)] {
        let text = format!(
            "ENTRY e {{
            t = f32[16,32] parameter(0), sharding={X_Y}
            u = f32[{rows},{columns}] parameter(1), sharding={WHOLE}
            i = s32[] parameter(2), sharding={WHOLE}
            j = s8[] parameter(3), sharding={WHOLE}
            jj = s32[] convert(j), sharding={WHOLE}
            ROOT s = f32[16,32] dynamic-update-slice(t, u, i, jj), sharding={X_Y}
            }}"
        );
        joined(&text);
        let is_padded = lowered(&text).contains(" pad(");
        assert_eq!(is_padded, rows > 1 || columns > 1, "{rows} by {columns}");
    }
}

#[test]
fn a_marker_of_shardings_is_what_it_marks() {
    let text = format!(
        "ENTRY e {{
        a = f32[16,32] parameter(0), sharding={ROWS_X}
        m = f32[16,32] custom-call(a), custom_call_target=\"xla.sdy.FuncResultSharding\", sharding={ROWS_X}
        ROOT n = f32[16,32] negate(m), sharding={ROWS_X}
        }}"
    );
    assert_eq!(lowered(&text), "  a = f32[8,32] parameter(0)\n  ROOT n = f32[8,32] negate(a)");
}

#[test]
fn a_constant_of_one_element_throughout_is_made_for_a_part() {
    joined(
        "ENTRY e {
        c = s32[2,4] constant({{5,5,5,5},{5,5,5,5}}), sharding={devices=[2,4]<=[8]}
        ROOT n = s32[2,4] negate(c), sharding={devices=[2,4]<=[8]}
        }",
    );
    let text = lowered(
        "ENTRY e {
        c = s32[2,8] constant({{5,5,5,5,5,5,5,5},{5,5,5,5,5,5,5,5}}), sharding={devices=[2,4]<=[8]}
        ROOT n = s32[2,8] negate(c), sharding={devices=[2,4]<=[8]}
        }",
    );
    assert!(text.contains("constant(5)") && text.contains(" = s32[1,2] broadcast("), "{text}");
}

/// A look-up of rows of this type and number, split on `x`, by indices of this type.
fn look_up(dtype: &str, n_rows: usize, index: &str) -> String {
    format!(
        "ENTRY e {{
        t = {dtype}[{n_rows},32] parameter(0), sharding={ROWS_X}
        i = {index}[6,1] parameter(1), sharding={WHOLE}
        ROOT g = {dtype}[6,32] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,32}}, sharding={WHOLE}
        }}"
    )
}

#[test]
fn indices_are_bounded_where_their_type_does_not_bound_them() {
    let is_bounded = |n_rows: usize, index: &str| {
        let text = look_up("f32", n_rows, index);
        joined(&text);
        lowered(&text).contains(" clamp(")
    };
    assert_eq!([is_bounded(256, "u8"), is_bounded(254, "u8"), is_bounded(258, "u8")], [false, true, false]);
    assert_eq!([is_bounded(256, "s8"), is_bounded(16, "s32"), is_bounded(16, "u32")], [true; 3]);
}

#[test]
fn what_another_device_looks_up_is_zero_of_any_type() {
    for (dtype, zero) in [("c64", "(0, 0)"), ("f32", "0"), ("s8", "0")] {
        let text = lowered(&look_up(dtype, 16, "s32"));
        assert!(text.contains(&format!("{dtype}[] constant({zero})")), "{text}");
    }
}

#[test]
fn a_call_that_is_no_change_of_layout_is_called_on_each_device() {
    let text = format!(
        "ENTRY e {{ a = f32[16] parameter(0), sharding={WHOLE}
        ROOT c = f32[16] custom-call(a), custom_call_target=\"f\", sharding={WHOLE} }}"
    );
    assert!(lowered(&text).contains("custom-call(a), custom_call_target=\"f\""), "{}", lowered(&text));
}

#[test]
fn groups_of_a_split_batch_or_of_split_features_are_fewer() {
    // Eight groups of images, and of features, half of them on each device of `x`.
    let of_batch = "ENTRY e {
        a = f32[16,6,3] parameter(0), sharding={devices=[2,1,1,4]<=[8] last_tile_dim_replicate}
        k = f32[3,3,8] parameter(1), sharding={devices=[1,1,2,4]<=[8] last_tile_dim_replicate}
        ROOT c = f32[2,4,8] convolution(a, k), window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=8, sharding={devices=[1,1,2,4]<=[8] last_tile_dim_replicate}
        }";
    joined(of_batch);
    assert!(lowered(of_batch).contains("batch_group_count=4"), "{}", lowered(of_batch));
    let of_features = "ENTRY e {
        a = f32[2,6,16] parameter(0), sharding={devices=[1,1,2,4]<=[8] last_tile_dim_replicate}
        k = f32[3,2,8] parameter(1), sharding={devices=[1,1,2,4]<=[8] last_tile_dim_replicate}
        ROOT c = f32[2,4,8] convolution(a, k), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=8, sharding={devices=[1,1,2,4]<=[8] last_tile_dim_replicate}
        }";
    joined(of_features);
    assert!(lowered(of_features).contains("feature_group_count=4"), "{}", lowered(of_features));
}
