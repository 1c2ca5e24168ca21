//! Tests of the search for equal layers, and of plans by fewer of them.

use phzc_testing::perceptron::{perceptron, towers};

use super::Copies;
use super::representative_layers::{MIN_LAYERS, Short};
use crate::plan_state::PlanState;
use crate::shard::model::{Goal, Model};
use crate::shard::planning_input::PlanningInput;
use crate::shard::{decision::Decision, solve_on, write_layouts::emit};
use phzc_analysis::blocks::Blocks;
use phzc_analysis::graph::Graph;
use phzc_cost::Cluster;
use phzc_ir::{Aliased, InstrId, Mesh, Module};
use phzc_plan::derive::aliased;

/// The program with fewest layers.
fn of(module: &Module) -> Option<(Short, Graph, Blocks)> {
    Short::each(module).into_iter().next()
}

fn names(module: &Module, layer: usize) -> Vec<String> {
    let copies = Copies::find(module).expect("layers repeat");
    let own = module.entry().iter().filter(|(id, _)| copies.of(*id) == Some(layer));
    own.map(|(_, instr)| instr.name.to_string()).collect()
}

#[test]
fn a_layer_has_its_weight_its_gradients_and_its_update() {
    let inner = names(&perceptron(20), 5);
    for kind in ["w", "h", "a", "dw", "dx", "t", "v"] {
        assert!(
            inner.iter().any(|name| name.trim_end_matches(char::is_numeric) == kind),
            "{kind}: {inner:?}"
        );
    }
}

fn n_dots(module: &Module) -> usize {
    module.entry().instrs.iter().filter(|instr| instr.op == phzc_ir::Opcode::Dot).count()
}

#[test]
fn a_short_program_has_four_layers_and_two_ends() {
    let (short, ..) = of(&perceptron(40)).expect("layers repeat");
    assert!(n_dots(&short.module) <= 6 * 3, "{}", phzc_ir::print(&short.module));
    assert!(phzc_ir::verify(&short.module).is_empty());
}

#[test]
fn what_was_counted_to_a_neighbour_is_put_right() {
    let module = perceptron(24);
    let copies = Copies::find(&module).expect("layers repeat");
    let is_of = |id: phzc_ir::InstrId, kind: &str| {
        module.entry().instr(id).name.trim_end_matches(char::is_numeric) == kind
    };
    for kind in ["w", "h", "a", "x", "g", "t", "dw", "dx", "v"] {
        for by in [-1, 1] {
            let layer = |id, layer| if is_of(id, kind) { layer + by } else { layer };
            let wrong = copies.in_layers(layer);
            let (short, ..) = Short::counted(&module, wrong).unwrap_or_else(|| panic!("{kind} by {by}"));
            assert!(phzc_ir::verify(&short.module).is_empty(), "{kind} by {by}");
            assert!(n_dots(&short.module) <= 6 * 3, "{kind} by {by}");
            assert!(updates_are_at_home(&short), "{kind} by {by}");
        }
    }
}

/// Whether each donated parameter of a short program is in the layer of the result that takes its buffer.
fn updates_are_at_home(short: &Short) -> bool {
    let (module, root) = (&short.module, short.module.entry().root());
    let place = |id: InstrId| short.layer_of[short.whole_of[id.index()].index()];
    let is_at_home = |it: &Aliased| place(it.param) == place(root.operands[it.output]);
    let aliases = aliased(module);
    !aliases.is_empty() && aliases.iter().all(is_at_home)
}

/// Layers without a loss, and a head of so many columns that reads what layer `at` of them makes.
fn with_a_head(n_layers: usize, at: usize, columns: usize) -> Module {
    let mut lines = vec!["x0 = f32[64,256] parameter(0)".to_owned()];
    let dot = |of: &str| format!("dot({of}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}");
    for layer in 1..=n_layers {
        lines.push(format!("w{layer} = f32[256,256] parameter({layer})"));
        lines.push(format!("h{layer} = f32[64,256] {}", dot(&format!("x{}, w{layer}", layer - 1))));
        lines.push(format!("x{layer} = f32[64,256] tanh(h{layer})"));
    }
    lines.push(format!("wh = f32[256,{columns}] parameter({})", n_layers + 1));
    lines.push(format!("head = f32[64,{columns}] {}", dot(&format!("x{at}, wh"))));
    lines.push(format!("ROOT out = (f32[64,256], f32[64,{columns}]) tuple(x{n_layers}, head)"));
    let text = format!("HloModule m\n\nENTRY e {{\n  {}\n}}\n", lines.join("\n  "));
    phzc_ir::parse(&text).expect("legal")
}

/// Whether the head is as wide as the layers, and so like one, or not.
#[test]
fn a_program_whose_inner_layer_has_another_reader_is_planned_whole() {
    for columns in [256, 1000] {
        assert!(of(&with_a_head(24, 24, columns)).is_some());
        for at in 2..=22 {
            assert!(of(&with_a_head(24, at, columns)).is_none(), "{columns} columns read at {at}");
        }
    }
}

#[test]
fn few_layers_are_planned_as_they_are() {
    assert!(of(&perceptron(MIN_LAYERS - 6)).is_none());
}

#[test]
fn a_value_that_reads_all_layers_keeps_the_program_whole() {
    let mut module = perceptron(40);
    let entry = &mut module.comps[0];
    let all = entry.iter().filter(|(_, instr)| instr.name.starts_with('h')).map(|(id, _)| id).collect();
    let root = entry.root.index();
    let shape = phzc_ir::Shape::Array(phzc_ir::ArrayShape::new(phzc_ir::DType::F32, &[64 * 40, 256]));
    let mut joined = entry.instrs[root].clone();
    (joined.op, joined.operands, joined.shape, joined.name) =
        (phzc_ir::Opcode::Concatenate, all, shape, "joined".into());
    joined.set_attr(phzc_ir::Key::Dimensions, phzc_ir::Value::Ints([0].as_slice().into()));
    entry.insert_before(vec![(entry.root, joined)]);
    assert!(of(&module).is_none());
}

