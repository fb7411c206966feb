"""Faults of products that NumPy makes."""

from .fault import Fault

FAULTS = (
    Fault(
        "scalars ignored where nothing else is asked",
        "out.dtype == wide and scalars == Scalars() and bias is None",
        "out.dtype == wide and bias is None",
        "alpha and beta do nothing to float32 results",
    ),
    Fault(
        "alpha 0 reads the factors",
        "    if scalars.alpha:\n        factors = [",
        "    if True:\n        factors = [",
        "NaN in a or b comes through alpha = 0",
    ),
    Fault(
        "beta 0 reads c",
        "    if beta and c is not None:\n        result = result +",
        "    if c is not None:\n        result = result +",
        "NaN in c comes through beta = 0",
    ),
    Fault(
        "column bias of a product with a vector",
        'bias = bias.reshape((-1, 1) if call.side == "column" and a.ndim > 1 and b.ndim > 1 else -1)',
        'bias = bias.reshape((-1, 1) if call.side == "column" else -1)',
        "a bias of m x 1 elements fails where b is a vector",
    ),
    Fault(
        "float8 results overflow",
        "    if out.dtype.name in FLOAT8:\n        result = np.clip(result, -LARGEST_FLOAT8, LARGEST_FLOAT8)\n",
        "",
        "results above 448 become NaN, and not 448",
    ),
    Fault(
        "two digits of gelu_tanh exchanged",
        "inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)",
        "inner = math.sqrt(2 / math.pi) * (x + 0.044175 * x * x * x)",
        "gelu_tanh errs by 1e-4 of its values",
    ),
    Fault(
        "16-bit factors summed in 16 bits",
        "else [factor.astype(wide, copy=False) for factor in (a, b)]",
        "else [a, b]",
        "long sums of float16 products lose digits, or overflow",
    ),
    Fault(
        "relu drops NaN",
        "return np.where(x < 0, x.dtype.type(0), x)",
        "return np.where(x > 0, x, x.dtype.type(0))",
        "NaN becomes 0 where PyTorch keeps it",
    ),
    Fault(
        "NumPy's error state speaks",
        '@np.errstate(all="ignore")  # results follow IEEE 754 without a word, as those of a GPU do\n',
        "",
        "overflow warns, or raises FloatingPointError under np.seterr",
    ),
    Fault(
        "an empty batch against one matrix",
        "batch.append(other if one == 1 else one)",
        "batch.append(max(one, other))",
        "a batch of 0 that broadcasts against 1 is refused, or becomes 1",
    ),
)
