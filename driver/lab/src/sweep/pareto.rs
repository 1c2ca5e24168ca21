//! What is worth its money: which points of time and price are wanted, and how far a better one may have been
//! missed.

/// What a better plan is, by what is asked for.
pub fn better(objective: &str) -> &'static str {
    match objective {
        "time" => "faster",
        "price" => "cheaper",
        "energy" => "cheaper in energy",
        _ => "faster and cheaper",
    }
}

/// The best plan of a cluster, or why there is none.
pub trait Offer {
    /// Seconds and dollars of a step; none where no plan was found.
    fn cost(&self) -> Option<[f64; 2]>;
    /// The same of a plan that nothing beats of what is searched on the whole cluster, at the least.
    fn least_cost(&self) -> Option<[f64; 2]>;
    /// Energy of a step, where that is known.
    fn kwh(&self) -> Option<f64> {
        None
    }
}

/// What is asked of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// `time`, `price`, `energy`, or `pareto` for the front.
    pub objective: &'a str,
    /// The most seconds of a step.
    pub max_secs: Option<f64>,
    /// The most dollars of a step.
    pub max_usd: Option<f64>,
}

impl Wish<'_> {
    /// Whether so many seconds and dollars are within the limits.
    fn allows(&self, [secs, usd]: [f64; 2]) -> bool {
        self.max_secs.is_none_or(|most| secs <= most) && self.max_usd.is_none_or(|most| usd <= most)
    }
}

/// The point, or points, that are asked for, the fastest first.
pub fn wanted<'p, P: Offer>(points: &'p [P], wish: &Wish) -> Vec<&'p P> {
    let planned = points.iter().filter_map(|point| Some((point.cost()?, point)));
    let mut planned: Vec<([f64; 2], &P)> = planned.filter(|(cost, _)| wish.allows(*cost)).collect();
    planned.sort_by(|(a, _), (b, _)| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    match wish.objective {
        "time" => planned.truncate(1),
        "price" => planned = least(&planned, |(cost, _)| cost[1]),
        "energy" => planned = least(&planned, |(_, point)| point.kwh().unwrap_or(f64::INFINITY)),
        _ => {
            let mut least_usd = f64::INFINITY;
            planned.retain(|([_, usd], _)| {
                let is_cheaper = *usd < least_usd;
                least_usd = least_usd.min(*usd);
                is_cheaper
            });
        }
    }
    planned.into_iter().map(|(_, point)| point).collect()
}

/// The first with the least of a figure.
fn least<T: Copy>(all: &[T], figure: impl Fn(&T) -> f64) -> Vec<T> {
    all.iter().copied().min_by(|a, b| figure(a).total_cmp(&figure(b))).into_iter().collect()
}

/// By which part of its time a plan that was not found may be better than those that were chosen, at most: of
/// every cluster with a plan, how much longer than its bound a plan has to take until some chosen point is as
/// good. A cluster whose bound is beyond a limit is no choice. None where a bound is not known, or nothing is
/// chosen.
pub fn may_be_missed<P: Offer>(points: &[P], chosen: &[&P], wish: &Wish) -> Option<f64> {
    let figures = |point: &P| Some((point.cost()?, point.kwh()));
    let chosen: Vec<Figures> = chosen.iter().filter_map(|&point| figures(point)).collect();
    if chosen.is_empty() {
        return None;
    }
    let mut planned = points.iter().filter_map(|point| Some((figures(point)?, point)));
    planned.try_fold(0.0, |most: f64, ((cost, kwh), point)| {
        let least = point.least_cost()?;
        // The same devices draw less for as much less time.
        let least_kwh = kwh.map(|kwh| kwh * least[0] / cost[0]);
        let missed = if wish.allows(least) { missed((least, least_kwh), &chosen, wish)? } else { 0.0 };
        Some(most.max(missed))
    })
}

/// Seconds and dollars; energy, where that is known.
type Figures = ([f64; 2], Option<f64>);

/// The same of one cluster, by the figures that are asked for.
fn missed(([bound_secs, bound_usd], bound_kwh): Figures, chosen: &[Figures], wish: &Wish) -> Option<f64> {
    let longer = |([secs, usd], kwh): &Figures| match wish.objective {
        "time" => Some(secs / bound_secs),
        "price" => Some(usd / bound_usd),
        "energy" => Some((*kwh)? / bound_kwh?),
        _ => Some((secs / bound_secs).max(usd / bound_usd)),
    };
    chosen.iter().filter_map(|point| Some(longer(point)? - 1.0)).reduce(f64::min)
}
