//! Ends of a plan, from its last stage on: cells by stages and layers that are left, labels that no other of
//! their cell is as good as in everything.

use super::file::MAX_KINDS;
use super::search::Case;

/// The last stages of a plan.
#[derive(Clone, Debug)]
pub(super) struct Label {
    /// Per kind: devices that one copy uses in stages on one kind.
    pub used: [usize; MAX_KINDS],
    /// Shape of the stage on two kinds, if there is one.
    pub mixed: Option<usize>,
    /// Shape of its first stage.
    shape: usize,
    /// The longest stage with the sends on both sides; of the first one, with that behind it only.
    longest: f64,
    head: f64,
    /// Seconds of all stages and sends, there and back.
    sum: f64,
    /// The longest sum of gradients.
    summed: f64,
    /// Seconds that no plan with this end beats.
    bound: f64,
    /// Layers of the first stage, and the place of the label behind it.
    n_layers: usize,
    from: usize,
}

/// Layers and shape of a stage.
pub(super) type Held = (usize, usize);

/// The labels of all cells, and how many a cell may keep.
pub(super) struct Labels<'a> {
    case: &'a Case<'a>,
    width: usize,
    /// By stages, less one, and layers that are left.
    cells: Vec<Vec<Vec<Label>>>,
    /// By shape: seconds of the sum of a whole bucket.
    bucket_secs: Vec<f64>,
    /// The least bound of a label that was left out for want of room.
    open_secs: f64,
}

/// Gradients are summed in buckets of so many bytes of 32-bit numbers.
const BUCKET_BYTES: f64 = 5e8;

