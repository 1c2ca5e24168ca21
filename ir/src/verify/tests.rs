//! Broken programs and what the verifier says of them; programs made to break what reads them.

use super::{MAX_APPLIED, verify};
use crate::module::{CompId, InstrId, Module};
use crate::ops::check::read_all;

/// The errors of a program, one per line.
fn check(text: &str) -> String {
    let module = crate::parse(text).unwrap_or_else(|error| panic!("{error}"));
    errors(&module)
}

fn errors(module: &Module) -> String {
    verify(module).iter().map(|error| error.message.clone()).collect::<Vec<_>>().join("\n")
}

/// A small program with a call, to be broken by hand.
fn program() -> Module {
    let text = "f { x = f32[2] parameter(0)\n ROOT y = f32[2] negate(x) }
        ENTRY e { a = f32[2] parameter(0)\n b = f32[2] call(a), to_apply=f\n ROOT c = f32[2] add(a, b) }";
    crate::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn broken(change: impl Fn(&mut Module)) -> String {
    let mut module = program();
    assert_eq!(errors(&module), "");
    change(&mut module);
    errors(&module)
}

#[test]
fn structure_is_checked_before_types() {
    let instr = |module: &mut Module, at: usize| module.comps[1].instrs[at].clone();
    assert_eq!(broken(|m| m.comps.clear()), "a module needs an entry computation");
    assert_eq!(broken(|m| m.comps[1].root = InstrId::new(9)), "a computation needs a root instruction");
    assert_eq!(broken(|m| m.comps[0].name = "e".into()), "computation `e` is defined twice");
    assert_eq!(broken(|m| m.comps[1].instrs[2].name = "a".into()), "`a` is defined twice");
    assert_eq!(
        broken(|m| m.comps[1].instrs[2].operands[0] = InstrId::new(2)),
        "an operand is not defined before its use"
    );
    assert_eq!(broken(|m| m.entry = CompId::new(0)), "the entry computation cannot be called");
    assert_eq!(broken(|m| m.comps.swap(0, 1)), "a computation must come before its caller");
    let add = "`add` lacks its number or literal, or has one too many";
    assert_eq!(broken(|m| m.comps[1].instrs[2].payload = instr(m, 0).payload), add);
    assert_eq!(
        broken(|m| {
            let attr = m.comps[1].instrs[1].attrs[0].clone();
            m.comps[1].instrs[1].attrs.push(attr);
        }),
        "`to_apply` is given twice"
    );
}

#[test]
fn parameters_are_numbered_once_from_zero() {
    assert_eq!(
        check("ENTRY e { a = f32[] parameter(0)\n ROOT b = f32[] parameter(0) }"),
        "parameter 0 is defined twice"
    );
    assert_eq!(
        check("ENTRY e { a = f32[] parameter(0)\n ROOT b = f32[] parameter(2) }"),
        "the computation has 2 parameters, numbered from 0, got parameter 2"
    );
    assert_eq!(check("ENTRY e { b = f32[] parameter(1)\n ROOT a = f32[] parameter(0) }"), "");
}

#[test]
fn sizes_are_known_and_small_enough_to_count() {
    assert_eq!(check("ENTRY e { ROOT a = f32[?] parameter(0) }"), "the sizes of `f32[?]` must be known");
    assert_eq!(check("ENTRY e { ROOT a = f32[<=8,0] parameter(0) }"), "");
    assert_eq!(
        check("ENTRY e { ROOT a = f32[4294967296,4294967296] parameter(0) }"),
        "`f32[4294967296,4294967296]` has too many elements"
    );
}

#[test]
fn shardings_fit_their_arrays() {
    let sharding = |shape: &str, text: &str| {
        let errors = check(&format!("ENTRY e {{ ROOT a = {shape} parameter(0), sharding={text} }}"));
        errors.replace(&format!("`sharding={text}` "), "")
    };
    for legal in [
        "{replicated}",
        "{devices=[2,4]<=[8]}",
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
        "{maximal device=3}",
    ] {
        assert_eq!(sharding("f32[8,8]", legal), "");
    }
    assert_eq!(sharding("(f32[8], s32[])", "{{devices=[2]0,1}, {replicated}}"), "");
    assert_eq!(sharding("f32[8]", "{devices=[2,4]<=[8]}"), "needs 1 tile count, got 2");
    assert_eq!(sharding("f32[8]", "{devices=[2]5,2}"), "");
    assert_eq!(sharding("f32[8]", "{devices=[2]0,-2}"), "names device -2, which cannot be");
    assert_eq!(sharding("f32[8]", "{devices=[2]0,0}"), "names device 0 twice");
    assert_eq!(sharding("f32[8]", "{devices=[4]<=[2]}"), "needs 4 devices after `<=`");
    assert_eq!(sharding("f32[8]", "{devices=[4000000000]<=[4000000000]}"), "spans more than 1048576 devices");
    assert_eq!(
        sharding("(f32[8], s32[])", "{{devices=[2]0,1}}"),
        "a `sharding` of 1 layout does not fit (f32[8], s32[])"
    );
}

#[test]
fn calls_do_not_nest_without_end() {
    let mut text = "c0 { ROOT x = f32[] parameter(0) }\n".to_owned();
    for n in 1..400 {
        text += &format!("c{n} {{ x = f32[] parameter(0)\n ROOT y = f32[] call(x), to_apply=c{} }}\n", n - 1);
    }
    assert_eq!(check(&text), "computations call each other more than 256 deep");
}

#[test]
fn applied_computations_do_not_unfold_without_end() {
    let mut text =
        "c0 { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n".to_owned();
    for n in 1..40 {
        let call = |name: &str| format!("{name} = f32[] call(a, b), to_apply=c{}\n", n - 1);
        let (c, d) = (call("c"), call("d"));
        text += &format!(
            "c{n} {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n {c} {d} ROOT e = f32[] add(c, d) }}\n"
        );
    }
    text += "ENTRY e { x = f32[8] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=c39 }";
    let found = check(&text);
    assert!(
        found.starts_with("`reduce` applies a computation of ")
            && found.ends_with(&format!("the most is {MAX_APPLIED}"))
    );
}

#[test]
fn an_error_names_its_instruction_and_place() {
    let text = "ENTRY e { a = f32[2] parameter(0)\n ROOT b = f32[3] negate(a) }";
    let found = verify(&crate::parse(text).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(found[0].to_string(), "`negate` makes f32[2], not f32[3]; in `b` of computation `e`");
    let span = found[0].span.unwrap_or_default();
    assert_eq!(text[span.start as usize..span.end as usize].trim_end(), "b = f32[3] negate(a)");
}

/// One small program per op with attributes, to be damaged.
const VICTIMS: &[&str] = &[
    "x = f32[5,2,3] parameter(0)\n y = f32[5,3,4] parameter(1)\n ROOT r = f32[5,2,4] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    "x = f32[6,8] parameter(0)\n y = f32[3,8,2] parameter(1)\n g = s32[3] parameter(2)\n ROOT r = f32[6,2] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    "x = f32[8,9,6] parameter(0)\n y = f32[3,6,4] parameter(1)\n ROOT r = f32[4,5,4] convolution(x, y), window={size=3 stride=2 pad=1_1 lhs_dilate=1 rhs_dilate=1}, dim_labels=b0f_0io->b0f, batch_group_count=2",
    "x = f32[8,9,6] parameter(0)\n y = f32[3,3,4] parameter(1)\n ROOT r = f32[8,9,4] convolution(x, y), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=2",
    "x = f32[4,100] parameter(0)\n y = s32[4,7,1] parameter(1)\n ROOT r = f32[4,7] gather(x, y), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}",
    "x = f32[9,100] parameter(0)\n y = s32[5] parameter(1)\n ROOT r = f32[5,3,1] gather(x, y), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1}, index_vector_dim=1, slice_sizes={3,1}",
    "x = f32[9,16] parameter(0)\n i = s32[4,7,1] parameter(1)\n u = f32[4,7,16] parameter(2)\n ROOT r = f32[9,16] scatter(x, i, u), update_window_dims={2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add",
    "x = f32[8,6] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[8] reduce(x, z), dimensions={1}, to_apply=add",
    "x = f32[8,6] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[8,3] reduce-window(x, z), window={size=1x2 stride=1x2 pad=0_0x0_0}, to_apply=add",
    "x = f32[8,6] parameter(0)\n s = f32[8,3] parameter(1)\n z = f32[] parameter(2)\n ROOT r = f32[8,6] select-and-scatter(x, s, z), window={size=1x2 stride=1x2}, select=less, scatter=add",
    "x = f32[8,6] parameter(0)\n i = s32[] parameter(1)\n ROOT r = f32[8,2] dynamic-slice(x, i, i), dynamic_slice_sizes={8,2}",
    "x = f32[8,6] parameter(0)\n u = f32[8,2] parameter(1)\n i = s32[] parameter(2)\n ROOT r = f32[8,6] dynamic-update-slice(x, u, i, i)",
    "x = f32[8,6] parameter(0)\n ROOT r = f32[8,2] slice(x), slice={[0:8:1], [1:5:2]}",
    "x = f32[8,6] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[8,9] pad(x, z), padding=0_0x1_2_0",
    "x = f32[8,6] parameter(0)\n ROOT r = f32[8,12] concatenate(x, x), dimensions={1}",
    "x = f32[8,6]{0,1} parameter(0)\n ROOT r = f32[6,4,2]{2,1,0} bitcast(x)",
    "x = f32[8,6] parameter(0)\n ROOT r = f32[6,8] transpose(x), dimensions={1,0}",
    "x = f32[8,1] parameter(0)\n ROOT r = f32[2,8,3] broadcast(x), dimensions={1,2}",
    "x = f32[8,6] parameter(0)\n ROOT r = f32[8,6] reverse(x), dimensions={1}",
    "x = f32[8,6] parameter(0)\n ROOT r = f32[2,24] reshape(x)",
    "x = f32[5,8] parameter(0)\n ROOT r = c64[5,5] fft(x), fft_type=RFFT, fft_length={8}",
    "x = f32[5,8] parameter(0)\n ROOT r = (f32[5,2], s32[5,2]) topk(x), k=2",
    "x = f32[5,8] parameter(0)\n ROOT r = f32[5,8] sort(x), dimensions={1}, to_apply=less",
    "x = f32[5,3] parameter(0)\n s = f32[3] parameter(1)\n ROOT r = (f32[5,3], f32[3], f32[3]) batch-norm-training(x, s, s), feature_index=1",
    "x = f32[5,4,4] parameter(0)\n y = f32[5,4,7] parameter(1)\n ROOT r = f32[5,4,7] triangular-solve(x, y), left_side=true",
    "x = f32[2,3] parameter(0)\n ROOT r = f32[8,3] all-gather(x), dimensions={0}",
    "x = f32[2,3] parameter(0)\n ROOT r = f32[2,3] all-to-all(x), dimensions={0}",
    "x = u32[4,6] parameter(0)\n ROOT r = u8[4,6,4] bitcast-convert(x)",
    "x = (f32[4], (f32[5], s32[])) parameter(0)\n ROOT r = (f32[5], s32[]) get-tuple-element(x), index=1",
    "x = f32[4] parameter(0)\n n = s32[] constant(3)\n y = f32[<=4] set-dimension-size(x, n), dimensions={0}\n ROOT r = s32[] get-dimension-size(y), dimensions={0}",
    "ROOT r = s32[2,3] iota(), iota_dimension=1",
    "ROOT r = f32[8,8] parameter(0), sharding={devices=[2,2,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
];

const APPLIED: &str = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }
less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT }\n";