/// What a choice on fewer layers costs, its bound, and what it and the best choice on all layers cost the
/// whole program.
fn costs(module: &Module, mesh: &str, memory_bytes: Option<f64>) -> [f64; 3] {
    let cluster = Cluster::named("a100-8").expect("a known cluster");
    let (mesh, goal) = (Mesh::parse(mesh).expect("a mesh"), Goal { weights: [1.0; 3], memory_bytes });
    let subject = PlanningInput::short(module, None, Default::default()).expect("layers repeat");
    let relaxed = subject.relaxed(&cluster);
    let short = solve_on(subject.input(&cluster, false, &relaxed), &mesh, &goal).expect("legal");
    let state = PlanState::analysed(module.clone());
    let whole = state.whole(Default::default());
    let best = solve_on(whole.input(&cluster, false, &[]), &mesh, &goal).expect("legal");
    [short.choice.cost, short.bound(), best.choice.cost]
}

#[test]
fn rows_of_layers_are_left_out_of_each() {
    let module = towers(&[(24, 256), (20, 512)]);
    let (short, ..) = of(&module).expect("layers repeat");
    assert_eq!(short.n_layers.len(), 2, "{:?}", short.n_layers);
    assert!(n_dots(&short.module) <= 12 * 3, "{}", phzc_ir::print(&short.module));
    assert!(phzc_ir::verify(&short.module).is_empty());
    assert!(updates_are_at_home(&short));
    let rows: Vec<usize> = Short::each(&module).iter().map(|(short, ..)| short.n_layers.len()).collect();
    assert_eq!(rows, [2, 1]);
    // As many instructions stand for the whole program's as there are.
    assert_eq!(short.n_alike().iter().sum::<f64>(), module.entry().instrs.len() as f64);
}

#[test]
fn a_choice_on_two_rows_is_as_good_and_its_bound_holds() {
    for mesh in ["x=8", "x=2,y=4"] {
        let [cost, bound, best] = costs(&towers(&[(20, 256), (16, 512)]), mesh, None);
        assert!((cost / best - 1.0).abs() < 1e-6, "{mesh}: {cost} for {best}");
        assert!(bound <= best * (1.0 + 1e-9) && bound > 0.97 * best, "{mesh}: {bound} for {best}");
    }
}

#[test]
fn a_choice_on_fewer_layers_is_as_good_and_its_bound_holds() {
    for mesh in ["x=8", "x=2,y=4"] {
        let [cost, bound, best] = costs(&perceptron(40), mesh, None);
        assert!((cost / best - 1.0).abs() < 1e-6, "{mesh}: {cost} for {best}");
        assert!(bound <= best * (1.0 + 1e-9) && bound > 0.97 * best, "{mesh}: {bound} for {best}");
    }
}

#[test]
fn a_plan_of_fewer_layers_tells_that_of_all() {
    tells_all(&perceptron(40));
    tells_all(&towers(&[(24, 256), (20, 512)]));
}

fn tells_all(module: &Module) {
    let cluster = Cluster::named("a100-8").expect("a known cluster");
    let subject = PlanningInput::short(module, None, Default::default()).expect("layers repeat");
    let mesh = Mesh::parse("x=2,y=4").expect("a mesh");
    let goal = Goal { weights: [1.0; 3], memory_bytes: None };
    let input = subject.input(&cluster, false, &[]);
    let solved = solve_on(input, &mesh, &goal).expect("legal");
    let mut planned = subject.module(module).clone();
    let mut model = Model::new(input, &mesh);
    emit(&mut planned, &mut Decision::new(&mut model, &solved.choice.option));
    let mut whole = subject.expanded(module, planned);
    for (key, value) in [("phzc.mesh", mesh.to_string()), ("phzc.plan", "{}".to_owned())] {
        whole.set_note(key, &value);
    }
    assert!(phzc_ir::verify(&whole).is_empty());
    let facts = phzc_plan::derive::derive(&whole).expect("its notes are legal");
    assert!(facts.problems.is_empty(), "{:?}", facts.problems);
}

#[test]
fn what_a_layer_makes_again_all_layers_make_again() {
    // Weights in half precision that have to be stored in parts are gathered as they are, and widened again.
    let mut lines = vec!["x0 = f32[64,256] parameter(0)".to_owned()];
    for at in 1..=24 {
        lines.push(format!("w{at} = bf16[256,256] parameter({at})"));
        lines.push(format!("u{at} = f32[256,256] convert(w{at})"));
        let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        lines.push(format!("h{at} = f32[64,256] dot(x{}, u{at}), {dims}", at - 1));
        lines.push(format!("x{at} = f32[64,256] tanh(h{at})"));
    }
    lines.push("ROOT out = f32[64,256] negate(x24)".to_owned());
    let program = format!("HloModule m\n\nENTRY e {{\n  {}\n}}\n", lines.join("\n  "));
    let lean = Cluster::from_toml(include_str!("../../../../tests/clusters/lean-8.toml")).expect("legal");
    let pipeline = "fuse,shard{mesh=8,forbid=contract+rhs},check";
    let plan = crate::testing::passed(&program, pipeline, &lean).expect("it fits");
    let copies = plan.entry().instrs.iter().filter(|instr| instr.note("phzc.remade").is_some());
    assert_eq!(copies.count(), 24);
}
