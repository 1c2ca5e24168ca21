//! A network in the making: parameters with names, layers unrolled or in a loop, precision, dropout.

use phzc_ir::attr::Value;
use phzc_ir::build::Builder;
use phzc_ir::{DType, Diagnostic, Dims, InstrId, Key, Module, Opcode, Payload, Result, Shape};

/// The `algorithm` of products whose operands are still to be made narrow ([`Settings::products`]), in XLA's
/// words. The gradient of a product keeps it.
pub const LAYER_PRODUCT: &str = "dot_any_f8_any_f8_f32";

/// How names of an adapter's weights begin.
const ADAPTER: &str = "lora_";
/// The weight of an adapter's result over its rank (Hu et al. 2021, section 4.1).
const ADAPTER_SCALE: f64 = 2.0;

/// What all families have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Samples of a step.
    pub batch: i64,
    /// The type that products are computed in; sums are `f32`.
    pub dtype: DType,
    /// The type of the operands of the layers' products with weights.
    pub products: DType,
    /// The type that trained parameters are stored in.
    pub weights: DType,
    /// Rank of the adapters beside the projections into attention, which then train alone (Hu et al. 2021,
    /// "LoRA"); 0: all weights train.
    pub adapters: i64,
    /// The share of activations that dropout drops; 0: none.
    pub dropout: f64,
    /// Whether equal layers are one loop over stacked parameters.
    pub scan: bool,
}

impl Settings {
    /// So many samples in 32-bit numbers; all weights train, layers are written one after the other.
    pub fn plain(batch: i64) -> Settings {
        let dtype = DType::F32;
        Settings { batch, dtype, products: dtype, weights: dtype, adapters: 0, dropout: 0.0, scan: false }
    }
}

/// A parameter of the program.
#[derive(Clone, Debug)]
struct Param {
    id: InstrId,
    kind: Kind,
    dims: Dims,
    name: String,
}

/// What a parameter is for; the program takes them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Weight,
    /// A weight that does not train.
    Frozen,
    State,
    Data,
}

/// The stacked parameters that the body of a loop over layers reads.
#[derive(Clone, Debug)]
struct Stacks {
    layer: InstrId,
    params: Vec<(String, InstrId)>,
}

/// A network in the making.
#[derive(Clone, Debug)]
pub struct Net {
    /// Where its instructions go.
    pub b: Builder,
    /// What it was asked for.
    pub settings: Settings,
    params: Vec<Param>,
    scope: String,
    /// Whether what is being built is part of a layer: neither embedding nor head.
    is_in_layer: bool,
    /// Whether a product of a layer was marked.
    has_layer_products: bool,
    stacks: Option<Stacks>,
    /// The state of the random numbers.
    rng: Option<InstrId>,
    /// Further results: new values of states.
    updates: Vec<InstrId>,
}

impl Net {
    /// Nothing yet.
    pub fn new(name: &str, settings: Settings) -> Net {
        let mut net = Net {
            b: Builder::new(name),
            settings,
            params: Vec::new(),
            scope: String::new(),
            is_in_layer: false,
            has_layer_products: false,
            stacks: None,
            rng: None,
            updates: Vec::new(),
        };
        if net.settings.dropout > 0.0 {
            net.rng = Some(net.declare("batch.rng", Kind::Data, DType::U64, &[2]));
        }
        net
    }

    /// Errors if what the settings ask of the layers applies to none: adapters, narrow products.
    pub fn check(&self) -> Result<()> {
        let trains = self.params.iter().any(|param| param.kind == Kind::Weight);
        if self.settings.adapters > 0 && !trains {
            let error =
                Diagnostic::error("this family has no projections into attention to put adapters beside");
            return Err(error.help("leave `--adapters` out"));
        }
        if self.settings.products != self.settings.dtype && !self.has_layer_products {
            let error = Diagnostic::error("this family has no layers whose products could be narrow");
            return Err(error.help("leave `--products` out"));
        }
        Ok(())
    }

