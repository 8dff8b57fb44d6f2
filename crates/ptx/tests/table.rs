//! The table judges itself, and every row survives a round trip through text.

use ptx::qual::Qual;
use ptx::{
    Class, Inst, Kernel, Kind, Label, Line, Module, Op, Operand, Param, ParamKind, Proven, Reg, Region, RegionKind,
    Role, Swizzle, TensorElement, TensorMap, op, parse,
};
use ptx::{F32, Pred, R32, R64};

fn sample(kind: Kind, spec: &ptx::Spec, quals: &[&str]) -> Operand {
    let reg = |class| Operand::Reg(Reg { class, index: 7 });
    let vec = |class, len| {
        let n = spec.vector_len(len, quals);
        let n = n.unwrap_or_else(|| panic!("`{}` with {quals:?}: no length; see Spec::vector_len", spec.pattern));
        Operand::Vector((0..n as u32).map(|index| Reg { class, index }).collect())
    };
    let typed = || {
        let class = spec.typed_class(quals);
        class.unwrap_or_else(|| {
            panic!("`{}` with {quals:?}: no type of known class; see Spec::typed_class", spec.pattern)
        })
    };
    match kind {
        Kind::Reg(c) | Kind::Src(c) => reg(c),
        Kind::Typed | Kind::TypedSrc => reg(typed()),
        Kind::Int => Operand::Int(1),
        Kind::At(_) => Operand::at(R32::new(3), 16),
        Kind::Vec(c, len) => vec(c, len),
        Kind::TypedVec(len) => vec(typed(), len),
        Kind::Tensor => {
            Operand::tensor(R64::new(1), vec![Operand::Int(0), Operand::Reg(Reg { class: Class::B32, index: 2 })])
        }
        Kind::Label => Operand::Label(Label::new("HERE")),
        Kind::Special => Operand::Special(ptx::Special::TidX),
        Kind::Symbol => Operand::Symbol("smem".into()),
        Kind::Sink => Operand::Sink,
    }
}

/// Every way to fill a row's slots.
fn combinations(slots: &[&'static [&'static str]]) -> Vec<Vec<&'static str>> {
    slots.iter().fold(vec![Vec::new()], |done, slot| {
        let with = |quals: &Vec<&'static str>, token| [quals.as_slice(), &[token]].concat();
        done.iter().flat_map(|quals| slot.iter().map(move |&token| with(quals, token))).collect()
    })
}

#[test]
fn every_row_reads_back_with_every_token() {
    let mut count = 0;
    for &op in Op::ALL {
        let spec = op.spec();
        for quals in combinations(spec.slots) {
            let args = spec.operands.iter().map(|o| sample(o.kind, spec, &quals)).collect();
            let inst = Inst { op, quals, args, guard: None };
            let text = inst.to_string();
            let back = parse::inst(&text).unwrap_or_else(|| panic!("{op:?}: `{text}` does not read back"));
            assert_eq!(back, inst, "{text}");
            count += 1;
        }
    }
    assert!(count > 200, "the table shrank to {count} forms");
}

#[test]
fn slots_and_patterns_agree() {
    for &op in Op::ALL {
        let spec = op.spec();
        assert_eq!(spec.pattern.matches('{').count(), spec.slots.len(), "{op:?}");
        assert!(spec.pattern.is_ascii() && !spec.section.is_empty(), "{op:?}");
        for slot in spec.slots {
            let mut tokens = slot.to_vec();
            tokens.sort_unstable();
            tokens.dedup();
            assert_eq!(tokens.len(), slot.len(), "{op:?} repeats a token");
        }
        let mnemonic: Vec<&'static str> = spec.slots.iter().map(|s| s[0]).collect();
        assert_eq!(spec.match_mnemonic(&spec.mnemonic_with(&mnemonic)), Some(mnemonic), "{op:?}");
    }
}

#[test]
fn reads_and_writes_follow_the_access_column() {
    let fma = op::fma_rn_f32(F32::new(0), F32::new(1), F32::new(2), F32::new(0)).when(Pred::new(4));
    assert_eq!(fma.writes(), vec![F32::new(0).reg()]);
    assert_eq!(fma.reads(), vec![Pred::new(4).reg(), F32::new(1).reg(), F32::new(2).reg(), F32::new(0).reg()]);
    // A store reads its address and its value and writes no register.
    let st = op::st_shared(ptx::qual::Value::B32, Operand::at(R32::new(1), 0), R32::new(2));
    assert!(st.writes().is_empty());
    assert_eq!(st.reads(), vec![R32::new(1).reg(), R32::new(2).reg()]);
    // A load writes its destination and reads its address only.
    let ld = op::ld_shared(ptx::qual::Value::F32, F32::new(5), Operand::at(R32::new(1), 8));
    assert_eq!(ld.writes(), vec![F32::new(5).reg()]);
    assert_eq!(ld.reads(), vec![R32::new(1).reg()]);
}

