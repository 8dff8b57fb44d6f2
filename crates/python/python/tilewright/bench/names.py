"""Who is who in every table."""

#: This package's name.
OURS = "tilewright"
#: Ours in 8 bits with P linear between powers of two, and with sums of O in a total apart: where there is a schedule.
LINEAR, ACCURATE = "tilewright linear", "tilewright accurate"
#: Everybody else, in the order of the tables.
PEERS = ("cudnn", "fa2", "fa3", "fa4")
