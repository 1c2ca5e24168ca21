//! Attention by scaled products of queries and keys.

use super::elementwise::select;
use super::movement::Parts;
use super::node::Cx;
use phzc_ir::{DType, Diagnostic, InstrId, Opcode, Result};

/// `scaled_dot_product_attention` in all forms: softmax(q·kᵀ·scale + mask)·v over arrays
/// `[…, heads, places, features]`; keys and values may have fewer heads, each for a group of queries.
pub(super) fn attention(cx: &mut Cx, mask: &str) -> Parts {
    if cx.float("dropout_p", 0.0)? != 0.0 {
        let error = Diagnostic::error("random numbers are not supported");
        return Err(error.help("export the model in inference mode, `model.eval()`, or without dropout"));
    }
    let [q, k, v] = ["query", "key", "value"].map(|name| cx.tensor(name));
    let (q, k, v) = (q?, k?, v?);
    let (groups, letters) = groups(cx, [q, k, v])?;
    let out = cx.b.dims(q);
    let scale = match cx.number("scale")? {
        Some(scale) => scale,
        None => 1.0 / (out[out.len() - 1] as f64).sqrt(),
    };
    let q = cx.b.scale(q, scale);
    let q = split(cx, q, groups)?;
    // Batch and heads, the queries of a head, places of queries and keys, features.
    let of = |group: &str, rest: &str| format!("{letters}{group}{rest}");
    let group = if groups > 1 { "g" } else { "" };
    let (to_q, to_k) = (of(group, "qd"), of("", "kd"));
    let scores = cx.b.einsum(&format!("{to_q},{to_k}->{}", of(group, "qk")), q, k);
    let scores = masked(cx, scores, mask, groups)?;
    let weights = cx.onnx("Softmax", &[scores.into()], Vec::new())?;
    let made = cx.b.einsum(&format!("{},{}->{}", of(group, "qk"), of("", "ke"), of(group, "qe")), weights, v);
    let mut dims = out.to_vec();
    let last = dims.len() - 1;
    dims[last] = cx.b.dims(v)[last];
    Ok(vec![Some(cx.plain().reshape(made, &dims)?)])
}

/// How many queries' heads share one of the keys', and a letter for each dimension before the places.
fn groups(cx: &Cx, [q, k, v]: [InstrId; 3]) -> Result<(i64, String)> {
    let wrong = || Diagnostic::error("the sizes of query, key and value do not fit");
    let [q, k, v] = [q, k, v].map(|x| (cx.b.dims(x), cx.b.dtype(x)));
    let rank = q.0.len();
    if !(2..=8).contains(&rank) || k.0.len() != rank || v.0.len() != rank || k.1 != q.1 || v.1 != q.1 {
        return Err(wrong());
    }
    let heads = rank.checked_sub(3);
    let groups = match heads {
        Some(at) if k.0[at] > 0 && q.0[at] % k.0[at] == 0 => q.0[at] / k.0[at],
        Some(_) => return Err(wrong()),
        None => 1,
    };
    let fits = q.0[rank - 1] == k.0[rank - 1]
        && k.0[..rank - 1] == v.0[..rank - 1]
        && q.0[..heads.unwrap_or(0)] == k.0[..heads.unwrap_or(0)];
    let letters = "stuvwxyz"[..rank - 2].to_owned();
    if fits { Ok((groups, letters)) } else { Err(wrong()) }
}

/// With the heads of queries, `[…, heads, places, …]`, as `[…, heads of keys, queries of each, places, …]`.
fn split(cx: &mut Cx, x: InstrId, groups: i64) -> Result<InstrId> {
    if groups == 1 {
        return Ok(x);
    }
    let dims = cx.b.dims(x);
    let at = dims.len() - 3;
    cx.plain().reshape(x, &[&dims[..at], &[dims[at] / groups, groups], &dims[at + 1..]].concat())
}

/// The scores with −∞ where a query must not see a key, or with what is added.
fn masked(cx: &mut Cx, scores: InstrId, mask: &str, groups: i64) -> Result<InstrId> {
    let dims = cx.b.dims(scores);
    let sizes = [dims[dims.len() - 2], dims[dims.len() - 1]];
    if cx.flag("is_causal", false) {
        let [query, key] = [0, 1].map(|along| cx.b.iota(DType::S32, &sizes, along));
        let sees = cx.b.compare(key, query, "LE");
        return hidden(cx, sees, scores);
    }
    let Some(mut mask) = cx.optional(mask)? else { return Ok(scores) };
    let own = cx.b.dims(mask);
    if groups > 1 && own.len() > 2 {
        // Masks that say something per head are split as the queries are; others hold for all.
        let at = own.len() - 3;
        mask = match own[at] {
            1 => cx.plain().reshape(mask, &[&own[..at], &[1, 1], &own[at + 1..]].concat())?,
            heads if heads % groups == 0 => split(cx, mask, groups)?,
            heads => return Err(Diagnostic::error(format!("a mask of {heads} heads"))),
        };
    }
    if cx.b.dtype(mask) == DType::Pred {
        return hidden(cx, mask, scores);
    }
    let mask = cx.b.convert(mask, cx.b.dtype(scores));
    cx.plain().binary(Opcode::Add, scores, mask)
}

/// −∞ where nothing is to be seen.
fn hidden(cx: &mut Cx, sees: InstrId, scores: InstrId) -> Result<InstrId> {
    let nothing = cx.b.scalar(cx.b.dtype(scores), f64::NEG_INFINITY);
    select(cx, sees, scores, nothing)
}
