"""`python -m tilewright.bench`: attention here beside every peer that imports, in one run.

`cells` says what is measured, `peers` who is measured, `timing` and `power` how; `forward`, `small`, `decode`, `accuracy`,
`first_use` and `other` are the sections; `report` prints, `machine` says where it ran. Random data only.
"""
