//! Cells that stand for the bytes of a memory: who wrote them and who has read them since. A line of bytes has one cell
//! until somebody accesses a part of it; 16-bit numbers are the least that is told apart.
//!
//! Knows neither threads nor what an access means: that is `shared`'s and `global`'s.

use crate::finding::Done;

/// Bytes of a word, and of the least part.
const WORD: usize = 4;
const LEAST: usize = 2;

#[derive(Debug, Clone)]
struct Node<C> {
    cell: C,
    /// Its parts, once it is split; their cells count then.
    parts: Option<Box<[Node<C>]>>,
}

/// The cells of a memory.
#[derive(Debug)]
pub(crate) struct Shadow<C> {
    lines: Vec<Node<C>>,
    /// Bytes of a line.
    line: usize,
}

impl<C: Clone> Shadow<C> {
    /// Cells for so many bytes in lines of `line` bytes, all of them alike.
    pub fn new(bytes: usize, line: usize, cell: C) -> Shadow<C> {
        Shadow { lines: vec![Node { cell, parts: None }; bytes.div_ceil(line)], line }
    }

    /// The cells of a range, with the byte at which each starts.
    pub fn each(&mut self, offset: usize, len: usize, mut f: impl FnMut(&mut C, usize) -> Done) -> Done {
        let end = offset + len;
        for index in offset / self.line..end.div_ceil(self.line) {
            self.lines[index].each((index * self.line, self.line), (offset, end), &mut f)?;
        }
        Ok(())
    }
}

impl<C: Clone> Node<C> {
    /// Of the cells of `size` bytes from `at`, those that overlap a range.
    fn each(
        &mut self,
        (at, size): (usize, usize),
        (from, to): (usize, usize),
        f: &mut impl FnMut(&mut C, usize) -> Done,
    ) -> Done {
        let covered = from <= at && at + size <= to;
        if size <= LEAST || (covered && self.parts.is_none()) {
            return f(&mut self.cell, at);
        }
        let part = if size > WORD { WORD } else { LEAST };
        let whole = || vec![Node { cell: self.cell.clone(), parts: None }; size / part].into_boxed_slice();
        let parts = self.parts.get_or_insert_with(whole);
        for (i, node) in parts.iter_mut().enumerate() {
            let first = at + i * part;
            if first < to && first + part > from {
                node.each((first, part), (from, to), f)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Shadow;

    fn add(shadow: &mut Shadow<u32>, offset: usize, len: usize) -> Vec<(usize, u32)> {
        let mut seen = Vec::new();
        let counted = shadow.each(offset, len, |cell, at| {
            *cell += 1;
            seen.push((at, *cell));
            Ok(())
        });
        assert!(counted.is_ok());
        seen
    }

    #[test]
    fn a_line_is_split_by_what_accesses_a_part_of_it() {
        let mut shadow = Shadow::new(40, 16, 0);
        assert_eq!(add(&mut shadow, 0, 32), [(0, 1), (16, 1)]);
        assert_eq!(add(&mut shadow, 4, 8), [(4, 2), (8, 2)]);
        assert_eq!(add(&mut shadow, 6, 2), [(6, 3)]);
        assert_eq!(add(&mut shadow, 0, 16), [(0, 2), (4, 3), (6, 4), (8, 3), (12, 2)]);
        assert_eq!(add(&mut shadow, 31, 2), [(30, 2), (32, 1)]);
    }
}
