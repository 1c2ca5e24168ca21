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
    let sent = bytes * if job.stack.sends_once { visited(job) / model.top_k } else { 1.0 };
    let exchanged = Some((Collective::AllToAll, sent));
    let exchange = (job.layout.expert > 1)
        .then(|| Operator::new(Work::Collect(Group::Expert, [exchanged, exchanged]), 0.0));
    let n_local = (model.experts / job.layout.expert as f64).max(1.0);
    let rows = Gemm { batch: n_local, m: job.tokens() * model.top_k / n_local, n: 0.0, k: 0.0 };
    let mut list = vec![Operator::new(Work::WideLinear(router), 0.0), permute(0.0)];
    list.extend(exchange);
    list.extend(gather(job));
    let mut products = feed_forward(job, rows, model.expert_ffn, rows.batch * rows.m);
    if job.stack.fuses_experts {
        products.iter_mut().for_each(fuse);
    }
    list.extend(products);
    list.extend(scatter(job));
    list.extend(exchange);
    list.push(permute(bytes));
    if model.shared_ffn > 0.0 {
        list.extend(gathered_feed_forward(job, model.shared_ffn));
    }
    list
}

/// Devices that a token visits when its experts are spread evenly: `n` devices less those that none of its
/// experts is on.
fn visited(job: &Job) -> f64 {
    let n = job.layout.expert as f64;
    n * (1.0 - (1.0 - 1.0 / n).powf(job.model.top_k))
}

/// What a kernel of products does on its way costs no traffic of its own.
fn fuse(operator: &mut Operator) {
    operator.work = match operator.work {
        Work::Stream(..) => Work::Stream(0.0, 0.0),
        Work::Linear(gemm) => Work::Converted(gemm),
        work => work,
    };
}
