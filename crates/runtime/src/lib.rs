//! The CUDA driver: JIT with log, tensor maps, launches.
