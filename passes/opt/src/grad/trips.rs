//! How often the loops of a program run, and what they count with.

use phzc_ir::trip::{counter, own_trip_count};
use phzc_ir::{CompId, InstrId, Module, Opcode};
use std::collections::BTreeMap;

/// A loop: the computation that it is in, and its instruction there.
type Key = (CompId, InstrId);

/// A counter: element of the state, first value, step.
pub(super) type Counter = (usize, i64, i64);

/// The loops whose number of trips the program says; what the user says may be a guess.
#[derive(Debug, Default)]
pub(super) struct Loops(BTreeMap<Key, (i64, Option<Counter>)>);

impl Loops {
    pub fn of(module: &Module) -> Loops {
        let mut all = BTreeMap::new();
        for (index, comp) in module.comps.iter().enumerate() {
            for (id, _) in comp.iter().filter(|(_, instr)| instr.op == Opcode::While) {
                let key = (CompId::new(index), id);
                let n_trips = own_trip_count(module, key.0, id).and_then(|n| i64::try_from(n).ok());
                let counter = counter(module, key.0, id).and_then(|it| {
                    Some((it.element, i64::try_from(it.start).ok()?, i64::try_from(it.step).ok()?))
                });
                all.extend(n_trips.map(|n| (key, (n, counter))));
            }
        }
        Loops(all)
    }

    pub fn n_trips(&self, key: Key) -> Option<i64> {
        self.0.get(&key).map(|it| it.0)
    }

    pub fn counter(&self, key: Key) -> Option<Counter> {
        self.0.get(&key)?.1
    }
}
