//! One layer (and the head) as operators with the shapes that one device has.

mod experts;
mod latent;

use super::job::{Job, Model, Recompute};
use crate::gemm::dtype_bytes;
use crate::{Attention, Collective, Gemm};

/// Over which devices a collective runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Those that share each product.
    Tensor,
    /// Those that share each sequence.
    Context,
    /// Those that share the experts.
    Expert,
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// A product with a weight, in the type of the layers' products; backward has two more.
    Linear(Gemm),
    /// The same of operands that the kernel before has converted to the products' type.
    Converted(Gemm),
    /// A product with a weight of an adapter, which learns where others are frozen.
    Adapter(Gemm),
    /// A product with a weight in the general type: the head, a router.
    WideLinear(Gemm),
    /// A product of two activations.
    Product(Gemm),
    /// Attention in one kernel.
    Attention(Attention),
    /// Memory traffic of kernels that compute little: bytes forward and backward.
    Stream(f64, f64),
    /// A collective forward and one backward, with their bytes.
    Collect(Group, [Option<(Collective, f64)>; 2]),
}

/// One operator of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Operator {
    /// What it does.
    pub work: Work,
    /// Bytes that it keeps for its backward part.
    pub saved_bytes: f64,
    /// Whether it lies between the products that project in attention.
    pub is_core: bool,
}

impl Operator {
    fn new(work: Work, saved_bytes: f64) -> Operator {
        Operator { work, saved_bytes, is_core: false }
    }

    /// Operations of the forward part's products.
    pub fn flops(&self) -> f64 {
        match self.work {
            Work::Linear(gemm)
            | Work::Converted(gemm)
            | Work::Adapter(gemm)
            | Work::WideLinear(gemm)
            | Work::Product(gemm) => gemm.flops(),
            Work::Attention(attention) => attention.flops(),
            Work::Stream(..) | Work::Collect(..) => 0.0,
        }
    }
}

/// Bytes of an element of what is computed; masks have one byte.
fn element(job: &Job) -> f64 {
    dtype_bytes(job.stack.dtype)
}

/// Bytes of an element that a product keeps; frozen weights have no gradient that asks for it.
fn kept(job: &Job) -> f64 {
    if job.model.is_frozen() {
        return 0.0;
    }
    if job.stack.keeps_narrow { element(job).min(dtype_bytes(job.stack.product_dtype)) } else { element(job) }
}

/// The operators of one layer for one microbatch on one device; with a decoder, of one of its layers too.
pub(super) fn layer(job: &Job) -> Vec<Operator> {
    let mut list = block(job);
    if job.model.decoder_seq > 0.0 {
        let decoder = decoder(job);
        list.extend(block(&decoder));
        list.extend(cross(job, &decoder));
    }
    list
}

/// The same run as the decoder sees it.
fn decoder(job: &Job) -> Job {
    let model = Model { seq: job.model.decoder_seq, decoder_seq: 0.0, is_causal: true, ..job.model.clone() };
    Job { model, ..job.clone() }
}

/// Attention of the decoder's positions to the encoder's: queries from the one, keys and values from the
/// other.
fn cross(job: &Job, decoder: &Job) -> Vec<Operator> {
    let (width, kv_width) = widths(job);
    let hidden = job.model.hidden;
    let linear = |tokens, columns, sums, kept_elements| {
        Operator::new(Work::Linear(Gemm::new(tokens, columns, sums)), kept(job) * kept_elements)
    };
    let mut list = vec![norm(decoder)];
    list.extend(gather(decoder));
    list.push(linear(decoder.tokens(), width, hidden, decoder.outer_tokens() * hidden));
    list.push(linear(job.tokens(), 2.0 * kv_width, hidden, job.outer_tokens() * hidden));
    let bytes = element(job) * (decoder.tokens() * width + 2.0 * job.tokens() * kv_width);
    let seen = Job { model: Model { is_causal: false, ..decoder.model.clone() }, ..decoder.clone() };
    let core = attend(&seen, job.model.seq, bytes);
    list.extend(core.into_iter().map(|operator| Operator { is_core: true, ..operator }));
    list.push(linear(decoder.tokens(), hidden, width, decoder.tokens() * width));
    list.extend(scatter(decoder));
    list.push(residual(decoder));
    list
}

