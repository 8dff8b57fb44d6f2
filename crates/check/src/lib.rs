//! Static verifier of a PTX module; its Verified is the only thing that prints or loads.
