//! Layouts on a named mesh: which mesh axes split which dimension of a tensor.

use crate::axes::is_axis_name;
use crate::diag::{Diagnostic, Result};
use crate::sharding::{Devices, LastDims, Tiles, Tiling, TilingKind};
use smallvec::SmallVec;
use std::fmt;

/// The most axes that a mesh may have.
pub const MAX_AXES: usize = 4;

/// A logical mesh of devices, row-major: the last axis' devices are neighbours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mesh {
    /// Devices per axis, each at least 2; no axis for a single device.
    pub sizes: SmallVec<[i64; MAX_AXES]>,
    /// Names of the axes; none where they have the usual ones.
    pub names: Vec<Box<str>>,
}

/// The usual names of axes, in order.
pub const AXIS_NAMES: [&str; MAX_AXES] = ["x", "y", "z", "w"];

/// A layout: per mesh axis the dimension that it splits, or none.
///
/// Several axes may split one dimension; the lower axis is then the major one. A layout in which
/// no axis splits anything is the replicated one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    /// Per axis: 0 for replicated, else 1 + the dimension.
    slots: [u8; MAX_AXES],
}

impl Mesh {
    /// A mesh of these axis sizes; axes of one device are left out.
    pub fn new(sizes: &[i64]) -> Mesh {
        let sizes = sizes.iter().copied().filter(|&size| size > 1).take(MAX_AXES).collect();
        Mesh { sizes, names: Vec::new() }
    }

    /// Number of axes.
    pub fn n_axes(&self) -> usize {
        self.sizes.len()
    }

    /// Number of devices.
    pub fn n_devices(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// Distance between the device ids of neighbours on an axis.
    pub fn stride(&self, axis: usize) -> i64 {
        self.sizes[axis + 1..].iter().product()
    }

    /// A device's coordinate on an axis.
    pub fn coordinate(&self, device: i64, axis: usize) -> i64 {
        device / self.stride(axis) % self.sizes[axis]
    }

    /// Reads `x=2,y=4`, the text that [`Mesh`] prints.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Mesh> {
        let bad =
            |what: &str| Diagnostic::error(format!("`{text}` is no mesh: {what}")).help("write `x=2,y=4`");
        let (mut mesh, mut names): (Mesh, Vec<&str>) = Default::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, size) = part.split_once('=').ok_or_else(|| bad("each axis is `name=size`"))?;
            if names.len() >= MAX_AXES || names.contains(&name) || !is_axis_name(name) {
                return Err(bad("it has up to four axes, each with a name of its own"));
            }
            let size: i64 = size.parse().map_err(|_| bad("a size is an integer"))?;
            if !(2..=1 << 20).contains(&size) {
                return Err(bad("an axis has 2 to 1048576 devices"));
            }
            mesh.sizes.push(size);
            names.push(name);
        }
        Ok(mesh.with_names(&names))
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> =
            self.axis_names().zip(&self.sizes).map(|(name, size)| format!("{name}={size}")).collect();
        f.write_str(&axes.join(","))
    }
}

impl Layout {
    /// Every axis replicated.
    pub const REPLICATED: Layout = Layout { slots: [0; MAX_AXES] };

    /// The dimension that `axis` splits.
    pub fn dim_of(self, axis: usize) -> Option<usize> {
        (self.slots[axis] as usize).checked_sub(1)
    }

    /// The same layout with `axis` splitting `dim`, or nothing.
    #[must_use]
    pub fn with(mut self, axis: usize, dim: Option<usize>) -> Layout {
        self.slots[axis] = dim.map_or(0, |dim| dim as u8 + 1);
        self
    }

    /// The axes that split `dim`, major to minor.
    pub fn axes_of(self, dim: usize) -> impl Iterator<Item = usize> {
        (0..MAX_AXES).filter(move |&axis| self.dim_of(axis) == Some(dim))
    }

    /// Whether no axis splits anything.
    pub fn is_replicated(self) -> bool {
        self == Layout::REPLICATED
    }

    /// Number of tiles of `dim`.
    pub fn tiles(self, dim: usize, mesh: &Mesh) -> i64 {
        self.axes_of(dim).map(|axis| mesh.sizes[axis]).product()
    }

