//! Geometry of tiles and fragments against the formulas of the PTX ISA, written out here a second time.

use std::collections::HashSet;

use ptx::{Swizzle, TensorElement};
use tile::descriptor::{Major, SharedOperand};
use tile::{Accumulator, Asm, Layout, SharedTile};

fn tile(rows: u32, columns: u32, stages: u32) -> SharedTile {
    SharedTile::new(TensorElement::Bf16, rows, columns, stages).expect("a row with a swizzle")
}

#[test]
fn the_widest_swizzle_that_divides_a_row_is_taken() {
    for (columns, swizzle, panels) in [
        (64, Swizzle::B128, 1),
        (128, Swizzle::B128, 2),
        (256, Swizzle::B128, 4),
        (96, Swizzle::B64, 3),
        (80, Swizzle::B32, 5),
        (192, Swizzle::B128, 3),
    ] {
        let t = tile(128, columns, 1);
        assert_eq!((t.swizzle(), t.panels()), (swizzle, panels), "{columns} columns");
        assert_eq!(t.panels() * t.panel_bytes(), t.tile_bytes());
        assert_eq!(t.tensor_map(128).box_bytes() * t.panels(), t.tile_bytes());
    }
    assert!(SharedTile::new(TensorElement::Bf16, 64, 40, 1).is_none(), "80 bytes have no swizzle");
}

#[test]
fn an_accumulator_holds_every_element_once() {
    let mut asm = Asm::default();
    let acc = Accumulator::new(&mut asm, 48);
    let mut seen = HashSet::new();
    for thread in 0..128u32 {
        let (warp, group, quad) = (thread / 32, thread % 32 / 4, thread % 4);
        for i in 0..acc.regs().len() {
            let row = 16 * warp + group + 8 * Accumulator::half(i) as u32;
            let column = Accumulator::column(i) + 2 * quad;
            assert!(row < 64 && column < 48);
            assert!(seen.insert((row, column)), "({row}, {column}) twice");
        }
    }
    assert_eq!(seen.len(), 64 * 48);
    let halves: usize = (0..2).map(|h| acc.row(h).count()).sum();
    assert_eq!(halves, acc.regs().len());
}

#[test]
fn k_steps_walk_the_panels() {
    let mut asm = Asm::default();
    let smem = asm.new_b32();
    let mut operand = |columns, major| {
        let t = tile(128, columns, 1);
        SharedOperand::new(&mut asm, &t, major, smem, None)
    };
    // K-major: 32 bytes a step inside a panel, then the next panel.
    let k128 = operand(128, Major::K);
    assert_eq!([0, 1, 3, 4, 7].map(|s| k128.k_step_bytes(s)), [0, 32, 96, 16384, 16384 + 96]);
    let k96 = operand(96, Major::K);
    assert_eq!([0, 1, 2, 5].map(|s| k96.k_step_bytes(s)), [0, 32, 8192, 2 * 8192 + 32]);
    // MN-major: 16 rows a step, whatever the panels.
    assert_eq!([0, 1, 7].map(|s| operand(128, Major::Mn).k_step_bytes(s)), [0, 2048, 14336]);
    assert_eq!([1, 2].map(|s| operand(96, Major::Mn).k_step_bytes(s)), [1024, 2048]);
}

#[test]
fn the_layout_hands_out_aligned_regions_from_the_bottom_up() {
    let mut layout = Layout::default();
    let (mut a, mut b) = (tile(80, 64, 2), tile(16, 96, 1));
    let roomy = a.tile_bytes() + 512;
    layout.tile("a", &mut a, roomy);
    layout.tile_tight("b", &mut b);
    let bars = layout.barriers("bars", 3, 8);
    let words = layout.words("words", 2, 32);
    assert_eq!((a.offset(), a.stage_bytes(), b.offset()), (0, 80 * 128 + 512, 21504));
    assert_eq!((bars, words), (21504 + 3072, 24608));
    for pair in layout.regions().windows(2) {
        assert!(pair[0].end() <= pair[1].offset, "{pair:?} overlap");
    }
}

#[test]
fn rows_below_lengthen_every_panel_and_no_copy() {
    let bytes = |columns| SharedTile::new(TensorElement::U8, 128, columns, 2).expect("a swizzle").with_rows_below(8);
    for (columns, panels, span) in [(128, 1, 128), (192, 3, 64), (96, 3, 32)] {
        let t = bytes(columns);
        assert_eq!((t.panels(), t.row_bytes(), t.panel_bytes()), (panels, span, 136 * span), "{columns} columns");
        assert_eq!((t.bytes(), t.tile_bytes()), (136 * columns, 128 * columns));
        assert_eq!(t.tensor_map(t.rows()).box_bytes() * panels, t.tile_bytes());
        assert!(t.panel_bytes().is_multiple_of(t.swizzle().alignment()), "panels start where their pattern does");
    }
    let mut asm = Asm::default();
    let smem = asm.new_b32();
    let v = SharedOperand::new(&mut asm, &bytes(96), Major::K, smem, None);
    assert_eq!([0, 1, 2].map(|s| v.k_step_bytes(s)), [0, 136 * 32, 2 * 136 * 32]);
}

#[test]
fn a_register_of_bytes_holds_columns_in_the_order_of_the_accumulator() {
    let mut asm = Asm::default();
    let acc = Accumulator::new(&mut asm, 64);
    let index = |r| acc.regs().iter().position(|&other| other == r).expect("a register of the accumulator");
    let order = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];
    for i in 0..acc.regs().len() / 4 {
        // Register i of an A operand: k-step i / 4, row half i % 2, bytes 16 (i / 2 % 2) + 4q of the 32.
        let first = 32 * (i as u32 / 4) + 16 * (i as u32 / 2 % 2);
        for quad in 0..4 {
            for (byte, register) in acc.byte_group(i).map(index).into_iter().enumerate() {
                assert_eq!(Accumulator::half(register), i % 2);
                let column = Accumulator::column(register) + 2 * quad;
                assert_eq!(column, first + order[4 * quad as usize + byte]);
            }
        }
    }
}

#[test]
fn only_a_view_of_the_same_swizzle_shares_a_slot() {
    let q = tile(128, 192, 1);
    assert_eq!(q.viewed_as(128).map(|o| (o.panels(), o.offset())), Some((2, q.offset())));
    assert!(q.viewed_as(96).is_none());
}
