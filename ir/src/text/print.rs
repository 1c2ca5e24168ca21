//! The printer: one canonical spelling, one instruction per line, attributes in source order.

use crate::attr::{Attr, PadDim, SliceDim, Value, Window, WindowDim, WindowKey};
use crate::module::{CompId, Computation, Instr, InstrId, Module, Payload};
use crate::shape::{ArrayShape, Shape, UNBOUNDED};
use std::fmt::{Display, Write};

/// A remark for human eyes after an instruction; the parser drops it.
pub type Remark<'a> = dyn Fn(CompId, InstrId) -> Option<String> + 'a;

/// The module as HLO text.
pub fn print(module: &Module) -> String {
    print_with(module, &|_, _| None)
}

/// The module as HLO text, with `// remarks` at line ends.
pub fn print_with(module: &Module, remark: &Remark) -> String {
    let mut out = String::with_capacity(module.n_instrs() * 96);
    let mut printer = Printer { module, out: &mut out, form: Form::Short };
    printer.header();
    for index in 0..module.comps.len() {
        printer.computation(CompId::new(index), remark);
    }
    out
}

/// An instruction of `comp` (or one like it) on one line, without `ROOT`.
pub fn print_instr(module: &Module, comp: &Computation, instr: &Instr) -> String {
    let mut out = String::new();
    Printer { module, out: &mut out, form: Form::Short }.instruction(comp, instr);
    out
}

/// The same in XLA's long form: a `%` before every name and the operands' shapes.
pub fn print_instr_long(module: &Module, comp: &Computation, instr: &Instr) -> String {
    let mut out = String::new();
    Printer { module, out: &mut out, form: Form::Long }.instruction(comp, instr);
    out
}

/// A shape as HLO text: `f32[2,3]{1,0}`.
pub fn shape_text(shape: &Shape) -> String {
    let mut out = String::new();
    put_shape(&mut out, shape);
    out
}

/// How names and operands are written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Short,
    Long,
}

struct Printer<'a> {
    module: &'a Module,
    out: &'a mut String,
    form: Form,
}

/// Writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{ let _ = write!($out, $($arg)*); }};
}

impl Printer<'_> {
    fn header(&mut self) {
        put!(self.out, "HloModule {}", self.module.name);
        for attr in &self.module.attrs {
            put!(self.out, ", {}={}", attr.key, attr.value);
        }
        self.out.push('\n');
        if !self.module.tables.is_empty() {
            put!(self.out, "\n{}\n", self.module.tables);
        }
    }

    fn computation(&mut self, id: CompId, remark: &Remark) {
        let comp = self.module.comp(id);
        let entry = if id == self.module.entry { "ENTRY " } else { "" };
        put!(self.out, "\n{entry}{} {{\n", comp.name);
        for (instr_id, instr) in comp.iter() {
            self.out.push_str(if instr_id == comp.root { "  ROOT " } else { "  " });
            self.instruction(comp, instr);
            if let Some(text) = remark(id, instr_id) {
                put!(self.out, " // {text}");
            }
            self.out.push('\n');
        }
        self.out.push('}');
        if let Some(thread) = &comp.thread {
            put!(self.out, ", execution_thread=\"{thread}\"");
        }
        self.out.push('\n');
    }

    fn name(&mut self, name: &str) {
        if self.form == Form::Long {
            self.out.push('%');
        }
        self.out.push_str(name);
    }

    fn instruction(&mut self, comp: &Computation, instr: &Instr) {
        self.name(&instr.name);
        self.out.push_str(" = ");
        put_shape(self.out, &instr.shape);
        self.out.push(' ');
        if let Payload::Wrapped(wrapped) = instr.payload {
            self.out.push_str(wrapped.as_str());
        }
        let opcode = instr.op.as_str();
        let is_wrapping = matches!(instr.payload, Payload::Wrapped(_));
        self.out.push_str(if is_wrapping { opcode.trim_start_matches("async") } else { opcode });
        self.out.push('(');
        match &instr.payload {
            Payload::None | Payload::Wrapped(_) => self.operands(comp, instr),
            Payload::Parameter(number) => put!(self.out, "{number}"),
            Payload::Literal(text) => self.out.push_str(text),
        }
        self.out.push(')');
        for attr in &instr.attrs {
            self.attr(attr);
        }
    }

    fn operands(&mut self, comp: &Computation, instr: &Instr) {
        for (index, &operand) in instr.operands.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            let operand = comp.instr(operand);
            if self.form == Form::Long {
                put_shape(self.out, &operand.shape);
                self.out.push(' ');
            }
            self.name(&operand.name);
        }
    }

    fn attr(&mut self, attr: &Attr) {
        self.out.push_str(", ");
        self.out.push_str(attr.key.as_str());
        self.out.push('=');
        self.value(&attr.value);
    }

    fn value(&mut self, value: &Value) {
        let (module, form) = (self.module, self.form);
        let comp_name = |out: &mut String, id: &CompId| {
            out.push_str(if form == Form::Long { "%" } else { "" });
            out.push_str(&module.comp(*id).name);
        };
        let out = &mut *self.out;
        match value {
            Value::Ints(ints) => put_list(out, "{", ints, ",", "}", |out, int| put!(out, "{int}")),
            Value::Int(int) => put!(out, "{int}"),
            Value::Bool(flag) => put!(out, "{flag}"),
            Value::Word(text) | Value::Raw(text) => out.push_str(text),
            Value::Str(text) => put!(out, "\"{text}\""),
            Value::Comp(id) => comp_name(out, id),
            Value::Comps(ids) => put_list(out, "{", ids, ", ", "}", comp_name),
            Value::Slices(dims) => put_slices(out, dims),
            Value::Padding(dims) => put_list(out, "", dims, "x", "", put_pad),
            Value::Window(window) => put_window(out, window),
            Value::DimLabels(labels) => out.push_str(&labels.text),
            Value::Sharding(sharding) => put!(out, "{sharding}"),
            Value::Notes(notes) => {
                put_list(out, "{", notes, ",", "}", |out, (key, text)| put!(out, "{key}={text}"));
            }
        }
    }
}