/// Places of the numbers in a text.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let starts = (0..text.len()).filter(|&at| is_digit(at) && (at == 0 || !is_digit(at - 1)));
    starts.map(|start| (start, (start..).find(|&at| !is_digit(at)).unwrap_or(text.len()))).collect()
}

#[test]
fn no_number_makes_anything_panic() {
    let hostile = [
        "0",
        "1",
        "2",
        "3",
        "5",
        "31",
        "33",
        "-1",
        "-2",
        "4611686018427387904",
        "9223372036854775807",
        "-9223372036854775808",
    ];
    let (mut n_parsed, mut n_verified) = (0, 0);
    let mut try_one = |text: &str| {
        let Ok(module) = crate::parse(text) else { return };
        n_parsed += 1;
        if verify(&module).is_empty() {
            n_verified += 1;
            read_all(&module);
        }
    };
    for victim in VICTIMS {
        let text = format!("{APPLIED}ENTRY e {{\n {victim}\n}}\n");
        let module = crate::parse(&text).unwrap_or_else(|error| panic!("{error}: {victim}"));
        assert_eq!(errors(&module), "", "{victim}");
        read_all(&module);
        let places: Vec<_> = numbers(&text).into_iter().filter(|place| place.0 > APPLIED.len()).collect();
        for &(start, end) in &places {
            for number in hostile {
                let damaged = format!("{}{number}{}", &text[..start], &text[end..]);
                try_one(&damaged);
                // Without the written result the shape is inferred from the damage.
                try_one(&without_result_shape(&damaged));
            }
        }
    }
    assert!(n_parsed > 4000 && n_verified > 1000, "{n_parsed} {n_verified}");
}

