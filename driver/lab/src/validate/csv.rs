//! Comma-separated tables, every cell with its place in the text.

use phzc_ir::{Diagnostic, Result, Severity, Span};

/// A table with a header.
pub(crate) struct Table {
    header: Vec<Cell>,
    /// The rows after the header.
    pub rows: Vec<Row>,
}

/// One row: its cells in the order of the header.
pub(crate) struct Row {
    cells: Vec<Cell>,
}

/// One cell, quotes taken off.
#[derive(Clone)]
pub(crate) struct Cell {
    /// What it says.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A row together with the names of its columns.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    table: &'a Table,
    row: &'a Row,
}

impl Table {
    /// Reads a table; every row has as many cells as the header.
    pub fn parse(text: &str) -> Result<Table> {
        let mut rows = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let (row, next) = row(text, at)?;
            // An empty line is no row.
            if row.cells.len() > 1 || row.cells.iter().any(|cell| !cell.text.is_empty()) {
                rows.push(row);
            }
            at = next;
        }
        if rows.is_empty() {
            return Err(Diagnostic::error("expected a header and rows, found an empty table"));
        }
        let header = rows.remove(0).cells;
        rows.iter().try_for_each(|row| check_width(&header, row))?;
        Ok(Table { header, rows })
    }

    /// Whether there is a column of that name.
    pub fn has(&self, column: &str) -> bool {
        self.header.iter().any(|cell| cell.text == column)
    }

    /// An error unless all these columns are there.
    pub fn expect(&self, columns: &[&str]) -> Result<()> {
        let missing: Vec<&str> = columns.iter().copied().filter(|column| !self.has(column)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let span = Span::new(0, self.header.last().map_or(1, |cell| cell.span.end as usize).max(1));
        let error = Diagnostic::error(format!("missing column `{}`", missing.join("`, `"))).at(span);
        Err(error
            .help("the first line names the columns; see docs/validation.md for those of each kind of table"))
    }

    /// The rows with their header.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.rows.iter().map(|row| Record { table: self, row })
    }
}

impl<'a> Record<'a> {
    /// The cell of that column; an empty one where the table has no such column.
    pub fn cell(&self, column: &str) -> Option<&'a Cell> {
        let index = self.table.header.iter().position(|cell| cell.text == column)?;
        self.row.cells.get(index)
    }

    /// The rows of its table.
    pub fn rows(&self) -> impl Iterator<Item = Record<'a>> {
        self.table.records()
    }

    /// What the cell says; blank where there is none.
    pub fn text(&self, column: &str) -> &'a str {
        self.cell(column).map_or("", |cell| cell.text.trim())
    }

    /// The number in the cell, `None` where it is blank.
    ///
    /// # Errors
    /// When it is no finite number from 0 up.
    pub fn number(&self, column: &str) -> Result<Option<f64>> {
        let Some(cell) = self.cell(column).filter(|cell| !cell.text.trim().is_empty()) else {
            return Ok(None);
        };
        let value: Option<f64> = cell.text.trim().parse().ok();
        match value.filter(|value| value.is_finite() && *value >= 0.0) {
            Some(value) => Ok(Some(value)),
            None => {
                let message = format!("expected a number from 0 up in `{column}`, found `{}`", cell.text);
                Err(Diagnostic::error(message).at(cell.span).help("leave the cell blank if it is not known"))
            }
        }
    }

    /// The number in the cell.
    ///
    /// # Errors
    /// When the cell is blank or no finite number above 0.
    pub fn positive(&self, column: &str) -> Result<f64> {
        match self.number(column)? {
            Some(value) if value > 0.0 => Ok(value),
            _ => Err(self.error(column, &format!("expected a number above 0 in `{column}`"))),
        }
    }

    /// An error about the cell of a column.
    pub fn error(&self, column: &str, message: &str) -> Diagnostic {
        let span = self.cell(column).map_or(Span::new(0, 1), |cell| cell.span);
        Diagnostic::error(message).at(span)
    }

    /// A warning about the cell of a column.
    pub fn warning(&self, column: &str, message: &str) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..self.error(column, message) }
    }
}

fn check_width(header: &[Cell], row: &Row) -> Result<()> {
    if row.cells.len() == header.len() {
        return Ok(());
    }
    let message = format!("expected {} cells as in the header, found {}", header.len(), row.cells.len());
    let start = row.cells.first().map_or(0, |cell| cell.span.start as usize);
    let end = row.cells.last().map_or(start + 1, |cell| cell.span.end as usize);
    Err(Diagnostic::error(message).at(Span::new(start, end.max(start + 1))))
}

/// The row that begins at `at`, and where the next one begins.
fn row(text: &str, mut at: usize) -> Result<(Row, usize)> {
    let mut cells = Vec::new();
    loop {
        let (cell, end) = cell(text, at)?;
        cells.push(cell);
        match text.as_bytes().get(end) {
            Some(b',') => at = end + 1,
            Some(b'\r') if text[end..].starts_with("\r\n") => return Ok((Row { cells }, end + 2)),
            Some(_) => return Ok((Row { cells }, end + 1)),
            None => return Ok((Row { cells }, end)),
        }
    }
}

/// The cell that begins at `at`, and where it ends.
fn cell(text: &str, at: usize) -> Result<(Cell, usize)> {
    if text[at..].starts_with('"') {
        return quoted(text, at);
    }
    let end = text[at..].find([',', '\n']).map_or(text.len(), |length| at + length);
    let end = if text[..end].ends_with('\r') && end > at { end - 1 } else { end };
    Ok((Cell { text: text[at..end].to_owned(), span: Span::new(at, end.max(at + 1)) }, end))
}

/// A cell in quotes; a doubled quote is one.
fn quoted(text: &str, at: usize) -> Result<(Cell, usize)> {
    let mut content = String::new();
    let mut from = at + 1;
    loop {
        let Some(length) = text[from..].find('"') else {
            return Err(Diagnostic::error("a quote is not closed").at(Span::new(at, at + 1)));
        };
        content += &text[from..from + length];
        let end = from + length + 1;
        if !text[end..].starts_with('"') {
            return match text.as_bytes().get(end) {
                None | Some(b',' | b'\n' | b'\r') => {
                    Ok((Cell { text: content, span: Span::new(at, end) }, end))
                }
                Some(_) => {
                    Err(Diagnostic::error("expected a comma after the quote").at(Span::new(end, end + 1)))
                }
            };
        }
        content.push('"');
        from = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_commas_and_line_ends_are_read() {
        let table = Table::parse("a,b\r\n\"x, \"\"y\"\"\",2\n\n3,\n").unwrap();
        let read: Vec<(&str, &str)> = table.records().map(|row| (row.text("a"), row.text("b"))).collect();
        assert_eq!(read, [("x, \"y\"", "2"), ("3", "")]);
    }

    #[test]
    fn numbers_are_finite_and_not_negative() {
        let table = Table::parse("a\n-1\nNaN\ninf\nx\n1e3\n").unwrap();
        let read: Vec<bool> = table.records().map(|row| row.number("a").is_ok()).collect();
        assert_eq!(read, [false, false, false, false, true]);
    }
}