impl<'a> Labels<'a> {
    pub(super) fn new(case: &'a Case<'a>, width: usize) -> Labels<'a> {
        let n_shapes = case.sized.shapes.len();
        let mut labels =
            Labels { case, width, cells: Vec::new(), bucket_secs: Vec::new(), open_secs: f64::INFINITY };
        labels.bucket_secs = (0..n_shapes).map(|shape| labels.ring_secs(shape, BUCKET_BYTES)).collect();
        labels
    }

    /// Visits whole plans that may be faster than a limit, which a visit may lower: layers and shape of each
    /// stage; what no plan beats whose end was left out for want of room.
    pub(super) fn run(mut self, known: f64, see: &mut dyn FnMut(&Label, &[Held]) -> f64) -> f64 {
        let n_layers = self.case.sized.request.n_layers();
        let mut limit = known;
        for n_stages in 1..=n_layers {
            let row: Vec<Vec<Label>> =
                (0..=n_layers - n_stages).map(|first| self.cell(n_stages, first, limit)).collect();
            let is_over = row.iter().all(Vec::is_empty);
            self.cells.push(row);
            for index in 0..self.cells[n_stages - 1][0].len() {
                let label = self.cells[n_stages - 1][0][index].clone();
                limit = see(&label, &self.stages(n_stages, index));
            }
            if is_over {
                break;
            }
        }
        self.open_secs
    }

    /// Layers and shapes of a whole plan's stages.
    fn stages(&self, n_stages: usize, mut index: usize) -> Vec<Held> {
        let (mut first, mut stages) = (0, Vec::new());
        for row in self.cells[..n_stages].iter().rev() {
            let label = &row[first][index];
            stages.push((label.n_layers, label.shape));
            (first, index) = (first + label.n_layers, label.from);
        }
        stages
    }

    /// The labels of so many stages that begin with a layer.
    fn cell(&mut self, n_stages: usize, first: usize, limit: f64) -> Vec<Label> {
        let n_layers = self.case.sized.request.n_layers();
        let mut labels = Vec::new();
        for shape in 0..self.case.sized.shapes.len() {
            for end in first + 1..=n_layers {
                if !self.case.sized.fits(shape, [first, end], n_stages - 1) {
                    break;
                }
                if n_stages == 1 && end == n_layers {
                    labels.extend(self.last(shape, [first, end]));
                } else if n_stages > 1 {
                    self.extend(n_stages, shape, [first, end], limit, &mut labels);
                }
            }
        }
        labels.retain(|label| label.bound < limit);
        self.kept(labels)
    }

    /// The label of a last stage, if there are devices for it.
    fn last(&self, shape: usize, span: [usize; 2]) -> Option<Label> {
        let secs = self.case.sized.secs(shape, span);
        let none = Label {
            used: [0; MAX_KINDS],
            mixed: None,
            shape,
            longest: 0.0,
            head: secs,
            sum: secs,
            summed: self.summed_secs(shape, span),
            bound: 0.0,
            n_layers: span[1] - span[0],
            from: 0,
        };
        self.checked(none, span[0])
    }

    /// The labels of the stages behind with one stage before them.
    fn extend(&self, n_stages: usize, shape: usize, span: [usize; 2], limit: f64, labels: &mut Vec<Label>) {
        let Some(behind) = self.cells[n_stages - 2].get(span[1]) else { return };
        let sized = self.case.sized;
        let (secs, summed) = (sized.secs(shape, span), self.summed_secs(shape, span));
        for (from, label) in behind.iter().enumerate() {
            if sized.shapes[shape].len() > 1 && label.mixed.is_some() {
                continue;
            }
            let sent = sized.sent_secs(shape, label.shape, span[1]);
            let next = Label {
                shape,
                longest: label.longest.max(label.head + sent),
                head: secs + sent,
                sum: label.sum + secs + 2.0 * sent,
                summed: label.summed.max(summed),
                n_layers: span[1] - span[0],
                from,
                ..label.clone()
            };
            labels.extend(self.checked(next, span[0]).filter(|next| next.bound < limit));
        }
    }

    /// A label with its devices and its bound, if there are as many.
    fn checked(&self, mut label: Label, first: usize) -> Option<Label> {
        match &self.case.sized.shapes[label.shape][..] {
            [[kind, tensor]] => label.used[*kind] += tensor,
            _ => label.mixed = Some(label.shape),
        }
        let longest = label.longest.max(label.head);
        label.bound = self.case.rest_secs(label.used, first, longest) + label.sum + label.summed;
        self.case.is_there(&label).then_some(label)
    }

    /// Those that no other is as good as in everything, the best by their bounds if there are too many.
    fn kept(&mut self, mut labels: Vec<Label>) -> Vec<Label> {
        labels.sort_by(|a, b| a.bound.total_cmp(&b.bound).then(a.sum.total_cmp(&b.sum)));
        let mut kept: Vec<Label> = Vec::new();
        for label in labels {
            if kept.iter().any(|other| other.is_as_good(&label)) {
                continue;
            }
            if kept.len() == self.width {
                self.open_secs = self.open_secs.min(label.bound);
                break;
            }
            kept.push(label);
        }
        kept
    }

    /// Seconds of the sum of a stage's gradients.
    fn summed_secs(&self, shape: usize, [first, end]: [usize; 2]) -> f64 {
        if self.case.copies < 2 {
            return 0.0;
        }
        let params = &self.case.sized.params;
        let bytes = 4.0 * (params[end] - params[first]);
        let n_buckets = (bytes / BUCKET_BYTES).floor();
        n_buckets * self.bucket_secs[shape] + self.ring_secs(shape, bytes - n_buckets * BUCKET_BYTES)
    }

    fn ring_secs(&self, shape: usize, bytes: f64) -> f64 {
        let n = self.case.copies as f64;
        let share = (bytes / n).floor();
        if share > 0.0 { 2.0 * (n - 1.0) * self.case.sized.rings[shape].secs(share) } else { 0.0 }
    }
}

impl Label {
    /// Whether whatever comes before `other` does as well before this one.
    fn is_as_good(&self, other: &Label) -> bool {
        self.shape == other.shape
            && self.mixed == other.mixed
            && self.longest <= other.longest
            && self.head <= other.head
            && self.sum <= other.sum
            && self.summed <= other.summed
            && self.used.iter().zip(other.used).all(|(own, other)| *own <= other)
    }
}
