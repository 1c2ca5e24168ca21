//! The text form of layouts over devices: `sharding={devices=[2,4]<=[8]}` and its kin.
//!
//! Grammar and meaning: reference/cfp-alpa.md section 5 (XLA's hlo_parser.cc).

use smallvec::SmallVec;
use std::fmt;

/// The value of a `sharding` attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// For an array.
    Single(Tiling),
    /// For a tuple: one per leaf, in pre-order.
    Tuple(Vec<Tiling>),
}

/// How one array lies over the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// The layout proper.
    pub kind: TilingKind,
    /// `shard_as 1`, `metadata={…}`: kept as text.
    pub suffix: Option<Box<str>>,
}

/// The forms of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TilingKind {
    /// Every device holds all of it.
    Replicated,
    /// The program is already per device.
    Manual,
    /// To be chosen.
    Unknown,
    /// Every device holds a summand.
    Unreduced,
    /// One device holds all of it.
    Maximal(i64),
    /// Tiles over an array of devices.
    Tiled(Tiles),
    /// `mesh['x'=2], [{'x'}]` and its kin, kept as text.
    Named(Box<str>),
}

/// A tile array and the devices that hold the tiles, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Tiles per tensor dimension, then the trailing subgroup dimensions.
    pub dims: SmallVec<[i64; 6]>,
    /// Which device holds which tile.
    pub devices: Devices,
    /// What the trailing dimensions mean.
    pub last: LastDims,
}

/// A list of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// V1: listed.
    List(Vec<i64>),
    /// V2: `<=[reshape]T(perm)`; `perm` is the identity when absent.
    Iota {
        /// Shape that `0..n` is given.
        reshape: SmallVec<[i64; 4]>,
        /// Transposition applied to it.
        perm: SmallVec<[u8; 4]>,
    },
}

/// The meaning of the tile array's trailing dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastDims {
    /// There are none.
    None,
    /// One, replicated: `last_tile_dim_replicate`.
    Replicate,
    /// One per word: `last_tile_dims={manual, replicated}`.
    Types(Vec<Box<str>>),
}

impl Tiling {
    /// `{replicated}`.
    pub fn replicated() -> Tiling {
        Tiling { kind: TilingKind::Replicated, suffix: None }
    }
}

impl Sharding {
    /// The layouts as they are written.
    pub fn all(&self) -> &[Tiling] {
        match self {
            Sharding::Single(tiling) => std::slice::from_ref(tiling),
            Sharding::Tuple(tilings) => tilings,
        }
    }

    /// The layouts of the leaves; a single layout counts for all of `n_leaves`.
    pub fn leaves(&self, n_leaves: usize) -> Vec<&Tiling> {
        match self {
            Sharding::Single(tiling) => vec![tiling; n_leaves],
            Sharding::Tuple(tilings) => tilings.iter().collect(),
        }
    }
}

impl Tiles {
    /// Number of trailing dimensions that are no tensor dimensions.
    pub fn n_last(&self) -> usize {
        match &self.last {
            LastDims::None => 0,
            LastDims::Replicate => 1,
            LastDims::Types(types) => types.len(),
        }
    }

    /// Product of all tile dimensions; `None` when it overflows.
    pub fn n_devices(&self) -> Option<i64> {
        self.dims.iter().try_fold(1i64, |total, &dim| total.checked_mul(dim))
    }

    /// Device ids, row-major over the tile array.
    pub fn device_ids(&self) -> Vec<i64> {
        match &self.devices {
            Devices::List(list) => list.clone(),
            Devices::Iota { reshape, perm } => iota_ids(reshape, perm),
        }
    }
}

/// `0..n` reshaped to `reshape`, transposed by `perm`, flattened.
pub fn iota_ids(reshape: &[i64], perm: &[u8]) -> Vec<i64> {
    let mut strides = vec![1i64; reshape.len()];
    for dim in (1..reshape.len()).rev() {
        strides[dim - 1] = strides[dim] * reshape[dim];
    }
    let mut ids = vec![0i64];
    for &axis in perm {
        let (size, stride) = (reshape[axis as usize], strides[axis as usize]);
        ids = ids.iter().flat_map(|&id| (0..size).map(move |step| id + step * stride)).collect();
    }
    ids
}

impl fmt::Display for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sharding::Single(tiling) => tiling.fmt(f),
            Sharding::Tuple(tilings) => {
                f.write_str("{")?;
                write_list(f, tilings, ", ")?;
                f.write_str("}")
            }
        }
    }
}

impl fmt::Display for Tiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        match &self.kind {
            TilingKind::Replicated => f.write_str("replicated")?,
            TilingKind::Manual => f.write_str("manual")?,
            TilingKind::Unknown => f.write_str("unknown")?,
            TilingKind::Unreduced => f.write_str("unreduced")?,
            TilingKind::Maximal(device) => write!(f, "maximal device={device}")?,
            TilingKind::Tiled(tiles) => tiles.fmt(f)?,
            TilingKind::Named(text) => f.write_str(text)?,
        }
        if let Some(suffix) = &self.suffix {
            write!(f, " {suffix}")?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for Tiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("devices=[")?;
        write_list(f, &self.dims, ",")?;
        f.write_str("]")?;
        match &self.devices {
            Devices::List(list) => write_list(f, list, ",")?,
            Devices::Iota { reshape, perm } => {
                f.write_str("<=[")?;
                write_list(f, reshape, ",")?;
                f.write_str("]")?;
                if reshape.len() > 1 {
                    f.write_str("T(")?;
                    write_list(f, perm, ",")?;
                    f.write_str(")")?;
                }
            }
        }
        match &self.last {
            LastDims::None => Ok(()),
            LastDims::Replicate => f.write_str(" last_tile_dim_replicate"),
            LastDims::Types(types) => {
                f.write_str(" last_tile_dims={")?;
                write_list(f, types, ", ")?;
                f.write_str("}")
            }
        }
    }
}

fn write_list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T], separator: &str) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
