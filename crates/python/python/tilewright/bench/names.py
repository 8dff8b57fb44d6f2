"""Who is who in every table."""

#: This package's name.
OURS = "tilewright"
#: Everybody else, in the order of the tables.
PEERS = ("cudnn", "fa2", "fa3", "fa4")
