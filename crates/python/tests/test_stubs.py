"""The stub of the compiled module says what is there, and nothing else."""

import ast
import inspect
from pathlib import Path

import tilewright
from tilewright import _native

FOLDER = Path(tilewright.__file__).parent


def parsed(name: str) -> ast.Module:
    """A file of the package."""
    return ast.parse((FOLDER / name).read_text())


def public(names: list[str]) -> set[str]:
    """Those without an underscore in front, and the protocols'."""
    return {name for name in names if not name.startswith("_") or name in ("__dlpack__", "__dlpack_device__")}


def test_the_package_says_that_it_is_typed():
    """For type checkers."""
    assert (FOLDER / "py.typed").exists()


def test_every_name_of_the_compiled_module_is_in_the_stub_and_the_other_way_round():
    """Functions, classes and values."""
    stub = {node.name: node for node in parsed("_native.pyi").body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert set(stub) | {"version"} == public(dir(_native))
    for name, node in stub.items():
        if isinstance(node, ast.ClassDef):
            listed = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            assert public(sorted(listed)) == public(dir(getattr(_native, name))), name


def test_arguments_are_called_the_same_in_the_stub():
    """In the same order."""
    for node in parsed("_native.pyi").body:
        if isinstance(node, ast.FunctionDef):
            signature = inspect.signature(getattr(_native, node.name))
            assert [argument.arg for argument in node.args.args] == list(signature.parameters), node.name


def test_every_source_says_what_it_owns_and_is_short():
    """As everywhere in the house."""
    for path in FOLDER.rglob("*.py*"):
        if path.suffix in (".py", ".pyi"):
            tree = ast.parse(path.read_text())
            assert ast.get_docstring(tree), path
            assert len(path.read_text().splitlines()) <= 350, path
