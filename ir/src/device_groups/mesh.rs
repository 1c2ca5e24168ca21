//! Groups of devices written as axes of a mesh: `mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'x'}`.

/// A piece of a mesh axis: `'x'`, or of an axis of size 8 the middle of 2x2x2, `'x':(2)2`.
struct Piece {
    axis: usize,
    /// Product of the pieces before it.
    before: usize,
    size: usize,
}

/// The groups: devices that differ along the named axes alone.
pub fn groups(text: &str) -> Option<Vec<Vec<usize>>> {
    let (axes, rest) = text.strip_prefix("mesh[")?.split_once(']')?;
    let axes: Vec<(&str, usize)> = axes.split(',').map(axis).collect::<Option<_>>()?;
    let (order, pieces) = rest.rsplit_once('{')?;
    let pieces = pieces.strip_suffix('}')?;
    let pieces = pieces.split(',').map(|text| piece(text.trim(), &axes)).collect::<Option<Vec<_>>>()?;
    let n: usize = axes.iter().map(|(_, size)| size).product();
    let devices = devices(order.trim_matches([',', ' ']), n)?;
    Some(gathered(&axes, &pieces, &devices))
}

/// `'x'=4`.
fn axis(text: &str) -> Option<(&str, usize)> {
    let (name, size) = text.split_once('=')?;
    let size = size.trim().parse().ok().filter(|size| (1..=1 << 20).contains(size))?;
    Some((name.trim(), size))
}

fn piece(text: &str, axes: &[(&str, usize)]) -> Option<Piece> {
    let (name, part) = text.split_once(':').map_or((text, None), |(name, part)| (name, Some(part)));
    let axis = axes.iter().position(|(known, _)| *known == name)?;
    let (before, size): (usize, usize) = match part {
        None => (1, axes[axis].1),
        Some(part) => {
            let (before, size) = part.strip_prefix('(')?.split_once(')')?;
            (before.parse().ok()?, size.parse().ok()?)
        }
    };
    let fits = before > 0 && size > 0 && axes[axis].1.is_multiple_of(before.checked_mul(size)?);
    fits.then_some(Piece { axis, before, size })
}

/// The mesh's devices, row-major: `device_ids=([2,4]T(1,0))`, or in order.
fn devices(text: &str, n: usize) -> Option<Vec<usize>> {
    let Some(list) = text.strip_prefix("device_ids=(") else {
        return text.is_empty().then(|| (0..n).collect());
    };
    let list = list.strip_suffix(')')?;
    let ids: Vec<usize> = match list.strip_prefix('[') {
        Some(_) => super::iota(list)?,
        None => list.split(',').map(|id| id.trim().parse().ok()).collect::<Option<_>>()?,
    };
    (ids.len() == n).then_some(ids)
}

fn gathered(axes: &[(&str, usize)], pieces: &[Piece], devices: &[usize]) -> Vec<Vec<usize>> {
    let mut stride = vec![1; axes.len()];
    for axis in (1..axes.len()).rev() {
        stride[axis - 1] = stride[axis] * axes[axis].1;
    }
    // The distance of neighbours along a piece.
    let step = |piece: &Piece| axes[piece.axis].1 / (piece.before * piece.size) * stride[piece.axis];
    let offsets = pieces.iter().fold(vec![0], |offsets, piece| {
        let along = |offset| (0..piece.size).map(move |digit| offset + digit * step(piece));
        offsets.into_iter().flat_map(along).collect()
    });
    let firsts = (0..devices.len())
        .filter(|at| pieces.iter().all(|piece| (at / step(piece)).is_multiple_of(piece.size)));
    firsts.map(|first| offsets.iter().map(|offset| devices[first + offset]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn devices_of_a_group_differ_along_its_axes() {
        assert_eq!(groups("mesh['x'=2,'y'=2] {'x'}"), Some(vec![vec![0, 2], vec![1, 3]]));
        assert_eq!(groups("mesh['x'=2,'y'=2] {'y','x'}"), Some(vec![vec![0, 2, 1, 3]]));
        let turned = "mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'x'}";
        assert_eq!(groups(turned), Some(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]));
        assert_eq!(groups("mesh['x'=8] {'x':(2)2}").map(|groups| groups[0].clone()), Some(vec![0, 2]));
        assert_eq!(groups("mesh['x'=2] {'z'}"), None);
        assert_eq!(groups("mesh['x'=4] {'x':(2)3}"), None);
    }
}
