//! The feed-forward part of a layer with experts: router, exchange, experts, exchange, and the experts that
//! every token visits.

use super::{Group, Operator, Work, element, feed_forward, gather, gathered_feed_forward, scatter};
use crate::training::job::Job;
use crate::{Collective, Gemm};

pub(super) fn experts(job: &Job) -> Vec<Operator> {
    let model = &job.model;
    let copies = job.outer_tokens() * model.top_k;
    let bytes = element(job) * copies * model.hidden;
    let router = Gemm::new(job.outer_tokens(), model.experts, model.hidden);
    // Sorted by expert nothing is kept but the order; put back, each result is weighed by its router's.
    let permute = |saved_bytes| Operator::new(Work::Stream(2.0 * bytes, 2.0 * bytes), saved_bytes);
    let exchanged = Some((Collective::AllToAll, bytes));
    let exchange = (job.layout.expert > 1)
        .then(|| Operator::new(Work::Collect(Group::Expert, [exchanged, exchanged]), 0.0));
    let n_local = (model.experts / job.layout.expert as f64).max(1.0);
    let rows = Gemm { batch: n_local, m: job.tokens() * model.top_k / n_local, n: 0.0, k: 0.0 };
    let mut list = vec![Operator::new(Work::WideLinear(router), 0.0), permute(0.0)];
    list.extend(exchange);
    // Those that arrive for several experts are sorted by expert, and back (Megatron-LM
    // `token_dispatcher.py`, `sort_chunks_by_idxs`), unless the dispatcher or the products do it.
    let sorted = (job.layout.expert > 1 && n_local > 1.0 && !job.stack.fuses_experts).then(|| permute(0.0));
    list.extend(sorted);
    list.extend(gather(job));
    let mut products = feed_forward(job, rows, model.expert_ffn, rows.batch * rows.m);
    if job.stack.fuses_experts {
        products.iter_mut().for_each(fuse);
    }
    list.extend(products);
    list.extend(scatter(job));
    list.extend(sorted);
    list.extend(exchange);
    list.push(permute(bytes));
    if model.shared_ffn > 0.0 {
        list.extend(gathered_feed_forward(job, model.shared_ffn));
    }
    list
}

/// What a kernel of products does on its way costs no traffic of its own.
fn fuse(operator: &mut Operator) {
    operator.work = match operator.work {
        Work::Stream(..) => Work::Stream(0.0, 0.0),
        Work::Linear(gemm) => Work::Converted(gemm),
        work => work,
    };
}