/// `ROOT r = f32[2] op(…)` as `ROOT r = op(…)`.
fn without_result_shape(text: &str) -> String {
    let Some((before, after)) = text.split_once("ROOT r = ") else { return text.to_owned() };
    let mut depth = 0;
    let end = after.find(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ' ' && depth == 0
    });
    format!("{before}ROOT r = {}", &after[end.map_or(0, |end| end + 1)..])
}

#[test]
fn only_some_ops_make_an_empty_tuple() {
    use crate::ops::check::error;
    assert_eq!(error("x: f32[2]; ROOT y = () custom-call(x), custom_call_target=\"f\""), "");
    assert_eq!(error("ROOT x = () parameter(0)"), "");
    let gather = "x: f32[2]; ROOT y = () all-gather(x), dimensions={0}, replica_groups={}";
    assert_eq!(error(gather), "`all-gather` does not make an empty tuple");
    assert_eq!(
        error("ROOT y = f32[2] concatenate(), dimensions={0}"),
        "`concatenate` takes at least 1 operand, got 0"
    );
}

#[test]
fn shardings_name_devices_that_can_be() {
    use crate::ops::check::error;
    let of =
        |sharding: &str| error(&format!("x: f32[8,8]; ROOT y = f32[8,8] negate(x), sharding={sharding}"));
    assert_eq!(
        [of("{maximal device=0}"), of("{devices=[8,1]<=[1,8]T(0,1)}"), of("{devices=[2,1]1,0}")],
        ["", "", ""]
    );
    assert!(
        of("{maximal device=-1}").contains("names a device that cannot be"),
        "{}",
        of("{maximal device=-1}")
    );
    assert!(
        of("{devices=[2,1]<=[3]}").contains("needs 2 devices after `<=`"),
        "{}",
        of("{devices=[2,1]<=[3]}")
    );
    assert!(
        of("{devices=[2,1]0,0}").contains("names device 0 twice")
            && of("{devices=[2,1]0,-2}").contains("names device -2, which cannot be")
    );
    assert!(
        of("{devices=[2,1]0}").contains("needs 2 devices, got 1")
            && of("{devices=[2]0,1}").contains("needs 2 tile counts, got 1")
    );
    assert!(of("{devices=[0,1]<=[0]}").contains("needs tile counts of at least 1"));
}
