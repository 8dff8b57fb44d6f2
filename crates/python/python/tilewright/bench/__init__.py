"""`python -m tilewright.bench`: attention here beside every peer that imports, in one run.

`cells` says what is measured, `names` and `peers` who is measured, `timing` and `power` how, `predicted` what the cost
model said; `forward`, `fp8`, `small`, `decode`, `accuracy`, `fp8_accuracy`, `first_use` and `other` are the sections;
`report` prints, `machine` says where it ran. Random data only.
"""
