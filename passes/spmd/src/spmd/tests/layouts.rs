//! Random legal layouts: every op gets random splits of its loops, every operand is moved to what that needs.

use super::Random;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{
    Attr, CompId, FactorId, FactorKind, Instr, InstrId, Key, Layout, MAX_AXES, Mesh, Module, Opcode, Payload,
    Rule, Shape, Sharding, TensorMap, Value, View,
};
use phzc_passes::derive::{loops, planned_comps};
use std::collections::BTreeMap;

/// What gives an op its factor rule.
pub type RuleOf = fn(&View) -> Rule;

/// Writes layouts, and the moves that they take, into a module whose calls are inlined.
pub fn annotate(module: &mut Module, mesh: &Mesh, rule: RuleOf, random: &mut Random) {
    let carried = carried(module, mesh, random);
    for comp in planned_comps(module) {
        let annotator = Annotator {
            module,
            comp,
            mesh,
            rule,
            random,
            carried: &carried,
            out: Vec::new(),
            layouts: Vec::new(),
            map: Vec::new(),
        };
        let (instrs, root) = annotator.run();
        let target = &mut module.comps[comp.index()];
        (target.instrs, target.root) = (instrs, root);
    }
    module.set_attr("num_partitions", mesh.n_devices().to_string());
    module.set_note("phzc.mesh", &mesh.to_string());
}

/// What loops carry: layouts by the computations that they run.
type Carried = BTreeMap<CompId, Vec<Layout>>;

fn carried(module: &Module, mesh: &Mesh, random: &mut Random) -> Carried {
    let mut found = Carried::new();
    for instr in module.comps.iter().flat_map(|comp| &comp.instrs) {
        let comps = control_comps(instr);
        if !comps.is_empty() {
            let leaves = instr.shape.leaves();
            let layouts: Vec<Layout> = leaves.iter().map(|leaf| any_layout(leaf, mesh, random)).collect();
            found.extend(comps.into_iter().map(|comp| (comp, layouts.clone())));
        }
    }
    found
}

fn any_layout(shape: &Shape, mesh: &Mesh, random: &mut Random) -> Layout {
    let Some(array) = shape.as_array().filter(|array| array.rank() > 0) else { return Layout::REPLICATED };
    (0..mesh.n_axes()).fold(Layout::REPLICATED, |layout, axis| {
        let next = layout.with(axis, Some(random.below(array.rank())));
        if random.below(3) > 0 && next.divides(&array.dims, mesh) { next } else { layout }
    })
}

struct Annotator<'a> {
    module: &'a Module,
    comp: CompId,
    mesh: &'a Mesh,
    rule: RuleOf,
    random: &'a mut Random,
    carried: &'a Carried,
    out: Vec<Instr>,
    /// Layouts of the leaves of each new instruction.
    layouts: Vec<Vec<Layout>>,
    map: Vec<InstrId>,
}

