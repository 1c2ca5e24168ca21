//! Rules about the functions of production code: what a reader has to hold at once.

use super::{is_test, none, sources};
use std::mem;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, ImplItemFn, ItemFn, ItemMod, Local, Signature, TraitItemFn};

/// Lines between the braces of a function.
const MAX_LINES: usize = 60;
/// Closures that a function binds to names; the third step is a function of its own.
const MAX_CLOSURES: usize = 2;

struct Function {
    place: String,
    lines: usize,
    closures: usize,
}

/// The functions of one file, and the closures bound so far in the one being read.
struct Reader<'a> {
    file: &'a str,
    closures: usize,
    found: Vec<Function>,
}

impl Reader<'_> {
    fn function(&mut self, attrs: &[Attribute], signature: &Signature, body: &Block) {
        if is_for_tests(attrs) {
            return;
        }
        let outer = mem::take(&mut self.closures);
        visit::visit_block(self, body);
        let closures = mem::replace(&mut self.closures, outer);
        let (open, close) = (body.brace_token.span.open().start(), body.brace_token.span.close().start());
        let place = format!("{}:{}: {}", self.file, open.line, signature.ident);
        self.found.push(Function { place, lines: (close.line - open.line).saturating_sub(1), closures });
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.attrs, &item.sig, body);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        self.closures += usize::from(local.init.as_ref().is_some_and(|init| is_closure(&init.expr)));
        visit::visit_local(self, local);
    }
}

fn is_closure(expr: &Expr) -> bool {
    match expr {
        Expr::Closure(_) => true,
        Expr::Paren(inner) => is_closure(&inner.expr),
        Expr::Reference(inner) => is_closure(&inner.expr),
        _ => false,
    }
}

fn is_for_tests(attrs: &[Attribute]) -> bool {
    let is_cfg_test = |attr: &Attribute| attr.parse_args::<syn::Path>().is_ok_and(|it| it.is_ident("test"));
    attrs.iter().any(|attr| attr.path().is_ident("test") || attr.path().is_ident("cfg") && is_cfg_test(attr))
}

fn functions() -> Vec<Function> {
    let production = |name: &str| !is_test(name) && !name.starts_with("tests/");
    let read = |(name, text): (String, String)| {
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut reader = Reader { file: &name, closures: 0, found: Vec::new() };
        reader.visit_file(&file);
        reader.found
    };
    sources().into_iter().filter(|(name, _)| production(name)).flat_map(read).collect()
}

#[test]
fn no_function_binds_more_than_two_closures() {
    let dense = functions().into_iter().filter(|it| it.closures > MAX_CLOSURES);
    none(dense.map(|it| format!("{}: {} closures, at most {MAX_CLOSURES}", it.place, it.closures)).collect());
}

#[test]
fn no_function_is_longer_than_a_screen() {
    let long = functions().into_iter().filter(|it| it.lines > MAX_LINES);
    none(long.map(|it| format!("{}: {} lines, at most {MAX_LINES}", it.place, it.lines)).collect());
}