/// One layer of one stack.
fn block(job: &Job) -> Vec<Operator> {
    let mut list = Vec::new();
    list.push(norm(job));
    list.extend(gather(job));
    list.extend(attention(job));
    list.extend(scatter(job));
    list.push(residual(job));
    list.push(norm(job));
    if job.model.experts > 1.0 {
        list.extend(experts::experts(job));
    } else {
        list.extend(gathered_feed_forward(job, job.model.ffn));
    }
    list.push(residual(job));
    list
}

/// Logits and loss.
pub(super) fn head(job: &Job) -> Vec<Operator> {
    if job.model.decoder_seq > 0.0 {
        return head(&decoder(job));
    }
    let (tokens, hidden) = (job.tokens(), job.model.hidden);
    let columns = job.model.vocab / job.layout.tensor as f64;
    if columns == 0.0 {
        return Vec::new();
    }
    let product =
        Operator::new(Work::WideLinear(Gemm::new(tokens, columns, hidden)), element(job) * tokens * hidden);
    // Logits in 32 bits: written, read for maximum, sum and result; backward written and converted.
    let logits = tokens * columns;
    let loss = Operator::new(Work::Stream(16.0 * logits, 10.0 * logits), 4.0 * logits);
    [norm(job)].into_iter().chain(gather(job)).chain([product, loss]).collect()
}

fn norm(job: &Job) -> Operator {
    let elements = job.outer_tokens() * job.model.hidden;
    // Forward: read, write. Backward: read both, write one, and once more for the weight's gradient.
    Operator::new(
        Work::Stream(2.0 * element(job) * elements, 4.0 * element(job) * elements),
        element(job) * elements,
    )
}

fn residual(job: &Job) -> Operator {
    let elements = job.outer_tokens() * job.model.hidden;
    let mask = if job.model.has_dropout { elements } else { 0.0 };
    // Forward: two read, one written. Backward: the gradient is read, masked, and added to that of the other
    // branch.
    let traffic = 3.0 * element(job) * elements;
    Operator::new(Work::Stream(traffic + mask, traffic + mask), mask)
}

/// What stands before column-split products: with sequence parallelism an all-gather, else the sum of
/// backward.
fn gather(job: &Job) -> Option<Operator> {
    let bytes = element(job) * job.tokens() * job.model.hidden;
    let works = match job.layout.has_sequence {
        true => [Some((Collective::AllGather, bytes)), Some((Collective::ReduceScatter, bytes))],
        false => [None, Some((Collective::AllReduce, bytes))],
    };
    tensor_collective(job, works)
}

/// What stands after row-split products.
fn scatter(job: &Job) -> Option<Operator> {
    let bytes = element(job) * job.tokens() * job.model.hidden;
    let works = match job.layout.has_sequence {
        true => [Some((Collective::ReduceScatter, bytes)), Some((Collective::AllGather, bytes))],
        false => [Some((Collective::AllReduce, bytes)), None],
    };
    tensor_collective(job, works)
}

fn tensor_collective(job: &Job, works: [Option<(Collective, f64)>; 2]) -> Option<Operator> {
    (job.layout.tensor > 1).then(|| Operator::new(Work::Collect(Group::Tensor, works), 0.0))
}

fn attention(job: &Job) -> Vec<Operator> {
    if let Some(latent) = &job.model.latent {
        return latent::attention(job, latent);
    }
    let model = &job.model;
    let (tokens, (width, kv_width)) = (job.tokens(), widths(job));
    let into = Gemm::new(tokens, width + 2.0 * kv_width, model.hidden);
    // The output of the norm before, shared out where the sequence is.
    let mut list = vec![Operator::new(Work::Linear(into), kept(job) * job.outer_tokens() * model.hidden)];
    list.extend(adapters(job, &into));
    list.extend(
        core(job, width, kv_width).into_iter().map(|operator| Operator { is_core: true, ..operator }),
    );
    let out = Gemm::new(tokens, model.hidden, width);
    list.push(Operator::new(Work::Linear(out), kept(job) * tokens * width));
    list
}

/// Width of a device's queries, and of its keys.
fn widths(job: &Job) -> (f64, f64) {
    let (model, tensor) = (&job.model, job.layout.tensor as f64);
    // Fewer key and value heads than devices: each has a copy.
    (model.heads * model.head_dim / tensor, (model.kv_heads / tensor).max(1.0) * model.head_dim)
}

