//! Counts as text: `4*b*h*s*t*d`, of the sizes of a rule's loops.

use super::pattern::{is_name, start};

/// An arithmetic expression over names.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// A number.
    Number(f64),
    /// A size.
    Name(Box<str>),
    /// Two formulas and what is done with them.
    Both(char, Box<(Formula, Formula)>),
}

/// What names a number of a call's configuration.
pub const CONFIG: &str = "config.";
/// Brackets nest this deep at most.
const MAX_DEPTH: usize = 32;
/// Numbers and names at most: `1+1+…` is a tree as deep as it is long, and trees are walked by recursion.
const MAX_TERMS: usize = 256;

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Formula, String> {
        let mut reader = Reader { rest: text.trim(), depth: 0, n_terms: 0 };
        let formula = reader.sum()?;
        match reader.rest {
            "" => Ok(formula),
            rest => Err(format!("expected `+`, `-`, `*` or `/` at `{}`", start(rest))),
        }
    }

    /// Its names.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Formula::Number(_) => Vec::new(),
            Formula::Name(name) => vec![name],
            Formula::Both(_, pair) => [pair.0.names(), pair.1.names()].concat(),
        }
    }

    /// Its value; what is not finite or below zero counts as nothing.
    pub fn value(&self, size: &impl Fn(&str) -> f64) -> f64 {
        let value = self.raw(size);
        if value.is_finite() { value.max(0.0) } else { 0.0 }
    }

    fn raw(&self, size: &impl Fn(&str) -> f64) -> f64 {
        match self {
            Formula::Number(number) => *number,
            Formula::Name(name) => size(name),
            Formula::Both(op, pair) => {
                let (a, b) = (pair.0.raw(size), pair.1.raw(size));
                match op {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                }
            }
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
    n_terms: usize,
}

impl Reader<'_> {
    fn sum(&mut self) -> Result<Formula, String> {
        self.chain(&['+', '-'], Reader::product)
    }

    fn product(&mut self) -> Result<Formula, String> {
        self.chain(&['*', '/'], Reader::atom)
    }

    /// Operands of equal rank, from left to right.
    fn chain(
        &mut self,
        ops: &[char],
        operand: fn(&mut Self) -> Result<Formula, String>,
    ) -> Result<Formula, String> {
        let mut left = operand(self)?;
        while let Some(op) = self.rest.chars().next().filter(|op| ops.contains(op)) {
            self.skip(1);
            let right = operand(self)?;
            left = Formula::Both(op, Box::new((left, right)));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Formula, String> {
        if self.rest.starts_with('(') {
            return self.bracket();
        }
        self.n_terms += 1;
        if self.n_terms > MAX_TERMS {
            return Err(format!("a formula has at most {MAX_TERMS} numbers and names"));
        }
        let is_inside = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '.';
        let end = self.rest.find(|char| !is_inside(char)).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        let atom = match word.parse() {
            Ok(number) if word.starts_with(|char: char| char.is_ascii_digit()) => Formula::Number(number),
            _ if is_name(word.strip_prefix(CONFIG).unwrap_or(word)) => Formula::Name(word.into()),
            _ => return Err(format!("expected a number or a name at `{}`", start(self.rest))),
        };
        self.skip(end);
        Ok(atom)
    }

    fn bracket(&mut self) -> Result<Formula, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("brackets nest more than {MAX_DEPTH} deep"));
        }
        self.skip(1);
        let inner = self.sum()?;
        if !self.rest.starts_with(')') {
            return Err(format!("expected `)` at `{}`", start(self.rest)));
        }
        self.skip(1);
        self.depth -= 1;
        Ok(inner)
    }

    fn skip(&mut self, n: usize) {
        self.rest = self.rest[n..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        Ok(Formula::parse(text)?.value(&|name| if name == "b" { 3.0 } else { 5.0 }))
    }

    #[test]
    fn products_come_before_sums_and_brackets_before_both() {
        assert_eq!(value("4*b*h - 2*(b+1)/2"), Ok(56.0));
        assert_eq!(value("0.5 * b"), Ok(1.5));
    }

    #[test]
    fn what_is_no_count_is_nothing() {
        assert_eq!([value("b-h"), value("1/(b-3)")], [Ok(0.0), Ok(0.0)]);
    }

    #[test]
    fn says_where_it_stops_making_sense() {
        assert_eq!(value("4*b*"), Err("expected a number or a name at ``".to_owned()));
        assert_eq!(value("4 b"), Err("expected `+`, `-`, `*` or `/` at `b`".to_owned()));
        assert_eq!(value("(b"), Err("expected `)` at ``".to_owned()));
        assert!(value(&"(".repeat(40)).is_err());
    }

    #[test]
    fn is_no_longer_than_a_stack_is_deep() {
        assert_eq!(value(&["1"; 256].join("+")), Ok(256.0));
        let error = Err("a formula has at most 256 numbers and names".to_owned());
        assert_eq!(value(&["1"; 257].join("+")), error);
        assert_eq!(value(&["1"; 100_000].join("*")), error);
    }
}
