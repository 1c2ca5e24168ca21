//! Names of mesh axes, and layouts written with them: `[x,-,yz]`, or `[data,-,model+expert]` where names are
//! words.

use crate::diag::{Diagnostic, Result, Span};
use crate::layout::{AXIS_NAMES, Layout, MAX_AXES, Mesh};
use std::fmt::Write;

impl Mesh {
    /// The same mesh with names for its axes; `x, y, z, w` are what axes are called anyway.
    #[must_use]
    pub fn with_names(mut self, names: &[&str]) -> Mesh {
        let is_usual = names.iter().zip(AXIS_NAMES).all(|(name, usual)| *name == usual);
        self.names = if is_usual { Vec::new() } else { names.iter().map(|&name| name.into()).collect() };
        self
    }

    /// What an axis is called.
    pub fn axis_name(&self, axis: usize) -> &str {
        self.names.get(axis).map_or(AXIS_NAMES[axis], |name| name)
    }

    /// Names of all axes, in order.
    pub fn axis_names(&self) -> impl Iterator<Item = &str> {
        (0..self.n_axes()).map(|axis| self.axis_name(axis))
    }

    /// Some axes as a layout names them: `xy`, and `data+model` where a name is a word.
    pub fn joined(&self, axes: impl Iterator<Item = usize>) -> String {
        let separator = if self.axis_names().any(|name| name.chars().count() > 1) { "+" } else { "" };
        axes.map(|axis| self.axis_name(axis)).collect::<Vec<_>>().join(separator)
    }

    /// The axes that a text names, in its order: `xy`, `data+model`.
    fn named(&self, text: &str) -> Result<Vec<usize>> {
        let find = |name: &str| self.axis_names().position(|known| known == name);
        let mut found = Vec::new();
        for word in text.split('+') {
            let letters = || word.char_indices().map(|(at, letter)| find(&word[at..at + letter.len_utf8()]));
            match find(word).map(|axis| vec![axis]).or_else(|| letters().collect()) {
                Some(axes) => found.extend(axes),
                None => {
                    let known: Vec<&str> = self.axis_names().collect();
                    let error = Diagnostic::error(format!("no axis of the mesh `{self}` is called `{word}`"));
                    return Err(error.help(format!("its axes: {}", known.join(", "))));
                }
            }
        }
        Ok(found)
    }
}

/// Whether a text can be the name of an axis: a letter, then letters, digits and `_`.
pub(crate) fn is_axis_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

impl Layout {
    /// The layout with the mesh's axes by dimension, `-` for none: `[x,-,yz]`.
    pub fn named(self, rank: usize, mesh: &Mesh) -> String {
        let mut out = String::from("[");
        for dim in 0..rank {
            let axes = mesh.joined(self.axes_of(dim));
            let comma = if dim > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{}", if axes.is_empty() { "-" } else { &axes });
        }
        out + "]"
    }
}

/// A layout as it is written, before anybody asks which mesh it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutText {
    /// Per dimension: the axes' names, empty for none.
    pub dims: Vec<String>,
}

impl LayoutText {
    /// Reads `[x,-,yz]`.
    ///
    /// # Errors
    /// What is no layout on any mesh; the span is in `text`.
    pub fn parse(text: &str) -> Result<LayoutText> {
        let bad = |what: &str, start: usize, end: usize| {
            let error = Diagnostic::error(format!("`{text}` is no layout: {what}")).at(Span::new(start, end));
            error.help("write one entry per dimension, `-` where it is whole: `[x,-,y]`, `[-,xy]`")
        };
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.ok_or_else(|| bad("it stands in brackets", 0, text.len()))?;
        let (mut dims, mut at) = (Vec::new(), 1);
        for part in inner.split(',').filter(|_| !inner.trim().is_empty()) {
            let (name, end) = (part.trim(), at + part.len());
            let is_legal = name == "-" || name.split('+').all(is_axis_name);
            if !is_legal {
                return Err(bad("each dimension has names of axes, or `-`", at, end.max(at + 1)));
            }
            dims.push(if name == "-" { String::new() } else { name.to_owned() });
            at = end + 1;
        }
        Ok(LayoutText { dims })
    }

