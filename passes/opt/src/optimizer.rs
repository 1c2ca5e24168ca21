//! `optimizer`: turns gradients into a training step: new parameters and states in place of the gradients.
//!
//! ```text
//! w = f32[4] parameter(0)                          w = f32[4] parameter(0)
//! g = f32[4] …, …={phzc.grad="0"}                  g = f32[4] …
//!                                                  m.w = f32[4] parameter(1)
//!                                                  m.w.new = 0.9·m.w + g
//!                                                  w.new = w − 0.1·m.w.new
//! ROOT r = (f32[], f32[4]) tuple(loss, g)     →    ROOT r = (f32[], f32[4], f32[4]) tuple(loss, w.new, m.w.new)
//! ```
//!
//! The notes of `grad` say which result is whose gradient. States are parameters after the program's own: all
//! masters, all first moments, all second moments, the number of steps so far; their new values are results
//! after all others, in the same order. Parameters and states are donated (`input_output_alias`). States are
//! 32-bit floats unless the parameter is wider, and the update is computed in their type. A master is such a
//! copy of a narrower parameter, which is rounded from it (Micikevicius et al., "Mixed Precision Training",
//! 2018, section 3.1). The formulas are those of optax's `sgd`, `adam` and `adamw`.

mod rule;

use phzc_analysis::graph::alias_pairs;
use phzc_ir::build::Builder;
use phzc_ir::dtype::Class;
use phzc_ir::edit::Names;
use phzc_ir::{DType, Diagnostic, Instr, InstrId, Module, Opcode, Result, Shape, notes};
use phzc_pass::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
use rule::{Kind, Rule};

/// The pass.
pub static PASS: Pass = Pass {
    name: "optimizer",
    summary: "turns the gradients that `grad` made into updates of donated parameters and states",
    options: &[
        OptionInfo {
            name: "kind",
            kind: OptionKind::Choice(&["sgd", "momentum", "adam", "adamw"]),
            default: "adamw",
            help: "the rule",
        },
        OptionInfo {
            name: "masters",
            kind: OptionKind::Flag,
            default: "false",
            help: "keep 32-bit masters of narrower parameters",
        },
        number("lr", "1e-3", "learning rate"),
        number("momentum", "0.9", "of kind momentum: what is kept of the last update"),
        number("beta1", "0.9", "of adam and adamw: decay of the first moment"),
        number("beta2", "0.999", "of adam and adamw: decay of the second moment"),
        number("eps", "1e-8", "of adam and adamw: added to the root of the second moment"),
        number("decay", "1e-4", "of adamw: weight decay per unit of learning rate"),
    ],
    run,
};

const fn number(name: &'static str, default: &'static str, help: &'static str) -> OptionInfo {
    OptionInfo { name, kind: OptionKind::Text("a number"), default, help }
}

/// A parameter that is updated.
struct Updated {
    /// Its number.
    number: usize,
    param: InstrId,
    gradient: InstrId,
    /// The result that was its gradient.
    output: usize,
}

fn run(module: &mut Module, options: &Options, _: &mut Context) -> Result<Changed> {
    let rule = Rule::read(options)?;
    module.put_entry_last();
    let updated = updated(module)?;
    let root = module.entry().root;
    let mut b = Builder::resume(std::mem::replace(module, Module::empty()));
    let step = append(&mut b, root, &rule, &updated, options.flag("masters"));
    let root = b.tuple(&step.outputs);
    *module = b.finish(root);
    header(module, &step.donated);
    crate::dce::remove_dead(module);
    Ok(Changed::Yes)
}

