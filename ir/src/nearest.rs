//! "Did you mean …?": the known word that differs least from the one that was typed.

/// The nearest of `known` to `word`, if it is near enough to be what was meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 60 {
        return None;
    }
    let distance = |name: &'a str| (edit_distance(word, name), name.len().abs_diff(word.len()), name);
    let (n_edits, _, near) = known.into_iter().map(distance).min()?;
    (2 * n_edits <= near.len()).then_some(near)
}

/// The least number of bytes to insert, delete or replace to turn `a` into `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_is_near() {
        let known = ["fuse", "shard", "place"];
        assert_eq!(nearest("shrad", known), Some("shard"));
        assert_eq!(nearest("sharp", known), Some("shard"));
        assert_eq!(nearest("fus", known), Some("fuse"));
        assert_eq!(nearest("frobnicate", known), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn counts_edits() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("h100", "h100"), 0);
    }

    #[test]
    fn edits_are_counted() {
        let of = |a: &str, b: &str| [edit_distance(a, b), edit_distance(b, a)];
        assert_eq!(
            [of("", "abc"), of("abc", "abc"), of("ab", "ba"), of("abcd", "acd")],
            [[3, 3], [0, 0], [2, 2], [1, 1]]
        );
        assert_eq!(of("kitten", "sitting"), [3, 3]);
    }
}
