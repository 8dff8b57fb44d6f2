//! The PTX instruction set as data: table, IR, printer and parser.