/// The two products of low rank beside a frozen one, and the sum of both results.
fn adapters(job: &Job, beside: &Gemm) -> Vec<Operator> {
    if !job.model.is_frozen() {
        return Vec::new();
    }
    let (rank, results) = (job.model.adapter_rank, element(job) * beside.m * beside.n);
    vec![
        Operator::new(Work::Adapter(Gemm { n: rank, ..*beside }), element(job) * beside.m * beside.k),
        Operator::new(Work::Adapter(Gemm { k: rank, ..*beside }), element(job) * beside.m * rank),
        Operator::new(Work::Stream(3.0 * results, 0.0), 0.0),
    ]
}

/// What lies between the projections: rotation, context exchange, scores.
fn core(job: &Job, width: f64, kv_width: f64) -> Vec<Operator> {
    let tokens = job.tokens();
    let qkv_bytes = element(job) * tokens * (width + 2.0 * kv_width);
    let mut list = Vec::new();
    if job.model.is_gated {
        let rotated = 2.0 * element(job) * tokens * (width + kv_width);
        list.push(Operator::new(Work::Stream(rotated, rotated), 0.0));
    }
    list.extend(exchange(job, kv_width));
    list.extend(attend(job, job.model.seq, qkv_bytes));
    list
}

/// Keys and values of the devices that share a sequence.
fn exchange(job: &Job, kv_width: f64) -> Option<Operator> {
    let bytes = 2.0 * element(job) * job.tokens() * kv_width * job.layout.context as f64;
    let works = [Some((Collective::AllGather, bytes)), Some((Collective::ReduceScatter, 2.0 * bytes))];
    (job.layout.context > 1).then(|| Operator::new(Work::Collect(Group::Context, works), 0.0))
}

/// Attention of a job's positions to so many keys, in one kernel or with scores in memory.
fn attend(job: &Job, keys: f64, qkv_bytes: f64) -> Vec<Operator> {
    if job.stack.fuses_attention { vec![fused(job, keys, qkv_bytes)] } else { scores(job, keys, qkv_bytes) }
}

fn fused(job: &Job, keys: f64, qkv_bytes: f64) -> Operator {
    let model = &job.model;
    let tensor = job.layout.tensor as f64;
    let attention = Attention {
        batch: job.layout.micro_batch as f64,
        heads: model.heads / tensor,
        kv_heads: (model.kv_heads / tensor).max(1.0),
        q_len: model.seq / job.layout.context as f64,
        kv_len: keys,
        head_dim: model.head_dim,
        is_causal: model.is_causal,
        is_portable: job.stack.has_portable_attention,
    };
    // The result is kept by the product that reads it; the sums of the softmax are 4 bytes a query and head.
    let sums = 4.0 * attention.batch * attention.heads * attention.q_len;
    Operator::new(Work::Attention(attention), qkv_bytes + sums)
}

/// Attention with scores in memory: product, masked softmax, dropout, product.
fn scores(job: &Job, keys: f64, qkv_bytes: f64) -> Vec<Operator> {
    let model = &job.model;
    let batch = job.layout.micro_batch as f64 * model.heads / job.layout.tensor as f64;
    let queries = model.seq / job.layout.context as f64;
    let elements = batch * queries * keys;
    let product = |m, n, k| Work::Product(Gemm { batch, m, n, k });
    let mut list = vec![Operator::new(product(queries, keys, model.head_dim), qkv_bytes)];
    let pass = Work::Stream(2.0 * element(job) * elements, 3.0 * element(job) * elements);
    list.push(Operator::new(pass, element(job) * elements));
    list.extend((1..softmax_kernels(batch)).map(|_| Operator::new(pass, 0.0)));
    if model.has_dropout {
        let traffic = (2.0 * element(job) + 1.0) * elements;
        list.push(Operator::new(Work::Stream(traffic, traffic), (element(job) + 1.0) * elements));
    }
    list.push(Operator::new(product(queries, model.head_dim, keys), 0.0));
    // The result's heads are put side by side; backward the gradients of queries, keys and values too.
    let result = element(job) * job.tokens() * model.heads * model.head_dim / job.layout.tensor as f64;
    list.push(Operator::new(Work::Stream(2.0 * result, 2.0 * (result + qkv_bytes)), 0.0));
    list
}

/// A feed-forward part that all positions go through, with the collectives of tensor parallelism around it.
fn gathered_feed_forward(job: &Job, inner: f64) -> Vec<Operator> {
    let rows = Gemm::new(job.tokens(), 0.0, 0.0);
    let products = feed_forward(job, rows, inner, job.outer_tokens());
    gather(job).into_iter().chain(products).chain(scatter(job)).collect()
}

