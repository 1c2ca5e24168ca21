//! The devices as a mesh of axes as fine as they go, and what is numbered by device read as tiles along them.

use phzc_ir::Mesh;

/// A mesh whose axes have prime sizes: 8 devices in a row are three axes of 2.
#[derive(Clone, Debug)]
pub struct Axes {
    sizes: Vec<i64>,
}

impl Axes {
    /// The axes of a mesh, each taken apart.
    pub fn of(mesh: &Mesh) -> Axes {
        Axes { sizes: mesh.sizes.iter().flat_map(|&size| primes(size)).collect() }
    }

    /// Number of devices.
    pub fn n_devices(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }

    /// Number of axes.
    pub fn n_axes(&self) -> usize {
        self.sizes.len()
    }

    /// Devices along an axis.
    pub fn size(&self, axis: usize) -> i64 {
        self.sizes[axis]
    }

    /// Devices along several axes.
    pub fn n_along(&self, axes: &[usize]) -> i64 {
        axes.iter().map(|&axis| self.sizes[axis]).product()
    }

    fn stride(&self, axis: usize) -> i64 {
        self.sizes[axis + 1..].iter().product()
    }

    /// A device's place along an axis.
    pub fn coordinate(&self, device: usize, axis: usize) -> i64 {
        device as i64 / self.stride(axis) % self.sizes[axis]
    }

    /// The number of the tile that each device has, tiles being along these axes, major to minor.
    pub fn tiles(&self, axes: &[usize]) -> Vec<i64> {
        let tile =
            |device| axes.iter().fold(0, |at, &axis| at * self.sizes[axis] + self.coordinate(device, axis));
        (0..self.n_devices()).map(tile).collect()
    }

    /// The axes, major to minor, along which these are the numbers of tiles; `None` if there are none such.
    pub fn read(&self, tiles: &[i64]) -> Option<Vec<usize>> {
        let weight = |axis: usize| tiles[self.stride(axis) as usize] - tiles[0];
        let mut axes: Vec<usize> = (0..self.sizes.len()).filter(|&axis| weight(axis) != 0).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(weight(axis)));
        (self.tiles(&axes) == tiles).then_some(axes)
    }

    /// The axes along which the devices of each group lie, in the order in which they are listed.
    pub fn of_groups(&self, groups: &[Vec<usize>]) -> Option<Vec<usize>> {
        let mut place = vec![0; self.n_devices()];
        for group in groups {
            group.iter().enumerate().for_each(|(at, &device)| place[device] = at as i64);
        }
        let axes = self.read(&place)?;
        let rest: Vec<usize> = (0..self.sizes.len()).filter(|axis| !axes.contains(axis)).collect();
        let others = self.tiles(&rest);
        let is_one = |group: &Vec<usize>| group.iter().all(|&device| others[device] == others[group[0]]);
        let is_all = groups.iter().all(|group| group.len() as i64 == self.n_along(&axes) && is_one(group));
        is_all.then_some(axes)
    }
}

fn primes(mut n: i64) -> Vec<i64> {
    let mut found = Vec::new();
    for prime in 2.. {
        while n % prime == 0 {
            found.push(prime);
            n /= prime;
        }
        if n <= 1 {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_read_as_the_axes_that_number_them() {
        let axes = Axes::of(&Mesh::new(&[2, 4]));
        assert_eq!(axes.read(&[0, 1, 2, 3, 4, 5, 6, 7]), Some(vec![0, 1, 2]));
        assert_eq!(axes.read(&[0, 1, 2, 3, 0, 1, 2, 3]), Some(vec![1, 2]));
        // The minor axis counts more.
        assert_eq!(axes.read(&[0, 2, 0, 2, 1, 3, 1, 3]), Some(vec![2, 0]));
        assert_eq!(axes.read(&[0; 8]), Some(vec![]));
        assert_eq!(axes.read(&[1, 0, 1, 0, 1, 0, 1, 0]), None);
        assert_eq!(axes.read(&[0, 3, 0, 3, 0, 3, 0, 3]), None);
    }

    #[test]
    fn groups_are_read_in_their_order_and_cover_whole_axes() {
        let axes = Axes::of(&Mesh::new(&[8]));
        assert_eq!(axes.of_groups(&[vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]]), Some(vec![0]));
        assert_eq!(axes.of_groups(&[vec![0, 2, 1, 3], vec![4, 6, 5, 7]]), Some(vec![2, 1]));
        assert_eq!(axes.of_groups(&[vec![0, 3], vec![1, 2], vec![4, 7], vec![5, 6]]), None);
        let six = Axes::of(&Mesh::new(&[2, 3]));
        assert_eq!(six.of_groups(&[vec![0, 1, 2], vec![3, 4, 5]]), Some(vec![1]));
        assert_eq!(six.of_groups(&[vec![0, 1], vec![2, 3], vec![4, 5]]), None);
    }
}