    /// The program that returns the loss and the states' new values.
    ///
    /// Parameters are numbered weights first, then states, then data.
    pub fn finish(self, loss: InstrId) -> Module {
        let Net { mut b, mut params, updates, .. } = self;
        params.sort_by_key(|param| param.kind);
        for (number, param) in params.iter().enumerate() {
            b.instr_mut(param.id).payload = Payload::Parameter(number as u32);
        }
        let outputs: Vec<InstrId> = std::iter::once(loss).chain(updates).collect();
        let root = b.tuple(&outputs);
        b.finish(root)
    }

    fn declare(&mut self, name: &str, kind: Kind, dtype: DType, dims: &[i64]) -> InstrId {
        let id = self.b.parameter(name, Shape::array(dtype, dims));
        self.params.push(Param { id, kind, dims: Dims::from_slice(dims), name: name.to_owned() });
        id
    }

    /// An input: `batch.<name>`.
    pub fn data(&mut self, name: &str, dtype: DType, dims: &[i64]) -> InstrId {
        self.declare(&format!("batch.{name}"), Kind::Data, dtype, dims)
    }

    /// A trained parameter in `f32`.
    pub fn master(&mut self, name: &str, dims: &[i64]) -> InstrId {
        let stored = self.stored(name, dims);
        self.b.convert(stored, DType::F32)
    }

    /// A weight as it is stored: `params.<scope>.<name>`, or `frozen.…` beside adapters.
    fn stored(&mut self, name: &str, dims: &[i64]) -> InstrId {
        let is_frozen = self.settings.adapters > 0 && !name.starts_with(ADAPTER);
        let (group, kind) = if is_frozen { ("frozen", Kind::Frozen) } else { ("params", Kind::Weight) };
        let full = format!("{group}.{}{name}", self.scope);
        let Some(stacks) = self.stacks.clone() else {
            return self.declare(&full, kind, self.settings.weights, dims);
        };
        let found = stacks.params.iter().find(|(known, _)| *known == full);
        let stack = found.expect("the trial run of the layer declared it").1;
        self.b.unstack(stack, stacks.layer)
    }

    /// A trained parameter in the type that products are computed in.
    pub fn weight(&mut self, name: &str, dims: &[i64]) -> InstrId {
        let stored = self.stored(name, dims);
        self.b.convert(stored, self.settings.dtype)
    }

    /// A product of activations with a weight: inside of layers its operands become narrow ones, if that was
    /// asked for.
    pub fn weighted(&mut self, product: InstrId) -> InstrId {
        if self.is_in_layer && self.settings.products != self.settings.dtype {
            self.has_layer_products = true;
            self.b.instr_mut(product).set_attr(Key::Algorithm, Value::Word(LAYER_PRODUCT.into()));
        }
        product
    }

    /// `y`, the result of a projection of `x` into attention, and what an adapter of low rank adds to it.
    pub fn adapted(&mut self, x: InstrId, y: InstrId) -> InstrId {
        let rank = self.settings.adapters;
        if rank == 0 {
            return y;
        }
        let last = self.b.rank(x) - 1;
        let (inner, out) = (self.b.dims(x)[last], self.b.dims(y)[last]);
        let (down, up) = (self.weight("lora_a", &[inner, rank]), self.weight("lora_b", &[rank, out]));
        let low = self.b.dot((x, down), (&[], &[]), (&[last], &[0]));
        let added = self.b.dot((low, up), (&[], &[]), (&[last], &[0]));
        let added = self.b.scale(added, ADAPTER_SCALE);
        self.b.add(y, added)
    }

    /// A value that a step hands to the next, `state.<scope>.<name>`, with a function to its new value.
    pub fn state(&mut self, name: &str, dims: &[i64], new: impl FnOnce(&mut Builder, InstrId) -> InstrId) {
        let name = format!("state.{}{name}", self.scope);
        let old = self.declare(&name, Kind::State, DType::F32, dims);
        let new = new(&mut self.b, old);
        self.updates.push(new);
    }

