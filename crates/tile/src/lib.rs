//! Tile programs: shared tiles, fragments, rings, turns and roles over PTX.
