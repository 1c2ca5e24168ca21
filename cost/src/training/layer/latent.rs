//! Multi-head latent attention as it is trained: narrow projections, norms, wide projections, attention with
//! keys and values of all heads (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1).

use super::{Operator, Work, attend, element, exchange, kept};
use crate::Gemm;
use crate::training::job::{Job, Latent, Model};

/// From the norm before attention to the projection of its result.
pub(super) fn attention(job: &Job, latent: &Latent) -> Vec<Operator> {
    let (model, tensor) = (&job.model, job.layout.tensor as f64);
    let (tokens, heads) = (job.tokens(), job.model.heads / tensor);
    let (queries, values) = (heads * model.head_dim, heads * latent.value_dim);
    let keys = heads * (model.head_dim - latent.rotated);
    let linear = |columns: f64, sums: f64, kept_elements: f64| {
        Operator::new(Work::Linear(Gemm::new(tokens, columns, sums)), kept(job) * kept_elements)
    };
    let input = job.outer_tokens() * model.hidden;
    let mut list = Vec::new();
    if latent.query_rank > 0.0 {
        list.push(linear(latent.query_rank, model.hidden, input));
        list.push(narrow_norm(job, latent.query_rank));
        list.push(linear(queries, latent.query_rank, tokens * latent.query_rank));
    } else {
        list.push(linear(queries, model.hidden, input));
    }
    // The input is kept once.
    list.push(linear(latent.kv_rank + latent.rotated, model.hidden, 0.0));
    list.push(narrow_norm(job, latent.kv_rank));
    list.push(linear(keys + values, latent.kv_rank, tokens * latent.kv_rank));
    // The rotated part is put beside that of every head, for queries and keys.
    let joined = 2.0 * 2.0 * element(job) * tokens * queries;
    list.push(Operator::new(Work::Stream(joined, joined), 0.0));
    list.extend(attended(job, latent, tokens * (2.0 * queries + values)));
    list.push(linear(model.hidden, values, tokens * values));
    list
}

fn narrow_norm(job: &Job, width: f64) -> Operator {
    let bytes = element(job) * job.tokens() * width;
    Operator::new(Work::Stream(2.0 * bytes, 4.0 * bytes), bytes)
}

/// Attention of heads whose values are narrower than their keys: products of the mean width.
fn attended(job: &Job, latent: &Latent, kept_elements: f64) -> Vec<Operator> {
    let head_dim = 0.5 * (job.model.head_dim + latent.value_dim);
    let model = Model { head_dim, kv_heads: job.model.heads, latent: None, ..job.model.clone() };
    let seen = Job { model, ..job.clone() };
    let list = attend(&seen, job.model.seq, element(job) * kept_elements);
    let exchanged = exchange(&seen, job.model.heads * head_dim / job.layout.tensor as f64);
    exchanged.into_iter().chain(list).map(|operator| Operator { is_core: true, ..operator }).collect()
}
