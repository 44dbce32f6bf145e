//! The length of functions.

use syn::visit::{self, Visit};

/// A longer function does not fit on a screen.
pub const LINES_MAX: usize = 70;

/// Names and lines of the functions that are longer than [`LINES_MAX`].
pub fn long_ones(file: &syn::File) -> Vec<(String, usize)> {
    let mut found = Found(Vec::new());
    found.visit_file(file);
    found.0
}

struct Found(Vec<(String, usize)>);

impl Found {
    fn note(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let lines = body.brace_token.span.close().end().line - first + 1;
        if lines > LINES_MAX {
            self.0.push((signature.ident.to_string(), lines));
        }
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.note(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.note(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[test]
fn lines_are_counted_from_the_word_fn_to_the_last_brace() {
    let text = format!("pub fn short() {{}}\nfn long() {{{}}}\n", "\n".repeat(LINES_MAX));
    let file = syn::parse_file(&text).expect("Rust");
    assert_eq!(long_ones(&file), [("long".to_owned(), LINES_MAX + 1)]);
}