    /// Number of distinct tiles of the whole tensor.
    pub fn n_tiles(self, mesh: &Mesh) -> i64 {
        (0..mesh.n_axes()).filter(|&axis| self.slots[axis] != 0).map(|axis| mesh.sizes[axis]).product()
    }

    /// The tile of `dim` that a device holds.
    pub fn tile_of(self, device: i64, dim: usize, mesh: &Mesh) -> i64 {
        self.axes_of(dim).fold(0, |tile, axis| tile * mesh.sizes[axis] + mesh.coordinate(device, axis))
    }

    /// Whether every split dimension of a tensor divides evenly.
    pub fn divides(self, dims: &[i64], mesh: &Mesh) -> bool {
        (0..mesh.n_axes()).all(|axis| match self.dim_of(axis) {
            Some(dim) => dim < dims.len() && dims[dim] % self.tiles(dim, mesh) == 0,
            None => true,
        })
    }

    /// The layout as HLO text (V2 form).
    pub fn to_tiling(self, rank: usize, mesh: &Mesh) -> Tiling {
        if self.is_replicated() {
            return Tiling::replicated();
        }
        let mut dims: SmallVec<[i64; 6]> = (0..rank).map(|dim| self.tiles(dim, mesh)).collect();
        let mut order: SmallVec<[usize; MAX_AXES]> = (0..rank).flat_map(|dim| self.axes_of(dim)).collect();
        let unused: SmallVec<[usize; MAX_AXES]> =
            (0..mesh.n_axes()).filter(|&axis| self.slots[axis] == 0).collect();
        order.extend_from_slice(&unused);
        let last = if unused.is_empty() {
            LastDims::None
        } else {
            dims.push(unused.iter().map(|&axis| mesh.sizes[axis]).product());
            LastDims::Replicate
        };
        Tiling { kind: TilingKind::Tiled(Tiles { dims, devices: iota(&order, mesh), last }), suffix: None }
    }

    /// The layout that this text means on `mesh`; `None` when it is not one of mesh axes
    /// (another device order, a single device, manual, …).
    pub fn from_tiling(tiling: &Tiling, rank: usize, mesh: &Mesh) -> Option<Layout> {
        let tiles = match &tiling.kind {
            TilingKind::Replicated => return Some(Layout::REPLICATED),
            TilingKind::Tiled(tiles) => tiles,
            _ => return None,
        };
        if tiles.dims.len() < rank || tiles.n_devices()? != mesh.n_devices() {
            return None;
        }
        let wanted = tiles.device_ids();
        candidates(&tiles.dims[..rank], mesh).into_iter().find(|layout| {
            match layout.to_tiling(rank, mesh).kind {
                TilingKind::Tiled(own) => same_tiles(&own, &wanted, tiles),
                _ => false,
            }
        })
    }
}

/// `order`'s axes as an iota device list, written in its shortest form.
fn iota(order: &[usize], mesh: &Mesh) -> Devices {
    if order.is_sorted() {
        return Devices::Iota {
            reshape: SmallVec::from_slice(&[mesh.n_devices()]),
            perm: SmallVec::from_slice(&[0]),
        };
    }
    let perm = order.iter().map(|&axis| axis as u8).collect();
    Devices::Iota { reshape: SmallVec::from_slice(&mesh.sizes), perm }
}

/// Layouts whose tile counts are `tiles` (few: a mesh has at most four axes).
fn candidates(tiles: &[i64], mesh: &Mesh) -> Vec<Layout> {
    let mut found = vec![Layout::REPLICATED];
    for axis in 0..mesh.n_axes() {
        let split = |layout: &Layout| -> Vec<Layout> {
            (0..tiles.len()).map(|dim| layout.with(axis, Some(dim))).collect()
        };
        let more: Vec<Layout> = found.iter().flat_map(split).collect();
        found.extend(more);
    }
    found.retain(|layout| tiles.iter().enumerate().all(|(dim, &count)| layout.tiles(dim, mesh) == count));
    found
}

