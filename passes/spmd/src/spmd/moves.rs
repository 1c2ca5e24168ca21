//! Explicit changes of layout: each movement that [`phzc_plan::derive`] prices becomes one collective, or a
//! slice.

use super::build::{Builder, ints};
use super::collectives::Collectives;
use super::devices::Order;
use super::slices::{cut, whole};
use phzc_cost::Collective;
use phzc_ir::{Dims, InstrId, Layout};
use phzc_plan::derive::{Move, moves};
use phzc_plan::pricing::axes_of;

/// A value on its way.
struct Mover<'b, 'a> {
    build: &'b mut Builder<'a>,
    collectives: &'b mut Collectives,
    value: InstrId,
    /// The layout it has.
    at: Layout,
    /// How its tiles lie, which is the layout but while a non-minor axis comes or goes.
    order: Order,
    /// Axes per dimension that are to be cut next.
    cuts: Order,
}

/// `value`, which lies as `from`, in the layout `to`; `None` if that takes a layout that does not divide it.
pub fn lower(
    build: &mut Builder,
    collectives: &mut Collectives,
    value: InstrId,
    from: Layout,
    to: Layout,
) -> Option<InstrId> {
    let sizes = build.dims(value).into_iter().enumerate();
    let whole: Dims = sizes.map(|(dim, size)| size * from.tiles(dim, build.mesh)).collect();
    let (rank, steps) = (whole.len(), moves(from, to, &whole, build.mesh));
    if !steps.iter().all(|step| step.layout.divides(&whole, build.mesh)) {
        return None;
    }
    let (order, cuts) = (canonical(from, rank), vec![Vec::new(); rank]);
    let mut mover = Mover { build, collectives, value, at: from, order, cuts };
    for (index, step) in steps.iter().enumerate() {
        mover.step(step, steps.get(index + 1));
    }
    mover.cut();
    Some(mover.value)
}

/// The order of tiles that a layout means.
fn canonical(layout: Layout, rank: usize) -> Order {
    (0..rank).map(|dim| layout.axes_of(dim).collect()).collect()
}

impl Mover<'_, '_> {
    fn step(&mut self, step: &Move, next: Option<&Move>) {
        let axes: Vec<usize> = axes_of(step.axes).collect();
        if step.kind.is_some() {
            self.cut();
        }
        match step.kind {
            None => self.slice(&axes, step.layout),
            Some(Collective::Permute) => self.permute(step, next),
            Some(Collective::AllToAll) => self.all_to_all(step, &axes),
            _ => self.all_gather(step, &axes),
        }
        self.at = step.layout;
    }

    fn slice(&mut self, axes: &[usize], layout: Layout) {
        for &axis in axes {
            let Some(dim) = layout.dim_of(axis) else { continue };
            self.order[dim].push(axis);
            self.cuts[dim].push(axis);
        }
    }

    /// Makes the slices that are due, in one cut.
    fn cut(&mut self) {
        let dims = self.build.dims(self.value);
        let cuts = std::mem::replace(&mut self.cuts, vec![Vec::new(); dims.len()]);
        let pieces = dims.iter().zip(cuts).map(|(&size, axes)| whole(size, axes)).collect();
        self.value = cut(self.build, self.value, &pieces);
    }

    /// Puts tiles where the layout says, or where the next movement takes its axes from the minor end.
    fn permute(&mut self, step: &Move, next: Option<&Move>) {
        let mut order = canonical(step.layout, self.order.len());
        if order == self.order
            && let Some(next) = next
        {
            for dim in &mut order {
                let (leaving, mut others): (Vec<usize>, Vec<usize>) =
                    dim.iter().partition(|&&axis| next.axes >> axis & 1 == 1);
                others.extend(leaving);
                *dim = others;
            }
        }
        self.value = self.collectives.permute(self.build, self.value, &self.order, &order);
        self.order = order;
    }

    fn all_gather(&mut self, step: &Move, axes: &[usize]) {
        let Some(dim) = axes.first().and_then(|&axis| self.at.dim_of(axis)) else { return };
        self.value = self.collectives.all_gather(self.build, self.value, step.axes, dim);
        self.order[dim].retain(|axis| !axes.contains(axis));
    }

    /// Splits one dimension into a part per device and joins the parts of another that come back.
    fn all_to_all(&mut self, step: &Move, axes: &[usize]) {
        let ends = axes.first().map(|&axis| (self.at.dim_of(axis), step.layout.dim_of(axis)));
        let Some((Some(joined), Some(split))) = ends else { return };
        let n: i64 = axes.iter().map(|&axis| self.build.mesh.sizes[axis]).product();
        let dims = self.build.dims(self.value);
        let mut parts = dims.clone();
        parts[split] /= n;
        parts.insert(split, n);
        let value = self.build.reshape(self.value, &parts);
        let value = self.collectives.all_to_all(self.build, value, step.axes, split);
        // The received parts go before the dimension that they complete.
        let mut order: Vec<usize> = (0..parts.len()).filter(|&dim| dim != split).collect();
        order.insert(joined, split);
        let value = self.build.transpose(value, &order);
        let mut made: Dims = dims;
        made[split] /= n;
        made[joined] *= n;
        self.value = self.build.reshape(value, &made);
        self.order[joined].retain(|axis| !axes.contains(axis));
        self.order[split].extend(axes);
    }
}

/// Attributes of one dimension.
pub fn along(dim: usize) -> phzc_ir::Value {
    ints(std::iter::once(dim as i64))
}
