//! The house as text and as tokens. Knows no invariant.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the house.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is inside the house")
}

/// One file.
pub struct File {
    /// Its path from the root, with `/`.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl File {
    /// Its text, as far as it is any.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Whether its name ends in this, without a dot.
    pub fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|ending| ending == extension)
    }

    /// Whether it holds nothing but tests.
    pub fn is_test(&self) -> bool {
        self.path.starts_with("tests/") || self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }
}

/// Every file of the house but build outputs and what hidden folders hold, `.cargo` and `.ci` apart, by path. The file
/// `.git` of a worktree is git's.
pub fn files() -> Vec<File> {
    let mut files = Vec::new();
    walk(root(), &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.iter().any(|file| file.path == "crates/ptx/src/lib.rs"), "the house was not found at {:?}", root());
    files
}

fn walk(folder: &Path, files: &mut Vec<File>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder of the house reads").flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if path.is_dir() {
            let hidden = name.starts_with('.') && ![".cargo", ".ci"].contains(&name);
            if !hidden && name != "target" {
                walk(&path, files);
            }
        } else if name != ".git"
            && let Ok(bytes) = fs::read(&path)
        {
            let path = path.strip_prefix(root()).expect("it is below the root");
            files.push(File { path: path.to_string_lossy().replace('\\', "/"), bytes });
        }
    }
}

/// The Rust files.
pub fn rust() -> Vec<File> {
    files().into_iter().filter(|file| file.is("rs")).collect()
}

/// A token, groups taken apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// A word.
    Word(String),
    /// A mark, or several that belong together, such as `::`.
    Mark(String),
    /// An integer, without underscores and type.
    Number(u64),
    /// A string, as written between the quotes.
    Text(String),
}

/// The tokens of a file with their lines, without comments; without test items too, if asked.
pub fn tokens(file: &File, with_tests: bool) -> Vec<(usize, Token)> {
    let stream: TokenStream = file.text().parse().unwrap_or_else(|error| panic!("{}: {error}", file.path));
    let mut out = Vec::new();
    flatten(stream, with_tests, &mut out);
    out
}

fn flatten(stream: TokenStream, with_tests: bool, out: &mut Vec<(usize, Token)>) {
    let mut mark = String::new();
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let bang = matches!(trees.peek(), Some(TokenTree::Punct(p)) if p.as_char() == '!');
                if bang {
                    trees.next();
                }
                let Some(TokenTree::Group(attribute)) = trees.next_if(|tree| matches!(tree, TokenTree::Group(_)))
                else {
                    continue;
                };
                let attribute = attribute.stream().to_string().replace(' ', "");
                if attribute == "cfg(test)" && !with_tests {
                    skip_item(&mut trees);
                }
            }
            TokenTree::Punct(punct) => {
                mark.push(punct.as_char());
                if punct.spacing() == Spacing::Alone {
                    out.push((line, Token::Mark(std::mem::take(&mut mark))));
                }
            }
            TokenTree::Ident(word) => out.push((line, Token::Word(word.to_string()))),
            TokenTree::Literal(literal) => out.extend(read(&literal.to_string()).map(|token| (line, token))),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                out.push((line, Token::Mark(open.to_owned())));
                flatten(group.stream(), with_tests, out);
                out.push((line, Token::Mark(close.to_owned())));
            }
        }
    }
}

/// Passes over an item: up to its braces or its semicolon.
fn skip_item(trees: &mut impl Iterator<Item = TokenTree>) {
    for tree in trees {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(punct) if punct.as_char() == ';' => return,
            _ => {}
        }
    }
}

fn read(literal: &str) -> Option<Token> {
    if let Some(start) = literal.find('"') {
        let end = literal.rfind('"').filter(|end| *end > start)?;
        return Some(Token::Text(literal[start + 1..end].to_owned()));
    }
    let digits: String = literal.chars().filter(|c| *c != '_').take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(Token::Number)
}
