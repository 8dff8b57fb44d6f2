"""What can go wrong, by whose move it is. Every message says what, where, and what would do instead."""


class Error(Exception):
    """Any error of this package."""


class InvalidArgument(Error, ValueError):
    """Tensors that do not go together, or memory that a kernel cannot address: change the arguments."""


class NotSupported(Error, NotImplementedError):
    """A right question that nothing here answers, such as a window or a backward pass: ask something else."""


class ScheduleError(Error, ValueError):
    """A schedule's text that does not read, cannot be lowered, or does not compute the problem at hand."""


class DeviceError(Error, RuntimeError):
    """No driver, no fit GPU, no memory, or what the driver answered."""