fn put_list<T>(
    out: &mut String,
    open: &str,
    items: &[T],
    separator: &str,
    close: &str,
    mut put: impl FnMut(&mut String, &T),
) {
    out.push_str(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        put(out, item);
    }
    out.push_str(close);
}

fn put_shape(out: &mut String, shape: &Shape) {
    match shape {
        Shape::Array(array) => put_array(out, array),
        Shape::Tuple(parts) => put_list(out, "(", parts, ", ", ")", put_shape),
        Shape::Token => out.push_str("token[]"),
        Shape::Opaque => out.push_str("opaque[]"),
        Shape::Buffer(inner) => put_list(out, "b(", std::slice::from_ref(&**inner), "", ")", put_shape),
    }
}

fn put_array(out: &mut String, array: &ArrayShape) {
    out.push_str(array.dtype.as_str());
    out.push('[');
    for (dim, &size) in array.dims.iter().enumerate() {
        let comma = if dim > 0 { "," } else { "" };
        let bound = if array.dynamic >> dim & 1 == 1 && size != UNBOUNDED { "<=" } else { "" };
        out.push_str(comma);
        out.push_str(bound);
        if size == UNBOUNDED { out.push('?') } else { put_int(out, size) }
    }
    out.push(']');
    if let Some(layout) = &array.layout {
        put_list(out, "{", &layout.minor_to_major, ",", "", |out, dim| put_int(out, i64::from(*dim)));
        if let Some(tail) = &layout.tail {
            put!(out, ":{tail}");
        }
        out.push('}');
    }
}

/// Decimal digits without the formatting machinery: shapes are most of a program's numbers.
fn put_int(out: &mut String, value: i64) {
    if (0..10).contains(&value) { out.push(char::from(b'0' + value as u8)) } else { put!(out, "{value}") }
}

fn put_slices(out: &mut String, dims: &[SliceDim]) {
    let has_strides = dims.iter().any(|dim| dim.stride != 1);
    put_list(out, "{", dims, ", ", "}", |out, dim| {
        put!(out, "[{}:{}", dim.start, dim.limit);
        if has_strides {
            put!(out, ":{}", dim.stride);
        }
        out.push(']');
    });
}

fn put_pad(out: &mut String, dim: &PadDim) {
    put!(out, "{}_{}", dim.low, dim.high);
    if dim.interior != 0 {
        put!(out, "_{}", dim.interior);
    }
}

fn put_window(out: &mut String, window: &Window) {
    put_list(out, "{", &window.keys, " ", "}", |out, key| {
        put!(out, "{}=", key.as_str());
        put_list(out, "", &window.dims, "x", "", |out, dim| put_window_dim(out, *key, dim));
    });
}

fn put_window_dim(out: &mut String, key: WindowKey, dim: &WindowDim) {
    let value: &dyn Display = match key {
        WindowKey::Size => &dim.size,
        WindowKey::Stride => &dim.stride,
        WindowKey::LhsDilate => &dim.lhs_dilate,
        WindowKey::RhsDilate => &dim.rhs_dilate,
        WindowKey::RhsReversal => &u8::from(dim.reversed),
        WindowKey::Pad => return put!(out, "{}_{}", dim.pad_low, dim.pad_high),
    };
    put!(out, "{value}");
}
