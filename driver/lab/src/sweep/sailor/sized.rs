//! What all plans of a request with one size of microbatch have in common: shapes of stages, their seconds,
//! messages and memory, in tables.

use phzc_cost::sailor::{Curve, Request};

/// Kinds and degrees of a stage's copies: one, or two of unlike kinds.
pub(super) type Shape = Vec<[usize; 2]>;

/// What all plans with one size of microbatch have in common.
pub(super) struct Sized<'a> {
    pub request: &'a Request,
    pub micro_batch: usize,
    /// Those of one kind first.
    pub shapes: Vec<Shape>,
    /// Per layer: the least seconds of any shape, summed up from the first on.
    pub least_secs: Vec<f64>,
    /// Per kind: seconds for which one device is busy with the largest layer, at the best degree.
    pub device_secs: Vec<f64>,
    /// Per layer: the least part of that which any kind takes for it, summed up from the first on.
    pub parts: Vec<f64>,
    /// Per shape: the slowest ring.
    pub rings: Vec<Curve>,
    /// Parameters of the first so many layers, whole.
    pub params: Vec<f64>,
    /// By shape, first layer and end: seconds, and how many stages may follow at the most.
    spans: Vec<(f64, Option<usize>)>,
    /// By shapes and end: seconds of a message.
    sent: Vec<f64>,
}

/// Kinds and degrees that were measured with a size of microbatch.
struct Measured<'a> {
    request: &'a Request,
    micro_batch: usize,
    pure: Vec<[usize; 2]>,
}

impl Measured<'_> {
    fn of(request: &Request, micro_batch: usize) -> Measured<'_> {
        let kinds = request.kinds.iter().enumerate();
        let all = kinds
            .flat_map(|(kind, own)| own.times.keys().map(move |(size, tensor)| (*size, [kind, *tensor])));
        let sized = all.filter(|(size, _)| *size == micro_batch).map(|(_, of)| of);
        let known = sized.filter(|[kind, tensor]| {
            let ring = [*kind, *tensor, *kind, *tensor];
            request.sizes.contains_key(tensor) && request.links.contains_key(&ring)
        });
        Measured { request, micro_batch, pure: known.collect() }
    }

    fn layer_secs(&self, of: [usize; 2], layer: usize) -> f64 {
        self.request.span_secs(of, self.micro_batch, [layer, layer + 1]).unwrap_or(f64::INFINITY)
    }

    /// The least seconds of a layer.
    fn least_secs(&self, layer: usize) -> f64 {
        self.pure.iter().map(|of| self.layer_secs(*of, layer)).fold(f64::INFINITY, f64::min)
    }

    /// The least seconds for which devices of a kind are busy with a layer, of all that share it.
    fn busy_secs(&self, kind: usize, layer: usize) -> f64 {
        let own = self.pure.iter().filter(|of| of[0] == kind);
        own.map(|of| self.layer_secs(*of, layer) * of[1] as f64).fold(f64::INFINITY, f64::min)
    }

    /// The least part of its `device_secs` that any kind takes for a layer.
    fn part(&self, device_secs: &[f64], layer: usize) -> f64 {
        let kinds = device_secs.iter().enumerate().filter(|(_, secs)| secs.is_finite());
        kinds.map(|(kind, secs)| self.busy_secs(kind, layer) / secs).fold(f64::INFINITY, f64::min)
    }

    /// Those of one kind, then all pairs of two.
    fn shapes(&self) -> Vec<Shape> {
        let pairs = self.pure.iter().flat_map(|a| self.pure.iter().map(move |b| vec![*a, *b]));
        let mixed = pairs.filter(|pair| pair[0][0] < pair[1][0]);
        self.pure.iter().map(|one| vec![*one]).chain(mixed).collect()
    }
}

