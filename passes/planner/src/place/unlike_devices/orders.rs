//! Which kinds of devices stages may have, and in which order.

/// Of so many kinds all subsets and orders are looked at.
const MAX_ALL: usize = 4;

/// The orders of two and more of `n_kinds` kinds: all of them, or of many kinds those with most memory and
/// those with least, either first. Early stages hold the activations of more microbatches.
pub(super) fn of(n_kinds: usize, usable_bytes: impl Fn(usize) -> f64) -> Vec<Vec<usize>> {
    if n_kinds <= MAX_ALL {
        return permuted(n_kinds);
    }
    let mut kinds: Vec<usize> = (0..n_kinds).collect();
    kinds.sort_by(|&a, &b| usable_bytes(b).total_cmp(&usable_bytes(a)));
    let reversed: Vec<usize> = kinds.iter().rev().copied().collect();
    let parts = |kinds: &[usize]| -> Vec<Vec<usize>> { (2..=n_kinds).map(|n| kinds[..n].to_vec()).collect() };
    let mut found = [parts(&kinds), parts(&reversed)].concat();
    let backwards: Vec<Vec<usize>> =
        found.iter().map(|order| order.iter().rev().copied().collect()).collect();
    found.extend(backwards);
    found.sort();
    found.dedup();
    found
}

/// All orders of two and more of `n` kinds.
fn permuted(n: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    let mut found = Vec::new();
    for _ in 0..n {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            let rest: Vec<usize> = (0..n).filter(|kind| !order.contains(kind)).collect();
            rest.into_iter().map(move |kind| [&order[..], &[kind]].concat())
        };
        all = all.iter().flat_map(longer).collect();
        found.extend(all.iter().filter(|order| order.len() > 1).cloned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_few_kinds_all_orders_are_looked_at() {
        assert_eq!(of(2, |_| 1.0), [vec![0, 1], vec![1, 0]]);
        assert_eq!((of(3, |_| 1.0).len(), of(4, |_| 1.0).len()), (6 + 6, 12 + 24 + 24));
    }

    #[test]
    fn of_many_kinds_those_with_most_or_least_memory_come_first() {
        let orders = of(5, |kind| kind as f64);
        assert!(
            orders.contains(&vec![4, 3]) && orders.contains(&vec![0, 1, 2]) && orders.contains(&vec![3, 4])
        );
        assert_eq!(orders.len(), 4 * 4 - 2);
    }
}
