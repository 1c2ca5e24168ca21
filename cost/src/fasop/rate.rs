//! Rates of links by the size of a message, and what lies between zones.

/// A rate in bits per second, by the bytes of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Bytes and bits per second, ascending in bytes; never empty.
    points: Vec<(f64, f64)>,
}

impl From<f64> for Rate {
    /// The same bits per second whatever the message.
    fn from(bits_per_sec: f64) -> Rate {
        Rate { points: vec![(1.0, bits_per_sec)] }
    }
}

impl Rate {
    /// A curve through points of bytes and bits per second; `None` unless there is one, bytes ascend, and
    /// all are positive numbers.
    pub fn curve(points: Vec<(f64, f64)>) -> Option<Rate> {
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        let is_fine = points.iter().all(|(bytes, rate)| is_positive(*bytes) && is_positive(*rate));
        let is_ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (is_fine && is_ascending && !points.is_empty()).then_some(Rate { points })
    }

    /// Whether it is the same for messages of all sizes.
    pub fn is_constant(&self) -> bool {
        self.points.iter().all(|(_, rate)| *rate == self.points[0].1)
    }

    /// Bits per second for a message of so many bytes: linear in the logarithm of the size between two
    /// points, and that of the nearest point beyond them.
    pub fn at(&self, bytes: f64) -> f64 {
        let above = self.points.iter().position(|(size, _)| *size >= bytes);
        match above {
            None => self.points[self.points.len() - 1].1,
            Some(0) => self.points[0].1,
            Some(index) => {
                let [(low, slow), (high, fast)] = [self.points[index - 1], self.points[index]];
                slow + (fast - slow) * (bytes / low).ln() / (high / low).ln()
            }
        }
    }
}

/// What lies between zones, by the numbers of two of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Zones {
    /// Rate of a link, where it is slower than the nodes at its ends.
    pub rates: Vec<Vec<Option<Rate>>>,
    /// Dollars for a gigabyte (1e9 bytes) that leaves the first for the second.
    pub usd_per_gb: Vec<Vec<f64>>,
}

impl Zones {
    /// The rate of a link between two zones, if it has one of its own.
    pub fn rate(&self, from: usize, to: usize) -> Option<&Rate> {
        self.rates.get(from)?.get(to)?.as_ref()
    }

    /// Dollars for so many bytes from one zone to another.
    pub fn usd(&self, from: usize, to: usize, bytes: f64) -> f64 {
        let per_gb = self.usd_per_gb.get(from).and_then(|row| row.get(to)).copied().unwrap_or(0.0);
        per_gb * bytes / 1e9
    }

    /// Whether bytes cost nothing anywhere.
    pub fn is_free(&self) -> bool {
        self.usd_per_gb.iter().flatten().all(|usd| *usd == 0.0)
    }
}
