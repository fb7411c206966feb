"""Whole numbers worked out from text, as in 'ceil(N / BN)': geometry of launches that a source writes about itself."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction

from tilewright.core.errors import ConfigError, nearest

_OPERATIONS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: Mapping[str, Callable[..., Fraction | int]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
}

_ANY = 10**9 + 7
"""Stands for a name whose value is not known yet: no expression that people write is 0 with it."""


class Expression:
    """A number that follows from others: + - * / // %, ceil, floor, min and max of their names. / is exact.

    Raises:
        ConfigError: it is none; the message says what it is of.
    """

    def __init__(self, text: str, subject: str) -> None:
        """subject: how messages begin, as in 'grid'."""
        self._text, self._subject = text, subject
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            raise self._refused(error.msg) from None
        self.names = frozenset(
            node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id not in _FUNCTIONS
        )
        self._value(self._tree, dict.fromkeys(self.names, Fraction(_ANY)))  # so that what is no number shows at once

    def __call__(self, values: Mapping[str, int]) -> int:
        """Its value.

        Raises:
            ConfigError: it is not whole, or divides by 0.
        """
        found = self._value(self._tree, {name: Fraction(values[name]) for name in self.names})
        if found.denominator != 1:
            where = ", ".join(f"{name}={values[name]}" for name in sorted(self.names))
            raise self._refused(f"it is {found} with {where}: write ceil(...)")
        return int(found)

    def floored(self, values: Mapping[str, int]) -> int:
        """Its value where all quotients but those within ceil are rounded down, as C++ has them, so that it has one for
        all sizes.

        Raises:
            ConfigError: it divides by 0.
        """
        return math.floor(self._value(self._tree, {name: Fraction(values[name]) for name in self.names}, floors=True))

    def check_names(self, known: Mapping[str, object]) -> None:
        """Raise ConfigError where it has other names than these."""
        for name in sorted(self.names - known.keys()):
            raise self._refused(f"nothing is called {name!r}{nearest(name, known)}")

    def _value(self, node: ast.expr, values: Mapping[str, Fraction], floors: bool = False) -> Fraction:
        """floors: whether / rounds down, which within ceil it never does."""
        match node:
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                return Fraction(number)
            case ast.Name(id=name) if name in values:
                return values[name]
            case ast.UnaryOp(op=ast.USub()):
                return -self._value(node.operand, values, floors)
            case ast.BinOp(op=op) if operation := _OPERATIONS.get(type(op)):
                if floors and isinstance(op, ast.Div):
                    operation = operator.floordiv
                left, right = (self._value(side, values, floors) for side in (node.left, node.right))
                try:
                    return Fraction(operation(left, right))
                except ZeroDivisionError:
                    raise self._refused("it divides by 0") from None
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS and arguments:
                floors = floors and name != "ceil"
                given = [self._value(argument, values, floors) for argument in arguments]
                if len(given) > 1 and name in ("ceil", "floor"):
                    raise self._refused(f"{name} takes one number, got {len(given)}")
                return Fraction(_FUNCTIONS[name](*given) if len(given) > 1 or name in ("ceil", "floor") else given[0])
        raise self._refused(
            f"{ast.unparse(node)!r} is no number, name, sum, product, quotient, ceil, floor, min or max"
        )

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(f"{self._subject} must be a whole number, got {self._text.strip()!r}: {why}")
