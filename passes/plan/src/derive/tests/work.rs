//! What one device computes, reads, writes and keeps.

use super::*;
use crate::testing::staged_with;
use phzc_ir::Mesh;

const ROWS: &str = "sharding={devices=[2,1]<=[2]}";

/// Kernel, bytes between memory and cores, and `+` for memory of its own or `=` for another's, of each
/// instruction.
fn kernels(comps: &str, body: &[&str]) -> Vec<String> {
    let lines: Vec<(&str, &str, usize)> = body.iter().map(|line| (*line, "fwd", 0)).collect();
    let module = staged_with(comps, "", "0:x=2", "{}", &lines);
    let facts = derive(&module).expect("a legal header");
    let own = module.entry().instrs.iter().zip(&facts.comps[module.entry.index()]);
    let line = |(instr, own): (&phzc_ir::Instr, &InstrFacts)| {
        let memory = match (own.is_allocated, own.in_memory) {
            (true, true) => "+",
            (false, true) => "=",
            (false, false) => "",
            (true, false) => "?",
        };
        format!("{}{memory} {:?} {}", instr.name, own.kernel, own.work.bytes)
    };
    own.map(line).collect()
}

#[test]
fn values_between_elementwise_ops_and_views_stay_in_registers() {
    // A device has half of the rows: 64 bytes of an array. `b` is made twice, for the view that is returned
    // and for `c`.
    let found = kernels(
        "",
        &[
            &format!("x = f32[8,4] parameter(0), {ROWS}"),
            &format!("a = f32[8,4] negate(x), {ROWS}"),
            &format!("b = f32[8,4] tanh(a), {ROWS}"),
            "v = f32[8,2,2] reshape(b), sharding={devices=[2,1,1]<=[2]}",
            "one = f32[] constant(1)",
            "table = f32[2] constant({1, 2})",
            "ones = f32[8,4] broadcast(one), dimensions={}",
            &format!("c = f32[8,4] add(b, ones), {ROWS}"),
            "w = f32[4,4] parameter(1)",
            &format!(
                "d = f32[8,4] dot(c, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {ROWS}"
            ),
            "ROOT t = (f32[8,4], f32[8,2,2], f32[2]) tuple(d, v, table)",
        ],
    );
    let wanted = [
        "x+ Nothing 0",
        "a Fused 64",
        "b Fused 0",
        "v+ Vector 64",
        "one Nothing 0",
        "table+ Nothing 0",
        "ones Nothing 0",
        "c+ Joined 64",
        "w+ Nothing 0",
        "d+ Matrix 192",
        "t= Nothing 0",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn another_phase_or_stage_is_another_kernel_and_another_block_is_not() {
    let bytes = |second: (&str, &str, usize)| {
        let lines = [
            ("x = f32[4] parameter(0)", "fwd", 0),
            ("a = f32[4] negate(x), metadata={op_name=\"a\"}", "fwd", 0),
            second,
        ];
        let module = staged_with("", "", "0:;1:", "{}", &lines);
        let facts = derive(&module).expect("a legal header");
        facts.comps[module.entry.index()].iter().map(|own| own.work.bytes).collect::<Vec<_>>()
    };
    assert_eq!(bytes(("ROOT b = f32[4] tanh(a)", "fwd", 0)), [0.0, 16.0, 16.0]);
    assert_eq!(bytes(("ROOT b = f32[4] tanh(a)", "bwd", 0)), [0.0, 32.0, 32.0]);
    assert_eq!(bytes(("ROOT b = f32[4] tanh(a)", "fwd", 1)), [0.0, 32.0, 32.0]);
    let blocks = |first: &str, second: &str| {
        let text = format!(
            "ENTRY e {{ x = f32[4] parameter(0)
            a = f32[4] negate(x), frontend_attributes={{phzc.block=\"{first}\"}}
            ROOT b = f32[4] tanh(a), frontend_attributes={{phzc.block=\"{second}\"}} }}"
        );
        let facts = derive(&parse(&text).expect("legal")).expect("no notes");
        facts.comps[0].iter().map(|own| own.work.bytes).collect::<Vec<_>>()
    };
    assert_eq!((blocks("0", "0"), blocks("0", "1")), (vec![0.0, 16.0, 16.0], vec![0.0, 16.0, 16.0]));
}

#[test]
fn a_move_that_communicates_is_in_memory_and_a_slice_of_what_is_made_anywhere_is_made_there() {
    let moved = "custom_call_target=\"Sharding\"";
    let found = kernels(
        "",
        &[
            &format!("x = f32[8,4] parameter(0), {ROWS}"),
            &format!("all = f32[8,4] custom-call(x), {moved}"),
            "i = f32[8,4] iota(), iota_dimension=1",
            &format!("part = f32[8,4] custom-call(i), {moved}, {ROWS}"),
            &format!("y = f32[8,4] add(x, part), {ROWS}"),
            &format!("less = f32[8,4] custom-call(all), {moved}, {ROWS}"),
            &format!("z = f32[8,4] multiply(y, less), {ROWS}"),
            "ROOT t = (f32[8,4], f32[8,4]) tuple(z, all), sharding={{devices=[2,1]<=[2]}, {replicated}}",
        ],
    );
    let wanted = [
        "x+ Nothing 0",
        "all+ Nothing 0",
        "i Nothing 0",
        "part Nothing 0",
        "y Fused 64",
        "less+ Nothing 0",
        // Kernels are those without moves: what is brought back is `x`, which its kernel has read.
        "z+ Vector 64",
    ];
    assert_eq!(found[..7], wanted);
}

#[test]
fn what_is_made_of_constants_and_something_else_is_no_constant() {
    let found = kernels(
        "",
        &[
            "x = f32[8,4] parameter(0)",
            "one = f32[] constant(1)",
            "ones = f32[8,4] broadcast(one), dimensions={}",
            "a = f32[8,4] add(ones, x)",
            "ROOT t = (f32[8,4]) tuple(a)",
        ],
    );
    assert_eq!(found[2..4], ["ones Nothing 0", "a+ Vector 256"]);
}

#[test]
fn an_op_writes_its_whole_sum_before_it_scatters_it_itself() {
    let sum = |to: &str| {
        kernels(
            "",
            &[
                "a = f32[4,8] parameter(0), sharding={devices=[1,2]<=[2]}",
                "zero = f32[] constant(0)",
                &format!("s = f32[4] reduce(a, zero), dimensions={{1}}, to_apply=add, sharding={to}"),
                &format!("ROOT t = (f32[4]) tuple(s), sharding={{{to}}}"),
            ],
        )[2]
        .clone()
    };
    assert_eq!([sum("{devices=[2]<=[2]}"), sum("{replicated}")], ["s+ Vector 80"; 2]);
}

#[test]
fn a_scattered_sum_is_written_whole_before_it_is_scattered() {
    let found = kernels(
        "",
        &[
            "a = f32[4,8] parameter(0), sharding={devices=[1,2]<=[2]}",
            "zero = f32[] constant(0)",
            "s = f32[4] reduce(a, zero), dimensions={1}, to_apply=add",
            "ROOT m = f32[4] custom-call(s), custom_call_target=\"Sharding\", sharding={devices=[2]<=[2]}",
        ],
    );
    // 64 bytes in, all 16 out, of which 8 stay.
    assert_eq!(found[2], "s+ Vector 80");
}

/// Collectives of an instruction: kind, axes, type and bytes.
fn steps(facts: &Facts, module: &Module, name: &str) -> Vec<String> {
    let found = module.entry().iter().find(|(_, instr)| &*instr.name == name).expect("it is there");
    let own = &facts.comps[module.entry.index()][found.0.index()];
    own.steps
        .iter()
        .map(|step| format!("{} {:02b} {} {}", step.kind, step.axes, step.dtype.as_str(), step.bytes))
        .collect()
}

#[test]
fn an_all_reduce_that_only_a_slice_reads_is_a_reduce_scatter_over_as_many_axes() {
    let text = |partitioner: &str, second: &str| {
        format!(
            "HloModule m, frontend_attributes={{phzc.mesh=\"x=2,y=4\"{partitioner}}}
            s {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }}
            ENTRY e {{
            a = f32[16,8,4] parameter(0), sharding={{devices=[1,2,4]<=[8]}}
            zero = f32[] constant(0), sharding={{replicated}}
            d = f32[16] reduce(a, zero), dimensions={{1,2}}, to_apply=s, sharding={{replicated}}
            first = f32[16] custom-call(d), custom_call_target=\"Sharding\", sharding={{devices=[2,4]<=[8] last_tile_dim_replicate}}
            {second} }}"
        )
    };
    let found = |partitioner: &str, second: &str| {
        let module = parse(&text(partitioner, second)).expect("legal");
        let facts = derive(&module).expect("a legal header");
        assert_eq!(facts.problems, []);
        steps(&facts, &module, "d")
    };
    let slice =
        "ROOT m = f32[16] custom-call(first), custom_call_target=\"Sharding\", sharding={devices=[8]<=[8]}";
    // The second scatters what the first has left: half.
    assert_eq!(found("", slice), ["reduce-scatter 01 f32 64", "reduce-scatter 10 f32 32"]);
    let whole = "ROOT m = f32[16] negate(first), sharding={devices=[2,4]<=[8] last_tile_dim_replicate}";
    assert_eq!(found("", whole), ["reduce-scatter 01 f32 64", "all-reduce 10 f32 64"]);
    let two = "ROOT m = (f32[16], f32[16]) tuple(first, d), sharding={{devices=[2,4]<=[8] last_tile_dim_replicate}, {replicated}}";
    assert_eq!(found("", two), ["all-reduce 01 f32 64", "all-reduce 10 f32 64"]);
    // XLA's partitioner makes none.
    assert_eq!(found(",phzc.partitioner=\"gspmd\"", slice), ["all-reduce 01 f32 64", "all-reduce 10 f32 64"]);
}

#[test]
fn a_device_s_program_has_its_collectives_as_instructions() {
    let text = "HloModule m, frontend_attributes={phzc.mesh=\"x=2,y=4\",phzc.spmd=\"x=2,y=4\"}
        s { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
        ENTRY e {
        a = f32[8] parameter(0)
        g = f32[16] all-gather(a), replica_groups={{0,4},{1,5},{2,6},{3,7}}, dimensions={0}
        r = f32[16] all-reduce(g), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=s
        h = f32[4] reduce-scatter(r), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, to_apply=s
        m = bf16[4] convert(h)
        p = bf16[4] collective-permute(m), source_target_pairs={{0,1},{1,0},{2,3},{3,2},{4,5},{5,4},{6,7},{7,6}}
        t = bf16[4] all-to-all(p), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}
        ROOT n = bf16[4] negate(t) }";
    let module = parse(text).expect("legal");
    let facts = derive(&module).expect("a legal header");
    let found: Vec<String> =
        ["g", "r", "h", "p", "t", "n"].iter().flat_map(|name| steps(&facts, &module, name)).collect();
    let wanted = [
        "all-gather 01 f32 64",
        "all-reduce 10 f32 64",
        "reduce-scatter 10 f32 64",
        "collective-permute 10 bf16 8",
        "all-to-all 11 bf16 8",
    ];
    assert_eq!(found, wanted);
    let kernel = |name: &str| {
        let found = module.entry().iter().find(|(_, instr)| &*instr.name == name).expect("it is there");
        facts.comps[module.entry.index()][found.0.index()].kernel
    };
    assert_eq!((kernel("g"), kernel("n")), (Kernel::Nothing, Kernel::Vector));
}

#[test]
fn products_are_split_in_their_rows_columns_and_batches() {
    let text = "HloModule m, frontend_attributes={phzc.mesh=\"x=2,y=4\"}
        ENTRY e {
        a = f32[4,16,32] parameter(0), sharding={devices=[2,4,1]<=[8]}
        b = f32[4,32,8] parameter(1), sharding={devices=[2,1,1,4]<=[8] last_tile_dim_replicate}
        d = f32[4,16,8] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, sharding={devices=[2,4,1]<=[8]}
        ROOT n = f32[4,16,8] negate(d), sharding={devices=[2,4,1]<=[8]} }";
    let facts = derive(&parse(text).expect("legal")).expect("a legal header");
    assert_eq!(facts.problems, []);
    let dot = &facts.comps[0][2];
    let product = dot.product.expect("it is one");
    assert_eq!((product.batch, product.rows, product.columns), (2.0, 4.0, 8.0));
    assert_eq!(dot.work.flops, 2.0 * 2.0 * 4.0 * 8.0 * 32.0);
    assert_eq!(dot.reads.to_vec(), [2.0 * 4.0 * 32.0 * 4.0, 2.0 * 32.0 * 8.0 * 4.0]);
    assert_eq!(dot.bytes.to_vec(), [2.0 * 4.0 * 8.0 * 4.0]);
    assert_eq!((facts.comps[0][3].product, facts.comps[0][3].axes), (None, 0b11));
}

#[test]
fn tiles_are_rounded_up_and_unknown_sizes_count_once() {
    let (mesh, rows) = (Mesh::new(&[4]), Layout::REPLICATED.with(0, Some(0)));
    let bytes =
        |dims: &[i64], layout| local_bytes(&phzc_ir::ArrayShape::new(DType::F32, dims), layout, &mesh);
    assert_eq!(bytes(&[8, 3], rows), 24.0);
    assert_eq!(bytes(&[9, 3], rows), 36.0);
    assert_eq!(bytes(&[9, 3], Layout::REPLICATED), 108.0);
    assert_eq!(bytes(&[], Layout::REPLICATED), 4.0);
}

#[test]
fn a_loop_s_body_runs_as_often_as_all_loops_around_it() {
    let looped = |name: &str, n: usize, inner: &str| {
        format!(
            "{name} {{ p = (s32[], f32[]) parameter(0)
            i = s32[] get-tuple-element(p), index=0
            v = f32[] get-tuple-element(p), index=1
            {inner}
            o = s32[] constant(1)
            j = s32[] add(i, o)
            ROOT r = (s32[], f32[]) tuple(j, w) }}
            {name}c {{ p = (s32[], f32[]) parameter(0)
            i = s32[] get-tuple-element(p), index=0
            n = s32[] constant({n})
            ROOT l = pred[] compare(i, n), direction=LT }}\n"
        )
    };
    let call = |of: &str| {
        format!(
            "z = s32[] constant(0)\n s = (s32[], f32[]) tuple(z, v)\n \
             t = (s32[], f32[]) while(s), condition={of}c, body={of}\n w = f32[] get-tuple-element(t), index=1"
        )
    };
    let text = format!(
        "HloModule m\n{}{}ENTRY e {{ v = f32[] parameter(0)\n {}\n ROOT q = f32[] negate(w) }}",
        looped("inner", 3, "w = f32[] negate(v)"),
        looped("outer", 5, &call("inner")),
        call("outer")
    );
    let module = parse(&text).expect("legal");
    let facts = derive(&module).expect("no notes");
    let times = |name: &str| {
        let at = module.comps.iter().position(|comp| &*comp.name == name).expect("it is there");
        facts.executions[at]
    };
    assert_eq!(["e", "outer", "inner"].map(times), [1.0, 5.0, 15.0]);
    let marked = with_callees(
        &module,
        (0..module.entry().instrs.len()).map(|at| if at == 3 { 7 } else { 0 }).collect(),
    );
    let inside: Vec<u32> = marked.iter().filter_map(|comp| comp.first().copied()).collect();
    assert_eq!(inside, [7, 7, 7, 7, 0]);
}