impl<'a> Sized<'a> {
    /// `None` where nothing was measured with it.
    pub(super) fn of(request: &'a Request, micro_batch: usize) -> Option<Sized<'a>> {
        let measured = Measured::of(request, micro_batch);
        let layers = 0..request.n_layers();
        let largest = layers
            .clone()
            .max_by(|a, b| measured.least_secs(*a).total_cmp(&measured.least_secs(*b)))
            .filter(|_| !measured.pure.is_empty())?;
        let device_secs: Vec<f64> =
            (0..request.kinds.len()).map(|kind| measured.busy_secs(kind, largest)).collect();
        let shapes = measured.shapes();
        let mut sized = Sized {
            request,
            micro_batch,
            least_secs: summed(layers.clone().map(|layer| measured.least_secs(layer))),
            parts: summed(layers.map(|layer| measured.part(&device_secs, layer))),
            device_secs,
            rings: shapes.iter().map(|shape| ring(request, shape)).collect::<Option<_>>()?,
            shapes,
            params: summed(request.sizes[&1].iter().map(|size| size.params)),
            spans: Vec::new(),
            sent: Vec::new(),
        };
        sized.tabulate();
        Some(sized)
    }

    /// Fills the tables.
    fn tabulate(&mut self) {
        let (n_layers, n_shapes) = (self.request.n_layers(), self.shapes.len());
        for shape in 0..n_shapes {
            for first in 0..n_layers {
                let own = |end| (self.span_secs(shape, [first, end]), self.most_behind(shape, [first, end]));
                let row: Vec<(f64, Option<usize>)> =
                    (0..=n_layers).map(|end| if end > first { own(end) } else { (0.0, None) }).collect();
                self.spans.extend(row);
            }
        }
        let pairs = (0..n_shapes).flat_map(|from| (0..n_shapes).map(move |to| (from, to)));
        let each = pairs.flat_map(|(from, to)| (0..=n_layers).map(move |end| (from, to, end)));
        let secs = each.map(|(from, to, end)| if end > 0 { self.message_secs(from, to, end) } else { 0.0 });
        self.sent = secs.collect();
    }

    /// The most stages that may follow one that has layers on a shape; `None` where it does not fit at all.
    fn most_behind(&self, shape: usize, span: [usize; 2]) -> Option<usize> {
        let fits = |n_behind: usize| {
            let mut own = self.shapes[shape].iter();
            own.all(|one| self.request.fits(*one, self.micro_batch, span, n_behind))
        };
        (0..self.request.n_layers()).take_while(|n_behind| fits(*n_behind)).last()
    }

    fn span(&self, shape: usize, [first, end]: [usize; 2]) -> (f64, Option<usize>) {
        let n_layers = self.request.n_layers();
        self.spans[(shape * n_layers + first) * (n_layers + 1) + end]
    }

    /// Seconds of layers on a shape for one microbatch: its slowest copy counts.
    pub(super) fn secs(&self, shape: usize, span: [usize; 2]) -> f64 {
        self.span(shape, span).0
    }

    /// Whether layers fit on all of a shape's copies.
    pub(super) fn fits(&self, shape: usize, span: [usize; 2], n_behind: usize) -> bool {
        self.span(shape, span).1.is_some_and(|most| n_behind <= most)
    }

    /// Seconds of a message between stages of two shapes, whichever copies exchange it.
    pub(super) fn sent_secs(&self, from: usize, to: usize, end: usize) -> f64 {
        self.sent[(from * self.shapes.len() + to) * (self.request.n_layers() + 1) + end]
    }

    fn span_secs(&self, shape: usize, span: [usize; 2]) -> f64 {
        let of = |one: &[usize; 2]| self.request.span_secs(*one, self.micro_batch, span);
        self.shapes[shape].iter().map(|one| of(one).unwrap_or(f64::INFINITY)).fold(0.0, f64::max)
    }

    fn message_secs(&self, from: usize, to: usize, end: usize) -> f64 {
        let bytes = 4.0 * self.request.sizes[&1][end - 1].handed_on * self.micro_batch as f64;
        let pairs = self.shapes[from].iter().flat_map(|a| self.shapes[to].iter().map(move |b| [*a, *b]));
        let secs = pairs.map(|[a, b]| {
            let link = self.request.links.get(&[a[0], a[1], b[0], b[1]]);
            link.map_or(f64::INFINITY, |link| link.secs(bytes))
        });
        secs.fold(0.0, f64::max)
    }
}

/// Sums of the first so many, none at first.
fn summed(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sums = vec![0.0];
    values.for_each(|value| sums.push(sums[sums.len() - 1] + value));
    sums
}

fn ring(request: &Request, shape: &Shape) -> Option<Curve> {
    let rings =
        shape.iter().map(|[kind, tensor]| request.links.get(&[*kind, *tensor, *kind, *tensor]).copied());
    let rings: Vec<Curve> = rings.collect::<Option<_>>()?;
    rings.into_iter().min_by(|a, b| a.peak_bytes_per_sec.total_cmp(&b.peak_bytes_per_sec))
}
