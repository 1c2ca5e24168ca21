//! Exact minimisation by eliminating one node after another, with a lower bound where a table would be too large.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::copies::Copies;
use super::descend::Moves;
use super::kernel::{Factor, eliminate};
use super::plan::{Bucket, Plan};
use super::reduce::{Reduced, reduce};
use super::{Infeasible, Limits, Problem, hubs};

/// The cheapest choice found.
pub(super) struct Found {
    /// The option of each node.
    pub option: Vec<u32>,
    /// No choice costs less.
    pub bound: f64,
    /// Whether the bound is the optimum, and the choice reaches it.
    pub exact: bool,
    /// Table entries evaluated.
    pub evaluations: u64,
}

/// Minimises the cost of a problem, without regard to memory.
pub(super) fn minimise(problem: &Problem, limits: &Limits) -> Result<Found, Infeasible> {
    let reduced = reduce(problem, None)?;
    let plan = Plan::new(&reduced, limits, None);
    let mut found = match hubs::narrow(&reduced, &plan, limits) {
        Some(narrow) => narrow.minimise(limits)?,
        None => run(&reduced, &plan)?,
    };
    found.option = reduced.expand(&found.option);
    Ok(found)
}

/// The same by elimination alone.
pub(super) fn minimise_at_once(problem: &Problem, limits: &Limits) -> Result<Found, Infeasible> {
    let reduced = reduce(problem, None)?;
    let mut found = run(&reduced, &Plan::new(&reduced, limits, None))?;
    found.option = reduced.expand(&found.option);
    Ok(found)
}

/// The choice among surviving options that a plan finds.
fn run(reduced: &Reduced, plan: &Plan) -> Result<Found, Infeasible> {
    let mut run = Run::new(reduced, plan);
    (0..plan.steps.len()).for_each(|step| run.eliminate(step));
    if run.bound == f64::INFINITY {
        return Err(Infeasible { least_memory: f64::INFINITY, proved: true });
    }
    let mut option = vec![0; plan.order.len()];
    plan.order.iter().zip(run.decode()).for_each(|(&node, o)| option[node as usize] = o);
    let mut evaluations = plan.evaluations;
    if !plan.exact {
        evaluations += Moves::new(reduced).descend(f64::INFINITY, &mut option);
    }
    Ok(Found { option, bound: run.bound, exact: plan.exact, evaluations })
}

/// For each option of the node that the plan eliminates last: no choice that takes it costs less than this.
pub(super) fn least_per_option(reduced: &Reduced, plan: &Plan) -> Vec<f64> {
    let mut run = Run::new(reduced, plan);
    let last = plan.steps.len() - 1;
    (0..last).for_each(|step| run.eliminate(step));
    let inputs = || plan.steps[last].iter().flat_map(|bucket| &bucket.inputs).map(|&table| run.factor(table));
    let least =
        |(x, own): (usize, &f64)| own + inputs().map(|input| input.values[x]).sum::<f64>() + run.bound;
    run.own[last].iter().enumerate().map(least).collect()
}

/// One elimination under way.
struct Run<'p> {
    plan: &'p Plan,
    own: Vec<&'p [f64]>,
    /// Which results are copies of which.
    copies: Copies,
    /// Results of buckets, dropped once read.
    results: Vec<Rc<Vec<f64>>>,
    /// Per step, the option that the minimum takes, for each entry of the result; empty for a step that was split.
    first: Vec<Rc<Vec<u16>>>,
    /// Results with their options that later ones will be copies of.
    awaited: BTreeMap<u32, Made>,
    bound: f64,
}

/// A result and the options that make it.
type Made = (Rc<Vec<f64>>, Rc<Vec<u16>>);

impl<'p> Run<'p> {
    fn new(reduced: &'p Reduced, plan: &'p Plan) -> Self {
        let own = plan.order.iter().map(|&node| &*reduced.cost[node as usize]).collect();
        Self {
            plan,
            own,
            copies: Copies::find(reduced, plan),
            results: Vec::new(),
            first: Vec::new(),
            awaited: BTreeMap::new(),
            bound: 0.0,
        }
    }

    fn eliminate(&mut self, step: usize) {
        let decodes = self.decodes_by_table(step);
        self.first.push(Rc::default());
        for (index, bucket) in self.plan.steps[step].iter().enumerate() {
            let (least, first) = self.result(step, index);
            self.bound += if bucket.scope.is_empty() { least[0] } else { 0.0 };
            self.results.push(least);
            if decodes {
                self.first[step] = first;
                self.forget(bucket);
            }
        }
    }

    /// What a step makes of one of its buckets.
    fn result(&mut self, step: usize, index: usize) -> Made {
        let number = self.results.len() as u32;
        let first = self.copies.first[number as usize];
        if first == number {
            let made = self.make(step, index);
            if self.copies.n_copies[number as usize] > 0 {
                self.awaited.insert(number, made.clone());
            }
            return made;
        }
        self.copies.n_copies[first as usize] -= 1;
        let is_last = self.copies.n_copies[first as usize] == 0;
        let made = if is_last { self.awaited.remove(&first) } else { self.awaited.get(&first).cloned() };
        made.expect("a result stays until its last copy")
    }

    fn make(&self, step: usize, index: usize) -> Made {
        let bucket = &self.plan.steps[step][index];
        let free = vec![0.0; self.own[step].len()];
        let own = if index == 0 { self.own[step] } else { &free };
        let inputs: Vec<Factor> = bucket.inputs.iter().map(|&table| self.factor(table)).collect();
        let (least, first) = eliminate(own, &inputs, &bucket.scope, &self.plan.sizes);
        (Rc::new(least), Rc::new(first))
    }

    /// Whether the minimising option is remembered; else the step's inputs are, and decoding reads them again.
    fn decodes_by_table(&self, step: usize) -> bool {
        self.plan.steps[step].len() == 1 && self.own[step].len() <= usize::from(u16::MAX)
    }

    fn forget(&mut self, bucket: &Bucket) {
        for &table in &bucket.inputs {
            if let Some(result) = (table as usize).checked_sub(self.plan.tables.len()) {
                self.results[result] = Rc::default();
            }
        }
    }

    fn factor(&self, table: u32) -> Factor<'_> {
        match self.plan.tables.get(table as usize) {
            Some(input) => Factor { scope: &input.scope, values: &input.table.values },
            None => {
                let result = table as usize - self.plan.tables.len();
                Factor { scope: &self.plan.results[result], values: &self.results[result] }
            }
        }
    }

    /// The option per step: the last node eliminated chooses first.
    fn decode(&self) -> Vec<u32> {
        let mut option = vec![0; self.plan.steps.len()];
        for step in (0..option.len()).rev() {
            option[step] = match self.decodes_by_table(step) {
                true => {
                    let scope = &self.plan.steps[step][0].scope;
                    u32::from(self.first[step][Factor::index(scope, &self.plan.sizes, &option)])
                }
                false => self.cheapest(step, &mut option),
            };
        }
        option
    }

    fn cheapest(&self, step: usize, option: &mut [u32]) -> u32 {
        let mut best = (f64::INFINITY, 0);
        for (x, own) in (0..).zip(self.own[step]) {
            option[step] = x;
            let inputs = self.plan.steps[step]
                .iter()
                .flat_map(|bucket| &bucket.inputs)
                .map(|&table| self.factor(table));
            let cost = |input: Factor| input.values[Factor::index(input.scope, &self.plan.sizes, option)];
            let total = own + inputs.map(cost).sum::<f64>();
            best = if total < best.0 { (total, x) } else { best };
        }
        best.1
    }
}