/// The parameters whose gradients are results.
fn updated(module: &Module) -> Result<Vec<Updated>> {
    let entry = module.entry();
    let params = entry.params();
    let root = entry.root();
    let outputs = if root.op == Opcode::Tuple { &root.operands[..] } else { &[] };
    let updates = module.attr("input_output_alias").map(alias_pairs).unwrap_or_default();
    let mut found = Vec::new();
    for (output, &gradient) in outputs.iter().enumerate() {
        let instr = entry.instr(gradient);
        let Some(note) = instr.note(notes::GRAD) else { continue };
        let number = note.parse::<usize>().ok().filter(|&number| number < params.len());
        let Some((number, &param)) = number.and_then(|number| Some((number, params.get(number)?))) else {
            let message =
                format!("the note `{}=\"{note}\"` of `{}` names no parameter", notes::GRAD, instr.name);
            return Err(Diagnostic::error(message).at(instr.span));
        };
        // A gradient may be summed up in a wider type than its parameter has.
        let is_gradient_of = |param: &Shape, own: &Shape| match (param.as_array(), own.as_array()) {
            (Some(param), Some(own)) => {
                param.dims == own.dims
                    && (param.dtype == own.dtype || [param, own].iter().all(|it| is_float(it.dtype)))
            }
            _ => false,
        };
        if !is_gradient_of(&entry.instr(param).shape, &instr.shape) {
            let message =
                format!("`{}` is not of the shape of the parameter that it is the gradient of", instr.name);
            return Err(Diagnostic::error(message).at(instr.span));
        }
        let is_again = found.iter().any(|it: &Updated| it.number == number);
        if is_again || updates.iter().any(|(_, donated, _)| *donated as usize == number) {
            return Err(twice(entry.instr(param), is_again));
        }
        found.push(Updated { number, param, gradient, output });
    }
    if found.is_empty() {
        return Err(
            Diagnostic::error("no result is a gradient").help("run `grad` first: `--passes grad,optimizer`")
        );
    }
    Ok(found)
}

fn is_float(dtype: DType) -> bool {
    dtype.class() == Class::Float
}

/// The error for a parameter that would be updated twice.
fn twice(param: &Instr, has_two_gradients: bool) -> Diagnostic {
    let name = &param.name;
    let (what, help) = match has_two_gradients {
        true => ("has two gradients", "add the losses up, and differentiate their sum"),
        false => ("is updated already", "give the forward program, not a whole step"),
    };
    Diagnostic::error(format!("`{name}` {what}")).at(param.span).help(help)
}

/// The results of a step, and which of them replace which parameters.
struct Step {
    outputs: Vec<InstrId>,
    donated: Vec<(usize, usize)>,
}

fn append(b: &mut Builder, root: InstrId, rule: &Rule, updated: &[Updated], has_masters: bool) -> Step {
    let n_params = b.instrs().iter().filter(|instr| instr.param_number().is_some()).count();
    let mut outputs: Vec<InstrId> = b.instr(root).operands.to_vec();
    let mut donated: Vec<(usize, usize)> = updated.iter().map(|it| (it.output, it.number)).collect();
    let mut names = Names::new(b.instrs());
    let is_narrow = |b: &Builder, it: &Updated| is_float(b.dtype(it.param)) && b.dtype(it.param).bits() < 32;
    let masters: Vec<Option<InstrId>> = updated
        .iter()
        .map(|it| (has_masters && is_narrow(b, it)).then(|| state(b, &mut names, "master", it.param)))
        .collect();
    let prefixes = rule.states();
    let mut states: Vec<Vec<InstrId>> = Vec::new();
    for prefix in prefixes {
        states.push(updated.iter().map(|it| state(b, &mut names, prefix, it.param)).collect());
    }
    let steps = matches!(rule.kind, Kind::Adam { .. }).then(|| {
        let before = b.parameter(&names.free("step"), Shape::array(DType::S32, &[]));
        let one = b.scalar(DType::S32, 1.0);
        b.add(before, one)
    });
    let corrections = rule.corrections(b, steps);
    let (mut new_masters, mut new_states) = (Vec::new(), vec![Vec::new(); prefixes.len()]);
    for (index, it) in updated.iter().enumerate() {
        let own: Vec<InstrId> = states.iter().map(|of_all| of_all[index]).collect();
        let (new, made) = rule.apply(b, masters[index].unwrap_or(it.param), it.gradient, &own, corrections);
        new_masters.extend(masters[index].map(|_| new));
        outputs[it.output] = b.convert(new, b.dtype(it.param));
        made.into_iter().zip(&mut new_states).for_each(|(new, all)| all.push(new));
    }
    for new in new_masters.into_iter().chain(new_states.into_iter().flatten()).chain(steps) {
        donated.push((outputs.len(), n_params + outputs.len() - b.instr(root).operands.len()));
        outputs.push(new);
    }
    updated.iter().for_each(|it| b.instr_mut(it.gradient).remove_note(notes::GRAD));
    Step { outputs, donated }
}

/// A parameter for the state of another one.
fn state(b: &mut Builder, names: &mut Names, prefix: &str, param: InstrId) -> InstrId {
    let dtype = rule::state_type(b.dtype(param));
    let (dims, name) = (b.dims(param), format!("{prefix}.{}", b.instr(param).name));
    let name = names.free(&name);
    b.parameter(&name, Shape::array(dtype, &dims))
}