#[test]
fn wgmma_shapes_are_the_manuals() {
    use ptx::qual::{MmaK16, MmaK32, mma_columns};
    assert_eq!((MmaK16::TOKENS.len(), MmaK32::TOKENS.len()), (32, 32));
    assert_eq!(MmaK16::n(128).map(Qual::token), Some("m64n128k16"));
    assert_eq!(MmaK32::n(136).map(Qual::token), Some("m64n136k32"));
    assert_eq!((mma_columns("m64n128k16"), mma_columns("m64n136k32")), (Some(128), Some(136)));
    assert_eq!((MmaK16::columns("m64n136k32"), mma_columns("m64n8k64")), (None, None));
    for bad in [0, 4, 100, 264] {
        assert!(MmaK16::n(bad).is_none() && MmaK32::n(bad).is_none(), "{bad}");
    }
}

struct Assumed(Module);

impl Proven for Assumed {
    fn module(&self) -> &Module {
        &self.0
    }
}

fn small() -> Module {
    let full =
        Region { name: "full".into(), offset: 1024, bytes: 16, stages: 2, kind: RegionKind::Barriers { arrivals: 1 } };
    let tile = Region { name: "tile".into(), offset: 0, bytes: 1024, stages: 1, kind: RegionKind::Tile(Swizzle::B128) };
    let words = Region { name: "words".into(), offset: 1040, bytes: 64, stages: 2, kind: RegionKind::Words };
    let map = TensorMap { element: TensorElement::Bf16, box_dims: vec![64, 8, 1, 1], swizzle: Swizzle::B128 };
    assert_eq!(map.box_bytes(), 1024);
    let body = vec![
        Line::Comment("every thread".into()),
        Line::Inst(op::mov_shared(R32::new(0), Operand::Symbol("smem".into()))),
        Line::Inst(op::setp(ptx::qual::Cmp::Ne, ptx::qual::Num::U32, Pred::new(0), R32::new(0), 0)),
        Line::Inst(op::bra(&Label::new("OTHER")).when(Pred::new(0))),
        Line::Begin(Some(0)),
        Line::Inst(op::mbarrier_init(Operand::at(R32::new(0), 1024), 1)),
        Line::Inst(op::elect_sync(Operand::Sink, Pred::new(1), -1)),
        Line::Inst(op::mov(ptx::qual::Value::F32, F32::new(0), f32::NEG_INFINITY)),
        Line::Begin(Some(1)),
        Line::Label(Label::new("OTHER")),
        Line::Inst(op::ld_param_b32(R32::new(1), Operand::at_symbol("n", 0)).unless(Pred::new(0))),
        Line::Begin(None),
        Line::Inst(op::ret()),
    ];
    Module {
        header: vec!["small: a test".into(), String::new()],
        kernel: Kernel {
            name: "small".into(),
            params: vec![
                Param { name: "map".into(), kind: ParamKind::Tensor(map) },
                Param { name: "out".into(), kind: ParamKind::U64 },
                Param { name: "n".into(), kind: ParamKind::U32 },
                Param { name: "scale".into(), kind: ParamKind::F32 },
            ],
            threads: 256,
            min_ctas: 1,
            shared: vec![tile, full, words],
            roles: vec![
                Role { name: "producer".into(), warps: 0..4, registers: Some(24) },
                Role { name: "consumer".into(), warps: 4..8, registers: None },
            ],
            body,
        },
    }
}

#[test]
fn a_module_reads_back() {
    let module = small();
    let text = ptx::print(&Assumed(module.clone()));
    let back = parse::module(&text).expect("reads back");
    assert_eq!(back, module);
    assert_eq!(ptx::print(&Assumed(back)), text);
    assert!(text.contains(".version 8.0\n.target sm_90a\n"), "{text}");
}

#[test]
fn the_parser_names_the_line() {
    let text = ptx::print(&Assumed(small()));
    let broken = text.replace("mbarrier.init", "mbarrier.inti");
    let at = 1 + broken.lines().position(|l| l.contains("inti")).expect("the broken line");
    let err = parse::module(&broken).expect_err("is refused");
    assert_eq!(err.line, at);
    assert!(err.to_string().contains("mbarrier.inti"), "{err}");
}