    /// What `build` makes, its parameters' names under `name`.
    pub fn scoped<T>(&mut self, name: &str, build: impl FnOnce(&mut Net) -> T) -> T {
        let outer = self.scope.len();
        self.scope.push_str(name);
        self.scope.push('.');
        let made = build(self);
        self.scope.truncate(outer);
        made
    }

    /// `n` equal layers: each makes a new `x`, and may read `fixed`, which stay.
    ///
    /// Unrolled they are `layers.0.`, `layers.1.`, …; as a loop their parameters are stacks along a first
    /// dimension.
    pub fn layers(
        &mut self,
        n: i64,
        x: &[InstrId],
        fixed: &[InstrId],
        layer: impl Fn(&mut Net, &[InstrId], &[InstrId]) -> Vec<InstrId>,
    ) -> Vec<InstrId> {
        self.is_in_layer = true;
        let made = match self.settings.scan && n > 1 {
            true => self.scan(n, x, fixed, layer),
            false => (0..n).fold(x.to_vec(), |x, number| {
                self.scoped(&format!("layers.{number}"), |net| layer(net, &x, fixed))
            }),
        };
        self.is_in_layer = false;
        made
    }

    fn scan(
        &mut self,
        n: i64,
        x: &[InstrId],
        fixed: &[InstrId],
        layer: impl Fn(&mut Net, &[InstrId], &[InstrId]) -> Vec<InstrId>,
    ) -> Vec<InstrId> {
        let layer = |net: &mut Net, x: &[InstrId], fixed: &[InstrId]| {
            net.scoped("layers", |net| layer(net, x, fixed))
        };
        let mut trial = self.clone();
        layer(&mut trial, x, fixed);
        let new = trial.params.split_off(self.params.len());
        let stacked = |param: &Param| -> Vec<i64> { std::iter::once(n).chain(param.dims.clone()).collect() };
        let stacks: Vec<(String, InstrId)> = new
            .iter()
            .map(|param| {
                let dtype = trial.b.dtype(param.id);
                (param.name.clone(), self.declare(&param.name, param.kind, dtype, &stacked(param)))
            })
            .collect();
        let mut state: Vec<InstrId> = x.to_vec();
        state.extend(self.rng);
        state.extend(fixed.iter().copied().chain(stacks.iter().map(|&(_, id)| id)));
        let open = self.b.begin_loop(n, &state);
        let (x, rest) = open.values.split_at(x.len());
        let (rng, rest) = rest.split_at(usize::from(self.rng.is_some()));
        let (fixed, inner) = rest.split_at(fixed.len());
        let params = stacks.iter().map(|(name, _)| name.clone()).zip(inner.iter().copied()).collect();
        self.stacks = Some(Stacks { layer: open.trip, params });
        self.rng = rng.first().copied();
        let mut made = layer(self, x, fixed);
        let n_x = made.len();
        made.extend(self.rng);
        made.extend(rest);
        self.stacks = None;
        let mut left = self.b.end_loop(open.clone(), &made);
        self.rng = self.rng.map(|_| left[n_x]);
        left.truncate(n_x);
        left
    }

    /// Each element zero with the settings' probability, the others scaled up to keep the mean.
    pub fn dropout(&mut self, x: InstrId) -> InstrId {
        let Some(state) = self.rng else { return x };
        let share = self.settings.dropout;
        let (dims, n) = (self.b.dims(x), Shape::array(DType::U64, &[2]));
        let bits = Shape::Tuple(vec![n, Shape::array(DType::U32, &dims)]);
        let algorithm = phzc_ir::build::word(phzc_ir::Key::Algorithm, "rng_three_fry");
        let both = self.b.shaped(Opcode::RngBitGenerator, &[state], bits, vec![algorithm]);
        self.rng = Some(self.b.element(both, 0));
        let bits = self.b.element(both, 1);
        let limit = self.b.full_like(bits, (share * 2f64.powi(32)).floor());
        let kept = self.b.compare(bits, limit, "GE");
        let (scaled, zero) = (self.b.scale(x, 1.0 / (1.0 - share)), self.b.full_like(x, 0.0));
        self.b.select(kept, scaled, zero)
    }
}