/// Says which results replace which parameters, besides what was donated before.
fn header(module: &mut Module, donated: &[(usize, usize)]) {
    let old = module.attr("input_output_alias").unwrap_or("").trim().to_owned();
    let inside = old.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or("").trim();
    let new = donated.iter().map(|(output, param)| format!("{{{output}}}: ({param}, {{}}, may-alias)"));
    let kept = (!inside.is_empty()).then(|| inside.to_owned());
    let all: Vec<String> = kept.into_iter().chain(new).collect();
    module.set_attr("input_output_alias", format!("{{ {} }}", all.join(", ")));
    module.attrs.retain(|attr| &*attr.key != "entry_computation_layout");
}

#[cfg(test)]
mod tests {
    use crate::testing::check;
    use insta::assert_snapshot;
    use phzc_ir::eval::{Array, Options as Run, Value, run};
    use phzc_ir::{DType, parse};

    const LOSS: &str = "HloModule m
ENTRY e { w = f32[4] parameter(0) x = f32[4] parameter(1) ROOT loss = f32[] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={0} }";

    const LOSS_OF_W: &str = "ENTRY e { w = f32[] parameter(0) ROOT loss = f32[] sine(w) }";

    #[test]
    fn plain_descent_takes_a_rate_of_the_gradient_off() {
        assert_snapshot!(check("grad{wrt=w},optimizer{kind=sgd,lr=0.5}", LOSS), @r#"
        HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }

        ENTRY e {
          w = f32[4] parameter(0)
          x = f32[4] parameter(1)
          loss = f32[] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
          constant.0 = f32[] constant(1)
          dot.1 = f32[4] dot(constant.0, x), lhs_contracting_dims={}, rhs_contracting_dims={}
          constant.3 = f32[] constant(0.5)
          broadcast.4 = f32[4] broadcast(constant.3), dimensions={}
          multiply.5 = f32[4] multiply(dot.1, broadcast.4)
          subtract.6 = f32[4] subtract(w, multiply.5)
          ROOT tuple.7 = (f32[], f32[4]) tuple(loss, subtract.6)
        }
        "#);
    }