/// Whether every tile is on the same set of devices in both.
fn same_tiles(own: &Tiles, wanted_ids: &[i64], wanted: &Tiles) -> bool {
    let own_ids = own.device_ids();
    let group = |tiles: &Tiles| -> usize {
        let rank = tiles.dims.len() - tiles.n_last();
        tiles.dims[rank..].iter().product::<i64>().max(1) as usize
    };
    let (a, b) = (group(own), group(wanted));
    a == b
        && own_ids.len() == wanted_ids.len()
        && own_ids.chunks(a).zip(wanted_ids.chunks(b)).all(|(a, b)| same_set(a, b))
}

fn same_set(a: &[i64], b: &[i64]) -> bool {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_unstable();
    b.sort_unstable();
    a == b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(slots: [u8; MAX_AXES]) -> Layout {
        Layout { slots }
    }

    #[test]
    fn prints_the_table_of_the_reference() {
        let mesh = Mesh::new(&[2, 4]);
        let text = |slots| layout(slots).to_tiling(2, &mesh).to_string();
        assert_eq!(text([1, 2, 0, 0]), "{devices=[2,4]<=[8]}");
        assert_eq!(text([2, 1, 0, 0]), "{devices=[4,2]<=[2,4]T(1,0)}");
        assert_eq!(text([0, 1, 0, 0]), "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
        assert_eq!(text([1, 0, 0, 0]), "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
        assert_eq!(text([1, 1, 0, 0]), "{devices=[8,1]<=[8]}");
        assert_eq!(text([0, 0, 0, 0]), "{replicated}");
    }

    #[test]
    fn reads_back_every_layout_it_prints() {
        for mesh in [Mesh::new(&[8]), Mesh::new(&[2, 4]), Mesh::new(&[2, 2, 2])] {
            let all = (0..4u32.pow(mesh.n_axes() as u32)).map(|code| {
                (0..mesh.n_axes()).fold(Layout::REPLICATED, |layout, axis| {
                    layout.with(axis, (code as usize >> (2 * axis) & 3).checked_sub(1))
                })
            });
            for layout in all {
                assert_eq!(Layout::from_tiling(&layout.to_tiling(3, &mesh), 3, &mesh), Some(layout));
            }
        }
    }

    #[test]
    fn a_tensor_has_the_tiles_of_the_axes_that_split_it() {
        let mesh = Mesh::new(&[2, 3, 5]);
        assert_eq!(layout([1, 0, 2, 0]).n_tiles(&mesh), 10);
        assert_eq!(Layout::REPLICATED.n_tiles(&mesh), 1);
        assert_eq!([0, 1].map(|dim| layout([1, 1, 2, 0]).tiles(dim, &mesh)), [6, 5]);
        // Device 29 is the last along each axis: 1, 2, 4.
        assert_eq!([0, 1].map(|dim| layout([1, 1, 2, 0]).tile_of(29, dim, &mesh)), [5, 4]);
    }

    #[test]
    fn a_layout_divides_dimensions_that_are_there_and_multiples() {
        let mesh = Mesh::new(&[2, 3]);
        let divides = |dims: &[i64]| layout([1, 1, 0, 0]).divides(dims, &mesh);
        assert_eq!([divides(&[12, 5]), divides(&[4, 5]), divides(&[])], [true, false, false]);
    }

    #[test]
    fn text_of_other_devices_or_fewer_dimensions_is_no_layout() {
        let mesh = Mesh::new(&[2, 4]);
        let read = |text: &str, rank| {
            let module = crate::parse(&format!("e {{ ROOT x = f32[8,8] parameter(0), sharding={text} }}"))
                .expect("legal");
            let sharding = module.entry().root().sharding().expect("given");
            Layout::from_tiling(sharding.leaves(1)[0], rank, &mesh)
        };
        assert_eq!(read("{devices=[2,4]<=[8]}", 2), Some(layout([1, 2, 0, 0])));
        assert_eq!(read("{devices=[2,2]<=[4]}", 2), None);
        assert_eq!(read("{devices=[2,4]<=[8]}", 3), None);
        assert_eq!(read("{devices=[2,4]0,1,2,3,4,5,7,6}", 2), None);
        assert_eq!(
            read("{devices=[2,1,4]3,2,1,0,4,5,6,7 last_tile_dim_replicate}", 2),
            Some(layout([1, 0, 0, 0]))
        );
        assert_eq!(read("{maximal device=0}", 2), None);
    }
}