impl Annotator<'_> {
    fn run(mut self) -> (Vec<Instr>, InstrId) {
        let module = self.module;
        let comp = module.comp(self.comp);
        for (id, instr) in comp.iter() {
            let mut made = instr.clone();
            let operands: Vec<InstrId> = instr.operands.iter().map(|it| self.map[it.index()]).collect();
            made.operands = operands.into();
            let layouts = self.choose(id, &mut made);
            let new = self.push(made, layouts);
            self.map.push(new);
        }
        (self.out, self.map[comp.root.index()])
    }

    fn push(&mut self, mut instr: Instr, layouts: Vec<Layout>) -> InstrId {
        let leaves = instr.shape.leaves();
        let tiling = |(shape, layout): (&&Shape, &Layout)| {
            layout.to_tiling(shape.as_array().map_or(0, |array| array.rank()), self.mesh)
        };
        let mut tilings: Vec<_> = leaves.iter().zip(&layouts).map(tiling).collect();
        let is_tuple = matches!(instr.shape, Shape::Tuple(_));
        drop(leaves);
        let sharding = if is_tuple { Sharding::Tuple(tilings) } else { Sharding::Single(tilings.remove(0)) };
        instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
        self.out.push(instr);
        self.layouts.push(layouts);
        InstrId::new(self.out.len() - 1)
    }

    /// The layouts of an instruction's leaves; its operands are moved to what it needs.
    fn choose(&mut self, id: InstrId, instr: &mut Instr) -> Vec<Layout> {
        let of_operands = |it: &Self, instr: &Instr| -> Vec<Layout> {
            instr.operands.iter().flat_map(|operand| it.layouts[operand.index()].clone()).collect()
        };
        match instr.op {
            Opcode::Parameter => match self.carried.get(&self.comp) {
                Some(layouts) => layouts.clone(),
                None => {
                    let leaves = instr.shape.leaves();
                    leaves.iter().map(|leaf| any_layout(leaf, self.mesh, self.random)).collect()
                }
            },
            Opcode::Tuple => {
                if let Some(needs) = self.tuple_needs(id) {
                    self.move_operands(instr, &needs);
                }
                of_operands(self, instr)
            }
            Opcode::While => of_operands(self, instr),
            Opcode::GetTupleElement => {
                let index = instr.int(Key::Index).unwrap_or(0) as usize;
                vec![self.layouts[instr.operands[0].index()][index]]
            }
            _ => self.op(id, instr),
        }
    }

    /// The layouts in which a loop wants its tuple: at its start, or from its body.
    fn tuple_needs(&self, id: InstrId) -> Option<Vec<Layout>> {
        let comp = self.module.comp(self.comp);
        let reader = comp.instrs.iter().find(|instr| instr.op == Opcode::While && instr.operands[0] == id);
        let read = reader.and_then(|instr| self.carried.get(&instr.comp(Key::Body)?));
        let made =
            self.carried.get(&self.comp).filter(|_| comp.root == id && comp.root().op == Opcode::Tuple);
        read.or(made).cloned()
    }

    fn move_operands(&mut self, instr: &mut Instr, needs: &[Layout]) {
        for (operand, &need) in instr.operands.iter_mut().zip(needs) {
            if self.layouts[operand.index()] != [need] {
                *operand = self.movement(*operand, need);
            }
        }
    }

    fn movement(&mut self, value: InstrId, to: Layout) -> InstrId {
        let source = &self.out[value.index()];
        let target = Attr { key: Key::CustomCallTarget, value: Value::Str("Sharding".into()) };
        let instr = Instr {
            name: format!("{}.m{}", source.name, self.out.len()).into(),
            op: Opcode::CustomCall,
            operands: [value].into_iter().collect(),
            shape: source.shape.clone(),
            payload: Payload::None,
            attrs: vec![target],
            span: source.span,
        };
        self.push(instr, vec![to])
    }

    fn op(&mut self, id: InstrId, instr: &mut Instr) -> Vec<Layout> {
        let view = View::new(self.module, self.comp, id);
        let rule = (self.rule)(&view);
        let operands: Vec<Vec<i64>> =
            (0..view.n_operands()).map(|at| dims(&view.operand(at).shape)).collect();
        let results: Vec<Vec<i64>> = instr.shape.leaves().iter().map(|leaf| dims(leaf)).collect();
        for _ in 0..6 {
            let split = self.random_split(&rule);
            let mut needs: Vec<Layout> = rule.operands.iter().map(|map| natural(map, &split)).collect();
            let mut makes: Vec<Layout> = rule.results.iter().map(|map| natural(map, &split)).collect();
            self.disturb(&mut needs, &mut makes, &results);
            let divides = |layouts: &[Layout], sizes: &[Vec<i64>]| {
                layouts.iter().zip(sizes).all(|(layout, dims)| layout.divides(dims, self.mesh))
            };
            let given: Vec<Option<Layout>> = needs.iter().copied().map(Some).collect();
            if divides(&needs, &operands)
                && divides(&makes, &results)
                && loops(&rule, &given, (&makes, 0), self.mesh).problems.is_empty()
            {
                self.move_operands(instr, &needs);
                return makes;
            }
        }
        self.move_operands(instr, &vec![Layout::REPLICATED; operands.len()]);
        vec![Layout::REPLICATED; results.len()]
    }

    /// Per axis a loop that may be split, or none.
    fn random_split(&mut self, rule: &Rule) -> [Option<FactorId>; MAX_AXES] {
        let mut split = [None; MAX_AXES];
        let is_free = |id: &FactorId| {
            let factor = rule.factors[*id as usize];
            factor.size > 1 && matches!(factor.kind, FactorKind::Pass | FactorKind::Reduce(_))
        };
        let free: Vec<FactorId> = (0..rule.factors.len() as FactorId).filter(is_free).collect();
        for split in split.iter_mut().take(self.mesh.n_axes()) {
            if !free.is_empty() && self.random.below(4) > 0 {
                *split = Some(self.random.pick(&free));
            }
        }
        split
    }

    /// Now and then an operand is whole where the op splits it, or a partial result is scattered at once.
    fn disturb(&mut self, needs: &mut [Layout], makes: &mut [Layout], results: &[Vec<i64>]) {
        let axis = self.random.below(self.mesh.n_axes().max(1));
        match self.random.below(6) {
            0 if !needs.is_empty() => {
                let index = self.random.below(needs.len());
                needs[index] = needs[index].with(axis, None);
            }
            1 if makes.len() == 1 && !results[0].is_empty() && makes[0].dim_of(axis).is_none() => {
                makes[0] = makes[0].with(axis, Some(self.random.below(results[0].len())));
            }
            _ => {}
        }
    }
}

fn dims(shape: &Shape) -> Vec<i64> {
    shape.as_array().map_or_else(Vec::new, |array| array.dims.to_vec())
}

fn natural(map: &TensorMap, split: &[Option<FactorId>; MAX_AXES]) -> Layout {
    (0..MAX_AXES).fold(Layout::REPLICATED, |layout, axis| {
        let dim = split[axis].and_then(|id| map.iter().position(|dim| dim.contains(&id)));
        layout.with(axis, dim)
    })
}
