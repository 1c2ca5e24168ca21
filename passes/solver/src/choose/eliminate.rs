//! Exact minimisation by eliminating one node after another.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::copies::Copies;
use super::kernel::{Factor, eliminate};
use super::plan::Plan;
use super::reduce::{Reduced, reduce};
use super::{Infeasible, Limits, Problem, bound_and_prune};

/// Table entries whose evaluation takes less time than the search for what need not be evaluated.
pub(super) const QUICK: u64 = 1 << 22;

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
    let reduced = reduce(problem)?;
    let quick = Limits { max_evaluations: QUICK.min(limits.max_evaluations), ..limits.clone() };
    let mut found = match Plan::new(&reduced, &quick) {
        Some(plan) => eliminate_all(&reduced, &plan)?,
        None => bound_and_prune::minimise(&reduced, limits)?,
    };
    found.option = reduced.expand(&found.option);
    Ok(found)
}

/// The best choice among surviving options, by a plan.
pub(super) fn eliminate_all(reduced: &Reduced, plan: &Plan) -> Result<Found, Infeasible> {
    let mut run = Run::new(reduced, plan);
    (0..plan.steps.len()).for_each(|step| run.eliminate(step));
    if run.bound == f64::INFINITY {
        return Err(Infeasible { least_memory: f64::INFINITY, proved: true });
    }
    let mut option = vec![0; plan.order.len()];
    plan.order.iter().zip(run.decode()).for_each(|(&node, o)| option[node as usize] = o);
    Ok(Found { option, bound: run.bound, exact: true, evaluations: plan.evaluations })
}

/// One elimination under way.
struct Run<'p> {
    plan: &'p Plan,
    own: Vec<&'p [f64]>,
    /// Which results are copies of which.
    copies: Copies,
    /// The steps' results, dropped once read.
    results: Vec<Rc<Vec<f64>>>,
    /// Per step, the option that the minimum takes, for each entry of the result.
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
        let (least, first) = self.result(step);
        self.bound += if self.plan.steps[step].scope.is_empty() { least[0] } else { 0.0 };
        self.results.push(least);
        self.first.push(first);
        for &table in &self.plan.steps[step].inputs {
            if let Some(result) = (table as usize).checked_sub(self.plan.tables.len()) {
                self.results[result] = Rc::default();
            }
        }
    }

    /// What a step makes.
    fn result(&mut self, step: usize) -> Made {
        let first = self.copies.first[step];
        if first as usize == step {
            let made = self.make(step);
            if self.copies.n_copies[step] > 0 {
                self.awaited.insert(first, made.clone());
            }
            return made;
        }
        self.copies.n_copies[first as usize] -= 1;
        let is_last = self.copies.n_copies[first as usize] == 0;
        let made = if is_last { self.awaited.remove(&first) } else { self.awaited.get(&first).cloned() };
        made.expect("a result stays until its last copy")
    }

    fn make(&self, step: usize) -> Made {
        let it = &self.plan.steps[step];
        let inputs: Vec<Factor> = it.inputs.iter().map(|&table| self.factor(table)).collect();
        let (least, first) = eliminate(self.own[step], &inputs, &it.scope, &self.plan.sizes);
        (Rc::new(least), Rc::new(first))
    }

    fn factor(&self, table: u32) -> Factor<'_> {
        match self.plan.tables.get(table as usize) {
            Some(input) => Factor { scope: &input.scope, values: &input.values },
            None => {
                let result = table as usize - self.plan.tables.len();
                Factor { scope: &self.plan.steps[result].scope, values: &self.results[result] }
            }
        }
    }

    /// The option per step: the last node eliminated chooses first.
    fn decode(&self) -> Vec<u32> {
        let mut option = vec![0; self.plan.steps.len()];
        for step in (0..option.len()).rev() {
            let scope = &self.plan.steps[step].scope;
            option[step] = u32::from(self.first[step][Factor::index(scope, &self.plan.sizes, &option)]);
        }
        option
    }
}