    /// The layout on a mesh.
    ///
    /// # Errors
    /// Axes that the mesh does not have, or that stand twice or out of order.
    pub fn on(&self, mesh: &Mesh) -> Result<Layout> {
        let mut layout = Layout::REPLICATED;
        for (dim, names) in self.dims.iter().enumerate().filter(|(_, names)| !names.is_empty()) {
            let axes = mesh.named(names)?;
            if !axes.is_sorted() {
                let error = Diagnostic::error(format!("the axes `{names}` are not in the order of the mesh"));
                return Err(error.help(format!("write `{}`", mesh.joined(sorted(axes).into_iter()))));
            }
            for axis in axes {
                if layout.dim_of(axis).is_some() {
                    let name = mesh.axis_name(axis);
                    let error = Diagnostic::error(format!("the axis `{name}` stands twice in one layout"));
                    return Err(error.help("an axis splits one dimension of a tensor"));
                }
                layout = layout.with(axis, Some(dim));
            }
        }
        debug_assert!(mesh.n_axes() <= MAX_AXES);
        Ok(layout)
    }
}

fn sorted(mut axes: Vec<usize>) -> Vec<usize> {
    axes.sort_unstable();
    axes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A layout on a mesh, as it is printed; or what is wrong with it.
    fn check(mesh: &str, layout: &str) -> String {
        let mesh = Mesh::parse(mesh).expect("a mesh");
        let read = LayoutText::parse(layout).and_then(|text| Ok((text.dims.len(), text.on(&mesh)?)));
        read.map_or_else(|error| error.to_string(), |(rank, layout)| layout.named(rank, &mesh))
    }

    #[test]
    fn layouts_are_read_as_they_are_printed() {
        for layout in ["[x,-,y]", "[-,xy]", "[]", "[-]"] {
            assert_eq!(check("x=2,y=4", layout), layout);
        }
        assert_eq!(check("data=2,model=4", "[data, -, model]"), "[data,-,model]");
        assert_eq!(check("data=2,model=4", "[data+model]"), "[data+model]");
        assert_eq!(check("x=2,y=4", "[x+y]"), "[xy]");
    }

    #[test]
    fn what_is_no_layout_is_said() {
        assert!(check("x=2,y=4", "x,-").contains("it stands in brackets"));
        assert!(check("x=2,y=4", "[x,,y]").contains("each dimension has names of axes, or `-`"));
        assert!(check("x=2,y=4", "[x,z]").starts_with("no axis of the mesh `x=2,y=4` is called `z`"));
        assert!(check("data=2,model=4", "[x]").ends_with("its axes: data, model"));
        assert!(check("x=2,y=4", "[yx]").ends_with("write `xy`"));
        assert!(check("x=2,y=4", "[x,x]").starts_with("the axis `x` stands twice"));
    }

    #[test]
    fn names_are_kept_by_the_text_of_a_mesh() {
        assert_eq!(Mesh::parse("data=2,model=4").expect("a mesh").to_string(), "data=2,model=4");
        assert_eq!(Mesh::parse("x=2,y=4").expect("a mesh"), Mesh::new(&[2, 4]));
        assert!(Mesh::parse("a=2,a=4").is_err() && Mesh::parse("2a=2").is_err());
    }

    #[test]
    fn a_wrong_entry_is_pointed_at() {
        let place = |text: &str| {
            let span = LayoutText::parse(text).expect_err("no layout").span.expect("a place");
            text[span.start as usize..span.end as usize].to_owned()
        };
        assert_eq!(
            [place("[?,x]"), place("[x, ?,y]"), place("[x,-,?]"), place("[x,,y]"), place("x,y")],
            ["?", " ?", "?", ",", "x,y"]
        );
    }
}
