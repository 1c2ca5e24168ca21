//! Spearman's rank correlation.

/// Of measured and predicted values: the correlation of their ranks, equal values sharing the mean of theirs.
/// `None` for fewer than two pairs, or where all values of a side are equal.
pub(crate) fn spearman(pairs: &[[f64; 2]]) -> Option<f64> {
    let [left, right] = [0, 1].map(|side| ranks(&pairs.iter().map(|pair| pair[side]).collect::<Vec<f64>>()));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let scale = (product(&left, &left) * product(&right, &right)).sqrt();
    (scale > 0.0).then(|| product(&left, &right) / scale)
}

/// Ranks from 1.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let shared = from as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|index| ranks[*index] = shared);
        from += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 0.5]), [3.5, 2.0, 3.5, 1.0]);
    }

    #[test]
    fn rank_correlation_asks_for_order_only() {
        assert_eq!(spearman(&[[1.0, 1.0], [2.0, 8.0], [3.0, 27.0]]), Some(1.0));
        assert_eq!(spearman(&[[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]]), Some(-1.0));
        // 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 0, 1, 1.
        assert_eq!(spearman(&[[1.0, 1.0], [2.0, 3.0], [3.0, 2.0]]), Some(0.5));
        assert_eq!((spearman(&[[1.0, 1.0]]), spearman(&[[1.0, 2.0], [1.0, 3.0]])), (None, None));
    }
}