    #[test]
    fn momentum_keeps_a_state_per_parameter() {
        assert_snapshot!(check("grad{wrt=w},optimizer{kind=momentum,lr=0.5,momentum=0.25}", LOSS), @r#"
        HloModule m, input_output_alias={ {1}: (0, {}, may-alias), {2}: (2, {}, may-alias) }

        ENTRY e {
          w = f32[4] parameter(0)
          x = f32[4] parameter(1)
          loss = f32[] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
          constant.0 = f32[] constant(1)
          dot.1 = f32[4] dot(constant.0, x), lhs_contracting_dims={}, rhs_contracting_dims={}
          m.w = f32[4] parameter(2)
          constant.3 = f32[] constant(0.25)
          broadcast.4 = f32[4] broadcast(constant.3), dimensions={}
          multiply.5 = f32[4] multiply(m.w, broadcast.4)
          add.6 = f32[4] add(multiply.5, dot.1)
          constant.7 = f32[] constant(0.5)
          broadcast.8 = f32[4] broadcast(constant.7), dimensions={}
          multiply.9 = f32[4] multiply(add.6, broadcast.8)
          subtract.10 = f32[4] subtract(w, multiply.9)
          ROOT tuple.11 = (f32[], f32[4], f32[4]) tuple(loss, subtract.10, add.6)
        }
        "#);
    }

    /// What a step makes of `w²` at 2, of its second moment 4 and its first 1, in its second step: loss, `w`,
    /// both moments, steps.
    fn second_step(options: &str) -> Vec<f64> {
        let text = "ENTRY e { w = f64[] parameter(0) ROOT loss = f64[] multiply(w, w) }";
        let options = format!("grad{{wrt=w}},optimizer{{{options},lr=0.1,beta1=0.5,beta2=0.75,eps=0.5}}");
        let module = parse(&check(&options, text)).expect("what was printed");
        let number =
            |value: f64| Value::Array(Array::from_vec(DType::F64, &[], vec![value]).expect("a scalar"));
        let steps = Value::Array(Array::from_vec(DType::S32, &[], vec![1]).expect("a scalar"));
        let made = run(&module, &[number(2.0), number(1.0), number(4.0), steps], &Run::default());
        made.expect("it can be run").leaves().iter().map(|array| array.to_f64_vec()[0]).collect()
    }

    #[test]
    fn adam_divides_the_corrected_moments() {
        let (m, v) = (0.5 * 1.0 + 0.5 * 4.0, 0.75 * 4.0 + 0.25 * 16.0);
        let update = (m / 0.75) / ((v / 0.4375f64).sqrt() + 0.5);
        assert_eq!(second_step("kind=adam"), [4.0, 2.0 - 0.1 * update, m, v, 2.0]);
        assert_eq!(second_step("kind=adamw,decay=0.25"), [4.0, 2.0 - 0.1 * (update + 0.25 * 2.0), m, v, 2.0]);
    }

    #[test]
    fn states_are_of_32_bits_or_more() {
        for (dtype, state) in [("bf16", "f32"), ("f32", "f32"), ("f64", "f64")] {
            let text =
                format!("ENTRY e {{ w = {dtype}[] parameter(0) ROOT loss = {dtype}[] multiply(w, w) }}");
            let made = check("grad{wrt=w},optimizer{kind=momentum}", &text);
            assert!(made.contains(&format!("m.w = {state}[] parameter(1)")), "{made}");
        }
    }

    #[test]
    fn a_narrow_parameter_is_rounded_from_its_master() {
        let text = "ENTRY e { w = bf16[] parameter(0) ROOT loss = bf16[] multiply(w, w) }";
        assert_snapshot!(check("grad{wrt=w},optimizer{kind=sgd,lr=0.5,masters=true}", text), @"
        HloModule module_e, input_output_alias={ {1}: (0, {}, may-alias), {2}: (1, {}, may-alias) }

        ENTRY e {
          w = bf16[] parameter(0)
          loss = bf16[] multiply(w, w)
          constant.0 = bf16[] constant(1)
          constant.1 = bf16[] constant(2)
          multiply.2 = bf16[] multiply(w, constant.1)
          multiply.3 = bf16[] multiply(constant.0, multiply.2)
          master.w = f32[] parameter(1)
          convert.5 = f32[] convert(multiply.3)
          constant.6 = f32[] constant(0.5)
          multiply.7 = f32[] multiply(convert.5, constant.6)
          subtract.8 = f32[] subtract(master.w, multiply.7)
          convert.9 = bf16[] convert(subtract.8)
          ROOT tuple.10 = (bf16[], bf16[], f32[]) tuple(loss, convert.9, subtract.8)
        }
        ");
        let wide = check("grad{wrt=w},optimizer{masters=true}", LOSS);
        assert_eq!(wide, check("grad{wrt=w},optimizer", LOSS), "it has no master");
    }

    #[test]
    fn a_decay_of_1_forgets_nothing() {
        assert_snapshot!(check("grad,optimizer{kind=momentum,momentum=1}", LOSS), @"error: `momentum` of `optimizer` must be a number from 0 to below 1, got `1`; in pass `optimizer`");
        assert_snapshot!(check("grad,optimizer{kind=adam,beta2=-0.5}", LOSS), @"error: `beta2` of `optimizer` must be a number from 0 to below 1, got `-0.5`; in pass `optimizer`");
    }

    #[test]
    fn a_parameter_is_updated_once() {
        let twice = "ENTRY e { w = f32[] parameter(0) a = f32[] sine(w), frontend_attributes={phzc.grad=\"0\"} \
                     b = f32[] cosine(w), frontend_attributes={phzc.grad=\"0\"} ROOT r = (f32[], f32[]) tuple(a, b) }";
        assert_snapshot!(check("optimizer", twice), @"error: `w` has two gradients; in pass `optimizer`; add the losses up, and differentiate their sum");
        let none = twice.replace("\"0\"", "\"1\"");
        assert_snapshot!(check("optimizer", &none), @r#"error: the note `phzc.grad="1"` of `a` names no parameter; in pass `optimizer`"#);
        let done = format!("HloModule m, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}\n{LOSS_OF_W}");
        assert_snapshot!(check("grad,optimizer", &done), @"error: `w` is updated already; in pass `optimizer`; give the forward program, not a whole step");
    }

    #[test]
    fn numbers_that_are_none_and_programs_without_gradients_are_errors() {
        assert_snapshot!(check("grad,optimizer{lr=fast}", LOSS), @"error: `lr` of `optimizer` must be a number from 0 up, got `fast`; in pass `optimizer`");
        assert_snapshot!(check("optimizer", LOSS), @"error: no result is a gradient; in pass `optimizer`; run `grad` first: `--passes grad,optimizer`");
    }
}