/// Kernels of a masked softmax over so many matrices of scores: Megatron's own takes four at a time, other
/// numbers are widened, scaled, masked, normalized and narrowed one by one (Megatron-LM `fused_softmax.py`,
/// `is_kernel_available`).
fn softmax_kernels(n_matrices: f64) -> usize {
    if n_matrices % 4.0 == 0.0 { 1 } else { 5 }
}

/// The products of a feed-forward part of that inner width, or of this device's experts: `rows.batch` of them
/// with `rows.m` tokens each, of which `kept_tokens` are kept for the backward part.
fn feed_forward(job: &Job, rows: Gemm, inner: f64, kept_tokens: f64) -> Vec<Operator> {
    let model = &job.model;
    let inner = inner / job.layout.tensor as f64;
    let tokens = rows.batch * rows.m;
    let n_in = if model.is_gated { 2.0 } else { 1.0 };
    let up = Gemm { n: n_in * inner, k: model.hidden, ..rows };
    let down = Gemm { n: model.hidden, k: inner, ..rows };
    let elements = element(job) * tokens * inner;
    let input = kept(job) * model.hidden * kept_tokens;
    // A function of the gate that is a kernel of its own keeps its result for the product of both.
    let gated = if model.is_gated && !job.stack.fuses_gate { elements } else { 0.0 };
    vec![
        Operator::new(Work::Linear(up), input),
        Operator::new(
            Work::Stream((n_in + 1.0) * elements, (2.0 * n_in + 1.0) * elements),
            n_in * elements + gated,
        ),
        Operator::new(Work::Linear(down), kept(job) * tokens * inner),
    ]
}

/// Bytes that one layer keeps of one microbatch until its backward part.
pub(super) fn saved_bytes(job: &Job, operators: &[Operator]) -> f64 {
    let sum = |keeps: fn(&Operator) -> bool| -> f64 {
        operators.iter().filter(|operator| keeps(operator)).map(|operator| operator.saved_bytes).sum()
    };
    let input_bytes = element(job) * job.outer_tokens() * job.model.hidden;
    match job.recompute {
        Recompute::Nothing => sum(|_| true),
        Recompute::Attention if job.stack.fuses_attention => sum(|_| true),
        // Queries, keys and values stay; what the scores keep goes.
        Recompute::Attention => sum(|operator| {
            !operator.is_core || matches!(operator.work, Work::Product(_) | Work::Attention(_))
        }),
        Recompute::Light { .. } => sum(|_| true) - light_bytes(job),
        Recompute::Products => input_bytes + selected_bytes(job),
        Recompute::Layers(part) => (1.0 - part) * sum(|_| true) + part * input_bytes,
    }
}

/// What is computed again of norms' results and of the function inside the feed-forward part.
fn light_bytes(job: &Job) -> f64 {
    let Recompute::Light { norms, activation } = job.recompute else { return 0.0 };
    let (model, tokens) = (&job.model, job.tokens());
    let has_experts = model.experts > 1.0;
    let normed = kept(job) * job.outer_tokens() * model.hidden * if has_experts { 1.0 } else { 2.0 };
    let inner = if has_experts { model.top_k * model.expert_ffn + model.shared_ffn } else { model.ffn };
    let results = tokens * inner / job.layout.tensor as f64;
    let gated = if model.is_gated && !job.stack.fuses_gate { element(job) } else { 0.0 };
    let part = |is_again: bool, bytes: f64| if is_again { bytes } else { 0.0 };
    part(norms, normed) + part(activation, (kept(job) + gated) * results)
}

/// What selective checkpoints keep beside the input: queries, values, attention's result and its sums, every
/// other product of the feed-forward part (torchtitan `parallelize_llama.py`: every second product is
/// computed again, attention never).
fn selected_bytes(job: &Job) -> f64 {
    let (model, tensor) = (&job.model, job.layout.tensor as f64);
    let kv_width = (model.kv_heads / tensor).max(1.0) * model.head_dim;
    let heads = model.heads / tensor;
    let attention = job.tokens() * (element(job) * (2.0 * heads * model.head_dim + kv_width) + 4.0 * heads);
    let inner = if model.experts > 1.0 { model.expert_ffn } else { model.ffn };
    let visits = if model.experts > 1.0 { model.top_k } else { 1.0 };
    // With a gate the products are queries, keys, values, output, up, gate, down: the last one is kept too.
    let down = if model.is_gated { job.outer_tokens() * model.hidden } else { 0.0 };
    attention + element(job) * visits * (job.tokens() * inner / tensor + down)
}

#[cfg(test)]
mod tests;
