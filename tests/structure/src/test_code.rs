//! Removes test code from a syntax tree: everything with a `cfg` condition that requires `test`.

use std::ops::RangeInclusive;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Meta, Token};

/// Removes all test code from `file`. Returns the ranges of the removed lines.
pub fn remove_test_code(file: &mut syn::File) -> Vec<RangeInclusive<usize>> {
    let mut remover = Remover::default();
    remover.visit_file_mut(file);
    remover.removed
}

/// True if a `cfg` among the attributes excludes the item from every build without `test`.
pub fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .filter_map(|attribute| attribute.parse_args::<Meta>().ok())
        .any(|condition| evaluate(&condition) == Some(false))
}

/// Evaluates a `cfg` condition in a build without `test`. Returns `None` if the result depends on other conditions.
fn evaluate(condition: &Meta) -> Option<bool> {
    match condition {
        Meta::Path(path) if path.is_ident("test") => Some(false),
        Meta::List(list) => {
            let parts = list
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .unwrap_or_default();
            let values: Vec<Option<bool>> = parts.iter().map(evaluate).collect();
            if list.path.is_ident("all") {
                match values.contains(&Some(false)) {
                    true => Some(false),
                    false => values.iter().all(Option::is_some).then_some(true),
                }
            } else if list.path.is_ident("any") {
                match values.contains(&Some(true)) {
                    true => Some(true),
                    false => values.iter().all(Option::is_some).then_some(false),
                }
            } else if list.path.is_ident("not") {
                values.first().copied().flatten().map(|value| !value)
            } else {
                None
            }
        }
        _ => None,
    }
}

/// Removes test code while it visits a syntax tree.
#[derive(Default)]
struct Remover {
    /// The ranges of the removed lines.
    removed: Vec<RangeInclusive<usize>>,
}

impl Remover {
    /// True if the node is product code. Otherwise records its lines as removed.
    fn keeps(&mut self, node: &impl Spanned, attributes: &[Attribute]) -> bool {
        let keep = !is_test_only(attributes);
        if !keep {
            let span = node.span();
            self.removed.push(span.start().line..=span.end().line);
        }
        keep
    }

    /// Removes test code from a list of nodes.
    fn retain<T: Spanned, P: Default>(
        &mut self,
        list: &mut Punctuated<T, P>,
        attributes: impl Fn(&T) -> &[Attribute],
    ) {
        if list.iter().any(|node| is_test_only(attributes(node))) {
            *list = std::mem::take(list)
                .into_iter()
                .filter(|node| self.keeps(node, attributes(node)))
                .collect();
        }
    }
}

impl VisitMut for Remover {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|item| self.keeps(item, item_attributes(item)));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| self.keeps(item, item_attributes(item)));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(|item| match item {
            syn::ImplItem::Fn(inner) => self.keeps(item, &inner.attrs),
            syn::ImplItem::Const(inner) => self.keeps(item, &inner.attrs),
            syn::ImplItem::Type(inner) => self.keeps(item, &inner.attrs),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_item_trait_mut(&mut self, definition: &mut syn::ItemTrait) {
        definition.items.retain(|item| match item {
            syn::TraitItem::Fn(inner) => self.keeps(item, &inner.attrs),
            _ => true,
        });
        visit_mut::visit_item_trait_mut(self, definition);
    }

    fn visit_item_enum_mut(&mut self, definition: &mut syn::ItemEnum) {
        self.retain(&mut definition.variants, |variant| &variant.attrs);
        visit_mut::visit_item_enum_mut(self, definition);
    }

    fn visit_fields_named_mut(&mut self, fields: &mut syn::FieldsNamed) {
        self.retain(&mut fields.named, |field| &field.attrs);
        visit_mut::visit_fields_named_mut(self, fields);
    }

    fn visit_expr_struct_mut(&mut self, expression: &mut syn::ExprStruct) {
        self.retain(&mut expression.fields, |field| &field.attrs);
        visit_mut::visit_expr_struct_mut(self, expression);
    }

    fn visit_expr_match_mut(&mut self, expression: &mut syn::ExprMatch) {
        expression.arms.retain(|arm| self.keeps(arm, &arm.attrs));
        visit_mut::visit_expr_match_mut(self, expression);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| match statement {
            syn::Stmt::Local(local) => self.keeps(statement, &local.attrs),
            syn::Stmt::Item(item) => self.keeps(statement, item_attributes(item)),
            syn::Stmt::Macro(call) => self.keeps(statement, &call.attrs),
            syn::Stmt::Expr(syn::Expr::Block(inner), _) => self.keeps(statement, &inner.attrs),
            syn::Stmt::Expr(..) => true,
        });
        visit_mut::visit_block_mut(self, block);
    }
}

/// Returns the attributes of an item.
fn item_attributes(item: &syn::Item) -> &[Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
